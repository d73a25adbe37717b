// What moves elements and changes none, on one library: transforms with a descriptor, column buffers of convolution
// inputs, and reordered filters with their biases.
// SPDX-License-Identifier: Apache-2.0
#include "descriptors.hpp"
#include "problem_run.hpp"

namespace gpudnn::bench {
namespace {

gpudnnTensorFormat_t format_of(const TensorGeometry& tensor) {
  if (data_type_lanes(tensor.type) > 1) return GPUDNN_TENSOR_NCHW_VECT_C;
  return is_packed_nhwc(tensor) && !is_packed_nchw(tensor) ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW;
}

class RearrangeRun : public Run {
 public:
  RearrangeRun(const Library& library, gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : api_(library.api),
        handle_(handle),
        alpha_(task.alpha, task.output.type),
        beta_(task.beta, task.output.type),
        pointers_(pointers),
        made_(library.api) {
    if (const auto* transform = std::get_if<transform::Problem>(&task.problem)) make(*transform);
    if (const auto* columns = std::get_if<transform::ColumnProblem>(&task.problem)) make(*columns);
    if (const auto* reorder = std::get_if<ReorderProblem>(&task.problem)) make(*reorder);
  }
  RearrangeRun(const RearrangeRun&) = delete;
  RearrangeRun& operator=(const RearrangeRun&) = delete;

  [[nodiscard]] gpudnnStatus_t status() const { return made_.status(); }
  gpudnnStatus_t query(std::size_t, Choice* choice) override {
    *choice = {};
    return GPUDNN_STATUS_SUCCESS;
  }
  gpudnnStatus_t find(void*, std::size_t, Choice* choice) override { return query(0, choice); }
  gpudnnStatus_t bind(const Choice&, void*, Call* call) override {
    *call = call_;
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  void make(const transform::Problem& problem) {
    const transform::Transform& t = problem.transform;
    const auto desc = made_.transform();
    std::int32_t before[GPUDNN_DIM_MAX] = {};
    std::int32_t after[GPUDNN_DIM_MAX] = {};
    std::uint32_t fold[GPUDNN_DIM_MAX] = {};
    for (int i = 0; i < t.rank; ++i) {
      before[i] = static_cast<std::int32_t>(t.before[i]);
      after[i] = static_cast<std::int32_t>(t.after[i]);
      if (i >= 2) fold[i - 2] = static_cast<std::uint32_t>(t.fold[i]);
    }
    if (desc != nullptr) {
      made_.note(api_.SetTensorTransformDescriptor(desc, static_cast<std::uint32_t>(t.rank), format_of(problem.out),
                                                   before, after, fold,
                                                   t.unfold ? GPUDNN_TRANSFORM_UNFOLD : GPUDNN_TRANSFORM_FOLD));
    }
    const auto in = made_.tensor(problem.in);
    const auto out = made_.tensor(problem.out);
    call_ = [=, this] {
      return api_.TransformTensorEx(handle_, desc, alpha_.get(), in, pointers_.inputs[0], beta_.get(), out,
                                    pointers_.output);
    };
  }
  void make(const transform::ColumnProblem& problem) {
    const auto x = made_.tensor(problem.x);
    TensorGeometry window = problem.x;
    window.dims[0] = 1;  // how many filters there are does not matter
    for (int i = 0; i < problem.spatial; ++i) window.dims[2 + i] = problem.taps[i];
    const auto format = format_of(problem.x);
    set_packed_strides(&window, format);
    const auto w = made_.filter(window, format);
    const auto conv = made_.convolution();
    const Ints pad(problem.pad, problem.spatial);
    const Ints stride(problem.stride, problem.spatial);
    const Ints dilation(problem.dilation, problem.spatial);
    if (conv != nullptr) {
      made_.note(api_.SetConvolutionNdDescriptor(
          conv, problem.spatial, pad.values, stride.values, dilation.values,
          problem.flip ? GPUDNN_CONVOLUTION : GPUDNN_CROSS_CORRELATION,
          problem.x.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT));
    }
    call_ = [=, this] { return api_.Im2Col(handle_, x, pointers_.inputs[0], w, conv, pointers_.output); };
  }
  void make(const ReorderProblem& problem) {
    const auto w = made_.filter(problem.w, GPUDNN_TENSOR_NCHW_VECT_C);
    const int has_bias = problem.has_bias ? 1 : 0;
    call_ = [=, this] {
      return api_.ReorderFilterAndBias(handle_, w, GPUDNN_DEFAULT_REORDER, pointers_.inputs[0], pointers_.output,
                                       has_bias, has_bias != 0 ? pointers_.inputs[1] : nullptr,
                                       has_bias != 0 ? pointers_.more_outputs[0] : nullptr);
    };
  }

  const Api& api_;
  gpudnnHandle_t handle_;
  Scalar alpha_, beta_;
  Pointers pointers_;
  Descriptors made_;
  Call call_;
};

}  // namespace

std::unique_ptr<Run> make_rearrange_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                        const Pointers& pointers, gpudnnStatus_t* status) {
  auto run = std::make_unique<RearrangeRun>(library, handle, task, pointers);
  *status = run->status();
  if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
  return run;
}

}  // namespace gpudnn::bench
