// Reductions through the public interface, against nested loops.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/reduce/problem.hpp"
#include "support/by_hand.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

using ReduceCase = Case<reduce::Problem>;

struct ReduceDescriptor : Descriptor<gpudnnReduceTensorDescriptor_t, gpudnnCreateReduceTensorDescriptor,
                                     gpudnnDestroyReduceTensorDescriptor> {
  explicit ReduceDescriptor(const reduce::Problem& p) {
    GPUDNN_TEST_REQUIRE(gpudnnSetReduceTensorDescriptor(*this, p.op, p.compute, p.nan, p.indices, p.index_type));
  }
};

struct Answer {
  Outcome outcome;
  std::vector<std::int64_t> places;
};

enum class Space { exact, none, half };

std::vector<std::int64_t> read_places(const GuardedBuffer& buffer, gpudnnIndicesType_t type) {
  std::vector<unsigned char> bytes(buffer.bytes());
  buffer.read(bytes.data(), bytes.size());
  const std::size_t size = type == GPUDNN_8BIT_INDICES    ? 1
                           : type == GPUDNN_16BIT_INDICES ? 2
                           : type == GPUDNN_32BIT_INDICES ? 4
                                                          : 8;
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    std::int64_t place = 0;
    std::memcpy(&place, &bytes[i], size);
    places.push_back(place);
  }
  return places;
}

Answer run_reduce(const Backend& backend, const ReduceCase& c, const Values& values, Space space = Space::exact,
                  bool misaligned = false) {
  const reduce::Problem& p = c.problem;
  const ReduceDescriptor reduction(p);
  const TensorDescriptor a_desc(p.a);
  const TensorDescriptor c_desc(p.c);
  const DeviceTensor a(backend, p.a, &values.x, misaligned);
  const DeviceTensor out(backend, p.c, values.out.empty() ? nullptr : &values.out, misaligned);
  std::size_t index_bytes = 0;
  std::size_t bytes = 0;
  GPUDNN_TEST_REQUIRE(gpudnnGetReductionIndicesSize(backend.handle(), reduction, a_desc, c_desc, &index_bytes));
  GPUDNN_TEST_REQUIRE(gpudnnGetReductionWorkspaceSize(backend.handle(), reduction, a_desc, c_desc, &bytes));
  if (space != Space::exact) bytes = space == Space::none ? 0 : bytes / 2;
  const GuardedBuffer indices(backend, index_bytes);
  const GuardedBuffer workspace(backend, bytes);
  Answer answer;
  Outcome& outcome = answer.outcome;
  outcome.status =
      gpudnnReduceTensor(backend.handle(), reduction, indices.data(), index_bytes, workspace.data(), bytes,
                         Scalar(c.alpha, p.c.type), a_desc, a.data(), Scalar(c.beta, p.c.type), c_desc, out.data());
  if (outcome.status != GPUDNN_STATUS_SUCCESS) outcome.text = take_error_text();
  outcome.values = out.values();
  for (const std::string& damage :
       {a.damage_anywhere(), out.damage_outside_elements(), indices.damage(), workspace.damage()}) {
    if (outcome.damage.empty()) outcome.damage = damage;
  }
  if (index_bytes > 0) answer.places = read_places(indices, p.index_type);
  return answer;
}

// --- the oracle ----------------------------------------------------------------------------------------------------

struct Wanted {
  Expected expected;
  std::vector<std::int64_t> places;
};

// The elements of a behind each element of c, in row-major order.
std::vector<std::vector<double>> groups_of(const reduce::Problem& p, const std::vector<double>& x) {
  std::size_t outputs = 1;
  for (int i = 0; i < p.c.rank; ++i) outputs *= static_cast<std::size_t>(p.c.dims[i]);
  std::vector<std::vector<double>> groups(outputs);
  for (std::vector<double>& group : groups) group.reserve(x.size() / outputs);
  for (std::size_t n = 0; n < x.size(); ++n) {
    std::size_t rest = n;
    std::size_t to = 0;
    std::size_t step = 1;
    for (int i = p.a.rank - 1; i >= 0; --i) {
      const std::size_t at = rest % static_cast<std::size_t>(p.a.dims[i]);
      rest /= static_cast<std::size_t>(p.a.dims[i]);
      if (p.c.dims[i] != 1) to += at * step;
      step *= static_cast<std::size_t>(p.c.dims[i]);
    }
    groups[to].push_back(x[n]);
  }
  return groups;
}

