// Copies 16-bit operands to rows that begin at multiples of 16 bytes (pad_operands_sm90.hpp). A thread makes some
// vectors of 8 elements, each from five words, so that the copy is bound by memory whatever the rows begin at.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "core/launch/launch.hpp"
#include "kernels/matmul/pad_operands_sm90.hpp"

namespace gpudnn::kernels::matmul {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kItems = 4;  // vectors of a thread
constexpr int kWords = kPadVector / 2;

// 8 elements, of which `valid` are there. Where there are more, the words that hold them may hold neighbours, too.
__device__ __forceinline__ uint4 gathered(const std::uint16_t* from, std::uint32_t valid) {
  std::uint32_t words[kWords] = {};
  if (valid > kPadVector) {
    const auto at = reinterpret_cast<std::uintptr_t>(from);
    const auto* const whole = reinterpret_cast<const std::uint32_t*>(at & ~std::uintptr_t{3});
    const unsigned shift = (at & 2) != 0 ? 16 : 0;
    std::uint32_t read[kWords + 1];
#pragma unroll
    for (int i = 0; i < kWords; ++i) read[i] = __ldg(whole + i);
    read[kWords] = shift != 0 ? __ldg(whole + kWords) : 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = __funnelshift_r(read[i], read[i + 1], shift);
  } else {
#pragma unroll
    for (int i = 0; i < kPadVector; ++i) {
      if (static_cast<std::uint32_t>(i) < valid) {
        words[i / 2] |= static_cast<std::uint32_t>(__ldg(from + i)) << (i % 2 * 16);
      }
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

__global__ void __launch_bounds__(kThreads) pad_operands(const __grid_constant__ PadOperands p) {
  const PadOperand& x = p.of[blockIdx.y];
  const std::uint32_t first = blockIdx.x * (kThreads * kItems) + threadIdx.x;
#pragma unroll
  for (unsigned i = 0; i < kItems; ++i) {
    const std::uint32_t item = first + i * kThreads;
    if (item >= x.count) break;
    std::uint32_t vector = 0;
    std::uint32_t row = 0;
    std::uint32_t inner = 0;
    const std::uint32_t outer = x.inner_batches.divmod(x.rows.divmod(x.vectors.divmod(item, &vector), &row), &inner);
    const std::int64_t at = outer * x.batch_stride[0] + inner * x.batch_stride[1] + row * x.row_stride;
    const std::uint32_t column = vector * kPadVector;
    static_cast<uint4*>(x.to)[item] =
        gathered(static_cast<const std::uint16_t*>(x.from) + at + column, x.width - column);
  }
}

}  // namespace

void launch_pad_operands(const PadOperands& operands, CUstream_st* stream) {
  const std::uint32_t most = operands.of[0].count > operands.of[1].count ? operands.of[0].count : operands.of[1].count;
  const dim3 blocks((most + kThreads * kItems - 1) / (kThreads * kItems), 2);
  cuda::launch_kernel(&pad_operands, {blocks, kThreads}, stream, operands);
}

}  // namespace gpudnn::kernels::matmul
