// Random pointwise problems, their data, and runs of them.
// SPDX-License-Identifier: Apache-2.0
#include "support/pointwise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "host/pointwise.hpp"
#include "support/random_problems.hpp"

namespace gpudnn::test {
namespace {

using pointwise::Builder;
using pointwise::Instruction;
using pointwise::LoadKind;
using pointwise::Op;
using pointwise::Operand;
using pointwise::OperandKind;
using pointwise::Problem;

DataType random_type(Random& random, bool wide) {
  if (wide && random.chance(0.4)) return random.pick({GPUDNN_DATA_DOUBLE, GPUDNN_DATA_DOUBLE, GPUDNN_DATA_INT64});
  if (random.chance(0.7)) return random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16});
  return random.pick({GPUDNN_DATA_INT8, GPUDNN_DATA_UINT8, GPUDNN_DATA_INT32, GPUDNN_DATA_BOOLEAN, GPUDNN_DATA_FP8_E4M3,
                      GPUDNN_DATA_FP8_E5M2});
}

void random_dims(Random& random, Problem* problem) {
  while (true) {
    problem->rank = static_cast<int>(random.chance(0.8) ? random.between(1, 5) : random.between(6, 8));
    const bool narrow = random.chance(0.3);
    const bool packs = random.chance(0.6);
    std::int64_t count = 1;
    for (int i = 0; i < problem->rank; ++i) {
      problem->dims[i] = random.chance(0.15) ? 1 : random.between(1, narrow ? 5 : 40);
      count *= problem->dims[i];
    }
    const int fast = random.chance(0.7) || problem->rank < 2 ? problem->rank - 1 : 1;
    if (packs) count *= 8, problem->dims[fast] *= 8;
    if (count <= 12000) return;
  }
}

TensorGeometry random_load(Random& random, const Problem& problem, DataType type, bool alike) {
  TensorGeometry tensor = packed_tensor(type, GPUDNN_TENSOR_NCHW, problem.rank, problem.dims);
  if (random.chance(0.5)) {
    for (int i = 0; i < tensor.rank; ++i) {
      if (random.chance(0.5)) tensor.dims[i] = 1;
    }
  }
  set_packed_strides(&tensor, GPUDNN_TENSOR_NCHW);
  if (!alike) set_random_layout(random, &tensor);
  return tensor;
}

Operand random_operand(Random& random, const pointwise::Program& program) {
  if (random.chance(0.15)) return Operand::constant(random.pick({0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -0.25, 0.044715}));
  const int values = program.loads + program.instructions;
  // Mostly one of the last few values.
  int which = static_cast<int>(random.between(0, values - 1));
  if (random.chance(0.6)) which = std::max(which, values - 1 - static_cast<int>(random.between(0, 2)));
  return which < program.loads ? Operand::load(which) : Operand::result(which - program.loads);
}

Instruction random_instruction(Random& random, const pointwise::Program& program, bool exact_only) {
  Instruction instruction;
  do {
    instruction.op = static_cast<Op>(random.between(0, tile::kPointwiseOps - 1));
  } while (exact_only && !is_exact(instruction.op));
  instruction.type = program.compute;
  if (random.chance(0.3)) instruction.type = random_type(random, program.compute == GPUDNN_DATA_DOUBLE);
  instruction.x = random_operand(random, program);
  if (instruction.operands() > 1) instruction.b = random_operand(random, program);
  if (instruction.operands() > 2) instruction.t = random_operand(random, program);
  if (tile::is_relu(instruction.op)) {
    instruction.params.p[1] = random.pick({std::numeric_limits<double>::infinity(), 6.0});
    instruction.params.p[2] = random.pick({0.0, 0.0, 0.125});
    instruction.params.drops_nan = random.chance(0.2);
  } else if (tile::pointwise_parameters(instruction.op) > 0) {
    instruction.params.p[0] = random.pick({1.0, 0.5, 2.0});
  }
  return instruction;
}

std::vector<std::int64_t> places(const TensorGeometry& tensor) { return element_offsets(tensor); }