bool beats(double fresh, double kept, bool least, bool nan_wins) {
  if (std::isnan(fresh) || std::isnan(kept)) {
    return nan_wins ? std::isnan(fresh) && !std::isnan(kept) : std::isnan(kept) && !std::isnan(fresh);
  }
  return least ? fresh < kept : fresh > kept;
}

struct Folded {
  double value;
  double slack;
  std::int64_t place;
};

Folded fold_group(const reduce::Problem& p, const std::vector<double>& group, bool integers) {
  const gpudnnDataType_t type = p.a.type;
  const double u = unit_roundoff(compute_type(type));
  const auto n = static_cast<double>(group.size());
  double sum = 0, sizes = 0, squares = 0, product = 1;
  std::size_t best = 0;
  const bool least = p.op == GPUDNN_REDUCE_TENSOR_MIN;
  const auto seen = [&](double x) { return p.op == GPUDNN_REDUCE_TENSOR_AMAX ? std::fabs(x) : x; };
  for (std::size_t i = 0; i < group.size(); ++i) {
    const double x = group[i];
    sum += x;
    sizes += std::fabs(x);
    squares += x * x;
    product *= p.op == GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS && x == 0 ? 1 : x;
    if (beats(seen(x), seen(group[best]), least, p.nan == GPUDNN_PROPAGATE_NAN)) best = i;
  }
  const double bound = integers ? 0 : sum_bound(type, n);
  switch (p.op) {
    case GPUDNN_REDUCE_TENSOR_ADD:
      return {sum, bound * sizes, 0};
    case GPUDNN_REDUCE_TENSOR_AVG:
      return {sum / n, bound * sizes / n + u * std::fabs(sum / n), 0};
    case GPUDNN_REDUCE_TENSOR_NORM1:
      return {sizes, bound * sizes, 0};
    case GPUDNN_REDUCE_TENSOR_NORM2:
      return {std::sqrt(squares), (bound / 2 + 2 * u) * std::sqrt(squares), 0};
    case GPUDNN_REDUCE_TENSOR_MUL:
    case GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
      // The worst case: a rounding for each factor; and what underflows on the way.
      return {product, integers ? 0 : 1.01 * n * u * std::fabs(product) + 1e-37, 0};
    default:
      return {seen(group[best]), 0, static_cast<std::int64_t>(best)};
  }
}

bool is_exact(gpudnnReduceTensorOp_t op) { return op != GPUDNN_REDUCE_TENSOR_AVG && op != GPUDNN_REDUCE_TENSOR_NORM2; }

Wanted naive_reduce(const ReduceCase& c, const Values& values) {
  const reduce::Problem& p = c.problem;
  const double u = unit_roundoff(compute_type(p.a.type));
  Wanted wanted;
  const auto groups = groups_of(p, values.x);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Folded folded = fold_group(p, groups[i], c.integers);
    const double kept = c.beta != 0 ? c.beta * values.out[i] : 0;
    const double value = c.alpha * folded.value + kept;
    const double combining =
        c.integers && is_exact(p.op) ? 0 : 2 * u * (std::fabs(c.alpha * folded.value) + std::fabs(kept));
    wanted.expected.value.push_back(value);
    wanted.expected.slack.push_back(std::fabs(c.alpha) * folded.slack + combining);
    wanted.places.push_back(folded.place);
  }
  return wanted;
}

