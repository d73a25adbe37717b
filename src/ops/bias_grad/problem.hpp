// The bias-gradient problem of convolution:  db[k] = alpha * sum over n and the spatial dims of dy[n, k, ...] + beta *
// db[k].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/cnn.h"

namespace gpudnn::bias_grad {

struct Problem {
  TensorGeometry dy;  // n, k, spatial...
  TensorGeometry db;  // 1, k, 1...
};

struct Args {
  double alpha = 1;
  double beta = 0;
  const void* dy = nullptr;
  void* db = nullptr;
};

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::bias_grad
