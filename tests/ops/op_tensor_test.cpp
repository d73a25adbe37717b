// The two-operand tensor operation through the public interface, against nested loops.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "ops/op_tensor/problem.hpp"
#include "support/by_hand.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

using OpTensorCase = Case<op_tensor::Problem>;  // alpha is alpha1

struct OpTensorDescriptor
    : Descriptor<gpudnnOpTensorDescriptor_t, gpudnnCreateOpTensorDescriptor, gpudnnDestroyOpTensorDescriptor> {
  explicit OpTensorDescriptor(const op_tensor::Problem& p) {
    GPUDNN_TEST_REQUIRE(gpudnnSetOpTensorDescriptor(*this, p.op, p.compute, p.nan));
  }
};

// x is a, w is b. `in_place`: c is a.
Outcome run_op(const OpTensorCase& c, const Values& values, bool misaligned = false, bool in_place = false) {
  const Backend& backend = Backend::at_hand();
  const op_tensor::Problem& p = c.problem;
  const bool binary = op_tensor::has_b(p.op);
  const OpTensorDescriptor op(p);
  const TensorDescriptor a_desc(p.a);
  const TensorDescriptor c_desc(p.c);
  std::optional<TensorDescriptor> b_desc;
  std::optional<DeviceTensor> b;
  if (binary) {
    b_desc.emplace(p.b);
    b.emplace(backend, p.b, &values.w, misaligned);
  }
  const DeviceTensor a(backend, p.a, &values.x, misaligned);
  const DeviceTensor out(backend, p.c, values.out.empty() ? nullptr : &values.out, misaligned);
  Outcome outcome;
  outcome.status =
      gpudnnOpTensor(backend.handle(), op, Scalar(c.alpha, p.c.type), a_desc, a.data(), Scalar(c.alpha2, p.c.type),
                     binary ? static_cast<gpudnnTensorDescriptor_t>(*b_desc) : nullptr, binary ? b->data() : nullptr,
                     Scalar(c.beta, p.c.type), in_place ? a_desc : c_desc, in_place ? a.data() : out.data());
  if (outcome.status != GPUDNN_STATUS_SUCCESS) outcome.text = take_error_text();
  outcome.values = in_place ? a.values() : out.values();
  outcome.damage = in_place ? a.damage_outside_elements() : out.damage_outside_elements() + a.damage_anywhere();
  if (binary) outcome.damage += b->damage_anywhere();
  return outcome;
}

double apply(const op_tensor::Problem& p, double x, double y) {
  switch (p.op) {
    case GPUDNN_OP_TENSOR_ADD:
      return x + y;
    case GPUDNN_OP_TENSOR_MUL:
      return x * y;
    case GPUDNN_OP_TENSOR_SQRT:
      return std::sqrt(x);
    case GPUDNN_OP_TENSOR_NOT:
      return 1 - x;
    default:
      if (std::isnan(x) || std::isnan(y)) {
        if (p.nan == GPUDNN_PROPAGATE_NAN) return std::numeric_limits<double>::quiet_NaN();
        return std::isnan(x) ? y : x;
      }
      return p.op == GPUDNN_OP_TENSOR_MIN ? std::min(x, y) : std::max(x, y);
  }
}

