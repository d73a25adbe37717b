// A tile of a tensor, channels last, as planes of shared memory: one for each of 32 channels, and in it a row of pixels
// after the other. depthwise_toeplitz_sm90.cuh and its filter gradient multiply rows of them, with mma.sync.
//
// A warp loads 8 pixels by 32 channels, 16 bytes a lane, and one transposing stmatrix puts them as 8 columns of a row
// into 32 planes; planes are an odd number of 16-byte chunks apart, so that the rows of a matrix lie in different
// banks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/conv/depthwise/depthwise_toeplitz_sm90.hpp"
#include "kernels/ptx/stmatrix_trans.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::depthwise_toeplitz {

// The lane of stmatrix whose matrix row is this plane: a lane with 16 bytes of a pixel has channels 8 q + 2 i and 8 q +
// 2 i + 1 in word i, which goes to rows 2 q and 2 q + 1 of matrix i.
__device__ __forceinline__ int channel_of_plane(int plane) { return plane % 8 / 2 * 8 + plane / 8 * 2 + plane % 2; }

// What a thread block has of the tensors: images from n on, rows of the output from `row`, channels.
struct Tile {
  int n, row, channel;
};

// Bit b: the tensor has column `column` + 8 b of row h.
template <int kBlocks>
__device__ __forceinline__ std::uint32_t blocks_inside(const Sequence& sequence, int h, int column) {
  if (sequence.length == 0) return ~0u;
  const int first = h * sequence.row_step + sequence.first_column + column;
  std::uint32_t inside = 0;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    if (static_cast<unsigned>(first + 8 * block) < static_cast<unsigned>(sequence.length)) inside |= 1u << block;
  }
  return inside & ~0u << sequence.first_block;
}

// A lane's place of 16 bytes in 8 pixels by 32 channels, as walks over the rows of a tile see it: of its channels, and
// of its pixel in each block of 8 columns, the bits of which tell whether the tensor has it.
template <int kBlocks>
struct LanePixels {
  int channel, column;
  std::uint32_t exists = 0;

  __device__ __forceinline__ LanePixels(const Tile& at, int width, int channels) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    channel = at.channel + lane % 4 * 8;
    column = lane / 4;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      if (column + 8 * block < width && channel < channels) exists |= 1u << block;
    }
  }
  [[nodiscard]] __device__ __forceinline__ std::int64_t offset(const Strides& steps, const Sequence& sequence, int n,
                                                               int h) const {
    return n * steps.n + (h * steps.h + (sequence.first_column + column) * steps.w + channel);
  }
};

// The tensor's part of the tile, and all zeros, to the planes. All threads. first_row: of the tensor.
// kBlocks: of 8 columns, at the most.
template <class T, int kBlocks>
__device__ __forceinline__ void load_planes(const Planes& p, const void* tensor, const Tile& at, int first_row,
                                            int tile_images, int images, int channels, std::uint32_t planes) {
  constexpr int kRows = kBlocks < 8 ? 8 / kBlocks : 1;  // that a warp has on their way at once
  const auto blocks = static_cast<int>(p.blocks.divisor);
  const LanePixels<kBlocks> pixels(at, p.width, channels);
  const std::uint32_t to =
      planes + 16 * static_cast<std::uint32_t>(static_cast<int>(threadIdx.x) % 32 * p.plane_chunks());
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x) / 32; first < p.plane_rows; first += kRows * kWarps) {
    uint4 words[kRows][kBlocks];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      std::uint32_t in_image = 0;
      const auto image =
          static_cast<int>(p.image_pitch.divmod(static_cast<std::uint32_t>(first + i * kWarps), &in_image));
      const int h = first_row + static_cast<int>(in_image);
      const bool exists = image < tile_images && static_cast<int>(in_image) < p.in_rows &&
                          static_cast<unsigned>(h) < static_cast<unsigned>(p.height) && at.n + image < images;
      const std::uint32_t mask = exists ? pixels.exists & blocks_inside<kBlocks>(p.sequence, h, pixels.column) : 0u;
      const T* const from = static_cast<const T*>(tensor) + pixels.offset(p.steps, p.sequence, at.n + image, h);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        words[i][block] = {};
        if ((mask >> block & 1u) != 0) {
          words[i][block] = __ldg(reinterpret_cast<const uint4*>(from + 8 * block * std::int64_t{p.steps.w}));
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first + i * kWarps;
      if (row >= p.plane_rows) break;
      const std::uint32_t row_to = to + 16 * static_cast<std::uint32_t>(row * p.pitch);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const uint4& word = words[i][block];
        if (block < blocks) ptx::stmatrix_x4_trans(row_to + 16 * block, word.x, word.y, word.z, word.w);
      }
    }
  }
}

}  // namespace gpudnn::kernels::depthwise_toeplitz
