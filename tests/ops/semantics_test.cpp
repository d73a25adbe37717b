// What the operations do with NaN, infinity and numbers at the ends of the range, and in place.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gpudnn/ext.h"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Problem, class Parse>
Case<Problem> case_of(const std::string& line, Parse parse) {
  std::string why;
  const auto problem = parse(line, &why);
  if (!problem) throw std::runtime_error(line + ": " + why);
  Case<Problem> c{};
  c.problem = *problem;
  return c;
}

template <class Problem>
std::vector<double> result_of(const Case<Problem>& c, const Values& values) {
  const Outcome outcome = run(Backend::at_hand(), c, values);
  EXPECT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << describe(c) << ": " << outcome.text;
  EXPECT_EQ(outcome.damage, "") << describe(c);
  return outcome.values;
}

// As == but a NaN equals a NaN.
void expect_same(const std::vector<double>& actual, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const bool same = actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]));
    EXPECT_TRUE(same) << what << " element " << i << ": " << actual[i] << " instead of " << expected[i];
  }
}

const char* const kTypes[] = {"f32", "f16", "bf16", "f64"};

std::vector<double> activated(const std::string& line, const std::vector<double>& x) {
  Values values;
  values.x = x;
  return result_of(case_of<activation::Problem>(line, activation::from_text), values);
}

