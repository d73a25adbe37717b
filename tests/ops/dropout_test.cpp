// Dropout through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "support/naive_misc.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

struct DropoutDescriptor
    : Descriptor<gpudnnDropoutDescriptor_t, gpudnnCreateDropoutDescriptor, gpudnnDestroyDropoutDescriptor> {};

std::size_t states_size(const Backend& backend) {
  std::size_t bytes = 0;
  GPUDNN_TEST_REQUIRE(gpudnnDropoutGetStatesSize(backend.handle(), &bytes));
  return bytes;
}

std::size_t reserve_size(const TensorGeometry& tensor) {
  std::size_t bytes = 0;
  GPUDNN_TEST_REQUIRE(gpudnnDropoutGetReserveSpaceSize(TensorDescriptor(tensor), &bytes));
  return bytes;
}

std::vector<double> normal_values(Random& random, const TensorGeometry& tensor) {
  std::vector<double> values(static_cast<std::size_t>(element_count(tensor)));
  for (double& value : values) value = round_to_type(random.normal(), tensor.type);
  return values;
}

// A descriptor with states of its own.
struct Generator {
  Generator(const Backend& its_backend, float probability, unsigned long long seed)
      : backend(its_backend), states(its_backend, states_size(its_backend)) {
    GPUDNN_TEST_REQUIRE(gpudnnSetDropoutDescriptor(descriptor, backend.handle(), probability, states.data(),
                                                   states_size(backend), seed));
  }
  const Backend& backend;
  GuardedBuffer states;
  DropoutDescriptor descriptor;
};

// Forward, twice, then backward of the second mask, each against the oracle.
std::string check_round(const Backend& backend, float probability, std::uint64_t seed, const TensorGeometry& x,
                        const TensorGeometry& y, const TensorGeometry& dy, const TensorGeometry& dx, bool misaligned) {
  Random random(seed);
  const Generator generator(backend, probability, seed);
  const std::size_t bytes = reserve_size(x);
  GuardedBuffer reserve(backend, bytes, misaligned ? 1 : 0);
  const std::vector<double> in = normal_values(random, x);
  const DeviceTensor x_data(backend, x, &in, misaligned);
  std::vector<bool> mask;
  for (std::uint64_t call = 0; call < 2; ++call) {
    const DeviceTensor y_data(backend, y, nullptr, misaligned);
    GPUDNN_TEST_REQUIRE(gpudnnDropoutForward(backend.handle(), generator.descriptor, TensorDescriptor(x), x_data.data(),
                                             TensorDescriptor(y), y_data.data(), reserve.data(), bytes));
    mask = naive_mask(y, probability, seed, call);
    std::string wrong = mismatch(y, y_data.values(), naive_dropout(y, probability, mask, in));
    wrong += y_data.damage_outside_elements() + x_data.damage_anywhere();
    if (!wrong.empty()) return "forward call " + std::to_string(call) + ": " + wrong;
  }
  const std::vector<double> gradient = normal_values(random, dy);
  const DeviceTensor dy_data(backend, dy, &gradient, misaligned);
  const DeviceTensor dx_data(backend, dx, nullptr, misaligned);
  GPUDNN_TEST_REQUIRE(gpudnnDropoutBackward(backend.handle(), generator.descriptor, TensorDescriptor(dy),
                                            dy_data.data(), TensorDescriptor(dx), dx_data.data(), reserve.data(),
                                            bytes));
  std::string wrong = mismatch(dx, dx_data.values(), naive_dropout(dx, probability, mask, gradient));
  wrong += dx_data.damage_outside_elements() + dy_data.damage_anywhere() + reserve.damage() + generator.states.damage();
  return wrong.empty() ? "" : "backward: " + wrong;
}

// Forward from x to y, backward from dy to dx.
struct RandomRound {
  activation::Problem shapes;
  float probability;
  std::uint64_t seed;
};
std::string describe(const RandomRound& c) {
  const dropout::Problem problem = {false, c.probability, c.shapes.x, c.shapes.y};
  return to_text(problem) + " dx:" + layout_text(c.shapes.dx) + " | seed=" + std::to_string(c.seed);
}
RandomRound random_round(Random& random) {
  activation::Problem shapes = random_activation(random).problem;
  shapes.dx = shapes.dy = shapes.x;
  if (random.chance(0.5)) set_random_layout(random, &shapes.dx);
  if (random.chance(0.5)) set_random_layout(random, &shapes.dy);
  const float probability = random.pick({0.0f, 0.1f, 0.25f, 0.5f, 0.9f, 1.0f, 1e-6f});
  return {shapes, probability, random.bits()};
}

