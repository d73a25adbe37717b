// What the depthwise kernels by Toeplitz matrices, forward and filter gradient, ask of a problem. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/conv/depthwise/depthwise_toeplitz_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv::toeplitz {

// A reason against, or null; directions, padding and dilation are the engines' own.
[[nodiscard]] const char* unsupported_reason(const Problem& problem);

// Of images, rows (0 of a sequence) and pixels; 0 along an axis of one.
[[nodiscard]] kernels::depthwise_toeplitz::Strides strides_of(const TensorGeometry& tensor);

[[nodiscard]] inline tile::FastDivmod divisor(std::int64_t value) {
  return tile::FastDivmod(static_cast<std::uint32_t>(value));
}

// Thread blocks of a multiprocessor, `most` by their registers.
[[nodiscard]] double resident_blocks(std::uint32_t shared_bytes, int most);

}  // namespace gpudnn::conv::toeplitz