double random_value(Random& random, DataType type) {
  if (random.chance(0.03) && (is_floating(type) || type == GPUDNN_DATA_FP8_E5M2)) {
    return random.pick({0.0, -0.0, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN()});
  }
  if (type == GPUDNN_DATA_BOOLEAN) return random.chance(0.5) ? 1 : 0;
  if (type == GPUDNN_DATA_INT32 && random.chance(0.1)) return static_cast<double>(random.between(-2000000, 2000000));
  return random.normal() * (random.chance(0.1) ? 40 : 2);
}

std::size_t bytes_of(const TensorGeometry& tensor) {
  return static_cast<std::size_t>(element_span(tensor)) * static_cast<std::size_t>(data_type_bits(tensor.type) / 8);
}

}  // namespace

std::string describe(const PointwiseCase& c) {
  return to_text(c.problem) + " | seed=" + std::to_string(c.seed) + (c.misaligned ? " misaligned" : "");
}

bool is_exact(Op op) {
  switch (op) {
    case Op::cos:
    case Op::erf:
    case Op::exp:
    case Op::log:
    case Op::rsqrt:
    case Op::sin:
    case Op::tan:
    case Op::tanh:
    case Op::sigmoid:
    case Op::elu:
    case Op::gelu:
    case Op::softplus:
    case Op::swish:
    case Op::gelu_tanh:
    case Op::pow:
    case Op::atan2:
    case Op::tanh_bwd:
    case Op::sigmoid_bwd:
    case Op::elu_bwd:
    case Op::gelu_bwd:
    case Op::softplus_bwd:
    case Op::swish_bwd:
    case Op::gelu_tanh_bwd:
    case Op::tanh_bwd_y:
      return false;
    default:
      return true;
  }
}

PointwiseCase random_pointwise(Random& random, bool exact_only) {
  PointwiseCase c;
  Problem& problem = c.problem;
  random_dims(random, &problem);
  const bool wide = random.chance(0.15);
  const bool alike = random.chance(0.5);  // every tensor row-major
  Builder builder(wide ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT);
  const auto loads = static_cast<int>(random.chance(0.9) ? random.between(1, 5) : random.between(6, 12));
  const DataType usual = random_type(random, wide);
  for (int i = 0; i < loads; ++i) {
    const double kind = random.uniform();
    if (kind < 0.1) {
      (void)builder.scalar();
    } else if (kind < 0.2) {
      (void)builder.index(static_cast<int>(random.between(0, problem.rank - 1)));
    } else {
      problem.loads[i] = random_load(random, problem, random.chance(0.6) ? usual : random_type(random, wide), alike);
      (void)builder.tensor();
    }
  }
  const auto instructions = static_cast<int>(random.chance(0.9) ? random.between(1, 12)
                                                                : random.between(13, pointwise::kMaxInstructions / 2));
  for (int i = 0; i < instructions; ++i) {
    (void)builder.apply(random_instruction(random, builder.program(), exact_only));
  }
  const auto stores = static_cast<int>(random.chance(0.7) ? 1 : random.between(2, pointwise::kMaxStores));
  for (int i = 0; i < stores; ++i) {
    Operand value = Operand::result(instructions - 1);
    if (i > 0 || random.chance(0.1)) value = random_operand(random, builder.program());
    (void)builder.store(value);
    problem.stores[i] = packed_tensor(random.chance(0.6) ? usual : random_type(random, wide), GPUDNN_TENSOR_NCHW,
                                      problem.rank, problem.dims);
    if (!alike) set_random_layout(random, &problem.stores[i]);
  }
  problem.program = builder.program();
  c.seed = random.bits() >> 16;
  c.misaligned = random.chance(0.15);
  return c;
}