// Memory of the backend at hand behind a tensor of vectors, and 64 bytes more that nothing may write.
TEST(Semantics, SettingATensorOfVectorsWritesEachVectorOnce) {
  const gpudnnHandle_t handle = Backend::at_hand().handle();
  for (const int channels : {1, 4, 5, 8}) {
    gpudnnTensorDescriptor_t tensor = nullptr;
    ASSERT_EQ(gpudnnCreateTensorDescriptor(&tensor), GPUDNN_STATUS_SUCCESS);
    const int dims[] = {2, channels, 3};
    const int vectors = (channels + 3) / 4;
    const int strides[] = {vectors * 3, 3, 1};
    ASSERT_EQ(gpudnnSetTensorNdDescriptor(tensor, GPUDNN_DATA_INT8x4, 3, dims, strides), GPUDNN_STATUS_SUCCESS);
    std::size_t size = 0;
    ASSERT_EQ(gpudnnGetTensorSizeInBytes(tensor, &size), GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(size, static_cast<std::size_t>(2 * vectors * 3 * 4)) << channels;
    std::vector<signed char> values(size + 64, -1);
    void* data = nullptr;
    ASSERT_EQ(gpudnnMalloc(handle, &data, values.size()), GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(gpudnnMemcpy(handle, data, values.data(), values.size(), GPUDNN_MEMCPY_HOST_TO_DEVICE),
              GPUDNN_STATUS_SUCCESS);
    const signed char vector[] = {1, 2, 3, 4};
    EXPECT_EQ(gpudnnSetTensor(handle, tensor, data, vector), GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(gpudnnMemcpy(handle, values.data(), data, values.size(), GPUDNN_MEMCPY_DEVICE_TO_HOST),
              GPUDNN_STATUS_SUCCESS);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], i < size ? static_cast<int>(i % 4) + 1 : -1) << channels << " channels, byte " << i;
    }
    EXPECT_EQ(gpudnnFree(handle, data), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(gpudnnDestroyTensorDescriptor(tensor), GPUDNN_STATUS_SUCCESS);
  }
}

TEST(Semantics, ReluPassesANanOnOnlyWhenAsked) {
  for (const std::string type : kTypes) {
    for (const std::string mode : {"relu", "clipped_relu"}) {
      const std::string line = "act fwd " + mode + " " + type + " nchw n1c3h1w1 coef=2";
      expect_same(activated(line + " nan", {kNan, 1, -1}), {kNan, 1, 0}, line + " nan");
      expect_same(activated(line, {kNan, 1, -1}), {0, 1, 0}, line);
    }
  }
}

TEST(Semantics, CurvedActivationsPassANanOn) {
  for (const std::string mode : {"sigmoid", "tanh", "elu", "swish"}) {
    const std::string line = "act fwd " + mode + " f32 nchw n1c2h1w1 coef=1";
    EXPECT_TRUE(std::isnan(activated(line, {kNan, 1})[0])) << line;
  }
}

TEST(Semantics, ActivationsOfFiniteExtremesAreFiniteAndRight) {
  for (const auto& [name, type] : {std::pair<std::string, gpudnnDataType_t>{"f32", GPUDNN_DATA_FLOAT},
                                   {"f64", GPUDNN_DATA_DOUBLE},
                                   {"f16", GPUDNN_DATA_HALF},
                                   {"bf16", GPUDNN_DATA_BFLOAT16}}) {
    const double most = greatest_finite(type);
    const auto at_ends = [&](const std::string& mode) {
      return activated("act fwd " + mode + " " + name + " nchw n1c2h1w1 coef=1", {-most, most});
    };
    expect_same(at_ends("relu"), {0, most}, "relu " + name);
    expect_same(at_ends("clipped_relu"), {0, 1}, "clipped_relu " + name);
    expect_same(at_ends("sigmoid"), {0, 1}, "sigmoid " + name);
    expect_same(at_ends("tanh"), {-1, 1}, "tanh " + name);
    expect_same(at_ends("elu"), {-1, most}, "elu " + name);
    expect_same(at_ends("swish"), {0, most}, "swish " + name);
  }
}

TEST(Semantics, GradientsAtFiniteExtremesAreFinite) {
  for (const std::string mode : {"sigmoid", "relu", "tanh", "clipped_relu", "elu", "swish"}) {
    const double most = greatest_finite(GPUDNN_DATA_FLOAT);
    Values values;
    values.x = {-most, most, -100, 100};
    values.y = activated("act fwd " + mode + " f32 nchw n1c4h1w1 coef=1", values.x);
    values.dy = {1, 1, 1, 1};
    const std::string line = "act bwd " + mode + " f32 nchw n1c4h1w1 coef=1";
    for (const double dx : result_of(case_of<activation::Problem>(line, activation::from_text), values)) {
      EXPECT_TRUE(std::isfinite(dx)) << line;
    }
  }
}

TEST(Semantics, MaximumPassesANanOnOnlyWhenAsked) {
  for (const std::string type : kTypes) {
    Values values;
    values.x = {1, kNan, 3, 2};
    const std::string line = "pool fwd max " + type + " nchw n1c1h1w4 r1s2 p0x0 t1x2";
    const auto pooled = [&](const std::string& text) {
      return result_of(case_of<pooling::Problem>(text, pooling::from_text), values);
    };
    expect_same(pooled(line + " nan"), {kNan, 3}, line + " nan");
    expect_same(pooled(line), {1, 3}, line);
  }
}

TEST(Semantics, AveragePassesANanOnWithinItsWindowAlone) {
  Values values;
  values.x = {1, kNan, 3, 2};
  expect_same(
      result_of(case_of<pooling::Problem>("pool fwd avg f32 nhwc n1c1h1w4 r1s2 p0x0 t1x2", pooling::from_text), values),
      {kNan, 2.5}, "average");
}

TEST(Semantics, MaximumOfInfinities) {
  Values values;
  values.x = {-kInfinity, -kInfinity, kInfinity, 2};
  expect_same(
      result_of(case_of<pooling::Problem>("pool fwd max f16 nchw n1c1h1w4 r1s2 p0x0 t1x2", pooling::from_text), values),
      {-kInfinity, kInfinity}, "maximum");
}

TEST(Semantics, WindowsAltogetherInThePadding) {
  for (const auto& [name, type] : {std::pair<std::string, gpudnnDataType_t>{"f32", GPUDNN_DATA_FLOAT},
                                   {"f64", GPUDNN_DATA_DOUBLE},
                                   {"f16", GPUDNN_DATA_HALF},
                                   {"bf16", GPUDNN_DATA_BFLOAT16}}) {
    Values values;
    values.x = {7};
    // Windows of one over a row of one with a padding of one: padding, the pixel, padding.
    const auto pooled = [&, type_name = name](const std::string& mode) {
      return result_of(case_of<pooling::Problem>("pool fwd " + mode + " " + type_name + " nchw n1c1h1w1 r1s1 p0x1 t1x1",
                                                 pooling::from_text),
                       values);
    };
    const double lowest = -greatest_finite(type);
    expect_same(pooled("max"), {lowest, 7, lowest}, "max " + name);
    expect_same(pooled("avg"), {0, 7, 0}, "avg " + name);
    expect_same(pooled("avg_pad"), {0, 7, 0}, "avg_pad " + name);
  }
}

std::vector<double> softmaxed(const std::string& algorithm, const std::string& type, const std::vector<double>& x) {
  Values values;
  values.x = x;
  return result_of(case_of<softmax::Problem>("softmax fwd " + algorithm + " channel " + type + " nchw n1c" +
                                                 std::to_string(x.size()) + "h1w1",
                                             softmax::from_text),
                   values);
}

TEST(Semantics, SoftmaxOfHugeNumbersIsFinite) {
  for (const std::string algorithm : {"fast", "accurate"}) {
    for (const std::string type : {"f32", "f64", "bf16"}) {
      const std::string what = algorithm + " " + type;
      expect_same(softmaxed(algorithm, type, {1e30, 1e30}), {0.5, 0.5}, what);
      expect_same(softmaxed(algorithm, type, {-1e30, 1e30}), {0, 1}, what);
      expect_same(softmaxed(algorithm, type, {-1e30, -1e30, -1e30, -1e30}), {0.25, 0.25, 0.25, 0.25}, what);
    }
    expect_same(softmaxed(algorithm, "f16", {65504, -65504}), {1, 0}, algorithm);
  }
  for (const double y : softmaxed("log", "f32", {1e30, -1e30, 0})) EXPECT_FALSE(std::isnan(y));
}

TEST(Semantics, SoftmaxTakesMinusInfinityAsProbabilityZero) {
  for (const std::string algorithm : {"fast", "accurate"}) {
    expect_same(softmaxed(algorithm, "f32", {-kInfinity, 0, 0}), {0, 0.5, 0.5}, algorithm);
    expect_same(softmaxed(algorithm, "f32", {-kInfinity, -kInfinity}), {kNan, kNan}, algorithm + " of nothing");
    expect_same(softmaxed(algorithm, "f32", {kNan, 0}), {kNan, kNan}, algorithm + " of NaN");
  }
  EXPECT_EQ(softmaxed("log", "f32", {-kInfinity, 0})[0], -kInfinity);
  EXPECT_EQ(softmaxed("log", "f32", {-kInfinity, 0})[1], 0);
}

TEST(Semantics, SoftmaxOfOneElementIsOne) {
  for (const std::string type : kTypes) {
    expect_same(softmaxed("accurate", type, {-123}), {1}, type);
    expect_same(softmaxed("log", type, {-123}), {0}, type);
  }
}

TEST(Semantics, ConvolutionSendsNanAndInfinityWhereTheMathematicsSendsThem) {
  Values values;
  values.x = {1, kNan, 1, 1, 1, kInfinity, 1, 1};
  values.w = {1, 0};
  // 0 * NaN and 0 * infinity are NaN, as in any other sum.
  expect_same(
      result_of(case_of<conv::Problem>("conv fwd f32 nchw n1c1h1w8 k1r1s2 p0x0 t1x1 d1x1 g1", conv::from_text), values),
      {kNan, kNan, 1, 1, kNan, kInfinity, 1}, "convolution");
}

// exp(-x) overflows here, though the results are numbers of the type, some of them normal ones.
TEST(Semantics, SigmoidAndSwishKeepTheirSmallResults) {
  const auto expect_near = [](const std::string& line, const std::vector<double>& x,
                              const std::vector<double>& expected, double relative) {
    const std::vector<double> actual = activated(line, x);
    ASSERT_EQ(actual.size(), expected.size()) << line;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], relative * std::fabs(expected[i])) << line << " of " << x[i];
    }
  };
  expect_near("act fwd swish bf16 nchw n1c2h1w1 coef=1", {-91, -90}, {-2.743112e-38, -7.374611e-38}, 0x1p-7);
  expect_near("act fwd swish f32 nchw n1c2h1w1 coef=1", {-91, -90}, {-2.743112e-38, -7.374611e-38}, 1e-4);
  expect_near("act fwd sigmoid f32 nchw n1c2h1w1", {-89, -88.5}, {2.227364e-39, 3.672302e-39}, 1e-4);
  expect_near("act fwd swish f64 nchw n1c2h1w1 coef=1", {-711, -712}, {-1.170827643085e-306, -4.313292185103e-307},
              1e-9);
  expect_near("act fwd sigmoid f64 nchw n1c1h1w1", {-710}, {4.476286225675e-309}, 1e-9);
}

