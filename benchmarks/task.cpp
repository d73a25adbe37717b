// From a line of the problem language to what the benchmark must know of the work.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "attention_operands.hpp"
#include "core/data_type.hpp"
#include "problem_run.hpp"
#include "task_parts.hpp"

namespace gpudnn::bench {
double bytes_of(const TensorGeometry& tensor) {
  return static_cast<double>(element_count(tensor)) * data_type_bits(tensor.type) / 8;
}

Arithmetic arithmetic_of(DataType type) {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return Arithmetic::f64;
    case GPUDNN_DATA_FLOAT:
      return Arithmetic::f32;
    case GPUDNN_DATA_HALF:
      return Arithmetic::f16;
    case GPUDNN_DATA_BFLOAT16:
      return Arithmetic::bf16;
    case GPUDNN_DATA_FP8_E4M3:
    case GPUDNN_DATA_FP8_E5M2:
      return Arithmetic::f8;
    default:
      return Arithmetic::integer;
  }
}

// Sets what follows from inputs, output and scalars.
void finish(Task* task, const ScalarOptions& scalars, double alpha, double beta) {
  task->alpha = scalars.alpha.value_or(alpha);
  task->beta = scalars.beta.value_or(beta);
  task->output_is_read = task->output_is_read || task->beta != 0;
  task->bytes = bytes_of(task->output) * (task->output_is_read ? 2 : 1);
  for (const Operand& input : task->inputs) task->bytes += bytes_of(input.geometry);
}

