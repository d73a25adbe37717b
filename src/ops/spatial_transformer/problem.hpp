// The spatial transformer's problems: the affine grid and the bilinear sampler, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::spatial_transformer {

enum class Operation { grid_forward, grid_backward, sample_forward, sample_backward };

[[nodiscard]] constexpr bool is_grid(Operation operation) {
  return operation == Operation::grid_forward || operation == Operation::grid_backward;
}

struct Problem {
  Operation operation = Operation::sample_forward;
  TensorGeometry y;   // what is sampled (n, c, h, w), or its gradient dy; for the grid's operations: its dims and type
  TensorGeometry x;   // the sampled image; the sampler only
  TensorGeometry dx;  // sample_backward only
};

// The grid, theta and their gradients are packed.
struct Args {
  double alpha = 1;
  double beta = 0;
  double grid_alpha = 1;  // sample_backward: of dgrid
  double grid_beta = 0;
  const void* theta = nullptr;  // theta, or the dtheta that grid_backward writes is `out`
  const void* grid = nullptr;   // the grid; of grid_backward: dgrid
  const void* x = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;    // grid, dtheta, y or dx
  void* dgrid = nullptr;  // sample_backward
};

// (N, H, W, 2) and (N, 2, 3), packed.
[[nodiscard]] TensorGeometry grid_geometry(const Problem& problem);
[[nodiscard]] TensorGeometry theta_geometry(const Problem& problem);

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::spatial_transformer
