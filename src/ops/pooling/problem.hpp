// The pooling problem.  y = the maximum or the average of each window of x; backward: dx from x, y and dy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::pooling {

constexpr int kMaxSpatial = 3;

struct Problem {
  bool backward = false;
  gpudnnPoolingMode_t mode = GPUDNN_POOLING_MAX;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  int spatial = 2;  // 1 to 3
  std::int64_t window[kMaxSpatial] = {};
  std::int64_t pad[kMaxSpatial] = {};
  std::int64_t stride[kMaxSpatial] = {};
  TensorGeometry x;  // n, c, spatial...
  TensorGeometry y;
  TensorGeometry dx;  // backward only; dims as x
  TensorGeometry dy;  // backward only; dims as y
};

// forward: out = alpha * pool(x) + beta * out.  backward: out = alpha * dx + beta * out, from x, y and dy.
struct Args {
  double alpha = 1;
  double beta = 0;
  const void* x = nullptr;
  const void* y = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;
};

[[nodiscard]] std::int64_t output_extent(std::int64_t input, std::int64_t window, std::int64_t pad,
                                         std::int64_t stride) noexcept;
[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);

// The engines, best first (engines.cpp), and the call that validates nothing but runs the first that fits.
[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::pooling
