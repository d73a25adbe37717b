// The activation problem.  y = alpha * f(x) + beta * y; backward: dx = alpha * f'(x) * dy + beta * dx.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::activation {

struct Problem {
  bool backward = false;
  gpudnnActivationMode_t mode = GPUDNN_ACTIVATION_RELU;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  double coef = 0;  // the ceiling of clipped ReLU, alpha of ELU, beta of swish
  TensorGeometry x;
  TensorGeometry y;
  TensorGeometry dx;  // backward only
  TensorGeometry dy;  // backward only
};

struct Args {
  double alpha = 1;
  double beta = 0;
  const void* x = nullptr;
  const void* y = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;
};

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::activation
