// The spatial transformer through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "support/by_hand.hpp"
#include "support/naive_misc.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

using spatial_transformer::Operation;
using spatial_transformer::Problem;

struct TransformerDescriptor
    : Descriptor<gpudnnSpatialTransformerDescriptor_t, gpudnnCreateSpatialTransformerDescriptor,
                 gpudnnDestroySpatialTransformerDescriptor> {
  explicit TransformerDescriptor(const TensorGeometry& y) {
    const int dims[] = {static_cast<int>(y.dims[0]), static_cast<int>(y.dims[1]), static_cast<int>(y.dims[2]),
                        static_cast<int>(y.dims[3])};
    GPUDNN_TEST_REQUIRE(gpudnnSetSpatialTransformerNdDescriptor(*this, GPUDNN_SAMPLER_BILINEAR, y.type, 4, dims));
  }
};

std::vector<double> normal_values(Random& random, const TensorGeometry& tensor) {
  std::vector<double> values(static_cast<std::size_t>(element_count(tensor)));
  for (double& value : values) value = round_to_type(random.normal(), tensor.type);
  return values;
}

// Points without order: inside, on the border, outside, far outside and NaN; or those of an affine map, whose
// neighbours are neighbours in the image. Each well between two pixels where the gradient of the grid jumps at them.
std::vector<double> grid_values(Random& random, const Problem& problem, bool ordered) {
  std::vector<double> grid(static_cast<std::size_t>(element_count(grid_geometry(problem))));
  double map[6];
  for (double& value : map) value = 0.7 * random.normal();
  const std::int64_t width = problem.y.dims[3];
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const std::int64_t extent = problem.x.dims[i % 2 == 0 ? 3 : 2];
    const auto pixel = static_cast<std::int64_t>(i / 2) % (problem.y.dims[2] * width);
    double value = 1e30;
    if (extent == 1) {
      value = 0.25;  // the one pixel, whatever the value
    } else if (ordered) {
      const double* const row = map + i % 2 * 3;
      const double across = 2.0 * static_cast<double>(pixel % width) / static_cast<double>(width) - 1;
      const double down = 2.0 * static_cast<double>(pixel / width) / static_cast<double>(problem.y.dims[2]) - 1;
      const double at = (row[0] * across + row[1] * down + row[2] + 1) * static_cast<double>(extent - 1) / 2;
      value = 2 * (std::floor(at) + 0.2 + 0.6 * (at - std::floor(at))) / static_cast<double>(extent - 1) - 1;
    } else if (!random.chance(0.02)) {
      const double at = static_cast<double>(random.between(-2, extent)) + 0.2 + 0.6 * random.uniform();
      value = 2 * at / static_cast<double>(extent - 1) - 1;
    } else if (random.chance(0.5)) {
      value = std::nan("");
    }
    if (std::fabs(value) > 1e4 && problem.y.type == GPUDNN_DATA_HALF) value = 6e4;
    grid[i] = round_to_type(value, problem.y.type);
  }
  return grid;
}

std::string check_grid(const Backend& backend, const Problem& problem, Random& random, bool misaligned) {
  const TransformerDescriptor st(problem.y);
  TransformerValues v;
  const bool forward = problem.operation == Operation::grid_forward;
  const TensorGeometry in = forward ? theta_geometry(problem) : grid_geometry(problem);
  const TensorGeometry out = forward ? grid_geometry(problem) : theta_geometry(problem);
  (forward ? v.theta : v.grid) = normal_values(random, in);
  const DeviceTensor from(backend, in, forward ? &v.theta : &v.grid, misaligned);
  const DeviceTensor to(backend, out, nullptr, misaligned);
  GPUDNN_TEST_REQUIRE((forward ? gpudnnSpatialTfGridGeneratorForward : gpudnnSpatialTfGridGeneratorBackward)(
      backend.handle(), st, from.data(), to.data()));
  return mismatch(out, to.values(), forward ? naive_grid(problem, v) : naive_theta_gradient(problem, v)) +
         to.damage_outside_elements() + from.damage_anywhere();
}

