// Running a test case through the public C interface, on guarded memory.
// SPDX-License-Identifier: Apache-2.0
#include "support/api_run.hpp"

#include <optional>

#include "support/naive.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

std::vector<int> narrowed(const std::int64_t* values, int count) {
  std::vector<int> result;
  for (int i = 0; i < count; ++i) result.push_back(static_cast<int>(values[i]));
  return result;
}

gpudnnTensorFormat_t filter_format(const TensorGeometry& w) {
  // Channels fastest, where that can be told.
  return w.dims[1] > 1 && w.strides[1] == 1 && w.strides[w.rank - 1] != 1 ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW;
}

// The tensors of one call, and what became of them.
class Tensors {
 public:
  Tensors(const Backend& backend, bool misaligned) : backend_(backend), misaligned_(misaligned) {}

  void* input(const TensorGeometry& geometry, const std::vector<double>& values) {
    inputs_.push_back(std::make_unique<DeviceTensor>(backend_, geometry, &values, misaligned_));
    return inputs_.back()->data();
  }
  // Poison where `values` is empty: the call must not read it.
  void* output(const TensorGeometry& geometry, const std::vector<double>& values) {
    output_ = std::make_unique<DeviceTensor>(backend_, geometry, values.empty() ? nullptr : &values, misaligned_);
    return output_->data();
  }
  GuardedBuffer& workspace(std::size_t bytes) { return workspace_.emplace(backend_, bytes); }

  [[nodiscard]] Outcome outcome(gpudnnStatus_t status) const {
    Outcome outcome;
    outcome.status = status;
    if (status != GPUDNN_STATUS_SUCCESS) outcome.text = take_error_text();
    outcome.values = output_->values();
    outcome.damage = output_->damage_outside_elements();
    for (const auto& tensor : inputs_) {
      if (outcome.damage.empty()) outcome.damage = tensor->damage_anywhere();
    }
    if (outcome.damage.empty() && workspace_.has_value()) {
      outcome.damage = workspace_->damage();
      if (!outcome.damage.empty()) outcome.damage = "workspace: " + outcome.damage;
    }
    return outcome;
  }

 private:
  const Backend& backend_;
  bool misaligned_;
  std::vector<std::unique_ptr<DeviceTensor>> inputs_;
  std::unique_ptr<DeviceTensor> output_;
  std::optional<GuardedBuffer> workspace_;
};

}  // namespace

TensorDescriptor::TensorDescriptor(const TensorGeometry& geometry) {
  GPUDNN_TEST_REQUIRE(gpudnnSetTensorNdDescriptor(*this, geometry.type, geometry.rank,
                                                  narrowed(geometry.dims, geometry.rank).data(),
                                                  narrowed(geometry.strides, geometry.rank).data()));
}
TensorDescriptor::TensorDescriptor(gpudnnDataType_t type, int n, int c, int h, int w, gpudnnTensorFormat_t format) {
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(*this, format, type, n, c, h, w));
}
FilterDescriptor::FilterDescriptor(const TensorGeometry& geometry) {
  GPUDNN_TEST_REQUIRE(gpudnnSetFilterNdDescriptor(*this, geometry.type, filter_format(geometry), geometry.rank,
                                                  narrowed(geometry.dims, geometry.rank).data()));
}
FilterDescriptor::FilterDescriptor(gpudnnDataType_t type, int k, int c, int h, int w, gpudnnTensorFormat_t format) {
  GPUDNN_TEST_REQUIRE(gpudnnSetFilter4dDescriptor(*this, type, format, k, c, h, w));
}
ConvolutionDescriptor::ConvolutionDescriptor(const conv::Problem& p) {
  GPUDNN_TEST_REQUIRE(gpudnnSetConvolutionNdDescriptor(*this, p.spatial, narrowed(p.pad, p.spatial).data(),
                                                       narrowed(p.stride, p.spatial).data(),
                                                       narrowed(p.dilation, p.spatial).data(), p.mode, p.compute));
  GPUDNN_TEST_REQUIRE(gpudnnSetConvolutionGroupCount(*this, p.groups));
  GPUDNN_TEST_REQUIRE(gpudnnSetConvolutionMathType(*this, p.math));
}
ConvolutionDescriptor::ConvolutionDescriptor(int pad, int stride, int dilation, gpudnnDataType_t compute) {
  GPUDNN_TEST_REQUIRE(gpudnnSetConvolution2dDescriptor(*this, pad, pad, stride, stride, dilation, dilation,
                                                       GPUDNN_CROSS_CORRELATION, compute));
}
PoolingDescriptor::PoolingDescriptor(const pooling::Problem& p) {
  GPUDNN_TEST_REQUIRE(
      gpudnnSetPoolingNdDescriptor(*this, p.mode, p.nan, p.spatial, narrowed(p.window, p.spatial).data(),
                                   narrowed(p.pad, p.spatial).data(), narrowed(p.stride, p.spatial).data()));
}
ActivationDescriptor::ActivationDescriptor(gpudnnActivationMode_t mode, gpudnnNanPropagation_t nan, double coef) {
  GPUDNN_TEST_REQUIRE(gpudnnSetActivationDescriptor(*this, mode, nan, coef));
  if (mode == GPUDNN_ACTIVATION_SWISH) GPUDNN_TEST_REQUIRE(gpudnnSetActivationDescriptorSwishBeta(*this, coef));
}

