// Which tensors with their channels innermost TMA takes, and the distances that it is told.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

constexpr std::int64_t kCopyVector = 16;  // bytes that distances are multiples of

// Bytes between neighbours. A stride of an extent of 1 says nothing, so it gets one that TMA takes.
[[nodiscard]] inline std::int64_t copy_step(const TensorGeometry& tensor, int dim, std::int64_t element) noexcept {
  return tensor.dims[dim] > 1 ? tensor.strides[dim] * element : kCopyVector;
}

// A reason against, or null.
[[nodiscard, gnu::hot]] inline const char* copy_unsupported_reason(const TensorGeometry& tensor,
                                                                   std::int64_t element) noexcept {
  if (tensor.dims[1] > 1 && tensor.strides[1] != 1) return "a tensor is not contiguous along channels";
  for (int dim = 0; dim < tensor.rank; ++dim) {
    if (dim == 1 || tensor.dims[dim] == 1) continue;
    const std::int64_t step = tensor.strides[dim] * element;
    if (step % kCopyVector != 0) return "pixels do not begin at multiples of 16 bytes";
    if (step >= std::int64_t{1} << 40) return "a stride of 2^40 bytes or more";
  }
  return nullptr;
}

}  // namespace gpudnn::conv