std::string check_sampler(const Backend& backend, const Problem& problem, Random& random,
                          const TransformerScalars& scalars, bool ordered, bool misaligned) {
  const gpudnnDataType_t type = problem.y.type;
  const bool forward = problem.operation == Operation::sample_forward;
  const TransformerDescriptor st(problem.y);
  TransformerValues v;
  v.grid = grid_values(random, problem, ordered);
  v.x = normal_values(random, problem.x);
  if (!forward) v.dy = normal_values(random, problem.y);
  const TensorGeometry& out_geometry = forward ? problem.y : problem.dx;
  if (scalars.beta != 0) v.out = normal_values(random, out_geometry);
  if (scalars.grid_beta != 0) v.grid_out = normal_values(random, grid_geometry(problem));
  const DeviceTensor x(backend, problem.x, &v.x, misaligned);
  const DeviceTensor grid(backend, grid_geometry(problem), &v.grid, misaligned);
  const DeviceTensor out(backend, out_geometry, v.out.empty() ? nullptr : &v.out, misaligned);
  const Scalar alpha(scalars.alpha, type);
  const Scalar beta(scalars.beta, type);
  if (forward) {
    GPUDNN_TEST_REQUIRE(gpudnnSpatialTfSamplerForward(backend.handle(), st, alpha, TensorDescriptor(problem.x),
                                                      x.data(), grid.data(), beta, TensorDescriptor(problem.y),
                                                      out.data()));
    return mismatch(out_geometry, out.values(), naive_sample(problem, v, scalars)) + out.damage_outside_elements() +
           x.damage_anywhere() + grid.damage_anywhere();
  }
  const DeviceTensor dy(backend, problem.y, &v.dy, misaligned);
  const DeviceTensor dgrid(backend, grid_geometry(problem), v.grid_out.empty() ? nullptr : &v.grid_out, misaligned);
  GPUDNN_TEST_REQUIRE(gpudnnSpatialTfSamplerBackward(
      backend.handle(), st, alpha, TensorDescriptor(problem.x), x.data(), beta, TensorDescriptor(problem.dx),
      out.data(), Scalar(scalars.grid_alpha, type), TensorDescriptor(problem.y), dy.data(), grid.data(),
      Scalar(scalars.grid_beta, type), dgrid.data()));
  std::string wrong = mismatch(out_geometry, out.values(), naive_image_gradient(problem, v, scalars));
  if (!wrong.empty()) return "dx: " + wrong;
  wrong = mismatch(grid_geometry(problem), dgrid.values(), naive_grid_gradient(problem, v, scalars));
  if (!wrong.empty()) return "dgrid: " + wrong;
  return out.damage_outside_elements() + dgrid.damage_outside_elements() + x.damage_anywhere() +
         grid.damage_anywhere() + dy.damage_anywhere();
}

std::string check(const Problem& problem, std::uint64_t seed, bool misaligned) {
  Random random(seed);
  const Backend& backend = Backend::at_hand();
  if (is_grid(problem.operation)) return check_grid(backend, problem, random, misaligned);
  TransformerScalars scalars;
  if (seed % 3 == 1) scalars = {-2, 0.25, 0.5, -1};
  if (seed % 3 == 2) scalars = {0.5, 0, 1, 1};
  if (seed % 6 == 0) scalars = {0.5, 2, 1, 0};  // dx is added to, while the memory of dgrid is free
  return check_sampler(backend, problem, random, scalars, seed % 2 == 0, misaligned);
}

Problem random_problem(Random& random) {
  Problem p;
  p.operation = random.pick({Operation::grid_forward, Operation::grid_backward, Operation::sample_forward,
                             Operation::sample_forward, Operation::sample_backward, Operation::sample_backward});
  p.y.type =
      random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_DOUBLE});
  p.y.rank = 4;
  p.y.dims[0] = random.between(1, 3);
  p.y.dims[1] = random.pick({1, 2, 3, 7, 8, 16, 24});
  for (int i = 2; i < 4; ++i) p.y.dims[i] = random.between(1, 12);
  p.x = p.y;
  for (int i = 2; i < 4; ++i) p.x.dims[i] = random.between(1, 14);
  set_packed_strides(&p.y, GPUDNN_TENSOR_NCHW);
  if (is_grid(p.operation)) {
    p.x = {};
    return p;
  }
  set_random_layout(random, &p.y);
  set_random_layout(random, &p.x);
  if (p.operation == Operation::sample_backward) {
    p.dx = p.x;
    set_random_layout(random, &p.dx);
  }
  return p;
}

TEST(SpatialTransformer, RandomProblems) {
  const auto make = [](Random& random) {
    const Problem problem = random_problem(random);
    return Seeded<Problem>{problem, random.bits()};
  };
  sweep(300, make, [](const Seeded<Problem>& c, int i) { return check(c.problem, c.seed, i % 5 == 4); });
}

TEST(SpatialTransformer, HandPickedProblems) {
  std::size_t number = 0;
  for (const std::string& line : case_lines("spatial_transformer/edges.txt")) {
    std::string why;
    const auto problem = spatial_transformer::from_text(line, &why);
    ASSERT_TRUE(problem) << line << ": " << why;
    EXPECT_EQ(to_text(*problem), line);
    for (const std::uint64_t variant : {0u, 1u, 2u, 3u}) {
      if (!runs_in_variant(number, variant, 4)) continue;
      EXPECT_EQ(check(*problem, 3 + variant, variant == 2), "") << line;
    }
    ++number;
  }
}

Problem problem_of(const char* line) { return parsed(line, spatial_transformer::from_text); }