PointwiseCase random_chain(Random& random) {
  PointwiseCase c;
  Problem& problem = c.problem;
  problem.rank = static_cast<int>(random.between(1, 4));
  for (int i = 0; i < problem.rank; ++i) problem.dims[i] = random.between(1, 9);
  problem.dims[problem.rank - 1] *= 8 * random.between(1, problem.rank == 1 ? 300 : 12);
  const auto type = [&random] { return random.pick({GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_FLOAT}); };
  const DataType usual = type();
  Builder builder;
  const auto loads = static_cast<int>(random.between(1, 3));
  for (int i = 0; i < loads; ++i) {
    problem.loads[i] = random_load(random, problem, random.chance(0.8) ? usual : type(), true);
    (void)builder.tensor();
  }
  const auto instructions = static_cast<int>(random.between(1, 16));
  for (int i = 0; i < instructions; ++i) {
    Instruction instruction = random_instruction(random, builder.program(), false);
    if (random.chance(0.9)) {
      instruction.op = random.pick({Op::add, Op::add, Op::sub, Op::mul, Op::mul, Op::max, Op::min, Op::abs, Op::neg});
      instruction.params = {};
    }
    // Two operands at most of the last result, the loads and a number: the chain holds few values.
    const Operand last = i == 0 ? Operand::load(0) : Operand::result(i - 1);
    const auto other = [&] {
      if (random.chance(0.4)) return Operand::constant(random.pick({1.0, -1.0, 0.5, 0.125, 8.0}));
      return random.chance(0.2) ? last : Operand::load(static_cast<int>(random.between(0, loads - 1)));
    };
    instruction.x = last;
    if (instruction.operands() > 1) instruction.b = i > 2 && random.chance(0.1) ? Operand::result(i - 2) : other();
    if (instruction.operands() > 1 && random.chance(0.3)) std::swap(instruction.x, instruction.b);
    if (instruction.operands() > 2) instruction.t = other();
    instruction.type = random.chance(0.2) ? type() : GPUDNN_DATA_FLOAT;
    (void)builder.apply(instruction);
  }
  const int stores = random.chance(0.8) ? 1 : 2;
  for (int i = 0; i < stores; ++i) {
    (void)builder.store(Operand::result(i == 0 ? instructions - 1 : instructions / 2));
    problem.stores[i] =
        packed_tensor(random.chance(0.8) ? usual : type(), GPUDNN_TENSOR_NCHW, problem.rank, problem.dims);
  }
  problem.program = builder.program();
  c.seed = random.bits() >> 16;
  return c;
}

PointwiseCase random_reduction(Random& random) {
  PointwiseCase c = random_pointwise(random, true);
  Problem& problem = c.problem;
  const bool wide = problem.program.compute == GPUDNN_DATA_DOUBLE;
  const int reductions = std::min(problem.program.stores, static_cast<int>(random.between(1, 2)));
  for (int o = 0; o < reductions; ++o) {
    TensorGeometry& tensor = problem.stores[o];
    tensor.type = wide ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
    for (int i = 0; i < problem.rank; ++i) {
      if (random.chance(0.5)) tensor.dims[i] = 1;
    }
    set_packed_strides(&tensor, GPUDNN_TENSOR_NCHW);
    problem.reductions[o] =
        static_cast<std::int32_t>(random.between(GPUDNN_REDUCE_TENSOR_ADD, GPUDNN_REDUCE_TENSOR_NORM2));
  }
  return c;
}

PointwiseData make_data(const PointwiseCase& c) {
  const Problem& problem = c.problem;
  Random random(c.seed);
  PointwiseData data;
  for (int i = 0; i < problem.program.loads; ++i) {
    data.scalars.push_back(random.pick({0.5, -1.25, 3.0}));
    data.loads.emplace_back();
    if (problem.program.load_kind[i] != LoadKind::tensor) continue;
    const TensorGeometry& tensor = problem.loads[i];
    data.loads.back().assign(bytes_of(tensor), 0xff);
    for (const std::int64_t at : places(tensor)) {
      host::store_element(tensor.type, data.loads.back().data(), at, random_value(random, tensor.type));
    }
  }
  return data;
}

PointwiseOutcome run_reference(const Problem& problem, const PointwiseData& data) {
  PointwiseOutcome outcome;
  pointwise::Args args;
  for (int i = 0; i < problem.program.loads; ++i) {
    args.loads[i] = data.loads[static_cast<std::size_t>(i)].data();
    args.scalars[i] = data.scalars[static_cast<std::size_t>(i)];
  }
  outcome.stores.resize(static_cast<std::size_t>(problem.program.stores));
  for (int o = 0; o < problem.program.stores; ++o) {
    auto& bytes = outcome.stores[static_cast<std::size_t>(o)];
    bytes.assign(bytes_of(problem.stores[o]), 0xff);
    args.stores[o] = bytes.data();
  }
  host::pointwise(problem, args);
  return outcome;
}