Values make_reduce_values(const ReduceCase& c) {
  const reduce::Problem& p = c.problem;
  Random random(c.seed);
  Values values;
  const bool product = p.op == GPUDNN_REDUCE_TENSOR_MUL || p.op == GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS;
  const bool extremum =
      p.op == GPUDNN_REDUCE_TENSOR_MIN || p.op == GPUDNN_REDUCE_TENSOR_MAX || p.op == GPUDNN_REDUCE_TENSOR_AMAX;
  const double nan_share = extremum && is_floating(p.a.type) ? random.pick({0.0, 0.0, 0.02, 0.6, 1.0}) : 0;
  std::int64_t count = 1;
  for (int i = 0; i < p.a.rank; ++i) count *= p.a.dims[i];
  const std::int64_t low = p.a.type == GPUDNN_DATA_UINT8 ? 0 : -4;
  for (std::int64_t i = 0; i < count; ++i) {
    double x = 0;
    if (product) {
      // Signs, some zeros, and so few twos that no partial product leaves the types' range.
      x = random.chance(0.002) ? 0 : random.chance(0.004) ? 2 : random.chance(0.5) ? 1 : -1;
      if (p.a.type == GPUDNN_DATA_UINT8) x = std::fabs(x);
      if (!c.integers) x = round_to_type(x * (1 + 0.01 * random.uniform()), p.a.type);
    } else {
      x = c.integers ? static_cast<double>(random.between(low, 4)) : round_to_type(random.normal(), p.a.type);
    }
    values.x.push_back(random.chance(nan_share) ? std::numeric_limits<double>::quiet_NaN() : x);
  }
  if (c.beta != 0) {
    std::int64_t outputs = 1;
    for (int i = 0; i < p.c.rank; ++i) outputs *= p.c.dims[i];
    for (std::int64_t i = 0; i < outputs; ++i) values.out.push_back(static_cast<double>(random.between(0, 4)));
  }
  return values;
}

std::string check_reduce(const ReduceCase& c, Space space, bool misaligned) {
  const Values values = make_reduce_values(c);
  const Wanted wanted = naive_reduce(c, values);
  const Answer answer = run_reduce(Backend::at_hand(), c, values, space, misaligned);
  std::string wrong = judge(c.problem.c, answer.outcome, wanted.expected);
  if (!wrong.empty() || !reduce::has_indices(c.problem)) return wrong;
  for (std::size_t i = 0; i < wanted.places.size(); ++i) {
    if (answer.places[i] != wanted.places[i]) {
      return "index " + std::to_string(i) + " is " + std::to_string(answer.places[i]) + " instead of " +
             std::to_string(wanted.places[i]);
    }
  }
  return {};
}

// --- the problems --------------------------------------------------------------------------------------------------

void random_types(Random& random, ReduceCase* c) {
  reduce::Problem& p = c->problem;
  p.a.type =
      random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16,
                   GPUDNN_DATA_DOUBLE, GPUDNN_DATA_INT8, GPUDNN_DATA_UINT8, GPUDNN_DATA_INT32});
  p.c.type = p.a.type;
  if (!is_floating(p.a.type)) {
    c->integers = true;
    p.c.type = random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_INT32});
    if (p.c.type == GPUDNN_DATA_INT32) {
      p.op = random.pick({GPUDNN_REDUCE_TENSOR_ADD, GPUDNN_REDUCE_TENSOR_MIN, GPUDNN_REDUCE_TENSOR_AMAX});
      c->alpha = random.pick({1.0, -2.0});
      c->beta = random.pick({0.0, 1.0});
    }
  } else if (p.a.type != GPUDNN_DATA_DOUBLE && random.chance(0.2)) {
    p.c.type = random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16});
  }
  p.compute = p.a.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
}

