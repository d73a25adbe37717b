// Pointwise programs on the backend at hand: against the host's evaluation, and against themselves node by node.
// SPDX-License-Identifier: Apache-2.0
#include "host/pointwise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/device.hpp"
#include "kernels/epilogue_only.hpp"
#include "kernels/tile/pointwise_math.cuh"
#include "ops/any_type.hpp"
#include "ops/pointwise/epilogue.hpp"
#include "ops/pointwise/lower.hpp"
#include "support/pointwise.hpp"
#include "support/sweep.hpp"

#ifdef GPUDNN_WITH_CUDA
#include "kernels/pointwise/match_compiled.hpp"
#endif

namespace gpudnn::test {
namespace {

using pointwise::Builder;
using pointwise::Instruction;
using pointwise::LoadKind;
using pointwise::Op;
using pointwise::op_name;
using pointwise::Operand;
using pointwise::OperandKind;
using pointwise::Problem;

// Empty if the elements of every store are the same numbers, NaN equal to NaN.
std::string difference(const Problem& problem, const PointwiseOutcome& expected, const PointwiseOutcome& outcome) {
  if (outcome.status != GPUDNN_STATUS_SUCCESS || !outcome.damage.empty()) return outcome.damage;
  for (int o = 0; o < problem.program.stores; ++o) {
    const auto want = elements_of(problem, expected, o);
    const auto have = elements_of(problem, outcome, o);
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (want[i] == have[i] || (std::isnan(want[i]) && std::isnan(have[i]))) continue;
      char text[160];
      std::snprintf(text, sizeof text, "output %d element %zu of %zu is %.9g, expected %.9g", o, i, want.size(),
                    have[i], want[i]);
      return text;
    }
  }
  return "";
}

std::string check_exact(const PointwiseCase& c) {
  const PointwiseData data = make_data(c);
  return difference(c.problem, run_reference(c.problem, data), run_at_hand(c.problem, data, c.misaligned));
}

// Operations that both compute exactly: the same bits.
TEST(PointwiseKernels, RandomProgramsEqualTheHost) {
  sweep(
      800, [](Random& random) { return random_pointwise(random, true); },
      [](const PointwiseCase& c, int) { return check_exact(c); });
}

TEST(PointwiseKernels, CasesEqualTheHost) {
  const auto lines = case_lines("pointwise/edges.txt");
  ASSERT_FALSE(lines.empty());
  for (const std::string& line : lines) {
    PointwiseCase c;
    std::string why;
    const auto problem = pointwise::from_text(line, &why);
    ASSERT_TRUE(problem) << line << ": " << why;
    ASSERT_EQ(validate(*problem), GPUDNN_STATUS_SUCCESS) << line << ": " << take_error_text();
    c.problem = *problem;
    for (const bool misaligned : {false, true}) {
      c.misaligned = misaligned;
      EXPECT_EQ(check_exact(c), "") << describe(c);
    }
  }
}

// The program's instructions one by one, each a problem of its own, with every result in a tensor of its type.
PointwiseOutcome run_node_by_node(const PointwiseCase& c, const PointwiseData& data) {
  const Problem& whole = c.problem;
  std::vector<std::vector<unsigned char>> results;
  std::vector<TensorGeometry> geometries;
  const auto run_one = [&](Instruction instruction, const TensorGeometry& output) {
    Problem one;
    PointwiseData its;
    Builder builder(whole.program.compute);
    one.rank = whole.rank;
    std::copy_n(whole.dims, kMaxRank, one.dims);
    const auto add = [&](const Operand& operand) {
      if (operand.kind == OperandKind::constant || operand.kind == OperandKind::none) return operand;
      const int at = builder.program().loads;
      const bool is_load = operand.kind == OperandKind::load;
      its.scalars.push_back(is_load ? data.scalars[operand.index] : 0);
      its.loads.push_back(is_load ? data.loads[operand.index] : results[operand.index]);
      if (is_load && whole.program.load_kind[operand.index] == LoadKind::scalar) return builder.scalar();
      if (is_load && whole.program.load_kind[operand.index] == LoadKind::index) {
        return builder.index(whole.program.load_axis[operand.index]);
      }
      one.loads[at] = is_load ? whole.loads[operand.index] : geometries[operand.index];
      return builder.tensor();
    };
    instruction.x = add(instruction.x);
    instruction.b = add(instruction.b);
    instruction.t = add(instruction.t);
    (void)builder.store(builder.apply(instruction));
    one.program = builder.program();
    one.stores[0] = output;
    return run_at_hand(one, its, false);
  };
  PointwiseOutcome outcome;
  for (int i = 0; i < whole.program.instructions; ++i) {
    const TensorGeometry output = packed_tensor(whole.program.code[i].type, GPUDNN_TENSOR_NCHW, whole.rank, whole.dims);
    PointwiseOutcome one = run_one(whole.program.code[i], output);
    if (one.status != GPUDNN_STATUS_SUCCESS || !one.damage.empty()) return one;
    results.push_back(one.stores[0]);
    geometries.push_back(output);
  }
  for (int o = 0; o < whole.program.stores; ++o) {
    Instruction copy;
    copy.type = whole.program.compute;
    copy.x = whole.program.stored[o];
    PointwiseOutcome one = run_one(copy, whole.stores[o]);
    if (one.status != GPUDNN_STATUS_SUCCESS || !one.damage.empty()) return one;
    outcome.stores.push_back(one.stores[0]);
  }
  return outcome;
}

// Every operation: one kernel for the program gives the bits of one kernel for each instruction.
TEST(PointwiseKernels, ProgramsEqualTheirNodes) {
  sweep(
      250, [](Random& random) { return random_pointwise(random, false); },
      [](const PointwiseCase& c, int) -> std::string {
        const PointwiseData data = make_data(c);
        const PointwiseOutcome nodes = run_node_by_node(c, data);
        if (nodes.status != GPUDNN_STATUS_SUCCESS || !nodes.damage.empty()) return "by nodes: " + nodes.damage;
        return difference(c.problem, nodes, run_at_hand(c.problem, data, c.misaligned));
      });
}

// Chains that are interpreted in registers, likewise.
TEST(PointwiseKernels, ChainsEqualTheirNodes) {
  sweep(
      250, [](Random& random) { return random_chain(random); },
      [](const PointwiseCase& c, int) -> std::string {
        const PointwiseData data = make_data(c);
        const PointwiseOutcome nodes = run_node_by_node(c, data);
        if (nodes.status != GPUDNN_STATUS_SUCCESS || !nodes.damage.empty()) return "by nodes: " + nodes.damage;
        return difference(c.problem, nodes, run_at_hand(c.problem, data, false));
      });
}

std::vector<PointwiseCase> compiled_cases() {
  std::vector<PointwiseCase> cases;
  for (const std::string& line : case_lines("pointwise/compiled.txt")) {
    std::string why;
    const auto problem = pointwise::from_text(line, &why);
    EXPECT_TRUE(problem) << line << ": " << why;
    if (!problem) continue;
    cases.push_back({});
    cases.back().problem = *problem;
  }
  return cases;
}

// A program that is compiled gives the bits of one kernel for each of its instructions.
TEST(PointwiseKernels, CompiledProgramsEqualTheirNodes) {
  for (PointwiseCase& c : compiled_cases()) {
    for (const bool misaligned : {false, true}) {
      c.misaligned = misaligned;
      const PointwiseData data = make_data(c);
      const PointwiseOutcome nodes = run_node_by_node(c, data);
      ASSERT_EQ(nodes.status, GPUDNN_STATUS_SUCCESS) << describe(c);
      EXPECT_EQ(difference(c.problem, nodes, run_at_hand(c.problem, data, misaligned)), "") << describe(c);
    }
  }
}

#ifdef GPUDNN_WITH_CUDA
// Each kernel of a compiled program is what some case is lowered to: one that the lowering never makes would be dead.
TEST(PointwiseKernels, EachCompiledProgramIsReached) {
  namespace compiled = kernels::compiled;
  std::vector<int> cases_of(compiled::kInstanceCount);
  for (const PointwiseCase& c : compiled_cases()) {
    const Problem& p = c.problem;
    DataType types[pointwise::kMaxStores];
    for (int o = 0; o < p.program.stores; ++o) types[o] = p.stores[o].type;
    pointwise::Lowered lowered;
    ASSERT_EQ(lower(p.program, types, &lowered), GPUDNN_STATUS_SUCCESS) << take_error_text();
    const double scalars[pointwise::kMaxLoads] = {};
    tile::ProgramCode<float> code;
    bind(lowered, scalars, &code);
    const compiled::Match match = compiled::match(code);
    char in[compiled::kMaxInputs] = {};
    char out[compiled::kMaxOutputs] = {};
    for (int t = 0; t < match.inputs; ++t) {
      const bool is_index = p.program.load_kind[match.in[t]] == LoadKind::index;
      in[t] = compiled::letter_of(is_index ? tile::AnyType::f32 : any_type(p.loads[match.in[t]].type), is_index);
    }
    for (int t = 0; t < match.outputs; ++t) out[t] = compiled::letter_of(any_type(p.stores[match.out[t]].type), false);
    const bool odd = p.dims[p.rank - 1] % 8 != 0;
    const int instance = match.row < 0 ? -1 : compiled::instance_of(match.row, odd, in, out);
    if (instance >= 0) ++cases_of[static_cast<std::size_t>(instance)];
  }
  for (std::size_t i = 0; i < cases_of.size(); ++i) {
    const compiled::Instance& one = compiled::kInstances.all[i];
    EXPECT_GT(cases_of[i], 0) << "program " << one.row << " of " << std::string(one.in, one.in + compiled::kMaxInputs)
                              << (one.odd ? ", rows of no whole packs" : "");
  }
}
#endif

// Operations made of series, against the same function in double: 16 u of the value (pow 32 u), and 4 u for each term
// that cancels: |x| of gelu, |dy| (1 + |x|) of the gradients. u = 2^-24; for double, whose oracle has errors of the
// same size, 64 u with u = 2^-53.
double slack_of(Op op, bool wide, double value, double x, double b) {
  const double u = wide ? 0x1p-53 * 4 : 0x1p-24;
  double slack = 16 * u * std::fabs(value) + 0x1p-140;
  if (op == Op::pow) slack += 16 * u * std::fabs(value);
  if (op == Op::gelu || op == Op::gelu_tanh) slack += 4 * u * std::fabs(x);
  if (tile::pointwise_operands(op) == 2 && op >= Op::relu_bwd) slack += 8 * u * std::fabs(b) * (1 + std::fabs(x));
  return slack;
}

void check_accuracy(Op op, DataType compute) {
  const bool wide = compute == GPUDNN_DATA_DOUBLE;
  PointwiseCase c;
  c.problem.rank = 1;
  c.problem.dims[0] = 20000;
  Builder builder(compute);
  const TensorGeometry tensor = packed_tensor(compute, GPUDNN_TENSOR_NCHW, 1, c.problem.dims);
  c.problem.loads[0] = c.problem.loads[1] = c.problem.stores[0] = tensor;
  const Operand x = builder.tensor();
  const Operand b = builder.tensor();
  (void)builder.store(builder.apply(op, x, tile::pointwise_operands(op) > 1 ? b : Operand{}));
  c.problem.program = builder.program();
  Random random(static_cast<std::uint64_t>(op) + 99);
  PointwiseData data;
  data.scalars = {0, 0};
  const bool positive = op == Op::log || op == Op::rsqrt || op == Op::pow;
  std::vector<double> values[2];
  for (int t = 0; t < 2; ++t) {
    data.loads.emplace_back(static_cast<std::size_t>(20000 * (wide ? 8 : 4)));
    for (int i = 0; i < 20000; ++i) {
      double value = random.normal() * random.pick({0.01, 1.0, 3.0, 10.0});
      if (positive) value = std::fabs(value) + 1e-3;
      if (op == Op::pow && t == 1) value = random.normal() * 2;
      value = host::as_type(compute, value);
      values[t].push_back(value);
      host::store_element(compute, data.loads.back().data(), i, value);
    }
  }
  const PointwiseOutcome outcome = run_at_hand(c.problem, data, false);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.damage;
  const auto have = elements_of(c.problem, outcome, 0);
  tile::PointwiseParams<double> params;
  if (tile::pointwise_parameters(op) == 1) params.p[0] = 1;
  int wrong = 0;
  for (std::size_t i = 0; i < have.size() && wrong < 3; ++i) {
    const double want = tile::pointwise::evaluate(op, values[0][i], values[1][i], 0.0, params);
    const bool near = std::fabs(have[i] - want) <= slack_of(op, wide, want, values[0][i], values[1][i]);
    if (near || have[i] == want || (std::isnan(want) && std::isnan(have[i]))) continue;
    ++wrong;
    ADD_FAILURE() << op_name(op) << (wide ? " f64" : " f32") << " of " << values[0][i] << ", " << values[1][i] << " is "
                  << have[i] << ", expected " << want;
  }
}

TEST(PointwiseKernels, EveryOperationIsAccurate) {
  for (int op = 0; op < tile::kPointwiseOps; ++op) {
    if (static_cast<Op>(op) == Op::select) continue;
    if (is_exact(static_cast<Op>(op)) && tile::pointwise_parameters(static_cast<Op>(op)) > 0) continue;
    check_accuracy(static_cast<Op>(op), GPUDNN_DATA_FLOAT);
    check_accuracy(static_cast<Op>(op), GPUDNN_DATA_DOUBLE);
  }
}

// Sums of n elements in another order than the oracle's, which are in double: min(n, 400) roundings of partial sums,
// each below the sum of the magnitudes; a product n roundings of itself. Extrema are exact.
std::string check_reduction(const PointwiseCase& c, bool with_workspace) {
  const PointwiseData data = make_data(c);
  const PointwiseOutcome outcome = run_at_hand(c.problem, data, c.misaligned, with_workspace);
  if (outcome.status != GPUDNN_STATUS_SUCCESS || !outcome.damage.empty()) return outcome.damage;
  const PointwiseOutcome expected = run_reference(c.problem, data);
  Problem magnitudes = c.problem;
  for (int o = 0; o < kMaxRank && o < pointwise::kMaxStores; ++o) {
    if (magnitudes.reductions[o] != pointwise::kNoReduction) magnitudes.reductions[o] = GPUDNN_REDUCE_TENSOR_NORM1;
  }
  const PointwiseOutcome sizes = run_reference(magnitudes, data);
  const double u = c.problem.program.compute == GPUDNN_DATA_DOUBLE ? 0x1p-53 : 0x1p-24;
  for (int o = 0; o < c.problem.program.stores; ++o) {
    const auto want = elements_of(c.problem, expected, o);
    const auto have = elements_of(c.problem, outcome, o);
    const auto size = elements_of(c.problem, sizes, o);
    const auto folded = static_cast<double>(element_count(
                            packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, c.problem.rank, c.problem.dims))) /
                        static_cast<double>(want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      double slack = 0;
      switch (c.problem.reductions[o]) {
        case GPUDNN_REDUCE_TENSOR_ADD:
        case GPUDNN_REDUCE_TENSOR_NORM1:
          slack = std::min(folded, 400.0) * u * size[i];
          break;
        case GPUDNN_REDUCE_TENSOR_AVG:
          slack = (std::min(folded, 400.0) + 1) * u * size[i] / folded;
          break;
        case GPUDNN_REDUCE_TENSOR_MUL:
          slack = (folded + 1) * 2 * u * std::fabs(want[i]) + 0x1p-126;
          break;
        case GPUDNN_REDUCE_TENSOR_NORM2:
          slack = (std::min(folded, 400.0) + 3) * u * std::fabs(want[i]);
          break;
        default:
          break;
      }
      if (want[i] == have[i] || std::fabs(want[i] - have[i]) <= slack) continue;
      // Beyond the range of the type partial results may be infinite where the oracle's are not.
      if (!std::isfinite(have[i]) && (!std::isfinite(want[i]) || std::fabs(size[i]) > 1e37)) continue;
      if (c.problem.reductions[o] == GPUDNN_REDUCE_TENSOR_MUL && std::fabs(size[i]) > 1e3) continue;
      char text[160];
      std::snprintf(text, sizeof text, "output %d element %zu is %.9g, expected %.9g within %.3g", o, i, have[i],
                    want[i], slack);
      return text;
    }
  }
  return "";
}

