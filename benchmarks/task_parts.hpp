// What the files that turn a line into a task share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "problem_run.hpp"

namespace gpudnn::bench {

[[nodiscard]] double bytes_of(const TensorGeometry& tensor);
[[nodiscard]] Arithmetic arithmetic_of(DataType type);
// Sets what follows from inputs, outputs and scalars.
void finish(Task* task, const ScalarOptions& scalars, double alpha, double beta);

// Of layer_norm_run.cpp.
[[nodiscard]] bool fill_in_layer_norm(Task* task, const ScalarOptions& scalars);

// Of rnn_run.cpp.
[[nodiscard]] bool fill_in_rnn(Task* task, const ScalarOptions& scalars, std::string* why);

// Of further_tasks.cpp: fused plans, transforms, column buffers and reordered filters.
[[nodiscard]] bool is_further_operation(std::string_view word) noexcept;
[[nodiscard]] std::optional<Task> parse_further_task(std::string_view line, const ScalarOptions& scalars,
                                                     std::string* why);

}  // namespace gpudnn::bench