namespace {

bool fill_in(const conv::Problem& problem, Task* task, const ScalarOptions& scalars, std::string* why) {
  constexpr const char* kDirections[] = {"fwd", "dgrad", "wgrad"};
  const bool fused = problem.activation >= 0 || problem.has_bias != 0 || problem.has_z != 0;
  if (fused && problem.direction != conv::Direction::forward) return *why = "only fwd has a fused epilogue", false;
  if (fused && problem.has_bias == 0) return *why = "the fused call always adds a bias: write 'bias' too", false;
  task->output = conv::output(problem);
  if (problem.direction != conv::Direction::dgrad) task->inputs.push_back({problem.x});
  if (problem.direction != conv::Direction::wgrad) task->inputs.push_back({problem.w});
  if (problem.direction != conv::Direction::forward) task->inputs.push_back({problem.y});
  if (fused) {
    TensorGeometry bias = problem.y;
    if (conv::is_integer(problem) || problem.float_vectors != 0) bias.type = GPUDNN_DATA_FLOAT;
    for (int i = 0; i < bias.rank; ++i) bias.dims[i] = i == 1 ? problem.y.dims[1] : 1;
    set_packed_strides(&bias, GPUDNN_TENSOR_NCHW);
    task->inputs.push_back({bias});
    if (problem.has_z != 0) task->inputs.push_back({problem.z});
  }
  task->flops = conv::flops(problem);
  task->arithmetic = arithmetic_of(problem.x.type);
  const bool tensor_math =
      problem.math == GPUDNN_TENSOR_OP_MATH || problem.math == GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
  if (problem.x.type == GPUDNN_DATA_FLOAT && tensor_math) task->arithmetic = Arithmetic::tf32;
  task->group = std::string("conv ") + kDirections[static_cast<int>(problem.direction)] + (fused ? " fused " : " ") +
                (task->arithmetic == Arithmetic::tf32 ? "tf32" : data_type_name(problem.x.type));
  finish(task, scalars, 1, 0);
  return true;
}

// The backward task's own forward task.
template <class Problem>
void add_forward(const Problem& problem, Task* task, int input, int output) {
  Problem forward = problem;
  forward.backward = false;
  forward.dx = forward.dy = {};
  if constexpr (std::is_same_v<Problem, softmax::Problem>) forward.x = problem.y;
  std::string why;
  const auto made = parse_task(to_text(forward), {}, &why);
  if (!made) return;
  task->forward = std::make_shared<const Task>(*made);
  task->forward_input = input;
  task->forward_output = output;
}

bool fill_in(const pooling::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  const bool is_max = problem.mode == GPUDNN_POOLING_MAX || problem.mode == GPUDNN_POOLING_MAX_DETERMINISTIC;
  const Operand x = {problem.x, is_max ? Fill::distinct : Fill::normal};
  if (problem.backward) {
    task->inputs = {{problem.y}, {problem.dy}, x};
    task->output = problem.dx;
    add_forward(problem, task, 2, 0);
  } else {
    task->inputs = {x};
    task->output = problem.y;
  }
  task->arithmetic = arithmetic_of(problem.x.type);
  task->group = std::string(is_max ? "maxpool " : "avgpool ") + (problem.backward ? "bwd " : "fwd ") +
                data_type_name(problem.x.type);
  finish(task, scalars, 1, 0);
  return true;
}

bool fill_in(const activation::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  if (problem.backward) {
    task->inputs = {{problem.y}, {problem.dy}, {problem.x}};
    task->output = problem.dx;
    add_forward(problem, task, 2, 0);
  } else {
    task->inputs = {{problem.x}};
    task->output = problem.y;
  }
  task->arithmetic = arithmetic_of(problem.x.type);
  task->group = std::string("act ") + (problem.backward ? "bwd " : "fwd ") + data_type_name(problem.x.type);
  finish(task, scalars, 1, 0);
  return true;
}

bool fill_in(const softmax::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  if (problem.backward) {
    task->inputs = {{problem.y}, {problem.dy}};
    task->output = problem.dx;
    add_forward(problem, task, -1, 0);
  } else {
    task->inputs = {{problem.x}};
    task->output = problem.y;
  }
  task->arithmetic = arithmetic_of(task->output.type);
  task->group = std::string("softmax ") + (problem.backward ? "bwd " : "fwd ") + data_type_name(task->output.type);
  finish(task, scalars, 1, 0);
  return true;
}

bool fill_in(const tensor::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  constexpr const char* kOperations[] = {"set", "scale", "add", "transform"};
  const bool has_input =
      problem.operation == tensor::Operation::add || problem.operation == tensor::Operation::transform;
  if (has_input) task->inputs = {{problem.a}};
  task->output = problem.c;
  task->output_is_read = problem.operation == tensor::Operation::scale;
  task->arithmetic = arithmetic_of(problem.c.type);
  task->group =
      std::string("tensor ") + kOperations[static_cast<int>(problem.operation)] + ' ' + data_type_name(problem.c.type);
  ScalarOptions own = scalars;
  if (!has_input) own.beta = 0;  // set and scale have none
  finish(task, own, problem.operation == tensor::Operation::scale ? -1 : 1,
         problem.operation == tensor::Operation::add ? 1 : 0);
  return true;
}

bool fill_in(const bias_grad::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  task->inputs = {{problem.dy}};
  task->output = problem.db;
  task->arithmetic = arithmetic_of(problem.dy.type);
  task->group = std::string("biasgrad ") + data_type_name(problem.dy.type);
  finish(task, scalars, 1, 0);
  return true;
}

// The bytes are those of two passes over memory, 3 tensors forward and 5 backward, which other reports count too; a
// library that keeps data on chip between the passes moves less.
bool fill_in(const norm::Problem& problem, Task* task, const ScalarOptions& scalars, std::string* why) {
  constexpr const char* kPasses[] = {"train ", "infer ", "bwd "};
  if (problem.ops != GPUDNN_BATCHNORM_OPS_BN) return *why = "the bench runs normalization without activation", false;
  const Operand parameter = {problem.params};
  const Operand deviation = {problem.stats, Fill::positive};
  const bool backward = problem.pass == norm::Pass::backward;
  if (backward) {
    task->inputs = {{problem.x}, {problem.dy}, parameter, parameter, deviation, parameter, parameter};
  } else {
    task->inputs = {{problem.x}, parameter, parameter, parameter, deviation};
    if (problem.pass == norm::Pass::train) task->inputs.insert(task->inputs.end(), {parameter, parameter});
  }
  task->output = backward ? problem.dx : problem.y;
  task->arithmetic = arithmetic_of(problem.x.type);
  task->group = std::string("bn ") + kPasses[static_cast<int>(problem.pass)] + data_type_name(problem.x.type);
  finish(task, scalars, 1, 0);
  if (problem.pass != norm::Pass::infer) task->bytes += bytes_of(problem.x) * (backward ? 2 : 1);
  return true;
}

bool fill_in(const dropout::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  task->inputs = {{problem.in}};
  task->output = problem.out;
  task->output_is_random = true;
  task->arithmetic = arithmetic_of(problem.in.type);
  task->group = std::string("dropout ") + (problem.backward ? "bwd " : "fwd ") + data_type_name(problem.in.type);
  ScalarOptions own = scalars;
  own.beta = 0;
  finish(task, own, 1, 0);
  task->bytes += static_cast<double>(element_count(problem.in)) / 8;  // the mask
  return true;
}

bool fill_in(const spatial_transformer::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  using spatial_transformer::Operation;
  constexpr const char* kNames[] = {"stn grid fwd ", "stn grid bwd ", "stn fwd ", "stn bwd "};
  const TensorGeometry grid = spatial_transformer::grid_geometry(problem);
  const TensorGeometry theta = spatial_transformer::theta_geometry(problem);
  const bool forward = problem.operation == Operation::grid_forward;
  task->arithmetic = arithmetic_of(problem.y.type);
  task->group = kNames[static_cast<int>(problem.operation)] + std::string(data_type_name(problem.y.type));
  ScalarOptions own = scalars;
  if (is_grid(problem.operation)) {
    own.beta = 0;  // it has none
    task->inputs = {{forward ? theta : grid}};
    task->output = forward ? grid : theta;
    finish(task, own, 1, 0);
    return true;
  }
  // The grid is that of a random affine map, as in use: neighbours sample neighbours.
  task->inputs = {{problem.x}, {grid}};
  task->output = problem.y;
  if (problem.operation == Operation::sample_backward) {
    task->inputs.push_back({problem.y});
    task->output = problem.dx;
    own.beta = 0;
  }
  spatial_transformer::Problem maker;
  maker.operation = Operation::grid_forward;
  maker.y = problem.y;
  set_packed_strides(&maker.y, GPUDNN_TENSOR_NCHW);
  std::string why;
  if (const auto made = parse_task(to_text(maker), {}, &why)) {
    task->forward = std::make_shared<const Task>(*made);
    task->forward_input = -1;
    task->forward_output = 1;
  }
  finish(task, own, 1, 0);
  if (problem.operation == Operation::sample_backward) task->bytes += bytes_of(grid);  // dgrid
  return true;
}

bool fill_in(const ctc::Problem& problem, Task* task, const ScalarOptions& scalars, std::string* why) {
  if (!problem.has_gradients) return *why = "the benchmark computes the gradients: leave 'nograd' out", false;
  if (problem.x.dims[2] < 3 && problem.max_labels > 1)
    return *why = "neighbours differ only with 2 labels or more", false;
  const auto integers = [](std::vector<std::int32_t> values) {
    if (values.empty()) values.push_back(0);
    const std::int64_t dims[] = {static_cast<std::int64_t>(values.size())};
    return Operand{packed_tensor(GPUDNN_DATA_INT32, GPUDNN_TENSOR_NCHW, 1, dims), Fill::normal, std::move(values)};
  };
  CtcIntegers given = ctc_integers(problem);
  task->inputs = {{problem.x},
                  integers(std::move(given.labels)),
                  integers(std::move(given.label_lengths)),
                  integers(std::move(given.input_lengths))};
  task->output = problem.gradients;
  task->arithmetic = arithmetic_of(problem.x.type);
  task->group = std::string("ctc ") + data_type_name(problem.x.type);
  ScalarOptions own = scalars;
  own.beta = 0;
  finish(task, own, 1, 0);
  return true;
}

bool fill_in(const lrn::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  task->output = problem.backward ? problem.dx : problem.y;
  if (problem.spatial) {
    task->inputs = {{problem.x}, {problem.x}};
    if (problem.backward) task->inputs.push_back({problem.dy});
    task->inputs.insert(task->inputs.end(), {{problem.x}, {problem.x}});  // scratch
  } else if (problem.backward) {
    task->inputs = {{problem.y}, {problem.dy}, {problem.x}};
    add_forward(problem, task, 2, 0);
  } else {
    task->inputs = {{problem.x}};
  }
  task->arithmetic = arithmetic_of(problem.x.type);
  task->group = std::string(problem.spatial ? "divnorm " : "lrn ") + (problem.backward ? "bwd " : "fwd ") +
                data_type_name(problem.x.type);
  finish(task, scalars, 1, 0);
  if (problem.spatial) {  // the scratch, and means that are not given, count for nothing
    task->bytes -= static_cast<double>(size_in_bytes(problem.x)) * (problem.has_means ? 2 : 3);
  }
  return true;
}

// The workspace and the indices are counted for nothing: they are small, and an implementation's own affair.
bool fill_in(const reduce::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  task->inputs = {{problem.a}};
  task->output = problem.c;
  task->arithmetic = arithmetic_of(problem.a.type);
  task->group = std::string("reduce ") + data_type_name(problem.a.type);
  finish(task, scalars, 1, 0);
  return true;
}

bool fill_in(const op_tensor::Problem& problem, Task* task, const ScalarOptions& scalars, std::string*) {
  task->inputs = {{problem.a}};
  if (op_tensor::has_b(problem.op)) task->inputs.push_back({problem.b});
  task->output = problem.c;
  task->arithmetic = arithmetic_of(problem.c.type);
  task->group = std::string("optensor ") + data_type_name(problem.c.type);
  finish(task, scalars, 1, 0);
  return true;
}

// Inputs: a, b, then c, the bias, and the scales of a, b and d, as far as there are any.
bool fill_in(const matmul::Problem& problem, Task* task, const ScalarOptions& scalars, std::string* why) {
  if (problem.overrides != 0) return *why = "the bench runs matrix products without overrides", false;
  task->inputs = {{problem.a}, {problem.b}};
  if (problem.c.rank > 0) task->inputs.push_back({problem.c});
  if (problem.bias.rank > 0) task->inputs.push_back({problem.bias});
  const std::int64_t one[] = {1};
  const TensorGeometry scalar = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, 1, one);
  for (const int bit : {matmul::kDescaleA, matmul::kDescaleB, matmul::kScaleD}) {
    if ((problem.scales & bit) != 0) task->inputs.push_back({scalar, Fill::positive});
  }
  task->output = problem.d;
  if ((problem.scales & matmul::kAmax) != 0) task->more_outputs.push_back({scalar, false, Fill::normal});
  task->flops = matmul::flops(problem);
  task->arithmetic = arithmetic_of(problem.a.type);
  if (problem.a.type == GPUDNN_DATA_FLOAT &&
      (problem.math == GPUDNN_TENSOR_OP_MATH || problem.math == GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION)) {
    task->arithmetic = Arithmetic::tf32;
  }
  task->group = std::string("matmul ") + arithmetic_name(task->arithmetic);
  ScalarOptions own = scalars;
  own.beta.reset();  // c is an input; d is only written
  finish(task, own, 1, 0);
  return true;
}