TEST(Dropout, RandomProblems) {
  sweep(300, random_round, [](const RandomRound& c, int i) {
    return check_round(Backend::at_hand(), c.probability, c.seed, c.shapes.x, c.shapes.y, c.shapes.dy, c.shapes.dx,
                       i % 5 == 4);
  });
}

TEST(Dropout, HandPickedProblems) {
  for (const std::string& line : case_lines("dropout/edges.txt")) {
    std::string why;
    const auto problem = dropout::from_text(line, &why);
    ASSERT_TRUE(problem) << line << ": " << why;
    EXPECT_EQ(to_text(*problem), line);
    for (const bool misaligned : {false, true}) {
      EXPECT_EQ(check_round(Backend::at_hand(), problem->probability, 0x1234567890abcdefu, problem->in, problem->out,
                            problem->in, problem->out, misaligned),
                "")
          << line << (misaligned ? " misaligned" : "");
    }
  }
}

TensorGeometry flat(gpudnnDataType_t type, std::int64_t count) {
  const std::int64_t dims[] = {1, count, 1, 1};
  return packed_tensor(type, GPUDNN_TENSOR_NCHW, 4, dims);
}

// The number kept of n trials is within six standard deviations of its mean: wrong once in 5e8.
TEST(Dropout, KeepsAsManyAsItShould) {
  const Backend& backend = Backend::at_hand();
  constexpr std::int64_t kCount = 1 << 18;
  const TensorGeometry tensor = flat(GPUDNN_DATA_FLOAT, kCount);
  const std::vector<double> ones(kCount, 1);
  const DeviceTensor x(backend, tensor, &ones);
  GuardedBuffer reserve(backend, reserve_size(tensor));
  for (const float probability : {0.01f, 0.1f, 0.3f, 0.5f, 0.8f, 0.99f}) {
    const Generator generator(backend, probability, 42);
    const DeviceTensor y(backend, tensor, nullptr);
    GPUDNN_TEST_REQUIRE(gpudnnDropoutForward(backend.handle(), generator.descriptor, TensorDescriptor(tensor), x.data(),
                                             TensorDescriptor(tensor), y.data(), reserve.data(), reserve_size(tensor)));
    double kept = 0;
    double neighbours = 0;  // pairs of elements that are both kept
    const std::vector<double> values = y.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      kept += values[i] != 0;
      if (i > 0) neighbours += values[i] != 0 && values[i - 1] != 0;
    }
    const double q = 1 - static_cast<double>(probability);
    EXPECT_NEAR(kept, kCount * q, 6 * std::sqrt(kCount * q * (1 - q)) + kCount * 0x1p-17) << probability;
    // Pairs that overlap are not independent: their variance is at most three times that of as many that are.
    EXPECT_NEAR(neighbours, kCount * q * q, 6 * std::sqrt(3 * kCount * q * q * (1 - q * q)) + kCount * 0x1p-15)
        << probability;
  }
}

TEST(Dropout, InPlaceDropsNaNAndNeedsNoStatesAtZero) {
  const Backend& backend = Backend::at_hand();
  const TensorGeometry tensor = flat(GPUDNN_DATA_FLOAT, 1000);
  const std::vector<double> nans(1000, std::nan(""));
  GuardedBuffer reserve(backend, reserve_size(tensor));
  const TensorDescriptor desc(tensor);
  {
    const Generator generator(backend, 1, 3);
    const DeviceTensor data(backend, tensor, &nans);
    GPUDNN_TEST_REQUIRE(gpudnnDropoutForward(backend.handle(), generator.descriptor, desc, data.data(), desc,
                                             data.data(), reserve.data(), reserve_size(tensor)));
    EXPECT_EQ(data.values(), std::vector<double>(1000, 0));
  }
  const DropoutDescriptor inference;
  GPUDNN_TEST_REQUIRE(gpudnnSetDropoutDescriptor(inference, backend.handle(), 0, nullptr, 0, 0));
  const std::vector<double> threes(1000, 3);
  const DeviceTensor data(backend, tensor, &threes);
  GPUDNN_TEST_REQUIRE(gpudnnDropoutForward(backend.handle(), inference, desc, data.data(), desc, data.data(),
                                           reserve.data(), reserve_size(tensor)));
  EXPECT_EQ(data.values(), threes);
  GPUDNN_TEST_REQUIRE(gpudnnDropoutBackward(backend.handle(), inference, desc, data.data(), desc, data.data(),
                                            reserve.data(), reserve_size(tensor)));
  EXPECT_EQ(data.values(), threes);
}

