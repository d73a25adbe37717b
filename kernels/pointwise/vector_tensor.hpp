// A tensor as the kernels of pointwise programs walk through it, in packs of neighbouring elements. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::kernels {

constexpr int kProgramThreads = 128;
constexpr int kProgramVectorLoops = 4;

// How an input comes into the second operand.
enum class InputForm : std::uint8_t { staged, gathered, index };

struct alignas(16) VectorTensor {
  char* data = nullptr;
  std::int32_t fastest = 0;  // stride in bytes (of an index in steps) from pack to pack
  std::uint8_t type = 0;     // tile::AnyType
  InputForm form = InputForm::staged;
  std::uint8_t chunk = 0;                              // bytes of a pack
  bool is_reused = false;                              // the copy may stay in the L1 cache
  std::int32_t strides[kProgramVectorLoops - 1] = {};  // of the slower loops, likewise
  // Staged: bytes from the beginning of a stage. Else: from one element of a pack to the next.
  std::int32_t step = 0;
};
static_assert(sizeof(VectorTensor) == 32, "two loads of 16 bytes");

}  // namespace gpudnn::kernels