// One pixel of x is NaN; the filter's second tap carries it to the pixel before as well.
TEST(Semantics, FusedReluPassesANanOnOnlyWhenAsked) {
  const Backend& backend = Backend::at_hand();
  Values values;
  values.x = {1, 1, kNan, 1, 3, -9};
  values.w = {1, 1};
  const std::vector<double> bias = {-1};
  for (const std::string type : kTypes) {
    const auto c = case_of<conv::Problem>("conv fwd " + type + " nchw n1c1h1w6 k1r1s2 p0x0 t1x1 d1x1 g1 act=relu bias",
                                          conv::from_text);
    const TensorDescriptor x_desc(c.problem.x);
    const FilterDescriptor w_desc(c.problem.w);
    const TensorDescriptor y_desc(c.problem.y);
    TensorGeometry channel = c.problem.y;
    channel.dims[3] = 1;
    for (int i = 0; i < channel.rank; ++i) channel.strides[i] = 1;
    const TensorDescriptor bias_desc(channel);
    const ConvolutionDescriptor convolution(c.problem);
    const Scalar one(1, c.problem.x.type);
    const Scalar zero(0, c.problem.x.type);
    const DeviceTensor x(backend, c.problem.x, &values.x);
    const DeviceTensor w(backend, c.problem.w, &values.w);
    const DeviceTensor b(backend, channel, &bias);
    for (const auto mode : {GPUDNN_ACTIVATION_RELU, GPUDNN_ACTIVATION_CLIPPED_RELU}) {
      for (const auto nan : {GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN}) {
        const ActivationDescriptor activation(mode, nan, 2);
        const DeviceTensor y(backend, c.problem.y, nullptr);
        ASSERT_EQ(gpudnnConvolutionBiasActivationForward(backend.handle(), one, x_desc, x.data(), w_desc, w.data(),
                                                         convolution, GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                                         nullptr, 0, zero, y_desc, y.data(), bias_desc, b.data(),
                                                         activation, y_desc, y.data()),
                  GPUDNN_STATUS_SUCCESS)
            << take_error_text();
        const double carried = nan == GPUDNN_PROPAGATE_NAN ? kNan : 0;
        const double fourth = mode == GPUDNN_ACTIVATION_RELU ? 3 : 2;
        expect_same(y.values(), {1, carried, carried, fourth, 0}, type + " mode " + std::to_string(mode));
        EXPECT_EQ(y.damage_outside_elements(), "") << type;
      }
    }
  }
}

