// Float convolutions on bfloat16 tensor cores, on data that a split of the factors could get wrong: all bits of a
// float, sums that cancel, long sums of one sign, exponents far apart, the ends of float's range, infinities and NaN.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/conv_engine_run.hpp"
#include "support/random.hpp"

namespace gpudnn::test {
namespace {

constexpr const char* kLines[] = {
    "conv fwd f32 nhwc n2c96h9w7 k72r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma",
    "conv fwd f32 nchw n2c530h5w5 k36r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=fma",
    "conv dgrad f32 nhwc n2c36h8w8 k100r3s3 p1x1 t2x2 d1x1 g1 acc=f32 math=fma",
    "conv dgrad f32 nchw n1c20h6w7 k64r2s3 p0x1 t1x1 d1x1 g1 acc=f32 math=fma",
    "conv wgrad f32 nhwc n3c40h17w15 k68r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma",
    "conv wgrad f32 nchw n4c33h14w14 k30r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=fma",
};

enum class Kind { all_bits, one_sign, wide, cancelling, smallest, largest };
constexpr Kind kKinds[] = {Kind::all_bits, Kind::one_sign, Kind::wide, Kind::cancelling, Kind::smallest, Kind::largest};

double value_of(Kind kind, bool first, std::size_t index, Random& random) {
  const double unit = random.between(1, 1 << 24) * 0x1p-24;  // all 24 bits
  const double sign = random.chance(0.5) ? -1 : 1;
  switch (kind) {
    case Kind::all_bits:
      return sign * unit;
    case Kind::one_sign:
      return unit;
    case Kind::wide:
      return sign * std::ldexp(unit, static_cast<int>(random.between(-20, 20)));
    case Kind::cancelling:
      return first ? (index % 2 == 0 ? 1 : -1) * (1 + unit * 0x1p-10) : 1 + unit * 0x1p-10;
    case Kind::smallest:  // beside float's least normal number, 2^-126
      return sign * (first ? std::ldexp(unit, static_cast<int>(random.between(-128, -110))) : unit);
    default:  // the largest floats, which no rounding may carry to infinity
      return sign * (first ? std::numeric_limits<float>::max() * (1 - unit * 0x1p-12) : std::ldexp(unit, -20));
  }
}

// A tensor of floats.
void fill(Kind kind, bool first, Random& random, std::vector<double>* values) {
  for (std::size_t i = 0; i < values->size(); ++i) {
    (*values)[i] = static_cast<double>(static_cast<float>(value_of(kind, first, i, random)));
  }
}

// The two tensors that the direction reads.
std::pair<std::vector<double>*, std::vector<double>*> inputs_of(conv::Direction direction, Values* values) {
  if (direction == conv::Direction::forward) return {&values->x, &values->w};
  if (direction == conv::Direction::dgrad) return {&values->y, &values->w};
  return {&values->y, &values->x};
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

ConvCase case_of(const char* line) {
  std::string why;
  ConvCase c;
  c.problem = conv::from_text(line, &why).value();
  c.integers = false;  // the data are not, and so sums are not exact
  return c;
}

bool splits(const conv::ConvEngine& engine, const conv::Candidate& candidate) {
  const conv::ConvEngine& shown = candidate.config.inner != nullptr ? *candidate.config.inner : engine;
  return std::string(shown.name) == "fp32_split_sm90";
}

// check(outcome, text of the choice) for each config of the engines that split floats.
template <class Check>
void for_each_outcome(const ConvCase& c, const Values& values, Check check) {
  const Backend& backend = Backend::at_hand();
  const Device& device = *backend.handle()->device;
  const Inputs inputs(backend, c, values);
  int runs = 0;
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.backend != backend.kind() || !engine.supports(c.problem, device)) continue;
    std::vector<conv::Candidate> candidates;
    engine.candidates(c.problem, device, &candidates);
    for (const conv::Candidate& candidate : candidates) {
      if (!splits(engine, candidate)) continue;
      ++runs;
      EngineRun run(backend, engine, candidate, c, inputs);
      Outcome outcome = run.launch();
      outcome.damage = run.damage();
      check(outcome, choice_text(engine, candidate.config));
    }
  }
  EXPECT_GT(runs, 0) << to_text(c.problem) << ": no engine splits it";
}

bool has_engine() {
  const Backend& backend = Backend::at_hand();
  return backend.is_cuda() && backend.handle()->device->compute_capability() == 90;
}

// The bound is that of products of floats, for the split leaves out less than one rounding of a product. What lies
// below the least bfloat16, 2^-133, is lost: at most 2^-134 of either factor of a product (docs/numerics.md).
TEST(Fp32Split, IsAsAccurateAsProductsOfFloats) {
  if (!has_engine()) GTEST_SKIP() << "it needs a GPU of compute capability 9.0";
  Random random(session_seed());
  for (const char* line : kLines) {
    const ConvCase c = case_of(line);
    for (const Kind kind : kKinds) {
      Values values = make_values(c);
      const auto [first, second] = inputs_of(c.problem.direction, &values);
      fill(kind, true, random, first);
      fill(kind, false, random, second);
      Expected expected = naive(c, values);
      const double terms = static_cast<double>(reduction_length(c.problem));
      const double lost = 1.01 * 0x1p-134 * terms * (largest_of(*first) + largest_of(*second));
      for (double& slack : expected.slack) slack += lost;
      for_each_outcome(c, values, [&](const Outcome& outcome, const std::string& choice) {
        EXPECT_EQ(judge(output_of(c.problem), outcome, expected), "")
            << line << ", data of kind " << static_cast<int>(kind) << ", " << choice;
      });
    }
  }
}

// Infinities and NaN of either factor, alone and together, go where the mathematics sends them. Without padding, which
// engines may multiply as zeros.
TEST(Fp32Split, InfinitiesAndNanGoWhereTheMathematicsSendsThem) {
  if (!has_engine()) GTEST_SKIP() << "it needs a GPU of compute capability 9.0";
  constexpr double kSpecials[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::quiet_NaN()};
  Random random(session_seed());
  for (const char* line : {"conv fwd f32 nhwc n2c48h6w5 k72r2s2 p0x0 t1x1 d1x1 g1 acc=f32 math=fma",
                           "conv dgrad f32 nhwc n2c36h1w1 k100r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=fma",
                           "conv wgrad f32 nhwc n3c40h7w6 k68r2s1 p0x0 t1x1 d1x1 g1 acc=f32 math=fma"}) {
    const ConvCase c = case_of(line);
    for (const int sides : {1, 2, 3}) {
      Values values = make_values(c);
      const auto [first, second] = inputs_of(c.problem.direction, &values);
      fill(Kind::all_bits, true, random, first);
      fill(Kind::all_bits, false, random, second);
      for (const double special : kSpecials) {
        const auto place = [&](std::vector<double>* at) {
          (*at)[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(at->size()) - 1))] = special;
        };
        if ((sides & 1) != 0) place(first);
        if ((sides & 2) != 0) place(second);
      }
      // Their lower terms are 0, and 0 times infinity is NaN: a split that took no care would show it.
      for (std::size_t i = 0; i < first->size(); i += 3) (*first)[i] = std::isfinite((*first)[i]) ? 1 : (*first)[i];
      for (std::size_t i = 0; i < second->size(); i += 2) (*second)[i] = std::isfinite((*second)[i]) ? 1 : (*second)[i];
      const Expected expected = naive(c, values);
      for_each_outcome(c, values, [&](const Outcome& outcome, const std::string& choice) {
        ASSERT_EQ(outcome.values.size(), expected.value.size());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < expected.value.size(); ++i) {
          const double want = expected.value[i];
          const double got = outcome.values[i];
          const bool right = std::isnan(want) ? std::isnan(got)
                             : std::isinf(want)
                                 ? got == want
                                 : std::fabs(got - want) <= expected.slack[i] + 0x1p-23 * std::fabs(want);
          wrong += right ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0u) << line << ", sides " << sides << ", " << choice;
      });
    }
  }
}

}  // namespace
}  // namespace gpudnn::test