TEST(SpatialTransformer, GridByHand) {
  const Problem problem = problem_of("stn grid_fwd f32 nchw n1c1h2w3");
  const Backend& backend = Backend::at_hand();
  const std::vector<double> theta = {1, 2, 3, 4, 5, 6};
  const DeviceTensor in(backend, theta_geometry(problem), &theta);
  const DeviceTensor out(backend, grid_geometry(problem), nullptr);
  const TransformerDescriptor st(problem.y);
  GPUDNN_TEST_REQUIRE(gpudnnSpatialTfGridGeneratorForward(backend.handle(), st, in.data(), out.data()));
  // (x, y) = (-1, -1), (0, -1), (1, -1), (-1, 1), (0, 1), (1, 1)
  EXPECT_EQ(out.values(), (std::vector<double>{0, -3, 1, 1, 2, 5, 4, 7, 5, 11, 6, 15}));
  GPUDNN_TEST_REQUIRE(gpudnnSpatialTfGridGeneratorBackward(backend.handle(), st, out.data(), in.data()));
  // dtheta of the grid itself: sums of value * x, value * y and value over the pixels.
  EXPECT_EQ(in.values(), (std::vector<double>{-0 + 2 - 4 + 6, -0 - 1 - 2 + 4 + 5 + 6, 18, 3 + 5 - 7 + 15,
                                              3 - 1 - 5 + 7 + 11 + 15, 36}));
}

TEST(SpatialTransformer, SamplerByHand) {
  const Problem problem = problem_of("stn bwd f32 nchw n1c1h1w4 in=2x3");
  const Backend& backend = Backend::at_hand();
  const std::vector<double> image = {1, 2, 4, 8, 16, 32};
  // The first pixel; between four; half a pixel outside to the left of the second row; far outside.
  const std::vector<double> points = {-1, -1, 0.5, 0, -1.5, 1, 3, 3};
  const std::vector<double> ones = {1, 1, 1, 1};
  const DeviceTensor x(backend, problem.x, &image);
  const DeviceTensor grid(backend, grid_geometry(problem), &points);
  const DeviceTensor y(backend, problem.y, nullptr);
  const DeviceTensor dy(backend, problem.y, &ones);
  const DeviceTensor dx(backend, problem.dx, nullptr);
  const DeviceTensor dgrid(backend, grid_geometry(problem), nullptr);
  const TransformerDescriptor st(problem.y);
  const Scalar one(1, GPUDNN_DATA_FLOAT);
  const Scalar zero(0, GPUDNN_DATA_FLOAT);
  GPUDNN_TEST_REQUIRE(gpudnnSpatialTfSamplerForward(backend.handle(), st, one, TensorDescriptor(problem.x), x.data(),
                                                    grid.data(), zero, TensorDescriptor(problem.y), y.data()));
  EXPECT_EQ(y.values(), (std::vector<double>{1, (2 + 4 + 16 + 32) / 4.0, 4, 0}));
  GPUDNN_TEST_REQUIRE(gpudnnSpatialTfSamplerBackward(
      backend.handle(), st, one, TensorDescriptor(problem.x), x.data(), zero, TensorDescriptor(problem.dx), dx.data(),
      one, TensorDescriptor(problem.y), dy.data(), grid.data(), zero, dgrid.data()));
  EXPECT_EQ(dx.values(), (std::vector<double>{1, 0.25, 0.25, 0.5, 0.25, 0.25}));
  // d/dx is (W - 1) / 2 = 1 times the difference of columns, d/dy 1/2 times that of rows.
  EXPECT_EQ(dgrid.values(), (std::vector<double>{1, 3.5, 9, (16 + 32 - 2 - 4) / 4.0, 8, -2, 0, 0}));
}

TEST(SpatialTransformer, RefusesWhatMakesNoSense) {
  const Backend& backend = Backend::at_hand();
  const Problem problem = problem_of("stn fwd f32 nchw n1c2h3w4 in=2x3");
  const TransformerDescriptor st(problem.y);
  const int dims[] = {1, 2, 3, 4, 5};
  EXPECT_EQ(gpudnnSetSpatialTransformerNdDescriptor(st, GPUDNN_SAMPLER_BILINEAR, GPUDNN_DATA_FLOAT, 5, dims),
            GPUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(gpudnnSetSpatialTransformerNdDescriptor(st, GPUDNN_SAMPLER_BILINEAR, GPUDNN_DATA_FLOAT, 3, dims),
            GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnSetSpatialTransformerNdDescriptor(st, GPUDNN_SAMPLER_BILINEAR, GPUDNN_DATA_INT8, 4, dims),
            GPUDNN_STATUS_NOT_SUPPORTED);
  GuardedBuffer data(backend, 4096);
  const Scalar one(1, GPUDNN_DATA_FLOAT);
  const auto forward = [&](const TensorGeometry& x, const TensorGeometry& y) {
    return gpudnnSpatialTfSamplerForward(backend.handle(), st, one, TensorDescriptor(x), data.data(), data.data(), one,
                                         TensorDescriptor(y), data.data());
  };
  TensorGeometry other = problem.x;
  other.dims[1] = 1;
  EXPECT_EQ(forward(other, problem.y), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(forward(problem.x, problem.x), GPUDNN_STATUS_BAD_PARAM);
  other = problem.x;
  other.type = GPUDNN_DATA_DOUBLE;
  EXPECT_EQ(forward(other, problem.y), GPUDNN_STATUS_BAD_PARAM);
  (void)take_error_text();
}

}  // namespace
}  // namespace gpudnn::test
