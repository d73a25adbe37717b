// The softmax problem: over c, h, w of each image (instance) or over c at each pixel (channel).
//   forward   y = alpha * softmax(x) + beta * y   (log: the logarithm of it)
//   backward  dx = alpha * y (dy - sum(y dy)) + beta * dx   (log: dy - exp(y) sum(dy))
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::softmax {

struct Problem {
  bool backward = false;
  gpudnnSoftmaxAlgorithm_t algorithm = GPUDNN_SOFTMAX_ACCURATE;
  gpudnnSoftmaxMode_t mode = GPUDNN_SOFTMAX_MODE_INSTANCE;
  TensorGeometry x;   // forward only
  TensorGeometry y;   // the output of forward, an input of backward
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

}  // namespace gpudnn::softmax
