// From a line of the problem language to a task: fused plans, transforms, column buffers and reordered filters.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/data_type.hpp"
#include "core/layout_words.hpp"
#include "fused_operands.hpp"
#include "task_parts.hpp"

namespace gpudnn::bench {
namespace {

std::optional<ReorderProblem> reorder_from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  ReorderProblem problem;
  if (words.next() != "reorder") return *why = "the line does not start with 'reorder'", std::nullopt;
  if (!parse_tensor(&words, &problem.w) || problem.w.type != GPUDNN_DATA_INT8x32 || problem.w.dims[1] % 32 != 0) {
    return *why = "expected a filter such as 'i8x32 nchw n64c64h3w3', of 32 n channels", std::nullopt;
  }
  problem.has_bias = words.take_word("bias");
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

// Vectors of bytes one byte at a time.
TensorGeometry as_bytes(const TensorGeometry& tensor) {
  if (data_type_lanes(tensor.type) == 1) return tensor;
  return packed_tensor(GPUDNN_DATA_INT8, GPUDNN_TENSOR_NCHW, tensor.rank, tensor.dims);
}

// Every tensor of the plan once, whatever goes on between its stages; one that is updated twice.
void fill_in(const fused_ops::Stages& stages, Task* task, const ScalarOptions& scalars) {
  bool first = true;
  double more_bytes = 0;
  for (const FusedOperand& operand : fused_operands(stages)) {
    if (!operand.is_output) {
      task->inputs.push_back({operand.geometry, operand.fill});
    } else if (first) {
      first = false;
      task->output = operand.geometry;
    } else {
      task->more_outputs.push_back({operand.geometry, operand.is_read, operand.fill});
      more_bytes += bytes_of(operand.geometry) * (operand.is_read ? 2 : 1);
    }
  }
  task->arithmetic = arithmetic_of(task->output.type);
  if (stages.conv) {
    task->flops = conv::flops(*stages.conv);
    const bool tensor_math =
        stages.conv->math == GPUDNN_TENSOR_OP_MATH || stages.conv->math == GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    if (stages.conv->x.type == GPUDNN_DATA_FLOAT && tensor_math) task->arithmetic = Arithmetic::tf32;
  }
  task->group = std::string("fused ") + fused_ops::pattern_name(stages.ops);
  ScalarOptions own = scalars;
  own.alpha.reset(), own.beta.reset();  // a plan has none
  finish(task, own, 1, 0);
  task->bytes += more_bytes;
}

void fill_in(const transform::Problem& problem, Task* task, const ScalarOptions& scalars) {
  task->inputs = {{as_bytes(problem.in)}};
  task->output = as_bytes(problem.out);
  task->arithmetic = arithmetic_of(problem.out.type);
  task->group = std::string("transform ") + data_type_name(problem.out.type);
  finish(task, scalars, 1, 0);
}

void fill_in(const transform::ColumnProblem& problem, Task* task, const ScalarOptions& scalars) {
  std::int64_t rows = problem.x.dims[1];
  std::int64_t columns = problem.x.dims[0];
  for (int i = 0; i < problem.spatial; ++i) {
    rows *= problem.taps[i];
    columns *= problem.outputs[i];
  }
  const std::int64_t dims[] = {rows, columns};
  task->inputs = {{problem.x}};
  task->output = packed_tensor(problem.x.type, GPUDNN_TENSOR_NCHW, 2, dims);
  task->arithmetic = arithmetic_of(problem.x.type);
  task->group = std::string("im2col ") + data_type_name(problem.x.type);
  ScalarOptions own = scalars;
  own.alpha.reset(), own.beta.reset();
  finish(task, own, 1, 0);
}

// The order that a library reorders to is its own affair, so the results are not compared.
void fill_in(const ReorderProblem& problem, Task* task, const ScalarOptions& scalars) {
  task->inputs = {{as_bytes(problem.w)}};
  task->output = as_bytes(problem.w);
  task->output_is_random = true;
  task->arithmetic = Arithmetic::integer;
  task->group = "reorder i8x32";
  if (problem.has_bias) {
    const TensorGeometry bias = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, 1, problem.w.dims);
    task->inputs.push_back({bias});
    task->more_outputs.push_back({bias});
  }
  ScalarOptions own = scalars;
  own.alpha.reset(), own.beta.reset();
  finish(task, own, 1, 0);
}

template <class Problem>
std::optional<Task> make_task(const std::optional<Problem>& problem, const ScalarOptions& scalars) {
  if (!problem) return std::nullopt;
  Task task;
  task.problem = *problem;
  task.name = task.text = to_text(*problem);
  fill_in(*problem, &task, scalars);
  return task;
}

constexpr std::string_view kWords[] = {"fused", "transform", "im2col", "reorder"};

}  // namespace

std::string to_text(const ReorderProblem& problem) {
  return "reorder " + tensor_text(problem.w) + (problem.has_bias ? " bias" : "");
}

bool is_further_operation(std::string_view word) noexcept {
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

std::optional<Task> parse_further_task(std::string_view line, const ScalarOptions& scalars, std::string* why) {
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  if (word == "fused") return make_task(fused_ops::from_text(line, why), scalars);
  if (word == "transform") return make_task(transform::from_text(line, why), scalars);
  if (word == "im2col") return make_task(transform::columns_from_text(line, why), scalars);
  return make_task(reorder_from_text(line, why), scalars);
}

}  // namespace gpudnn::bench