Scalar::Scalar(double value, gpudnnDataType_t type) {
  if (type == GPUDNN_DATA_DOUBLE) {
    storage_.wide = value;
  } else {
    storage_.single = static_cast<float>(value);
  }
}

int algorithm_count_of(conv::Direction direction) {
  switch (direction) {
    case conv::Direction::forward:
      return GPUDNN_CONVOLUTION_FWD_ALGO_COUNT;
    case conv::Direction::dgrad:
      return GPUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
    default:
      return GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  }
}

gpudnnStatus_t workspace_size(const Backend& backend, const conv::Problem& p, int algorithm, std::size_t* bytes) {
  const TensorDescriptor x(p.x);
  const TensorDescriptor y(p.y);
  const FilterDescriptor w(p.w);
  const ConvolutionDescriptor convolution(p);
  switch (p.direction) {
    case conv::Direction::forward:
      return gpudnnGetConvolutionForwardWorkspaceSize(backend.handle(), x, w, convolution, y,
                                                      static_cast<gpudnnConvolutionFwdAlgo_t>(algorithm), bytes);
    case conv::Direction::dgrad:
      return gpudnnGetConvolutionBackwardDataWorkspaceSize(
          backend.handle(), w, y, convolution, x, static_cast<gpudnnConvolutionBwdDataAlgo_t>(algorithm), bytes);
    default:
      return gpudnnGetConvolutionBackwardFilterWorkspaceSize(
          backend.handle(), x, y, convolution, w, static_cast<gpudnnConvolutionBwdFilterAlgo_t>(algorithm), bytes);
  }
}

namespace {

Outcome run_fused_forward(const Backend& backend, const ConvCase& c, const Values& values, const RunOptions& options,
                          Tensors* tensors, void* workspace, std::size_t bytes) {
  const conv::Problem& p = c.problem;
  const TensorDescriptor x_desc(p.x);
  const TensorDescriptor y_desc(p.y);
  const TensorDescriptor z_desc(p.has_z != 0 ? p.z : p.y);
  const FilterDescriptor w_desc(p.w);
  const ConvolutionDescriptor convolution(p);
  const auto mode = p.activation < 0 ? GPUDNN_ACTIVATION_IDENTITY : static_cast<gpudnnActivationMode_t>(p.activation);
  const ActivationDescriptor activation(mode, GPUDNN_NOT_PROPAGATE_NAN, c.coef);
  TensorGeometry bias;
  bias.type = p.y.type;
  bias.rank = p.y.rank;
  for (int i = 0; i < bias.rank; ++i) bias.dims[i] = bias.strides[i] = 1;
  bias.dims[1] = bias.strides[0] = p.w.dims[0];
  const TensorDescriptor bias_desc(bias);
  const void* x = tensors->input(p.x, values.x);
  const void* w = tensors->input(p.w, values.w);
  const void* z = p.has_z != 0 ? tensors->input(p.z, values.z) : nullptr;
  const void* b = tensors->input(bias, values.bias);
  void* y = tensors->output(p.y, {});
  return tensors->outcome(gpudnnConvolutionBiasActivationForward(
      backend.handle(), Scalar(c.alpha, p.y.type), x_desc, x, w_desc, w, convolution,
      static_cast<gpudnnConvolutionFwdAlgo_t>(options.algorithm), workspace, bytes,
      Scalar(p.has_z != 0 ? c.alpha2 : 0, p.y.type), z_desc, z, bias_desc, b, activation, y_desc, y));
}

}  // namespace