TEST(PointwiseKernels, RandomReductionsEqualTheHost) {
  sweep(
      400, [](Random& random) { return random_reduction(random); },
      [](const PointwiseCase& c, int i) { return check_reduction(c, i % 4 != 0); });
}

// Long enough to be split, by rows, by columns and whole.
TEST(PointwiseKernels, LongReductionsEqualTheHost) {
  for (const char* line :
       {"pointwise 2x300000 i0=f32 r0=mul(i0,i0) o0=add(r0):f32:2x1", "pointwise 300000x3 i0=bf16 o0=add(i0):f32:1x3",
        "pointwise 40000x24 i0=f16 i1=f16 r0=relu_bwd(i0,i1;0,inf,0) o0=r0:f16 o1=add(r0):f32:1x24 o2=amax(r0):f32:1x1",
        "pointwise 700001 i0=f32 o0=max(i0):f32:1 o1=norm2(i0):f32:1",
        "pointwise 5000x129 i0=f32 o0=avg(i0):f32:5000x1",
        "pointwise 9x50000 acc=f64 i0=f64 o0=norm1(i0):f64:1x1 o1=min(i0):f64:9x1"}) {
    PointwiseCase c;
    std::string why;
    const auto problem = pointwise::from_text(line, &why);
    ASSERT_TRUE(problem) << line << ": " << why;
    ASSERT_EQ(validate(*problem), GPUDNN_STATUS_SUCCESS) << take_error_text();
    c.problem = *problem;
    EXPECT_EQ(check_reduction(c, true), "") << line;
    EXPECT_EQ(check_reduction(c, false), "") << line;
  }
}

