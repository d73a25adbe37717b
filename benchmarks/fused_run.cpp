// Fused operation plans on one library: the packs are filled as the pattern's stages say, the plan is made once, and
// the call executes it.
//
// Operands are in the order of `operands` below; the first output is Task::output. Statistics and their like are all
// asked for: a line of the problem language does not say which of them a caller wanted.
// SPDX-License-Identifier: Apache-2.0
#include "descriptors.hpp"
#include "fused_operands.hpp"
#include "problem_run.hpp"

namespace gpudnn::bench {
namespace {

class FusedRun : public Run {
 public:
  FusedRun(const Library& library, gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : api_(library.api), handle_(handle), stages_(std::get<fused_ops::Stages>(task.problem)), made_(library.api) {
    constants_ = made_.const_pack(stages_.ops);
    variants_ = made_.variant_pack(stages_.ops);
    plan_ = made_.fused_plan(stages_.ops);
    std::size_t input = 0;
    std::size_t output = 0;
    for (const FusedOperand& operand : fused_operands(stages_)) {
      void* const data = !operand.is_output ? pointers.inputs[input++]
                         : output++ == 0    ? pointers.output
                                            : pointers.more_outputs[output - 2];
      add(operand, data);
    }
    add_parameters();
  }
  FusedRun(const FusedRun&) = delete;
  FusedRun& operator=(const FusedRun&) = delete;

  [[nodiscard]] gpudnnStatus_t status() const { return made_.status(); }
  gpudnnStatus_t query(std::size_t, Choice* choice) override {
    *choice = {};
    return api_.MakeFusedOpsPlan(handle_, plan_, constants_, &choice->workspace);
  }
  gpudnnStatus_t find(void*, std::size_t bytes, Choice* choice) override { return query(bytes, choice); }
  gpudnnStatus_t bind(const Choice& choice, void* workspace, Call* call) override {
    workspace_bytes_ = choice.workspace;
    gpudnnStatus_t status = gpudnnStatus_t::GPUDNN_STATUS_SUCCESS;
    if (workspace_bytes_ > 0) status = set_pointer(GPUDNN_PTR_WORKSPACE, workspace);
    if (status == GPUDNN_STATUS_SUCCESS) {
      status = set_pointer(GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES, &workspace_bytes_);
    }
    *call = [this] { return api_.FusedOpsExecute(handle_, plan_, variants_); };
    return status;
  }

 private:
  gpudnnStatus_t set_pointer(gpudnnFusedOpsVariantParamLabel_t label, void* value) {
    return api_.SetFusedOpsVariantParamPackAttribute(variants_, label, value);
  }
  void set(gpudnnFusedOpsConstParamLabel_t label, const void* value) {
    if (made_.status() != GPUDNN_STATUS_SUCCESS) return;
    made_.note(api_.SetFusedOpsConstParamPackAttribute(constants_, label, value));
  }
  void add(const FusedOperand& operand, void* data) {
    const auto placeholder = GPUDNN_PTR_16B_ALIGNED;
    if (operand.is_filter) {
      set(operand.desc,
          made_.filter(operand.geometry, is_packed_nhwc(operand.geometry) ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW));
    } else {
      set(operand.desc, made_.tensor(operand.geometry));
    }
    set(operand.placeholder, &placeholder);
    if (made_.status() == GPUDNN_STATUS_SUCCESS) made_.note(set_pointer(operand.label, data));
  }
  void add_parameters() {
    const auto mode = GPUDNN_BATCHNORM_SPATIAL;
    set(GPUDNN_PARAM_BN_MODE, &mode);
    if (stages_.conv) {
      const conv::Problem& conv = *stages_.conv;
      const auto desc = made_.convolution();
      const Ints pad(conv.pad, conv.spatial);
      const Ints stride(conv.stride, conv.spatial);
      const Ints dilation(conv.dilation, conv.spatial);
      if (desc != nullptr) {
        made_.note(api_.SetConvolutionNdDescriptor(desc, conv.spatial, pad.values, stride.values, dilation.values,
                                                   conv.mode, conv.compute));
        made_.note(api_.SetConvolutionMathType(desc, conv.math));
        if (conv.groups > 1) made_.note(api_.SetConvolutionGroupCount(desc, conv.groups));
      }
      set(GPUDNN_PARAM_CONV_DESC, desc);
    }
    const gpudnnActivationMode_t activation = fused_activation(stages_);
    if (activation != GPUDNN_ACTIVATION_IDENTITY) {
      set(GPUDNN_PARAM_ACTIVATION_DESC, made_.activation(activation, GPUDNN_NOT_PROPAGATE_NAN, 0));
    }
    if (!stages_.finalize || made_.status() != GPUDNN_STATUS_SUCCESS) return;
    if (stages_.finalize->training) {
      made_.note(set_pointer(GPUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT, &count_));
      made_.note(set_pointer(GPUDNN_SCALAR_DOUBLE_BN_EXP_AVG_FACTOR, &factor_));
    }
    made_.note(set_pointer(GPUDNN_SCALAR_DOUBLE_BN_EPSILON, &epsilon_));
  }

  const Api& api_;
  gpudnnHandle_t handle_;
  fused_ops::Stages stages_;
  Descriptors made_;
  gpudnnFusedOpsConstParamPack_t constants_ = nullptr;
  gpudnnFusedOpsVariantParamPack_t variants_ = nullptr;
  gpudnnFusedOpsPlan_t plan_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  std::int64_t count_ = kFusedCount;
  double factor_ = 0.1;
  double epsilon_ = 1e-5;
};

}  // namespace

std::unique_ptr<Run> make_fused_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                    const Pointers& pointers, gpudnnStatus_t* status) {
  auto run = std::make_unique<FusedRun>(library, handle, task, pointers);
  *status = run->status();
  if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
  return run;
}

}  // namespace gpudnn::bench
