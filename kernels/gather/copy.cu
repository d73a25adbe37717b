// Bytes as they are: a reordered filter and its bias by one launch. A block moves 16 KB, 64 bytes a thread with all
// loads in flight; where addresses are not multiples of 16, and at the end, byte by byte.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "core/launch/launch.hpp"
#include "kernels/gather/copy.hpp"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 4;
constexpr std::size_t kBlockBytes = sizeof(uint4) * kThreads * kLoads;

struct CopyArgs {
  CopyPart parts[kCopyParts];
  bool aligned[kCopyParts];
  unsigned first_blocks;  // of the first part
};

__global__ void __launch_bounds__(kThreads) copy_bytes(const __grid_constant__ CopyArgs args) {
  const bool second = blockIdx.x >= args.first_blocks;
  const CopyPart& part = args.parts[second ? 1 : 0];
  const std::size_t begin = (blockIdx.x - (second ? args.first_blocks : 0u)) * kBlockBytes;
  const auto* const from = static_cast<const unsigned char*>(part.from) + begin;
  auto* const to = static_cast<unsigned char*>(part.to) + begin;
  const std::size_t bytes = part.bytes - begin < kBlockBytes ? part.bytes - begin : kBlockBytes;
  std::size_t done = 0;
  if (args.aligned[second ? 1 : 0]) {
    const auto packs = static_cast<unsigned>(bytes / sizeof(uint4));
    uint4 words[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const unsigned i = threadIdx.x + u * kThreads;
      if (i < packs) words[u] = reinterpret_cast<const uint4*>(from)[i];
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const unsigned i = threadIdx.x + u * kThreads;
      if (i < packs) reinterpret_cast<uint4*>(to)[i] = words[u];
    }
    done = packs * sizeof(uint4);
  }
#pragma unroll 1
  for (std::size_t i = done + threadIdx.x; i < bytes; i += kThreads) to[i] = from[i];
}

}  // namespace

void launch_copy(const CopyPart (&parts)[kCopyParts], CUstream_st* stream) {
  CopyArgs args{};
  std::size_t blocks = 0;
  for (int p = 0; p < kCopyParts; ++p) {
    args.parts[p] = parts[p];
    args.aligned[p] = tile::is_aligned(parts[p].from, 16) && tile::is_aligned(parts[p].to, 16);
    blocks += (parts[p].bytes + kBlockBytes - 1) / kBlockBytes;
    if (p == 0) args.first_blocks = static_cast<unsigned>(blocks);
  }
  if (blocks > 0) cuda::launch_kernel(copy_bytes, {static_cast<unsigned>(blocks), kThreads}, stream, args);
}

}  // namespace gpudnn::kernels