// Interpreted programs with more tiles than blocks: operands of the next tile come while this one is worked on, but for
// rows that are the same in all tiles.
TEST(PointwiseKernels, TilesBeyondTheBlocks) {
  if (!Backend::at_hand().is_cuda()) GTEST_SKIP() << "a matter of the device";
  const std::string steps = "r0=add(i0,i1) r1=mul(r0,0.125) r2=max(r1,-8) r3=sub(r2,i2) r4=mul(r3,r3) r5=mul(r4,i1) ";
  for (const std::string& line :
       {"pointwise 1100x4096 i0=bf16 i1=bf16:1x4096 i2=bf16 " + steps + "o0=r5:bf16",
        "pointwise 2300x2048 i0=f32 i1=f32:1x2048 i2=f32 " + steps + "o0=r5:f32",
        "pointwise 1101x4104 i0=f16 i1=f16:1x4104 i2=f16 " + steps + "o0=r5:f16",
        "pointwise 5003x1024 i0=f16 i1=f16:1x1024 i2=f16:5003x1 " + steps + "r6=reciprocal(r5) o0=r6:f16"}) {
    PointwiseCase c;
    std::string why;
    const auto problem = pointwise::from_text(line, &why);
    ASSERT_TRUE(problem) << line << ": " << why;
    ASSERT_EQ(validate(*problem), GPUDNN_STATUS_SUCCESS) << take_error_text();
    c.problem = *problem;
    EXPECT_EQ(check_exact(c), "") << line;
  }
}