bool fill_in(const layer_norm::Problem&, Task* task, const ScalarOptions& scalars, std::string*) {
  return fill_in_layer_norm(task, scalars);
}

bool fill_in(const rnn::Problem&, Task* task, const ScalarOptions& scalars, std::string* why) {
  return fill_in_rnn(task, scalars, why);
}

bool fill_in(const attention::Problem& problem, Task* task, const ScalarOptions&, std::string* why) {
  for (const AttentionOperand& operand : attention_inputs(problem)) task->inputs.push_back(operand.operand);
  const std::vector<AttentionOperand> outputs = attention_outputs(problem);
  if (outputs.empty()) return *why = "the problem has no output", false;
  task->output = outputs[0].operand.geometry;
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    task->more_outputs.push_back({outputs[i].operand.geometry, false, Fill::normal});
  }
  task->flops = attention_flops(problem);
  task->arithmetic = arithmetic_of(problem.type());
  task->group = std::string("attention ") + (problem.backward != 0 ? "bwd " : "fwd ") + data_type_name(problem.type());
  finish(task, {}, 1, 0);
  for (std::size_t i = 1; i < outputs.size(); ++i) task->bytes += bytes_of(outputs[i].operand.geometry);
  return true;
}

template <class Problem>
std::optional<Task> make_task(const std::optional<Problem>& problem, const ScalarOptions& scalars, std::string* why) {
  if (!problem) return std::nullopt;
  Task task;
  task.problem = *problem;
  task.name = task.text = to_text(*problem);
  if (!fill_in(*problem, &task, scalars, why)) return std::nullopt;
  return task;
}

}  // namespace

