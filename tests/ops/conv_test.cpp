// Convolution through the public interface: hand-computed cases, random problems and the case files.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/numerics.hpp"
#include "support/by_hand.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

ConvCase conv_case(const char* line) { return case_of(parsed(line, conv::from_text)); }

const std::vector<double> kOneToNine = {1, 2, 3, 4, 5, 6, 7, 8, 9};
const std::vector<double> kOneToFour = {1, 2, 3, 4};

TEST(Convolution, ForwardByHand) {
  Values values;
  values.x = kOneToNine;
  values.w = kOneToFour;
  expect_literal(conv_case("conv fwd f32 nchw n1c1h3w3 k1r2s2 p0x0 t1x1 d1x1 g1"), values, {37, 47, 67, 77});
}

TEST(Convolution, ForwardMirroredByHand) {
  Values values;
  values.x = kOneToNine;
  values.w = kOneToFour;
  expect_literal(conv_case("conv fwd f32 nchw n1c1h3w3 k1r2s2 p0x0 t1x1 d1x1 g1 flip"), values, {23, 33, 53, 63});
}

TEST(Convolution, ForwardWithPaddingAndStrideByHand) {
  Values values;
  values.x = kOneToNine;
  values.w = kOneToFour;
  // Windows start at -1 and 1: {0,0,0,1}, {0,0,2,3}, {0,4,0,7}, {5,6,8,9}.
  expect_literal(conv_case("conv fwd f32 nchw n1c1h3w3 k1r2s2 p1x1 t2x2 d1x1 g1"), values, {4, 18, 36, 77});
}

TEST(Convolution, ForwardWithDilationByHand) {
  Values values;
  values.x = kOneToNine;
  values.w = kOneToFour;
  expect_literal(conv_case("conv fwd f16 nchw n1c1h3w3 k1r2s2 p0x0 t1x1 d2x2 g1"), values, {1 + 6 + 21 + 36});
}

TEST(Convolution, ForwardInGroupsByHand) {
  Values values;
  values.x = {1, 2, 3, 4};    // four channels of one pixel
  values.w = {1, 10, 2, 20};  // two filters over two channels each
  expect_literal(conv_case("conv fwd bf16 nhwc n1c4h1w1 k2r1s1 p0x0 t1x1 d1x1 g2"), values, {21, 86});
}

TEST(Convolution, BackwardDataByHand) {
  Values values;
  values.y = kOneToFour;
  values.w = kOneToFour;
  expect_literal(conv_case("conv dgrad f32 nchw n1c1h3w3 k1r2s2 p0x0 t1x1 d1x1 g1"), values,
                 {1, 4, 4, 6, 20, 16, 9, 24, 16});
}

TEST(Convolution, BackwardFilterByHand) {
  Values values;
  values.x = kOneToNine;
  values.y = kOneToFour;
  expect_literal(conv_case("conv wgrad f32 nchw n1c1h3w3 k1r2s2 p0x0 t1x1 d1x1 g1"), values, {37, 47, 67, 77});
}

TEST(Convolution, CombinesWithAlphaAndBetaByHand) {
  Values values;
  values.x = kOneToNine;
  values.w = kOneToFour;
  values.out = {4, 8, 12, 16};
  ConvCase c = conv_case("conv fwd f64 nchw n1c1h3w3 k1r2s2 p0x0 t1x1 d1x1 g1");
  c.alpha = -2;
  c.beta = 0.25;
  expect_literal(c, values, {-73, -92, -131, -150});
}

TEST(Convolution, BiasAndReluByHand) {
  Values values;
  values.x = {1, -2};
  values.w = {3};
  values.bias = {1};
  values.z = {10, 1};
  ConvCase c = conv_case("conv fwd f32 nchw n1c1h1w2 k1r1s1 p0x0 t1x1 d1x1 g1 act=relu bias z");
  c.alpha2 = 0.5;
  expect_literal(c, values, {9, 0});  // 3 + 5 + 1, and max(0, -6 + 0.5 + 1)
}