// An output may be an input with the same places.
TEST(PointwiseKernels, WorksInPlace) {
  const Backend& backend = Backend::at_hand();
  std::string why;
  for (const char* line : {"pointwise 5000x64 i0=f16 i1=f16:1x64 r0=add(i0,i1) r1=mul(r0,i0) o0=r1:f16",
                           "pointwise 777x33 i0=f16 i1=f16:1x33 r0=add(i0,i1) r1=mul(r0,i0) o0=r1:f16"}) {
    PointwiseCase c;
    c.problem = *pointwise::from_text(line, &why);
    const PointwiseData data = make_data(c);
    GuardedBuffer x(backend, data.loads[0].size());
    GuardedBuffer b(backend, data.loads[1].size());
    x.write(data.loads[0].data(), data.loads[0].size());
    b.write(data.loads[1].data(), data.loads[1].size());
    pointwise::Args args;
    args.loads[0] = args.stores[0] = x.data();
    args.loads[1] = b.data();
    ASSERT_EQ(pointwise::run(backend.handle(), c.problem, args), GPUDNN_STATUS_SUCCESS) << take_error_text();
    PointwiseOutcome outcome;
    outcome.damage = x.damage();
    outcome.stores.emplace_back(x.bytes());
    x.read(outcome.stores[0].data(), x.bytes());
    EXPECT_EQ(difference(c.problem, run_reference(c.problem, data), outcome), "") << line;
  }
}

