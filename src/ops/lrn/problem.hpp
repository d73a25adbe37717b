// The problem of local response normalization and of divisive normalization, which differ in the window alone:
//   z = x - m      s = k + alpha / size * sum of z^2 over the window      y = z * s^-beta
// Local response normalization: a window of n channels, m = 0, size = n. Divisive normalization: n elements in each
// spatial direction, size = n^dims, and m is the caller's. floor((n - 1) / 2) elements of a window come before its own,
// and it is cut at the tensor's ends. Backward:
//   dz = dy s^-beta - 2 alpha beta / size * z * sum of dy z s^(-beta - 1) over the windows that hold the element
//   dx = dz      dm = -dz
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::lrn {

struct Problem {
  bool backward = false;
  bool spatial = false;         // divisive normalization
  bool has_means = false;       // divisive normalization: m is given
  bool means_gradient = false;  // divisive normalization, backward: dm is asked for
  std::int32_t n = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 2;
  TensorGeometry x;   // and of m, and of dy of divisive normalization
  TensorGeometry y;   // of divisive normalization: forward only
  TensorGeometry dx;  // backward only; and of dm
  TensorGeometry dy;  // backward only
};

struct Args {
  double alpha = 1;
  double beta = 0;
  const void* x = nullptr;
  const void* means = nullptr;
  const void* dy = nullptr;
  void* temp = nullptr;
  void* temp2 = nullptr;
  void* out = nullptr;
  void* means_gradient = nullptr;
};

// Elements of a window before its own.
[[nodiscard]] inline std::int32_t before(const Problem& problem) noexcept { return (problem.n - 1) / 2; }
// alpha / size.
[[nodiscard]] double weight(const Problem& problem) noexcept;

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::lrn