Expected naive_op(const OpTensorCase& c, const Values& values) {
  const op_tensor::Problem& p = c.problem;
  const double u = unit_roundoff(compute_type(p.c.type));
  Expected expected;
  for (std::size_t i = 0; i < values.x.size(); ++i) {
    std::size_t rest = i;
    std::size_t from = 0;
    std::size_t step = 1;
    for (int d = p.c.rank - 1; op_tensor::has_b(p.op) && d >= 0; --d) {
      const std::size_t at = rest % static_cast<std::size_t>(p.c.dims[d]);
      rest /= static_cast<std::size_t>(p.c.dims[d]);
      if (p.b.dims[d] != 1) from += at * step;
      step *= static_cast<std::size_t>(p.b.dims[d]);
    }
    const double x = c.alpha * values.x[i];
    const double y = op_tensor::has_b(p.op) ? c.alpha2 * values.w[from] : 0;
    const double kept = c.beta != 0 ? c.beta * values.out[i] : 0;
    const double value = apply(p, x, y);
    // A rounding for each of the scaled operands, the operation, beta's product and the sum.
    const double size = p.op == GPUDNN_OP_TENSOR_ADD || p.op == GPUDNN_OP_TENSOR_NOT ? 1 + std::fabs(x) + std::fabs(y)
                                                                                     : std::fabs(value);
    const bool exact = c.integers && p.op != GPUDNN_OP_TENSOR_SQRT;
    expected.value.push_back(value + kept);
    expected.slack.push_back(exact ? 0 : 4 * u * (size + std::fabs(kept)));
  }
  return expected;
}

std::size_t count_of(const TensorGeometry& tensor) {
  std::size_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= static_cast<std::size_t>(tensor.dims[i]);
  return count;
}

Values make_op_values(const OpTensorCase& c) {
  const op_tensor::Problem& p = c.problem;
  Random random(c.seed);
  const auto make = [&](const TensorGeometry& tensor) {
    std::vector<double> values(count_of(tensor));
    const std::int64_t low = tensor.type == GPUDNN_DATA_UINT8 || p.op == GPUDNN_OP_TENSOR_SQRT ? 0 : -5;
    for (double& value : values) {
      value = c.integers ? static_cast<double>(random.between(low, 5)) : round_to_type(random.normal(), tensor.type);
      if (p.op == GPUDNN_OP_TENSOR_SQRT) value = std::fabs(value);
    }
    return values;
  };
  Values values;
  values.x = make(p.a);
  if (op_tensor::has_b(p.op)) values.w = make(p.b);
  if (c.beta != 0) values.out = make(p.c);
  const bool extremum = p.op == GPUDNN_OP_TENSOR_MIN || p.op == GPUDNN_OP_TENSOR_MAX;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (!extremum || !is_floating(p.c.type)) return values;
  for (double& x : values.x) x = is_floating(p.a.type) && random.chance(0.05) ? nan : x;
  for (double& y : values.w) y = is_floating(p.b.type) && random.chance(0.05) ? nan : y;
  return values;
}

std::string check_op(const OpTensorCase& c, bool misaligned) {
  const Values values = make_op_values(c);
  return judge(c.problem.c, run_op(c, values, misaligned), naive_op(c, values));
}

OpTensorCase random_op(Random& random) {
  OpTensorCase c{};
  op_tensor::Problem& p = c.problem;
  p.op = static_cast<gpudnnOpTensorOp_t>(random.between(0, 5));
  p.nan = random.pick({GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN});
  p.c = random_tensor(random).problem.c;
  c.integers = random.chance(0.6);
  c.alpha = random.pick({1.0, 2.0, 0.5});
  c.alpha2 = random.pick({1.0, -1.0, 3.0});
  c.beta = random.pick({0.0, 0.0, 1.0, 0.25});
  c.seed = random.bits() >> 16;
  p.compute = p.c.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  p.a = p.b = p.c;
  if (p.c.type != GPUDNN_DATA_DOUBLE && random.chance(0.4)) {
    const auto other = [&] {
      return random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_INT8,
                          GPUDNN_DATA_UINT8, GPUDNN_DATA_INT32});
    };
    p.a.type = p.b.type = other();
    if (random.chance(0.3)) p.b.type = other();
    if (!is_floating(p.a.type) || !is_floating(p.b.type)) c.integers = true;
    if (c.integers && p.op != GPUDNN_OP_TENSOR_SQRT && random.chance(0.3)) {
      p.c.type = GPUDNN_DATA_INT32;
      c.alpha = 2;
      c.beta = random.pick({0.0, 1.0});
    }
  }
  if (random.chance(0.6)) {
    for (int i = 0; i < p.b.rank; ++i) p.b.dims[i] = random.chance(0.5) ? 1 : p.b.dims[i];
  }
  set_random_layout(random, &p.a);
  set_random_layout(random, &p.b);
  if (!op_tensor::has_b(p.op)) p.b = {};
  return c;
}