// In place: x and y, or dx and dy, are one tensor.
TEST(Semantics, ActivationInPlace) {
  const Backend& backend = Backend::at_hand();
  for (const std::string type : kTypes) {
    const auto c = case_of<activation::Problem>("act fwd tanh " + type + " nhwc n2c5h3w7", activation::from_text);
    Values values = make_values(c);
    const TensorDescriptor desc(c.problem.x);
    const ActivationDescriptor tanh(GPUDNN_ACTIVATION_TANH, GPUDNN_NOT_PROPAGATE_NAN, 0);
    const Scalar one(1, c.problem.x.type);
    const Scalar zero(0, c.problem.x.type);
    const DeviceTensor x(backend, c.problem.x, &values.x);
    Outcome outcome;
    outcome.status = gpudnnActivationForward(backend.handle(), tanh, one, desc, x.data(), zero, desc, x.data());
    outcome.values = x.values();
    outcome.damage = x.damage_outside_elements();
    EXPECT_EQ(judge(c.problem.y, outcome, naive(c, values)), "") << type;

    const auto backward =
        case_of<activation::Problem>("act bwd tanh " + type + " nhwc n2c5h3w7", activation::from_text);
    values = make_values(backward);
    const DeviceTensor input(backend, c.problem.x, &values.x);
    const DeviceTensor output(backend, c.problem.x, &values.y);
    const DeviceTensor gradient(backend, c.problem.x, &values.dy);
    outcome.status = gpudnnActivationBackward(backend.handle(), tanh, one, desc, output.data(), desc, gradient.data(),
                                              desc, input.data(), zero, desc, gradient.data());
    outcome.values = gradient.values();
    outcome.damage = gradient.damage_outside_elements();
    EXPECT_EQ(judge(c.problem.x, outcome, naive(backward, values)), "") << type;
  }
}

TEST(Semantics, SoftmaxInPlace) {
  const Backend& backend = Backend::at_hand();
  for (const std::string mode : {"channel", "instance"}) {
    const auto c =
        case_of<softmax::Problem>("softmax fwd accurate " + mode + " f32 nchw n3c70h2w5", softmax::from_text);
    Values values = make_values(c);
    const TensorDescriptor desc(c.problem.x);
    const Scalar one(1, GPUDNN_DATA_FLOAT);
    const Scalar zero(0, GPUDNN_DATA_FLOAT);
    const DeviceTensor x(backend, c.problem.x, &values.x);
    Outcome outcome;
    outcome.status = gpudnnSoftmaxForward(backend.handle(), c.problem.algorithm, c.problem.mode, one, desc, x.data(),
                                          zero, desc, x.data());
    outcome.values = x.values();
    EXPECT_EQ(judge(c.problem.y, outcome, naive(c, values)), "") << mode;

    const auto backward =
        case_of<softmax::Problem>("softmax bwd accurate " + mode + " f32 nchw n3c70h2w5", softmax::from_text);
    values = make_values(backward);
    const DeviceTensor y(backend, c.problem.x, &values.y);
    const DeviceTensor gradient(backend, c.problem.x, &values.dy);
    outcome.status = gpudnnSoftmaxBackward(backend.handle(), c.problem.algorithm, c.problem.mode, one, desc, y.data(),
                                           desc, gradient.data(), zero, desc, gradient.data());
    outcome.values = gradient.values();
    EXPECT_EQ(judge(c.problem.x, outcome, naive(backward, values)), "") << mode;
  }
}

}  // namespace
}  // namespace gpudnn::test
