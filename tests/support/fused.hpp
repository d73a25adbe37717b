// A fused operation plan through the public interface: packs that are filled entry by entry, on guarded memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/api_run.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

using Values4 = std::vector<double>;  // by row-major index of n, c, h, w

// NCHW or NHWC, with or without gaps between the elements.
inline TensorGeometry geometry(gpudnnDataType_t type, bool nhwc, bool gaps, int n, int c, int h, int w) {
  TensorGeometry tensor;
  tensor.type = type;
  tensor.rank = 4;
  const std::int64_t dims[] = {n, c, h, w};
  const int orders[2][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}};
  std::int64_t stride = 1;
  for (int i = 3; i >= 0; --i) {
    const int d = orders[nhwc ? 1 : 0][i];
    tensor.dims[d] = dims[d];
    tensor.strides[d] = stride;
    stride *= dims[d] + (gaps ? 1 : 0);
  }
  return tensor;
}
inline TensorGeometry vector_geometry(gpudnnDataType_t type, int c) { return geometry(type, false, false, 1, c, 1, 1); }

inline Values4 integers(Random* random, const TensorGeometry& tensor, int low, int high) {
  Values4 values(static_cast<std::size_t>(element_count(tensor)));
  for (double& value : values) value = static_cast<double>(random->between(low, high));
  return values;
}
inline Expected exactly(Values4 values) {
  Expected expected;
  expected.slack.assign(values.size(), 0.0);
  expected.value = std::move(values);
  return expected;
}

// One plan with everything that it needs; not copied, so that calls may hold it.
class Fused {
 public:
  Fused(const Backend& backend, gpudnnFusedOps_t ops) : backend_(backend) {
    GPUDNN_TEST_REQUIRE(gpudnnCreateFusedOpsConstParamPack(&constants_, ops));
    GPUDNN_TEST_REQUIRE(gpudnnCreateFusedOpsVariantParamPack(&variants_, ops));
    GPUDNN_TEST_REQUIRE(gpudnnCreateFusedOpsPlan(&plan_, ops));
  }
  ~Fused() {
    (void)gpudnnDestroyFusedOpsConstParamPack(constants_);
    (void)gpudnnDestroyFusedOpsVariantParamPack(variants_);
    (void)gpudnnDestroyFusedOpsPlan(plan_);
  }
  Fused(const Fused&) = delete;
  Fused& operator=(const Fused&) = delete;

  [[nodiscard]] gpudnnFusedOpsConstParamPack_t constants() const { return constants_; }
  [[nodiscard]] gpudnnFusedOpsVariantParamPack_t variants() const { return variants_; }
  [[nodiscard]] gpudnnFusedOpsPlan_t plan() const { return plan_; }

  void set(gpudnnFusedOpsConstParamLabel_t label, const void* param) {
    GPUDNN_TEST_REQUIRE(gpudnnSetFusedOpsConstParamPackAttribute(constants_, label, param));
  }
  void set_pointer(gpudnnFusedOpsVariantParamLabel_t label, void* pointer) {
    GPUDNN_TEST_REQUIRE(gpudnnSetFusedOpsVariantParamPackAttribute(variants_, label, pointer));
  }
  void describe(gpudnnFusedOpsConstParamLabel_t label, const TensorGeometry& geometry) {
    if (label == GPUDNN_PARAM_WDESC || label == GPUDNN_PARAM_DWDESC) {
      const FilterDescriptor desc(geometry);
      set(label, static_cast<gpudnnFilterDescriptor_t>(desc));
    } else {
      const TensorDescriptor desc(geometry);
      set(label, static_cast<gpudnnTensorDescriptor_t>(desc));
    }
  }
  void promise(gpudnnFusedOpsConstParamLabel_t placeholder, gpudnnFusedOpsPointerPlaceHolder_t value) {
    set(placeholder, &value);
  }
  void activate(gpudnnActivationMode_t mode, double coef = 0, gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN) {
    const ActivationDescriptor desc(mode, nan, coef);
    set(GPUDNN_PARAM_ACTIVATION_DESC, static_cast<gpudnnActivationDescriptor_t>(desc));
  }
  void convolve(int pad, int stride, gpudnnDataType_t compute) {
    const ConvolutionDescriptor desc(pad, stride, 1, compute);
    set(GPUDNN_PARAM_CONV_DESC, static_cast<gpudnnConvolutionDescriptor_t>(desc));
  }
  // Data behind a placeholder; the descriptor is set by `describe`. Empty values: an output.
  std::shared_ptr<DeviceTensor> tensor(gpudnnFusedOpsConstParamLabel_t placeholder,
                                       gpudnnFusedOpsVariantParamLabel_t label, const TensorGeometry& geometry,
                                       const std::vector<double>& values) {
    promise(placeholder, GPUDNN_PTR_ELEM_ALIGNED);
    auto made = std::make_shared<DeviceTensor>(backend_, geometry, values.empty() ? nullptr : &values);
    set_pointer(label, made->data());
    tensors_.push_back({made, !values.empty()});
    return made;
  }
  // The placeholder's tensor is written although it came with values.
  void is_updated(const std::shared_ptr<DeviceTensor>& tensor) {
    for (auto& held : tensors_) {
      if (held.first == tensor) held.second = false;
    }
  }

  // Makes the plan and gives it exactly the workspace that it asks for.
  gpudnnStatus_t make() {
    std::size_t bytes = 0;
    const gpudnnStatus_t status = gpudnnMakeFusedOpsPlan(backend_.handle(), plan_, constants_, &bytes);
    if (status != GPUDNN_STATUS_SUCCESS) return status;
    workspace_ = std::make_unique<GuardedBuffer>(backend_, bytes);
    set_pointer(GPUDNN_PTR_WORKSPACE, workspace_->data());
    set_pointer(GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES, &bytes);
    return status;
  }
  gpudnnStatus_t execute(gpudnnHandle_t handle) const { return gpudnnFusedOpsExecute(handle, plan_, variants_); }

  // Makes and executes; empty if nothing was refused and nothing written where it must not be.
  [[nodiscard]] std::string run() {
    gpudnnStatus_t status = make();
    if (status == GPUDNN_STATUS_SUCCESS) status = execute(backend_.handle());
    if (status != GPUDNN_STATUS_SUCCESS) return take_error_text();
    std::string damage = workspace_->damage();
    for (const auto& [tensor, is_input] : tensors_) {
      damage += is_input ? tensor->damage_anywhere() : tensor->damage_outside_elements();
    }
    return damage;
  }

 private:
  const Backend& backend_;
  gpudnnFusedOpsConstParamPack_t constants_ = nullptr;
  gpudnnFusedOpsVariantParamPack_t variants_ = nullptr;
  gpudnnFusedOpsPlan_t plan_ = nullptr;
  std::vector<std::pair<std::shared_ptr<DeviceTensor>, bool>> tensors_;  // and whether it is an input
  std::unique_ptr<GuardedBuffer> workspace_;
};

}  // namespace gpudnn::test