ReduceCase random_reduce(Random& random) {
  ReduceCase c{};
  reduce::Problem& p = c.problem;
  p.op = static_cast<gpudnnReduceTensorOp_t>(random.between(0, 8));
  p.nan = random.pick({GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN});
  c.alpha = random.pick({1.0, 1.0, 0.5, -2.0});
  c.beta = random.pick({0.0, 0.0, 0.25, 1.0});
  c.integers = random.chance(0.6);
  c.seed = random.bits() >> 16;
  random_types(random, &c);
  std::int64_t count = 0;
  do {
    p.a.rank = static_cast<std::int32_t>(random.pick<int>({1, 2, 3, 4, 4, 4, 5, 8}));
    count = 1;
    for (int i = 0; i < p.a.rank; ++i) {
      const bool large = random.chance(p.a.rank < 5 ? 0.3 : 0.05);
      p.a.dims[i] = large ? random.pick<std::int64_t>({8, 16, 24, 32, 56, 64, 100, 1000, 4096}) : random.between(1, 7);
      count *= p.a.dims[i];
    }
  } while (count > 40000);
  p.c.rank = p.a.rank;
  for (int i = 0; i < p.a.rank; ++i) p.c.dims[i] = random.chance(0.5) ? 1 : p.a.dims[i];
  set_random_layout(random, &p.a);
  set_random_layout(random, &p.c);
  if (random.chance(0.5)) {
    p.indices = GPUDNN_REDUCE_TENSOR_FLATTENED_INDICES;
    p.index_type = static_cast<gpudnnIndicesType_t>(random.between(0, 3));
    if (p.index_type == GPUDNN_8BIT_INDICES && reduce::reduced_count(p) > 256) p.index_type = GPUDNN_16BIT_INDICES;
  }
  return c;
}

ReduceCase reduce_case(const char* line) { return case_of(parsed(line, reduce::from_text)); }

void expect_literal(const char* line, const std::vector<double>& x, const std::vector<double>& literal,
                    const std::vector<std::int64_t>& places = {}) {
  const ReduceCase c = reduce_case(line);
  Values values;
  values.x = x;
  const Answer answer = run_reduce(Backend::at_hand(), c, values);
  ASSERT_EQ(answer.outcome.status, GPUDNN_STATUS_SUCCESS) << line << answer.outcome.text;
  EXPECT_EQ(answer.outcome.values, literal) << line;
  EXPECT_EQ(answer.places, places) << line;
  EXPECT_EQ(naive_reduce(c, values).expected.value, literal) << line << ": the oracle is wrong";
}

TEST(Reduce, EveryOperationByHand) {
  const std::vector<double> x = {3, -4, 0, 2, 2, -2};
  expect_literal("reduce add f32 nchw 2x3 c:2x1", x, {-1, 2});
  expect_literal("reduce add f32 nchw 2x3 c:1x3", x, {5, -2, -2});
  expect_literal("reduce mul f32 nchw 2x3 c:1x1", x, {0});
  expect_literal("reduce mul_no_zeros f32 nchw 2x3 c:2x1", x, {-12, -8});
  expect_literal("reduce min f32 nchw 2x3 c:2x1 idx=32", x, {-4, -2}, {1, 2});
  expect_literal("reduce max f32 nchw 2x3 c:2x1 idx=8", x, {3, 2}, {0, 0});
  expect_literal("reduce amax f32 nchw 2x3 c:2x1 idx=64", x, {4, 2}, {1, 0});
  expect_literal("reduce avg f64 nchw 2x3 c:1x3", x, {2.5, -1, -1});
  expect_literal("reduce norm1 f16 nchw 2x3 c:2x1", x, {7, 6});
  expect_literal("reduce norm2 f32 nchw 2x2 c:1x2", {3, 5, 4, 12}, {5, 13});
  expect_literal("reduce max f32 nchw 2x3 c:2x3", x, x);
}