Outcome run(const Backend& backend, const ConvCase& c, const Values& values, const RunOptions& options) {
  const conv::Problem& p = c.problem;
  std::size_t bytes = 0;
  if (!options.without_workspace) {
    if (const gpudnnStatus_t status = workspace_size(backend, p, options.algorithm, &bytes);
        status != GPUDNN_STATUS_SUCCESS) {
      return {status, take_error_text(), {}, {}};
    }
  }
  Tensors tensors(backend, options.misaligned);
  void* const workspace = tensors.workspace(bytes).data();
  // The fused call has no form without a bias, so an epilogue without one is run with zeros.
  if (p.has_bias != 0 || p.has_z != 0 || p.activation >= 0) {
    Values with_bias = values;
    if (p.has_bias == 0) with_bias.bias.assign(static_cast<std::size_t>(p.w.dims[0]), 0);
    return run_fused_forward(backend, c, with_bias, options, &tensors, workspace, bytes);
  }
  const TensorDescriptor x_desc(p.x);
  const TensorDescriptor y_desc(p.y);
  const FilterDescriptor w_desc(p.w);
  const ConvolutionDescriptor convolution(p);
  const Scalar alpha(c.alpha, p.x.type);
  const Scalar beta(c.beta, p.x.type);
  const gpudnnHandle_t handle = backend.handle();
  switch (p.direction) {
    case conv::Direction::forward: {
      const void* x = tensors.input(p.x, values.x);
      const void* w = tensors.input(p.w, values.w);
      void* y = tensors.output(p.y, values.out);
      return tensors.outcome(gpudnnConvolutionForward(handle, alpha, x_desc, x, w_desc, w, convolution,
                                                      static_cast<gpudnnConvolutionFwdAlgo_t>(options.algorithm),
                                                      workspace, bytes, beta, y_desc, y));
    }
    case conv::Direction::dgrad: {
      const void* w = tensors.input(p.w, values.w);
      const void* dy = tensors.input(p.y, values.y);
      void* dx = tensors.output(p.x, values.out);
      return tensors.outcome(gpudnnConvolutionBackwardData(
          handle, alpha, w_desc, w, y_desc, dy, convolution,
          static_cast<gpudnnConvolutionBwdDataAlgo_t>(options.algorithm), workspace, bytes, beta, x_desc, dx));
    }
    default: {
      const void* x = tensors.input(p.x, values.x);
      const void* dy = tensors.input(p.y, values.y);
      void* dw = tensors.output(p.w, values.out);
      return tensors.outcome(gpudnnConvolutionBackwardFilter(
          handle, alpha, x_desc, x, y_desc, dy, convolution,
          static_cast<gpudnnConvolutionBwdFilterAlgo_t>(options.algorithm), workspace, bytes, beta, w_desc, dw));
    }
  }
}

Outcome run(const Backend& backend, const BiasGradCase& c, const Values& values, const RunOptions& options) {
  Tensors tensors(backend, options.misaligned);
  const TensorDescriptor dy_desc(c.problem.dy);
  const TensorDescriptor db_desc(c.problem.db);
  const gpudnnDataType_t type = c.problem.db.type;
  const void* dy = tensors.input(c.problem.dy, values.dy);
  void* db = tensors.output(c.problem.db, values.out);
  return tensors.outcome(gpudnnConvolutionBackwardBias(backend.handle(), Scalar(c.alpha, type), dy_desc, dy,
                                                       Scalar(c.beta, type), db_desc, db));
}

Outcome run(const Backend& backend, const PoolingCase& c, const Values& values, const RunOptions& options) {
  const pooling::Problem& p = c.problem;
  Tensors tensors(backend, options.misaligned);
  const PoolingDescriptor pool(p);
  const TensorDescriptor x_desc(p.x);
  const TensorDescriptor y_desc(p.y);
  const Scalar alpha(c.alpha, p.x.type);
  const Scalar beta(c.beta, p.x.type);
  const void* x = tensors.input(p.x, values.x);
  if (!p.backward) {
    void* y = tensors.output(p.y, values.out);
    return tensors.outcome(gpudnnPoolingForward(backend.handle(), pool, alpha, x_desc, x, beta, y_desc, y));
  }
  const TensorDescriptor dx_desc(p.dx);
  const TensorDescriptor dy_desc(p.dy);
  const void* y = tensors.input(p.y, values.y);
  const void* dy = tensors.input(p.dy, values.dy);
  void* dx = tensors.output(p.dx, values.out);
  return tensors.outcome(
      gpudnnPoolingBackward(backend.handle(), pool, alpha, y_desc, y, dy_desc, dy, x_desc, x, beta, dx_desc, dx));
}

