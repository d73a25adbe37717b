// The dropout problem.  forward: out = mask * in / (1 - p), and the mask into the reserve space; backward: the same
// with the mask that lies there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"
#include "kernels/dropout/mask.hpp"

namespace gpudnn::dropout {

struct Problem {
  bool backward = false;
  float probability = 0;  // of being dropped
  TensorGeometry in;      // x, or dy
  TensorGeometry out;     // y, or dx
};

struct Args {
  const void* in = nullptr;
  void* out = nullptr;
  void* reserve = nullptr;
  std::size_t reserve_bytes = 0;
  void* states = nullptr;  // forward only
};

using States = kernels::DropoutStates;

[[nodiscard]] std::size_t reserve_size(const TensorGeometry& tensor) noexcept;
// An element is dropped where 16 random bits are below this.
[[nodiscard]] std::uint32_t threshold_of(float probability) noexcept;
// 1 / (1 - p); 0 for p = 1, where nothing is kept.
[[nodiscard]] double scale_of(float probability) noexcept;
[[nodiscard]] kernels::MaskOrder mask_order(const TensorGeometry& out) noexcept;

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] Status validate(const Problem& problem, const Args& args);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

// Starts the generator's state, in stream order.
[[nodiscard]] Status start_states(gpudnnHandle_t handle, void* states, std::uint64_t seed);

}  // namespace gpudnn::dropout