TEST(Reduce, IndicesCountRowByRowOverTheReducedDimensions) {
  // The maximum 9 stands at h 1, w 0 of channel 0 and at h 0, w 1 of channel 1; over c and w of each h.
  const std::vector<double> x = {0, 1, 9, 2, 3, 9, 4, 5};
  expect_literal("reduce max f32 nchw n1c2h2w2 c:n1c1h2w1 idx=32", x, {9, 9}, {3, 0});
  expect_literal("reduce max f32 nhwc n1c2h2w2 c:n1c1h2w1 idx=32", x, {9, 9}, {3, 0});
  expect_literal("reduce max f32 nhwc n1c2h2w2 c:n1c1h1w1 idx=16", x, {9}, {2});
}

TEST(Reduce, NansWinOrArePassedOver) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Values values;
  values.x = {1, nan, 5, nan};
  Answer answer = run_reduce(Backend::at_hand(), reduce_case("reduce max f32 nchw 4 c:1 idx=32"), values);
  EXPECT_EQ(answer.outcome.values[0], 5);
  EXPECT_EQ(answer.places[0], 2);
  answer = run_reduce(Backend::at_hand(), reduce_case("reduce min f32 nchw 4 c:1 idx=32 nan"), values);
  EXPECT_TRUE(std::isnan(answer.outcome.values[0]));
  EXPECT_EQ(answer.places[0], 1);
}

TEST(Reduce, RandomProblems) {
  sweep(900, random_reduce, [](const ReduceCase& c, int i) {
    const Space space = i % 4 == 1 ? Space::none : i % 4 == 2 ? Space::half : Space::exact;
    return check_reduce(c, space, i % 5 == 4);
  });
}

TEST(Reduce, HandPickedProblems) {
  constexpr std::size_t kWays = kFileVariants * 6;
  std::size_t way = 0;
  for (ReduceCase c : cases_from_file<reduce::Problem>("reduce/edges.txt", reduce::from_text)) {
    if (!is_floating(c.problem.a.type)) c.integers = true;
    if (!is_floating(c.problem.c.type)) c.beta = 0;  // whole numbers stay whole
    for (const Space space : {Space::exact, Space::none, Space::half}) {
      for (const bool misaligned : {false, true}) {
        const std::size_t number = way++;
        if (!runs_in_variant(number / kWays, number % kWays, kWays)) continue;
        EXPECT_EQ(check_reduce(c, space, misaligned), "") << describe(c) << (misaligned ? " misaligned" : "");
      }
    }
  }
}

TEST(Reduce, TextsReadBack) {
  for (const char* line :
       {"reduce avg f16 nhwc n2c8h3w5 c:n1c8h1w1 c:strides=80,10,1,1 ctype=f32",
        "reduce max i8 nchw n3c4w5 c:n1c4w1 ctype=f32 nan idx=64", "reduce add f16 nchw n2c8h3w5 c:n1c8h1w1 acc=f16"}) {
    EXPECT_EQ(reduce::to_text(reduce_case(line).problem), line);
  }
}

TEST(Reduce, WhatMakesNoSenseIsRefused) {
  const gpudnnHandle_t handle = Backend::at_hand().handle();
  const auto status = [&](const char* line) {
    const reduce::Problem p = reduce_case(line).problem;
    const ReduceDescriptor reduction(p);
    const TensorDescriptor a(p.a);
    const TensorDescriptor c(p.c);
    std::size_t bytes = 0;
    const gpudnnStatus_t result = gpudnnGetReductionWorkspaceSize(handle, reduction, a, c, &bytes);
    (void)take_error_text();
    return result;
  };
  EXPECT_EQ(status("reduce add f32 nchw 2x3 c:2x2"), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(status("reduce add f32 nchw 2x3 c:2x1x1"), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(status("reduce add f64 nchw 2x3 c:2x1 acc=f32"), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  EXPECT_EQ(status("reduce add f64 nchw 2x3 c:2x1 ctype=f32"), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  EXPECT_EQ(status("reduce max f32 nchw 300 c:1 idx=8"), GPUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status("reduce max f32 nchw 256 c:1 idx=8"), GPUDNN_STATUS_SUCCESS);
}

}  // namespace
}  // namespace gpudnn::test