namespace {

// What is wrong with a launch that was prepared, next to one that was not, whose results the stores hold.
std::string try_prepared(const Problem& problem, pointwise::Args args, std::vector<GuardedBuffer>* stores) {
  const Backend& backend = Backend::at_hand();
  std::shared_ptr<const pointwise::Prepared> prepared;
  if (pointwise::prepare(problem, *backend.handle()->device, &prepared) != GPUDNN_STATUS_SUCCESS)
    return "preparing: " + take_error_text();
  if (prepared == nullptr) return "";
  args.prepared = prepared.get();
  std::vector<std::vector<unsigned char>> expected;
  for (GuardedBuffer& store : *stores) {
    expected.emplace_back(store.bytes());
    store.read(expected.back().data(), store.bytes());
    const std::vector<unsigned char> poison(store.bytes(), 0xff);
    store.write(poison.data(), poison.size());
  }
  if (pointwise::run(backend.handle(), problem, args) != GPUDNN_STATUS_SUCCESS) return "prepared: " + take_error_text();
  for (std::size_t o = 0; o < stores->size(); ++o) {
    std::vector<unsigned char> found(expected[o].size());
    (*stores)[o].read(found.data(), found.size());
    if (found != expected[o]) return "a prepared launch gives other bits in output " + std::to_string(o);
  }
  return "";
}

}  // namespace

PointwiseOutcome run_at_hand(const Problem& problem, const PointwiseData& data, bool misaligned, bool with_workspace) {
  const Backend& backend = Backend::at_hand();
  const GuardedBuffer workspace(backend,
                                with_workspace ? pointwise::workspace_size(problem, *backend.handle()->device) : 0);
  PointwiseOutcome outcome;
  pointwise::Args args;
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.bytes();
  std::vector<GuardedBuffer> loads;
  std::vector<GuardedBuffer> stores;
  loads.reserve(data.loads.size());
  stores.reserve(pointwise::kMaxStores);
  const auto shift = [&](DataType type) { return misaligned ? static_cast<std::size_t>(data_type_bits(type) / 8) : 0; };
  for (std::size_t i = 0; i < data.loads.size(); ++i) {
    loads.emplace_back(backend, data.loads[i].size(), shift(problem.loads[i].type));
    if (!data.loads[i].empty()) loads.back().write(data.loads[i].data(), data.loads[i].size());
    args.loads[i] = loads.back().data();
    args.scalars[i] = data.scalars[i];
  }
  for (int o = 0; o < problem.program.stores; ++o) {
    stores.emplace_back(backend, bytes_of(problem.stores[o]), shift(problem.stores[o].type));
    args.stores[o] = stores.back().data();
  }
  outcome.status = pointwise::run(backend.handle(), problem, args);
  outcome.damage = outcome.status != GPUDNN_STATUS_SUCCESS ? take_error_text() : try_prepared(problem, args, &stores);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    outcome.damage += loads[i].damage();
    std::vector<unsigned char> now(data.loads[i].size());
    if (!now.empty()) loads[i].read(now.data(), now.size());
    if (now != data.loads[i]) outcome.damage += "input " + std::to_string(i) + " was written";
  }
  outcome.damage += workspace.damage();
  for (const GuardedBuffer& store : stores) {
    outcome.damage += store.damage();
    outcome.stores.emplace_back(store.bytes());
    store.read(outcome.stores.back().data(), store.bytes());
  }
  return outcome;
}

std::vector<double> elements_of(const Problem& problem, const PointwiseOutcome& outcome, int index) {
  const TensorGeometry& tensor = problem.stores[index];
  std::vector<double> values;
  for (const std::int64_t at : places(tensor)) {
    values.push_back(host::load_element(tensor.type, outcome.stores[static_cast<std::size_t>(index)].data(), at));
  }
  return values;
}

}  // namespace gpudnn::test