// A product that needs all 24 bits of a float's mantissa: with TF32 the low ones would be gone.
TEST(Convolution, FloatMeansFloatUnlessTheMathTypeSaysOtherwise) {
  Values values;
  values.x = {1 + 0x1p-23, 1 + 0x1p-12, 3, -1 - 0x1p-20};
  values.w = {1};
  for (const char* math : {"default", "fma"}) {
    ConvCase c = conv_case((std::string("conv fwd f32 nhwc n1c1h1w4 k1r1s1 p0x0 t1x1 d1x1 g1 math=") + math).c_str());
    expect_literal(c, values, values.x);
  }
  // And where tensor cores would like to work: 64 channels, all but one of them zero.
  ConvCase wide = conv_case("conv fwd f32 nhwc n1c64h4w4 k64r1s1 p0x0 t1x1 d1x1 g1 math=default");
  Values wide_values;
  wide_values.x.assign(64 * 16, 0);
  for (std::size_t pixel = 0; pixel < 16; ++pixel) wide_values.x[pixel] = 1 + 0x1p-23 * static_cast<double>(pixel + 1);
  wide_values.w.assign(64 * 64, 0);
  for (std::size_t k = 0; k < 64; ++k) wide_values.w[k * 64] = 1;
  std::vector<double> expected;
  for (std::size_t k = 0; k < 64; ++k)
    for (std::size_t pixel = 0; pixel < 16; ++pixel) expected.push_back(wide_values.x[pixel]);
  expect_literal(wide, wide_values, expected);
}

TEST(Convolution, HalfComputeTypeIsSummedInFloat) {
  ConvCase c = conv_case("conv fwd f16 nhwc n1c4096h1w1 k1r1s1 p0x0 t1x1 d1x1 g1 acc=f16");
  Values values;
  values.x.assign(4096, 1);
  values.w.assign(4096, 1);
  expect_literal(c, values, {4096});  // half sums stop at 2048
}

TEST(Convolution, RandomProblems) {
  sweep(400, random_conv, [](const ConvCase& c, int i) {
    RunOptions options;
    options.algorithm = i % algorithm_count_of(c.problem.direction);
    options.misaligned = i % 5 == 4;
    options.without_workspace = i % 7 == 6;
    return check(Backend::at_hand(), c, options);
  });
}

// The host backend is the oracle of the large problems, so it is swept wherever it is not the backend at hand already.
TEST(Convolution, RandomProblemsOnTheHostBackend) {
  if (!Backend::at_hand().is_cuda()) GTEST_SKIP() << "the backend at hand is the host: RandomProblems did this";
  sweep(200, random_conv, [](const ConvCase& c, int) { return check(Backend::host(), c); });
}

std::vector<ConvCase> with_coefficients(std::vector<ConvCase> cases) {
  for (ConvCase& c : cases) {
    const bool fused = c.problem.has_bias != 0 || c.problem.has_z != 0 || c.problem.activation >= 0;
    if (fused) c.beta = 0;
    if (c.problem.has_z != 0) c.alpha2 = 0.5;
    if (c.problem.activation == GPUDNN_ACTIVATION_CLIPPED_RELU) c.coef = 6;
    if (c.problem.activation == GPUDNN_ACTIVATION_ELU || c.problem.activation == GPUDNN_ACTIVATION_SWISH) c.coef = 1;
  }
  return cases;
}

TEST(Convolution, HandPickedProblems) {
  check_all(with_coefficients(cases_from_file<conv::Problem>("conv/edges.txt", conv::from_text)));
}

// Sizes of real networks, against the host backend.
TEST(Convolution, LargeProblems) {
  GPUDNN_NEEDS_GPU();
  for (const std::string& line : case_lines("conv/large.txt")) {
    ConvCase c = conv_case(line.c_str());
    for (const bool integers : {true, false}) {
      c.integers = integers;
      const bool tf32 = c.problem.x.type == GPUDNN_DATA_FLOAT && c.problem.math != GPUDNN_DEFAULT_MATH &&
                        c.problem.math != GPUDNN_FMA_MATH;
      const double bound = integers ? 0 : numerics::normwise_bound(c.problem.x.type, tf32);
      EXPECT_EQ(check_against(Backend::at_hand(), Backend::host(), c, bound, {.algorithm = 1}), "") << describe(c);
    }
  }
}