CtcIntegers ctc_integers(const ctc::Problem& problem) {
  CtcIntegers given;
  std::uint32_t state = 1;
  const auto choices = static_cast<std::uint32_t>(problem.x.dims[2] - 1);
  for (std::int64_t n = 0; n < problem.x.dims[1]; ++n) {
    std::uint32_t last = 0;
    for (std::int64_t i = 0; i < problem.max_labels; ++i) {
      state = state * 1664525u + 1013904223u;
      std::uint32_t label = 1 + (state >> 8) % choices;
      if (label == last) label = label % choices + 1;
      given.labels.push_back(static_cast<std::int32_t>(label));
      last = label;
    }
    given.label_lengths.push_back(static_cast<std::int32_t>(problem.max_labels));
    given.input_lengths.push_back(static_cast<std::int32_t>(problem.x.dims[0]));
  }
  return given;
}

const char* arithmetic_name(Arithmetic arithmetic) noexcept {
  constexpr const char* kNames[] = {"f64", "f32", "tf32", "f16", "bf16", "integer", "f8"};
  return kNames[static_cast<int>(arithmetic)];
}

bool is_linked(const Task& task) noexcept {
  return std::holds_alternative<matmul::Problem>(task.problem) ||
         std::holds_alternative<layer_norm::Problem>(task.problem) ||
         std::holds_alternative<attention::Problem>(task.problem);
}