Outcome run(const Backend& backend, const ActivationCase& c, const Values& values, const RunOptions& options) {
  const activation::Problem& p = c.problem;
  Tensors tensors(backend, options.misaligned);
  const ActivationDescriptor activation(p.mode, p.nan, p.coef);
  const TensorDescriptor x_desc(p.x);
  const TensorDescriptor y_desc(p.y);
  const Scalar alpha(c.alpha, p.x.type);
  const Scalar beta(c.beta, p.x.type);
  const void* x = tensors.input(p.x, values.x);
  if (!p.backward) {
    void* y = tensors.output(p.y, values.out);
    return tensors.outcome(gpudnnActivationForward(backend.handle(), activation, alpha, x_desc, x, beta, y_desc, y));
  }
  const TensorDescriptor dx_desc(p.dx);
  const TensorDescriptor dy_desc(p.dy);
  const void* y = tensors.input(p.y, values.y);
  const void* dy = tensors.input(p.dy, values.dy);
  void* dx = tensors.output(p.dx, values.out);
  return tensors.outcome(gpudnnActivationBackward(backend.handle(), activation, alpha, y_desc, y, dy_desc, dy, x_desc,
                                                  x, beta, dx_desc, dx));
}

Outcome run(const Backend& backend, const SoftmaxCase& c, const Values& values, const RunOptions& options) {
  const softmax::Problem& p = c.problem;
  Tensors tensors(backend, options.misaligned);
  const TensorDescriptor y_desc(p.y);
  const Scalar alpha(c.alpha, p.y.type);
  const Scalar beta(c.beta, p.y.type);
  if (!p.backward) {
    const TensorDescriptor x_desc(p.x);
    const void* x = tensors.input(p.x, values.x);
    void* y = tensors.output(p.y, values.out);
    return tensors.outcome(
        gpudnnSoftmaxForward(backend.handle(), p.algorithm, p.mode, alpha, x_desc, x, beta, y_desc, y));
  }
  const TensorDescriptor dx_desc(p.dx);
  const TensorDescriptor dy_desc(p.dy);
  const void* y = tensors.input(p.y, values.y);
  const void* dy = tensors.input(p.dy, values.dy);
  void* dx = tensors.output(p.dx, values.out);
  return tensors.outcome(
      gpudnnSoftmaxBackward(backend.handle(), p.algorithm, p.mode, alpha, y_desc, y, dy_desc, dy, beta, dx_desc, dx));
}

Outcome run(const Backend& backend, const TensorCase& c, const Values& values, const RunOptions& options) {
  const tensor::Problem& p = c.problem;
  Tensors tensors(backend, options.misaligned);
  const TensorDescriptor c_desc(p.c);
  const Scalar alpha(c.alpha, p.c.type);
  const Scalar beta(c.beta, p.c.type);
  const gpudnnHandle_t handle = backend.handle();
  if (p.operation == tensor::Operation::set) {
    // An element of the tensor's type, but a float for the 16-bit floating ones.
    const bool narrow = p.c.type == GPUDNN_DATA_HALF || p.c.type == GPUDNN_DATA_BFLOAT16;
    unsigned char element[8];
    encode(c.value, narrow ? GPUDNN_DATA_FLOAT : p.c.type, element);
    void* out = tensors.output(p.c, {});
    return tensors.outcome(gpudnnSetTensor(handle, c_desc, out, element));
  }
  if (p.operation == tensor::Operation::scale) {
    void* out = tensors.output(p.c, values.out);
    return tensors.outcome(gpudnnScaleTensor(handle, c_desc, out, alpha));
  }
  const TensorDescriptor a_desc(p.a);
  const void* a = tensors.input(p.a, values.x);
  void* out = tensors.output(p.c, values.out);
  return tensors.outcome(p.operation == tensor::Operation::add
                             ? gpudnnAddTensor(handle, alpha, a_desc, a, beta, c_desc, out)
                             : gpudnnTransformTensor(handle, alpha, a_desc, a, beta, c_desc, out));
}

std::string failure_of(const Outcome& outcome) {
  if (outcome.status == GPUDNN_STATUS_SUCCESS) return outcome.damage;
  return std::string(gpudnnGetErrorString(outcome.status)) + ": " + outcome.text;
}

std::string judge(const TensorGeometry& output, const Outcome& outcome, const Expected& expected) {
  const std::string failure = failure_of(outcome);
  return failure.empty() ? mismatch(output, outcome.values, expected) : failure;
}

std::string check_against(const Backend& backend, const Backend& oracle, const ConvCase& c, double bound,
                          const RunOptions& options) {
  const Values values = make_values(c);
  const Outcome expected = run(oracle, c, values, {.algorithm = options.algorithm});
  const Outcome actual = run(backend, c, values, options);
  for (const Outcome& outcome : {expected, actual}) {
    if (std::string failure = failure_of(outcome); !failure.empty()) return failure;
  }
  const double error = normwise_error(actual.values, expected.values);
  if (error <= bound) return {};
  return "the normwise error is " + std::to_string(error) + ", over the bound of " + std::to_string(bound);
}

}  // namespace gpudnn::test