#ifdef GPUDNN_WITH_CUDA

// Load 0 is what a matrix kernel has in its accumulators; store 0 is what it stores itself.
std::string check_epilogue(const PointwiseCase& c) {
  const Backend& backend = Backend::at_hand();
  const Problem& problem = c.problem;
  const PointwiseData data = make_data(c);
  pointwise::Args args;
  std::vector<GuardedBuffer> loads;
  std::vector<GuardedBuffer> stores;
  for (std::size_t i = 0; i < data.loads.size(); ++i) {
    loads.emplace_back(backend, data.loads[i].size());
    if (!data.loads[i].empty()) loads.back().write(data.loads[i].data(), data.loads[i].size());
    args.loads[i] = loads.back().data();
    args.scalars[i] = data.scalars[i];
  }
  const PointwiseOutcome expected = run_reference(problem, data);
  for (const auto& bytes : expected.stores) {
    stores.emplace_back(backend, bytes.size());
    args.stores[stores.size() - 1] = stores.back().data();
  }
  EpilogueOnly kernel;
  kernel.accumulators = static_cast<const float*>(loads[0].data());
  kernel.out = static_cast<float*>(stores[0].data());
  kernel.batches = problem.rank == 3 ? static_cast<unsigned>(problem.dims[0]) : 1;
  kernel.rows = static_cast<unsigned>(problem.dims[problem.rank - 2]);
  kernel.columns = static_cast<unsigned>(problem.dims[problem.rank - 1]);
  if (make_epilogue(problem, 0, args, &kernel.program) != GPUDNN_STATUS_SUCCESS) return take_error_text();
  launch_epilogue_only(kernel, backend.handle()->stream);
  if (cuda::launch_status("the epilogue") != GPUDNN_STATUS_SUCCESS) return take_error_text();
  PointwiseOutcome outcome;
  for (const GuardedBuffer& store : stores) {
    outcome.stores.emplace_back(store.bytes());
    store.read(outcome.stores.back().data(), store.bytes());
    outcome.damage += store.damage();
  }
  return difference(problem, expected, outcome);
}