std::optional<Task> parse_task(std::string_view line, const ScalarOptions& scalars, std::string* why) {
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  if (word == "conv") return make_task(conv::from_text(line, why), scalars, why);
  if (word == "pool") return make_task(pooling::from_text(line, why), scalars, why);
  if (word == "act") return make_task(activation::from_text(line, why), scalars, why);
  if (word == "softmax") return make_task(softmax::from_text(line, why), scalars, why);
  if (word == "tensor") return make_task(tensor::from_text(line, why), scalars, why);
  if (word == "biasgrad") return make_task(bias_grad::from_text(line, why), scalars, why);
  if (word == "bn") return make_task(norm::from_text(line, why), scalars, why);
  if (word == "norm") {  // the same problem by the calls that are named Normalization
    auto task = make_task(norm::from_text("bn" + std::string(line.substr(word.size())), why), scalars, why);
    if (!task) return std::nullopt;
    task->by_norm_calls = true;
    task->group = "norm" + task->group.substr(2);
    task->name = task->text = "norm" + task->text.substr(2);
    return task;
  }
  if (word == "dropout") return make_task(dropout::from_text(line, why), scalars, why);
  if (word == "stn") return make_task(spatial_transformer::from_text(line, why), scalars, why);
  if (word == "ctc") return make_task(ctc::from_text(line, why), scalars, why);
  if (word == "lrn") return make_task(lrn::from_text(line, why), scalars, why);
  if (word == "reduce") return make_task(reduce::from_text(line, why), scalars, why);
  if (word == "matmul") return make_task(matmul::from_text(line, why), scalars, why);
  if (word == "layer_norm") return make_task(layer_norm::from_text(line, why), scalars, why);
  if (word == "attention") return make_task(attention::from_text(line, why), scalars, why);
  if (word == "rnn") return make_task(rnn::from_text(line, why), scalars, why);
  if (word == "optensor") return make_task(op_tensor::from_text(line, why), scalars, why);
  if (is_further_operation(word)) return parse_further_task(line, scalars, why);
  *why = "'" + std::string(word) +
         "' is none of conv, pool, act, softmax, tensor, biasgrad, bn, norm, dropout, stn, ctc, lrn, reduce, optensor, "
         "matmul, layer_norm, attention, rnn, fused, transform, im2col, reorder";
  return std::nullopt;
}

}  // namespace gpudnn::bench