TEST(Dropout, RestoringGoesOnWhereTheStatesAre) {
  const Backend& backend = Backend::at_hand();
  const TensorGeometry tensor = flat(GPUDNN_DATA_FLOAT, 777);
  const std::vector<double> ones(777, 1);
  const DeviceTensor x(backend, tensor, &ones);
  GuardedBuffer reserve(backend, reserve_size(tensor));
  const TensorDescriptor desc(tensor);
  const Generator generator(backend, 0.5f, 11);
  const DropoutDescriptor restored;
  const DeviceTensor y(backend, tensor, nullptr);
  GPUDNN_TEST_REQUIRE(gpudnnDropoutForward(backend.handle(), generator.descriptor, desc, x.data(), desc, y.data(),
                                           reserve.data(), reserve_size(tensor)));
  GPUDNN_TEST_REQUIRE(gpudnnRestoreDropoutDescriptor(restored, backend.handle(), 0.5f, generator.states.data(),
                                                     states_size(backend), 11));
  GPUDNN_TEST_REQUIRE(gpudnnDropoutForward(backend.handle(), restored, desc, x.data(), desc, y.data(), reserve.data(),
                                           reserve_size(tensor)));
  EXPECT_EQ(mismatch(tensor, y.values(), naive_dropout(tensor, 0.5f, naive_mask(tensor, 0.5f, 11, 1), ones)), "");

  float probability = 0;
  void* states = nullptr;
  unsigned long long seed = 0;
  GPUDNN_TEST_REQUIRE(gpudnnGetDropoutDescriptor(restored, backend.handle(), &probability, &states, &seed));
  EXPECT_EQ(probability, 0.5f);
  EXPECT_EQ(states, generator.states.data());
  EXPECT_EQ(seed, 11u);
}

TEST(Dropout, RefusesWhatMakesNoSense) {
  const Backend& backend = Backend::at_hand();
  const TensorGeometry tensor = flat(GPUDNN_DATA_FLOAT, 100);
  const TensorDescriptor desc(tensor);
  const TensorDescriptor other(flat(GPUDNN_DATA_FLOAT, 99));
  const TensorDescriptor half(flat(GPUDNN_DATA_HALF, 100));
  const TensorDescriptor integers(flat(GPUDNN_DATA_INT8, 100));
  GuardedBuffer data(backend, 4096);
  const DropoutDescriptor dropout;
  const auto set = [&](float probability, void* states, std::size_t bytes) {
    return gpudnnSetDropoutDescriptor(dropout, backend.handle(), probability, states, bytes, 1);
  };
  EXPECT_EQ(set(-0.1f, nullptr, 0), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(1.5f, nullptr, 0), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(std::nanf(""), nullptr, 0), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(0.5f, data.data(), states_size(backend) - 1), GPUDNN_STATUS_BAD_PARAM);
  GPUDNN_TEST_REQUIRE(set(0.5f, nullptr, 0));
  const auto forward = [&](const TensorDescriptor& x, const TensorDescriptor& y, std::size_t bytes) {
    return gpudnnDropoutForward(backend.handle(), dropout, x, data.data(), y, data.data(), data.data(), bytes);
  };
  EXPECT_EQ(forward(desc, desc, reserve_size(tensor)), GPUDNN_STATUS_BAD_PARAM);  // no states
  GPUDNN_TEST_REQUIRE(set(0.0f, nullptr, 0));
  EXPECT_EQ(forward(desc, desc, reserve_size(tensor) - 1), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(forward(desc, other, reserve_size(tensor)), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(forward(desc, half, reserve_size(tensor)), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(GPUDNN_STATUS_CATEGORY(forward(integers, integers, reserve_size(tensor))), GPUDNN_STATUS_NOT_SUPPORTED);
  (void)take_error_text();
}

}  // namespace
}  // namespace gpudnn::test