TEST(ProgramEpilogue, GivesTheBitsOfTheProgram) {
  GPUDNN_NEEDS_GPU();
  for (const char* line :
       {"pointwise 33x72 i0=f32 i1=f16:1x72 i2=bf16 r0=add(i0,i1) r1=relu(r0;0,inf,0) r2=add(r1,i2) o0=r2:f32",
        "pointwise 5x33x71 i0=f32 i1=f32:1x33x1 i2=f16:5x1x71 r0=mul(i0,i1) r1=max(r0,i2) r2=mul(r1,i0) o0=r2:f32",
        "pointwise 64x64 i0=f32 i1=index0 i2=index1 r0=ge(i1,i2) r1=mul(i0,0.125) r2=select(r1,-inf,r0) o0=r2:f32",
        "pointwise 3x16x40 i0=f32 i1=scalar r0=mul(i0,i1) r1=mul(r0,r0):bf16 r2=sub(r0,r1) o0=r2:f32 o1=r0:f16 "
        "o2=i0:f32",
        "pointwise 16x40 i0=f32 i1=f32:strides=1,16 r0=sub(i1,i0) o0=r0:f32 o1=r0:bf16:strides=1,16",
        "pointwise 16x40 i0=f32 i1=f32 r0=add(i0,1) r1=mul(i0,i1) r2=sub(r0,r1) r3=mul(r2,r0) r4=add(r3,i0) o0=i0:f32 "
        "o1=r4:f32"}) {
    PointwiseCase c;
    std::string why;
    const auto problem = pointwise::from_text(line, &why);
    ASSERT_TRUE(problem) << line << ": " << why;
    c.problem = *problem;
    EXPECT_EQ(check_epilogue(c), "") << line;
  }
}

#endif

}  // namespace
}  // namespace gpudnn::test
