// Descriptors of wgmma's operands in shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace gpudnn::tile {

// wgmma's descriptor of an operand in rows of kBytes, swizzled over as many. `leading` is the distance of 64 m (or n)
// in an MN-major operand, unused in a K-major one.
template <int kBytes>
__device__ __forceinline__ std::uint64_t operand_descriptor(const void* shared, std::uint32_t leading) {
  static_assert(kBytes == 128 || kBytes == 64, "rows that TMA swizzles");
  constexpr std::uint64_t kSwizzle = std::uint64_t{kBytes == 128 ? 1 : 2} << 62;
  constexpr std::uint64_t kStrideOf8Rows = std::uint64_t{8 * kBytes >> 4} << 32;
  return kSwizzle | kStrideOf8Rows | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>((ptx::shared_address(shared) & 0x3ffffu) >> 4);
}

}  // namespace gpudnn::tile
