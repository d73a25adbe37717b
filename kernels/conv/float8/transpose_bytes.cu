// Transposition of bytes: [group][a][middle][b] to [group][b][middle][a]. A block turns 64 x 64 of a middle: a
// thread loads four words of neighbouring rows, turns the 4 x 4 bytes in registers, and the words go through shared
// memory, so that reads and writes are rows of 64 bytes.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "core/launch/launch.hpp"
#include "kernels/conv/float8/float8_sm90.hpp"
#include "kernels/ptx/griddepcontrol.cuh"

namespace gpudnn::kernels::float8 {
namespace {

constexpr std::uint32_t kSide = 64;
constexpr std::uint32_t kWords = kSide / 4;  // of a row
constexpr int kThreads = 256;

// The word of four bytes from `at` on, of which those from `b` on do not exist.
__device__ __forceinline__ std::uint32_t load_word(const std::uint8_t* row, std::uint32_t at, std::uint32_t b,
                                                   bool words) {
  if (words) return at < b ? *reinterpret_cast<const std::uint32_t*>(row + at) : 0;
  std::uint32_t word = 0;
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) {
    if (at + i < b) word |= static_cast<std::uint32_t>(row[at + i]) << (8 * i);
  }
  return word;
}

__global__ void __launch_bounds__(kThreads)
    transpose_bytes(const TransposeParams p, std::uint32_t a_tiles, std::uint32_t b_tiles, bool words) {
  __shared__ std::uint32_t turned[kSide][kWords + 1];
  const std::uint32_t b_tile = blockIdx.x % b_tiles;
  std::uint32_t rest = blockIdx.x / b_tiles;
  const std::uint32_t a_tile = rest % a_tiles;
  rest /= a_tiles;
  const std::uint32_t middle = rest % p.middle;
  const std::size_t group = rest / p.middle;
  const std::uint32_t word = threadIdx.x % kWords;
  const std::uint32_t four = threadIdx.x / kWords;
  const std::uint8_t* const in = static_cast<const std::uint8_t*>(p.in) + group * p.a * p.middle * p.b;
  std::uint8_t* const out = static_cast<std::uint8_t*>(p.out) + group * p.b * p.middle * p.a;
  std::uint32_t row[4];
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t a = a_tile * kSide + four * 4 + i;
    row[i] = 0;
    if (a >= p.a) continue;
    const std::size_t first = (static_cast<std::size_t>(a) * p.middle + middle) * p.b;
    row[i] = load_word(in + first, b_tile * kSide + word * 4, p.b, words);
  }
  const std::uint32_t low_01 = __byte_perm(row[0], row[1], 0x5140);  // bytes 0 of both, bytes 1 of both
  const std::uint32_t low_23 = __byte_perm(row[2], row[3], 0x5140);
  const std::uint32_t high_01 = __byte_perm(row[0], row[1], 0x7362);
  const std::uint32_t high_23 = __byte_perm(row[2], row[3], 0x7362);
  turned[word * 4][four] = __byte_perm(low_01, low_23, 0x5410);
  turned[word * 4 + 1][four] = __byte_perm(low_01, low_23, 0x7632);
  turned[word * 4 + 2][four] = __byte_perm(high_01, high_23, 0x5410);
  turned[word * 4 + 3][four] = __byte_perm(high_01, high_23, 0x7632);
  __syncthreads();
  const std::uint32_t a = a_tile * kSide + word * 4;
  if (a >= p.a) return;
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t inside = four + i * kWords;
    const std::uint32_t b = b_tile * kSide + inside;
    if (b >= p.b) continue;
    const std::size_t first = (static_cast<std::size_t>(b) * p.middle + middle) * p.a;
    *reinterpret_cast<std::uint32_t*>(out + first + a) = turned[inside][word];
  }
}

}  // namespace

void launch_transpose_bytes(const TransposeParams& params, CUstream_st* stream) {
  const std::uint32_t a_tiles = (params.a + kSide - 1) / kSide;
  const std::uint32_t b_tiles = (params.b + kSide - 1) / kSide;
  const bool words = params.b % 4 == 0 && reinterpret_cast<std::uintptr_t>(params.in) % 4 == 0;
  cuda::launch_kernel(&transpose_bytes, {a_tiles * b_tiles * params.middle * params.groups, kThreads}, stream, params,
                      a_tiles, b_tiles, words);
}

}  // namespace gpudnn::kernels::float8
