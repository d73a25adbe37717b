// The problem of the two-operand tensor operation: c = op(alpha1 * a, alpha2 * b) + beta * c.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::op_tensor {

struct Problem {
  gpudnnOpTensorOp_t op = GPUDNN_OP_TENSOR_ADD;
  DataType compute = GPUDNN_DATA_FLOAT;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  TensorGeometry a;
  TensorGeometry b;  // broadcast where its extent is 1; rank 0 where the operation has one operand
  TensorGeometry c;
};

struct Args {
  double alpha1 = 1;
  double alpha2 = 1;
  double beta = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
};

// Square root and NOT have a alone.
[[nodiscard]] constexpr bool has_b(gpudnnOpTensorOp_t op) noexcept {
  return op != GPUDNN_OP_TENSOR_SQRT && op != GPUDNN_OP_TENSOR_NOT;
}

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::op_tensor
