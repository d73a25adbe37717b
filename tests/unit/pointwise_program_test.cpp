// Pointwise programs without a device: the text, the checks, the steps that kernels run, and the functions by hand.
//
// Longer than most files: one set of cases is judged as reference, as steps and as staged steps.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "host/pointwise.hpp"
#include "kernels/tile/fp8.hpp"
#include "kernels/tile/pointwise_math.cuh"
#include "kernels/tile/program.cuh"
#include "ops/any_type.hpp"
#include "ops/pointwise/loops.hpp"
#include "ops/pointwise/lower.hpp"
#include "support/pointwise.hpp"
#include "support/sweep.hpp"

#ifdef GPUDNN_WITH_CUDA
#include "kernels/pointwise/staged_steps.hpp"
#endif

namespace gpudnn::test {
namespace {

using pointwise::Op;
using pointwise::op_name;
using pointwise::Operand;
using pointwise::Problem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

double value_of(Op op, double x, double b = 0, std::initializer_list<double> parameters = {}, bool drops_nan = false) {
  tile::PointwiseParams<double> params;
  if (tile::is_relu(op)) params.p[1] = kInfinity;
  std::copy(parameters.begin(), parameters.end(), params.p);
  params.drops_nan = drops_nan;
  return tile::pointwise::evaluate(op, x, b, 0.0, params);
}

TEST(PointwiseMath, OneOperandByHand) {
  EXPECT_EQ(value_of(Op::identity, -2.5), -2.5);
  EXPECT_EQ(value_of(Op::abs, -2.5), 2.5);
  EXPECT_EQ(value_of(Op::ceil, -2.5), -2);
  EXPECT_EQ(value_of(Op::floor, -2.5), -3);
  EXPECT_EQ(value_of(Op::neg, -2.5), 2.5);
  EXPECT_EQ(value_of(Op::reciprocal, 4), 0.25);
  EXPECT_EQ(value_of(Op::rsqrt, 4), 0.5);
  EXPECT_EQ(value_of(Op::sqrt, 9), 3);
  EXPECT_EQ(value_of(Op::logical_not, 0), 1);
  EXPECT_EQ(value_of(Op::logical_not, 2), 0);
  EXPECT_NEAR(value_of(Op::cos, 1), 0.5403023058681398, 1e-15);
  EXPECT_NEAR(value_of(Op::sin, 1), 0.8414709848078965, 1e-15);
  EXPECT_NEAR(value_of(Op::tan, 1), 1.5574077246549023, 1e-15);
  EXPECT_NEAR(value_of(Op::erf, 0.5), 0.5204998778130465, 1e-15);
  EXPECT_NEAR(value_of(Op::exp, 1), 2.718281828459045, 1e-15);
  EXPECT_NEAR(value_of(Op::log, 2), 0.6931471805599453, 1e-15);
  EXPECT_NEAR(value_of(Op::tanh, 0.5), 0.46211715726000975, 1e-15);
  EXPECT_NEAR(value_of(Op::sigmoid, 0.5), 0.6224593312018546, 1e-15);
  EXPECT_NEAR(value_of(Op::gelu, 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(value_of(Op::gelu_tanh, 1), 0.8411919906082768, 1e-12);
  EXPECT_NEAR(value_of(Op::swish, 1, 0, {1}), 0.7310585786300049, 1e-15);
  EXPECT_NEAR(value_of(Op::swish, 1, 0, {2}), 0.8807970779778823, 1e-15);
  EXPECT_NEAR(value_of(Op::softplus, 1, 0, {1}), 1.3132616875182228, 1e-15);
  EXPECT_NEAR(value_of(Op::softplus, 1, 0, {2}), 1.0634640055214863, 1e-15);
  EXPECT_NEAR(value_of(Op::elu, -1, 0, {2}), -1.2642411176571153, 1e-15);
  EXPECT_EQ(value_of(Op::elu, 3, 0, {2}), 3);
}

TEST(PointwiseMath, ReluByHand) {
  EXPECT_EQ(value_of(Op::relu, -3), 0);
  EXPECT_EQ(value_of(Op::relu, 3), 3);
  EXPECT_EQ(value_of(Op::relu, 8, 0, {0, 6, 0}), 6);
  EXPECT_EQ(value_of(Op::relu, -4, 0, {0, kInfinity, 0.25}), -1);
  EXPECT_EQ(value_of(Op::relu, -2, 0, {1, kInfinity, 0.5}), -0.5);
  EXPECT_EQ(value_of(Op::relu, -kInfinity), 0) << "0 times infinity is no number";
  EXPECT_TRUE(std::isnan(value_of(Op::relu, kNan)));
  EXPECT_EQ(value_of(Op::relu, kNan, 0, {0, 6, 0}, true), 0);
  EXPECT_EQ(value_of(Op::relu_bwd, 3, 5), 5);
  EXPECT_EQ(value_of(Op::relu_bwd, -3, 5), 0);
  EXPECT_EQ(value_of(Op::relu_bwd, -3, 5, {0, 6, 0.5}), 2.5);
  EXPECT_EQ(value_of(Op::relu_bwd, 7, 5, {0, 6, 0.5}), 0);
  EXPECT_EQ(value_of(Op::relu_bwd, -3, kInfinity), 0);
}

TEST(PointwiseMath, TwoOperandsByHand) {
  EXPECT_EQ(value_of(Op::add, 5, 3), 8);
  EXPECT_EQ(value_of(Op::add_square, 5, 3), 14);
  EXPECT_EQ(value_of(Op::div, 5, 4), 1.25);
  EXPECT_EQ(value_of(Op::max, 5, 3), 5);
  EXPECT_EQ(value_of(Op::min, 5, 3), 3);
  EXPECT_TRUE(std::isnan(value_of(Op::max, 5, kNan)) && std::isnan(value_of(Op::max, kNan, 5)));
  EXPECT_TRUE(std::isnan(value_of(Op::min, 5, kNan)) && std::isnan(value_of(Op::min, kNan, 5)));
  EXPECT_EQ(value_of(Op::mod, -5, 3), -2);
  EXPECT_EQ(value_of(Op::mul, 5, 3), 15);
  EXPECT_EQ(value_of(Op::pow, 5, 3), 125);
  EXPECT_EQ(value_of(Op::sub, 5, 3), 2);
  EXPECT_NEAR(value_of(Op::atan2, 1, -1), 2.356194490192345, 1e-15);
  const double results[][3] = {{0, 1, 0}, {1, 0, 1}, {0, 0, 1}, {0, 1, 1}, {1, 0, 0}, {1, 1, 0}};
  for (int i = 0; i < 6; ++i) {
    const auto op = static_cast<Op>(static_cast<int>(Op::cmp_eq) + i);
    EXPECT_EQ(value_of(op, 2, 3), results[i][0]) << op_name(op);
    EXPECT_EQ(value_of(op, 3, 3), results[i][1]) << op_name(op);
    EXPECT_EQ(value_of(op, 4, 3), results[i][2]) << op_name(op);
    EXPECT_EQ(value_of(op, kNan, 3), op == Op::cmp_ne ? 1 : 0) << op_name(op);
  }
  EXPECT_EQ(value_of(Op::logical_and, 2, 3), 1);
  EXPECT_EQ(value_of(Op::logical_and, 2, 0), 0);
  EXPECT_EQ(value_of(Op::logical_or, 0, 3), 1);
  EXPECT_EQ(value_of(Op::logical_or, 0, 0), 0);
  tile::PointwiseParams<double> none;
  EXPECT_EQ(tile::pointwise::evaluate(Op::select, 5.0, 3.0, 1.0, none), 5);
  EXPECT_EQ(tile::pointwise::evaluate(Op::select, 5.0, 3.0, 0.0, none), 3);
}

// Each gradient against the difference quotient of its function.
TEST(PointwiseMath, GradientsAreSlopes) {
  const std::pair<Op, Op> pairs[] = {{Op::tanh, Op::tanh_bwd},         {Op::sigmoid, Op::sigmoid_bwd},
                                     {Op::elu, Op::elu_bwd},           {Op::gelu, Op::gelu_bwd},
                                     {Op::softplus, Op::softplus_bwd}, {Op::swish, Op::swish_bwd},
                                     {Op::relu, Op::relu_bwd},         {Op::gelu_tanh, Op::gelu_tanh_bwd}};
  for (const auto& [forward, backward] : pairs) {
    const bool has_parameter = tile::pointwise_parameters(forward) == 1;
    for (double x = -4.05; x < 4.1; x += 0.3) {
      const auto f = [&, op = forward](double at) {
        return has_parameter ? value_of(op, at, 0, {1.5}) : value_of(op, at);
      };
      const double step = 1e-5;
      const double slope = (f(x + step) - f(x - step)) / (2 * step);
      const double gradient = has_parameter ? value_of(backward, x, 2, {1.5}) : value_of(backward, x, 2);
      EXPECT_NEAR(gradient, 2 * slope, 1e-8) << op_name(backward) << " at " << x;
    }
  }
  for (const auto& [forward, backward] :
       {std::pair(Op::tanh, Op::tanh_bwd_y), std::pair(Op::sigmoid, Op::sigmoid_bwd_y),
        std::pair(Op::elu, Op::elu_bwd_y), std::pair(Op::relu, Op::relu_bwd_y)}) {
    const Op from_x = backward == Op::tanh_bwd_y      ? Op::tanh_bwd
                      : backward == Op::sigmoid_bwd_y ? Op::sigmoid_bwd
                      : backward == Op::elu_bwd_y     ? Op::elu_bwd
                                                      : Op::relu_bwd;
    for (const double x : {-2.0, -0.5, 0.75, 3.0}) {
      const bool is_elu = forward == Op::elu;
      const double y = is_elu ? value_of(forward, x, 0, {1.5}) : value_of(forward, x);
      EXPECT_NEAR(is_elu ? value_of(backward, y, 3, {1.5}) : value_of(backward, y, 3),
                  is_elu ? value_of(from_x, x, 3, {1.5}) : value_of(from_x, x, 3), 1e-14)
          << op_name(backward);
    }
  }
}

TEST(PointwiseMath, LimitsAtInfinity) {
  for (const Op op : {Op::gelu, Op::gelu_tanh}) {
    EXPECT_EQ(value_of(op, -kInfinity), 0) << op_name(op);
    EXPECT_EQ(value_of(op, kInfinity), kInfinity) << op_name(op);
  }
  EXPECT_EQ(value_of(Op::swish, -kInfinity, 0, {1}), 0);
  EXPECT_EQ(value_of(Op::softplus, 1000, 0, {1}), 1000);
  EXPECT_EQ(value_of(Op::softplus, -kInfinity, 0, {1}), 0);
  for (const Op op : {Op::gelu_bwd, Op::gelu_tanh_bwd}) {
    EXPECT_EQ(value_of(op, -kInfinity, 2), 0) << op_name(op);
    EXPECT_EQ(value_of(op, kInfinity, 2), 2) << op_name(op);
    EXPECT_EQ(value_of(op, 1e30, 2), 2) << op_name(op);
  }
  EXPECT_EQ(value_of(Op::swish_bwd, -kInfinity, 2, {1}), 0);
  EXPECT_EQ(value_of(Op::swish_bwd, kInfinity, 2, {1}), 2);
  EXPECT_EQ(value_of(Op::tanh_bwd, kInfinity, 2), 0);
  EXPECT_EQ(value_of(Op::sigmoid_bwd, -kInfinity, 2), 0);
}

TEST(Fp8, EveryNumberReadsBack) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    const float e4m3 = tile::float_of_e4m3(byte);
    if (e4m3 == e4m3) {
      EXPECT_EQ(tile::e4m3_of_float(e4m3), byte);
    }
    EXPECT_EQ(e4m3 != e4m3, (bits & 0x7f) == 0x7f);
    const float e5m2 = tile::float_of_e5m2(byte);
    if (std::isfinite(e5m2)) {
      EXPECT_EQ(tile::e5m2_of_float(e5m2), byte);
    }
    EXPECT_EQ(std::isfinite(e5m2), (bits & 0x7f) < 0x7c);
  }
  EXPECT_EQ(tile::float_of_e4m3(0x7e), 448.0f);
  EXPECT_EQ(tile::float_of_e4m3(0x01), 0x1p-9f);
  EXPECT_EQ(tile::float_of_e5m2(0x7b), 57344.0f);
  EXPECT_EQ(tile::float_of_e5m2(0x01), 0x1p-16f);
}

// Between two neighbours: the nearer one, the even one where they are as near.
TEST(Fp8, RoundsToNearestEven) {
  for (int bits = 0; bits < 0x7e; ++bits) {
    const float low = tile::float_of_e4m3(static_cast<std::uint8_t>(bits));
    const float high = tile::float_of_e4m3(static_cast<std::uint8_t>(bits + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(tile::e4m3_of_float(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(tile::e4m3_of_float(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(tile::e4m3_of_float(std::nextafter(middle, 1e9f)), bits + 1);
    EXPECT_EQ(tile::e4m3_of_float(-middle), 0x80 | (bits % 2 == 0 ? bits : bits + 1));
  }
  EXPECT_EQ(tile::e4m3_of_float(1e9f), 0x7e);
  EXPECT_EQ(tile::e5m2_of_float(-std::numeric_limits<float>::infinity()), 0xfb);
  EXPECT_EQ(tile::e4m3_of_float(std::nanf("")) & 0x7f, 0x7f);
}

TEST(Pointwise, ProblemsReadBack) {
  sweep(
      2000, [](Random& random) { return random_pointwise(random, false); },
      [](const PointwiseCase& c, int) -> std::string {
        const std::string text = to_text(c.problem);
        std::string why;
        const auto parsed = pointwise::from_text(text, &why);
        if (!parsed) return why;
        if (to_text(*parsed) != text) return "reads back as " + to_text(*parsed);
        if (!(parsed->program == c.problem.program)) return "the program differs";
        if (hash_of(*parsed) != hash_of(*pointwise::from_text(text, &why))) return "the hash differs";
        return validate(*parsed) == GPUDNN_STATUS_SUCCESS ? "" : take_error_text();
      });
}

TEST(Pointwise, TextsThatAreRefused) {
  for (const char* line :
       {"pointwise", "pointwise n1c", "pointwise 8x8 i1=f32", "pointwise 8x8 i0=f99", "pointwise 8x8 i0=f32 r0=add(i0)",
        "pointwise 8x8 i0=f32 r0=nothing(i0)", "pointwise 8x8 i0=f32 r0=relu(i0)",
        "pointwise 8x8 i0=f32 r0=relu(i0;1,2)", "pointwise 8x8 i0=f32 r0=neg(q0)", "pointwise 8x8 i0=f32 o0=i0",
        "pointwise 8x8 i0=f32 o0=what(i0):f32:1x8", "pointwise 8x8 acc=f16 i0=f32",
        "pointwise 8x8 i0=f32 r0=neg(i0):f77", "pointwise 8x8 x"}) {
    std::string why;
    EXPECT_FALSE(pointwise::from_text(line, &why)) << line;
    EXPECT_FALSE(why.empty()) << line;
  }
}

TEST(Pointwise, ProblemsThatAreRefused) {
  const std::pair<const char*, const char*> lines[] = {
      {"pointwise 8x8 i0=f32 r0=neg(r0) o0=r0:f32", "earlier instruction"},
      {"pointwise 8x8 i0=f32 r0=neg(i3) o0=r0:f32", "has 1 loads"},
      {"pointwise 8x8 i0=f32 r0=neg(i0)", "0 stores"},
      {"pointwise 8x8 i0=f32:4x8 o0=i0:f32", "i0"},
      {"pointwise 8x8 i0=f64 o0=i0:f32", "must compute in f64"},
      {"pointwise 8x8 i0=i4 o0=i0:f32", "data type i4"},
      {"pointwise 8x8 i0=f32 o0=i0:f32:1x8", "no reduction"},
      {"pointwise 8x8 i0=index5 o0=i0:f32", "axis 5"},
      {"pointwise 8x8 i0=f32 o0=r0:f32", "does not have"},
      {"pointwise 8x8 i0=f32 o0=i0:f32:strides=1,1", "share addresses"},
      {"pointwise 8x8 i0=f32 r0=softplus(i0;0) o0=r0:f32", "beta 0"},
  };
  for (const auto& [line, reason] : lines) {
    std::string why;
    const auto problem = pointwise::from_text(line, &why);
    ASSERT_TRUE(problem) << line << ": " << why;
    EXPECT_NE(validate(*problem), GPUDNN_STATUS_SUCCESS) << line;
    const std::string text = take_error_text();
    EXPECT_NE(text.find(reason), std::string::npos) << line << ": " << text;
  }
}

// What kernels do with elements, on the host.
template <class C>
struct HostContext {
  static constexpr int E = 4;
  const Problem& problem;
  const PointwiseData& data;
  PointwiseOutcome* outcome;
  const pointwise::Loops& loops;
  std::int64_t first;
  C temps[tile::kProgramTemps][E] = {};

  [[nodiscard]] std::int64_t offset(const std::int64_t* strides, int element) const {
    std::int64_t rest = first + element;
    std::int64_t offset = 0;
    for (int i = loops.rank - 1; i >= 0; --i) {
      offset += rest % loops.dims[i] * strides[i];
      rest /= loops.dims[i];
    }
    return offset;
  }
  void fetch(int input, C (&b)[E]) {
    for (int i = 0; i < E; ++i) {
      const std::int64_t at = offset(loops.load_strides[input], i);
      const bool is_index = problem.program.load_kind[input] == pointwise::LoadKind::index;
      b[i] = static_cast<C>(is_index ? static_cast<double>(at)
                                     : host::load_element(problem.loads[input].type,
                                                          data.loads[static_cast<std::size_t>(input)].data(), at));
    }
  }
  void keep(int temp, const C (&a)[E]) { std::copy(a, a + E, temps[temp]); }
  void recall(int temp, C (&b)[E]) { std::copy(temps[temp], temps[temp] + E, b); }
  void round(tile::AnyType type, C (&a)[E]) {
    for (C& value : a) {
      for (int t = 0; t <= GPUDNN_DATA_FP8_E5M2; ++t) {
        const auto data_type = static_cast<DataType>(t);
        if (pointwise::is_program_type(data_type) && any_type(data_type) == type) {
          value = static_cast<C>(host::as_type(data_type, static_cast<double>(value)));
          break;
        }
      }
    }
  }
  void store(int output, const C (&a)[E]) {
    for (int i = 0; i < E; ++i) {
      host::store_element(problem.stores[output].type, outcome->stores[static_cast<std::size_t>(output)].data(),
                          offset(loops.store_strides[output], i), static_cast<double>(a[i]));
    }
  }
};

template <class C>
void run_steps(const PointwiseCase& c, const PointwiseData& data, const pointwise::Lowered& lowered,
               PointwiseOutcome* outcome) {
  tile::ProgramCode<C> code;
  bind(lowered, data.scalars.data(), &code);
  const pointwise::Loops loops = loops_of(c.problem);
  std::int64_t count = 1;
  for (int i = 0; i < loops.rank; ++i) count *= loops.dims[i];
  for (std::int64_t first = 0; first < count; first += HostContext<C>::E) {
    HostContext<C> context{c.problem, data, outcome, loops, std::min(first, std::max<std::int64_t>(count - 4, 0))};
    C a[HostContext<C>::E] = {};
    tile::run_program(code, a, context);
  }
}

// Where outputs hold other numbers than expected; empty if nowhere.
std::string difference(const Problem& problem, const PointwiseOutcome& expected, const PointwiseOutcome& outcome) {
  for (int o = 0; o < problem.program.stores; ++o) {
    const auto want = elements_of(problem, expected, o);
    const auto have = elements_of(problem, outcome, o);
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (want[i] == have[i] || (want[i] != want[i] && have[i] != have[i])) continue;
      return "output " + std::to_string(o) + " element " + std::to_string(i) + " is " + std::to_string(have[i]) +
             ", not " + std::to_string(want[i]);
    }
  }
  return "";
}

// A case with its data, what the reference makes of them, poisoned outputs, and the steps of its program.
struct LoweredCase {
  explicit LoweredCase(const PointwiseCase& c)
      : data(make_data(c)), expected(run_reference(c.problem, data)), outcome(expected) {
    for (auto& bytes : outcome.stores) std::fill(bytes.begin(), bytes.end(), std::uint8_t{0xff});
    DataType types[pointwise::kMaxStores];
    for (int o = 0; o < c.problem.program.stores; ++o) types[o] = c.problem.stores[o].type;
    if (lower(c.problem.program, types, &lowered) != GPUDNN_STATUS_SUCCESS) why = take_error_text();
  }
  PointwiseData data;
  PointwiseOutcome expected, outcome;
  pointwise::Lowered lowered;
  std::string why;  // of a refusal
};

std::string check_steps(const PointwiseCase& c) {
  std::int64_t count = 1;
  for (int i = 0; i < c.problem.rank; ++i) count *= c.problem.dims[i];
  if (count < 4) return "";
  LoweredCase made(c);
  if (!made.why.empty()) return made.why;
  if (c.problem.program.compute == GPUDNN_DATA_DOUBLE) {
    run_steps<double>(c, made.data, made.lowered, &made.outcome);
  } else {
    run_steps<float>(c, made.data, made.lowered, &made.outcome);
  }
  return difference(c.problem, made.expected, made.outcome);
}

// The steps that kernels run give the bits of the evaluation instruction by instruction.
TEST(Pointwise, StepsEqualInstructions) {
  sweep(
      600, [](Random& random) { return random_pointwise(random, false); },
      [](const PointwiseCase& c, int) { return check_steps(c); });
}

#ifdef GPUDNN_WITH_CUDA
// Runs the steps of the kernel with staged operands, by the definition of their kinds.
template <class Context, int E = Context::E>
void run_staged_steps(const kernels::StagedCode& code, Context& context) {
  using kernels::StagedOp;
  float a[E] = {};
  float b[E] = {};
  std::uint32_t predicate = 0;
  const auto apply = [&](int op, float number, float first = 0) {
    const tile::ProgramStep<float> as = {static_cast<std::uint32_t>(op), {first, 0, number}};
    float operand[E];  // which a step may change
    std::copy(b, b + E, operand);
    tile::apply_step(as, a, operand, &predicate);
  };
  bool is_gone[tile::kProgramInputs] = {};  // the next tile's packs may have come in its place
  const auto fetch = [&](int input, float(&to)[E]) {
    context.fetch(input, to);
    if (is_gone[input]) std::fill(to, to + E, std::numeric_limits<float>::quiet_NaN());
  };
  const auto forget = [&] { std::fill(b, b + E, std::numeric_limits<float>::quiet_NaN()); };
  for (const kernels::StagedStep* step = code.step; step->word != 0; ++step) {
    const int slot = staged_slot(*step);
    const float number = step->number;
    switch (staged_op(*step)) {
      case StagedOp::load_f16:
      case StagedOp::load_bf16:
      case StagedOp::load_f32:
        fetch(slot, a);
        break;
      case StagedOp::load_temp:
        context.recall(slot, a);
        break;
      case StagedOp::fetch_f16:
      case StagedOp::fetch_bf16:
      case StagedOp::fetch_f32:
      case StagedOp::fetch_spread:
        fetch(slot, b);
        break;
      case StagedOp::fetch_temp:
        context.recall(slot, b);
        break;
      case StagedOp::take:
        std::copy(b, b + E, a);
        break;
      case StagedOp::add_input:
        fetch(slot, b);
        [[fallthrough]];
      case StagedOp::add:
        apply(tile::kStepAdd, 0);
        break;
      case StagedOp::sub_input:
        fetch(slot, b);
        [[fallthrough]];
      case StagedOp::sub:
        apply(static_cast<int>(Op::sub), 0);
        break;
      case StagedOp::sub_from_input:
        fetch(slot, b);
        [[fallthrough]];
      case StagedOp::sub_from:
        apply(tile::kStepSubFrom, 0);
        break;
      case StagedOp::mul_input:
        fetch(slot, b);
        [[fallthrough]];
      case StagedOp::mul:
        apply(tile::kStepMul, 0);
        break;
      case StagedOp::max_input:
        fetch(slot, b);
        [[fallthrough]];
      case StagedOp::max:
        apply(static_cast<int>(Op::max), 0);
        break;
      case StagedOp::min_input:
        fetch(slot, b);
        [[fallthrough]];
      case StagedOp::min:
        apply(static_cast<int>(Op::min), 0);
        break;
      case StagedOp::add_number:
        apply(tile::kStepAddImmediate, number);
        break;
      case StagedOp::mul_number:
        apply(tile::kStepMulImmediate, number);
        break;
      case StagedOp::max_number:
        apply(tile::kStepMaxImmediate, number);
        break;
      case StagedOp::min_number:
        apply(tile::kStepMinImmediate, number);
        break;
      case StagedOp::mul_add_numbers:
        apply(tile::kStepMulImmediate, number);
        apply(tile::kStepAddImmediate, step->p[0]);
        break;
      case StagedOp::add_mul_numbers:
        apply(tile::kStepAddImmediate, number);
        apply(tile::kStepMulImmediate, step->p[0]);
        break;
      case StagedOp::clamp:
        apply(tile::kStepMaxImmediate, number);
        apply(tile::kStepMinImmediate, step->p[0]);
        break;
      case StagedOp::set_number:
        std::fill(a, a + E, number);
        break;
      case StagedOp::square: {
        float operand[E];
        std::copy(a, a + E, operand);
        const tile::ProgramStep<float> as = {static_cast<std::uint32_t>(tile::kStepMul), {}};
        tile::apply_step(as, a, operand, &predicate);
        break;
      }
      case StagedOp::abs:
        apply(static_cast<int>(Op::abs), 0);
        break;
      case StagedOp::neg:
        apply(static_cast<int>(Op::neg), 0);
        break;
      case StagedOp::round_f16:
        context.round(tile::AnyType::f16, a);
        break;
      case StagedOp::round_bf16:
        context.round(tile::AnyType::bf16, a);
        break;
      case StagedOp::keep:
        context.keep(slot, a);
        break;
      case StagedOp::store:
        context.store(slot, a);
        forget();
        break;
      case StagedOp::stage:
        is_gone[slot] = true;
        break;
      case StagedOp::set_operand:
        std::fill(b, b + E, number);
        break;
      case StagedOp::copy_operand:
        std::copy(a, a + E, b);
        break;
      case StagedOp::any: {
        const tile::ProgramStep<float> as = {step->word, {step->p[0], step->p[1], number}};
        tile::apply_step(as, a, b, &predicate);
        forget();
        break;
      }
      default: {
        constexpr int kOps[] = {
            static_cast<int>(Op::exp),        static_cast<int>(Op::tanh), static_cast<int>(Op::sigmoid),
            static_cast<int>(Op::swish),      static_cast<int>(Op::gelu), static_cast<int>(Op::gelu_tanh),
            static_cast<int>(Op::reciprocal), static_cast<int>(Op::sqrt), static_cast<int>(Op::rsqrt),
            static_cast<int>(Op::div),        tile::kStepDivFrom};
        const int op = static_cast<int>(staged_op(*step)) - static_cast<int>(StagedOp::exp);
        apply(kOps[op], number, step->p[0]);
        break;
      }
    }
  }
}

// The form in which the kernel would take a load.
kernels::StagedForm form_of(const Problem& problem, int load) {
  const TensorGeometry& tensor = problem.loads[load];
  if (problem.program.load_kind[load] != pointwise::LoadKind::tensor) return kernels::StagedForm::f32;
  if (tensor.dims[problem.rank - 1] == 1) return kernels::StagedForm::spread;
  return tensor.type == GPUDNN_DATA_HALF       ? kernels::StagedForm::f16
         : tensor.type == GPUDNN_DATA_BFLOAT16 ? kernels::StagedForm::bf16
                                               : kernels::StagedForm::f32;
}

TEST(Pointwise, StagedStepsEqualTheMachines) {
  int taken = 0;
  int without_any = 0;
  sweep(
      600, [](Random& random) { return random_chain(random); },
      [&](const PointwiseCase& c, int) -> std::string {
        LoweredCase made(c);
        if (!made.why.empty()) return made.why;
        tile::ProgramCode<float> code;
        bind(made.lowered, made.data.scalars.data(), &code);
        kernels::StagedForm forms[pointwise::kMaxLoads];
        for (int t = 0; t < c.problem.program.loads; ++t) forms[t] = form_of(c.problem, t);
        kernels::StagedCode staged;
        if (!staged_code(code, forms, forms[c.problem.program.loads - 1], 0, &staged)) return "";
        ++taken;
        without_any += staged.any ? 0 : 1;
        const pointwise::Loops loops = loops_of(c.problem);
        std::int64_t count = 1;
        for (int i = 0; i < loops.rank; ++i) count *= loops.dims[i];
        for (std::int64_t first = 0; first < count; first += HostContext<float>::E) {
          HostContext<float> context{c.problem, made.data, &made.outcome, loops,
                                     std::min(first, count - HostContext<float>::E)};
          run_staged_steps(staged, context);
        }
        return difference(c.problem, made.expected, made.outcome);
      });
  EXPECT_GT(taken, session_cases(600) / 2);
  EXPECT_GT(without_any, session_cases(600) / 8);
}
#endif

TEST(Pointwise, LoopsAreMerged) {
  std::string why;
  const auto problem = pointwise::from_text(
      "pointwise n8c16h32w32 i0=f16:nhwc i1=f16:1x16x1x1 i2=index1 r0=add(i0,i1) o0=r0:f16:nhwc", &why);
  ASSERT_TRUE(problem) << why;
  const pointwise::Loops loops = loops_of(*problem);
  EXPECT_EQ(loops.rank, 2);
  EXPECT_EQ(loops.dims[0], 8 * 32 * 32);
  EXPECT_EQ(loops.dims[1], 16);
  EXPECT_EQ(loops.load_strides[1][0], 0);
  EXPECT_EQ(loops.load_strides[2][1], 1);
}

TEST(Pointwise, StepsAreFew) {
  std::string why;
  const auto problem = pointwise::from_text(
      "pointwise 8x64 i0=f16 i1=f16:1x64 i2=f16 r0=add(i0,i1) r1=gelu(r0) r2=mul(r1,0.5) r3=add(r2,i2) o0=r3:f16",
      &why);
  ASSERT_TRUE(problem) << why;
  const DataType type = GPUDNN_DATA_HALF;
  pointwise::Lowered lowered;
  ASSERT_EQ(lower(problem->program, &type, &lowered), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(lowered.code.steps, 5) << "one load, and one step for each instruction";
  EXPECT_EQ(lowered.code.temps, 0);
}

TEST(Pointwise, BenchmarksAreLegal) {
  int problems = 0;
  for (const char* const name : {"pointwise", "pointwise_chains"}) {
    std::ifstream file(case_folder() + "/../../benchmarks/cases/" + name + ".txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      ++problems;
      std::string why;
      const auto problem = pointwise::from_text(line, &why);
      ASSERT_TRUE(problem) << line << ": " << why;
      EXPECT_EQ(validate(*problem), GPUDNN_STATUS_SUCCESS) << line << ": " << take_error_text();
    }
  }
  EXPECT_GE(problems, 50);
}

}  // namespace
}  // namespace gpudnn::test