OpTensorCase op_case(const char* line) {
  OpTensorCase c = case_of(parsed(line, op_tensor::from_text));
  c.alpha2 = 1;
  return c;
}

TEST(OpTensor, EveryOperationByHand) {
  Values values;
  values.x = {1, 4, 9, -1};
  values.w = {2, 3};
  const auto expect = [&](const char* line, const std::vector<double>& literal) {
    const OpTensorCase c = op_case(line);
    const Outcome outcome = run_op(c, values);
    ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.text;
    EXPECT_EQ(outcome.values, literal) << line;
    EXPECT_EQ(naive_op(c, values).value, literal) << line << ": the oracle is wrong";
  };
  expect("optensor add f32 nchw n1c2h1w2 b:n1c2h1w1", {3, 6, 12, 2});
  expect("optensor mul f16 nchw n1c2h1w2 b:n1c1h1w2", {2, 12, 18, -3});
  expect("optensor min f32 nchw n1c2h1w2 b:n1c2h1w1", {1, 2, 3, -1});
  expect("optensor max f64 nchw n1c2h1w2 b:n1c2h1w1", {2, 4, 9, 3});
  expect("optensor not f32 nchw n1c2h1w2", {0, -3, -8, 2});
  values.x[3] = 16;
  expect("optensor sqrt f32 nchw n1c2h1w2", {1, 2, 3, 4});
}

TEST(OpTensor, WorksInPlace) {
  OpTensorCase c = op_case("optensor add f16 nhwc n2c16h3w5 b:n1c16h1w1");
  const Values values = make_op_values(c);
  const Outcome outcome = run_op(c, values, false, true);
  EXPECT_EQ(judge(c.problem.c, outcome, naive_op(c, values)), "");
}

TEST(OpTensor, RandomProblems) {
  sweep(600, random_op, [](const OpTensorCase& c, int i) { return check_op(c, i % 5 == 4); });
}

TEST(OpTensor, HandPickedProblems) {
  for (OpTensorCase c : cases_from_file<op_tensor::Problem>("op_tensor/edges.txt", op_tensor::from_text)) {
    c.alpha2 = 1;
    if (c.problem.op == GPUDNN_OP_TENSOR_SQRT) c.alpha = std::fabs(c.alpha);
    if (!is_floating(c.problem.c.type)) c.beta = 0;
    if (!is_floating(c.problem.a.type) || !is_floating(c.problem.c.type)) c.integers = true;
    for (const bool misaligned : {false, true}) EXPECT_EQ(check_op(c, misaligned), "") << describe(c);
  }
}

TEST(OpTensor, RoundsIntegersToTheNearestAndHoldsThemInRange) {
  OpTensorCase c = op_case("optensor add i8 nchw 6 b:1 atype=f32 btype=f32");
  Values values;
  values.x = {0.5, 1.5, -2.5, 300, -300, std::numeric_limits<double>::quiet_NaN()};
  values.w = {0};
  EXPECT_EQ(run_op(c, values).values, (std::vector<double>{0, 2, -2, 127, -128, 0}));
}

TEST(OpTensor, RefusesWhatDoesNotFit) {
  Values values;
  values.x = std::vector<double>(6);
  values.w = std::vector<double>(4);
  EXPECT_EQ(run_op(op_case("optensor add f32 nchw 2x3 b:2x2"), values).status, GPUDNN_STATUS_BAD_PARAM);
  values.w = std::vector<double>(3);
  EXPECT_EQ(run_op(op_case("optensor add f32 nchw 2x3 b:1x3 acc=f64"), values).status,
            GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
}

}  // namespace
}  // namespace gpudnn::test