// y is the addend and the output at once.
TEST(Convolution, AddendMayBeTheOutput) {
  ConvCase c = conv_case("conv fwd f32 nhwc n2c8h5w5 k8r3s3 p1x1 t1x1 d1x1 g1 act=relu bias z");
  c.alpha2 = 0.5;
  const Values values = make_values(c);
  const Backend& backend = Backend::at_hand();
  const TensorDescriptor x_desc(c.problem.x);
  const TensorDescriptor y_desc(c.problem.y);
  const FilterDescriptor w_desc(c.problem.w);
  const TensorDescriptor bias_desc(GPUDNN_DATA_FLOAT, 1, 8, 1, 1);
  const ConvolutionDescriptor convolution(c.problem);
  const ActivationDescriptor relu(GPUDNN_ACTIVATION_RELU, GPUDNN_NOT_PROPAGATE_NAN, 0);
  const DeviceTensor x(backend, c.problem.x, &values.x);
  const DeviceTensor w(backend, c.problem.w, &values.w);
  TensorGeometry flat;
  flat.rank = 1;
  flat.dims[0] = 8;
  flat.strides[0] = 1;
  const DeviceTensor bias(backend, flat, &values.bias);
  const DeviceTensor y(backend, c.problem.y, &values.z);
  Outcome outcome;
  outcome.status = gpudnnConvolutionBiasActivationForward(
      backend.handle(), Scalar(1, GPUDNN_DATA_FLOAT), x_desc, x.data(), w_desc, w.data(), convolution,
      GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, Scalar(0.5, GPUDNN_DATA_FLOAT), y_desc, y.data(),
      bias_desc, bias.data(), relu, y_desc, y.data());
  outcome.text = take_error_text();
  outcome.values = y.values();
  outcome.damage = y.damage_outside_elements();
  EXPECT_EQ(judge(c.problem.y, outcome, naive(c, values)), "");
}

TEST(Convolution, EmptyBatchSucceedsAndTouchesNothing) {
  const Backend& backend = Backend::at_hand();
  const TensorDescriptor x_desc(GPUDNN_DATA_FLOAT, 0, 3, 5, 5);
  const TensorDescriptor y_desc(GPUDNN_DATA_FLOAT, 0, 4, 3, 3);
  const FilterDescriptor w_desc(GPUDNN_DATA_FLOAT, 4, 3, 3, 3);
  const ConvolutionDescriptor convolution(0, 1, 1);
  const Scalar one(1, GPUDNN_DATA_FLOAT);
  const Scalar zero(0, GPUDNN_DATA_FLOAT);
  TensorGeometry filter;
  filter.rank = 1;
  filter.dims[0] = 4 * 3 * 9;
  filter.strides[0] = 1;
  const std::vector<double> ones(4 * 3 * 9, 1);
  const DeviceTensor w(backend, filter, &ones);
  const DeviceTensor bystander(backend, filter, nullptr);
  EXPECT_EQ(
      gpudnnConvolutionForward(backend.handle(), one, x_desc, bystander.data(), w_desc, w.data(), convolution,
                               GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, zero, y_desc, bystander.data()),
      GPUDNN_STATUS_SUCCESS)
      << take_error_text();
  EXPECT_EQ(
      gpudnnConvolutionBackwardData(backend.handle(), one, w_desc, w.data(), y_desc, bystander.data(), convolution,
                                    GPUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, zero, x_desc, bystander.data()),
      GPUDNN_STATUS_SUCCESS)
      << take_error_text();
  EXPECT_EQ(bystander.damage_anywhere(), "");
  // The gradient of the filter over no images is zero.
  const DeviceTensor dw(backend, filter, nullptr);
  EXPECT_EQ(gpudnnConvolutionBackwardFilter(backend.handle(), one, x_desc, nullptr, y_desc, nullptr, convolution,
                                            GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, nullptr, 0, zero, w_desc, dw.data()),
            GPUDNN_STATUS_SUCCESS)
      << take_error_text();
  EXPECT_EQ(dw.values(), std::vector<double>(4 * 3 * 9, 0));
}

}  // namespace
}  // namespace gpudnn::test
