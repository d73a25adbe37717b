// Which rows a block of threads of a filter gradient adds up: all parts of dw have the same rows, a split some of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::kernels {

// Units first to last - 1, of one part.
struct Share {
  std::uint32_t part, split, first, last;
  [[nodiscard]] __device__ __forceinline__ std::uint32_t count() const { return last - first; }
};
// Params: parts, units, splits.
template <class Params>
__device__ __forceinline__ Share share_of_block(const Params& p) {
  Share share;
  share.split = p.parts.divmod(blockIdx.x, &share.part);
  share.first = static_cast<std::uint32_t>(static_cast<std::uint64_t>(p.units) * share.split / p.splits);
  share.last = static_cast<std::uint32_t>(static_cast<std::uint64_t>(p.units) * (share.split + 1) / p.splits);
  return share;
}

// A unit that is a row of a strip of dy.
struct Place {
  std::uint32_t row, strip, image;
};
// Params: rows, strips.
template <class Params>
__device__ __forceinline__ Place place_of(const Params& p, std::uint32_t unit) {
  Place at;
  at.image = p.strips.divmod(p.rows.divmod(unit, &at.row), &at.strip);
  return at;
}

}  // namespace gpudnn::kernels
