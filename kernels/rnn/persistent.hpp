// What the launch functions of the persistent sweeps take, and how a shape becomes blocks. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rnn/rnn.hpp"

namespace gpudnn::kernels {

constexpr int kRnnPersistentThreads = 256;
constexpr int kRnnChunk = 256;      // columns that arrive together
constexpr int kRnnPadding = 8;      // elements between rows, so that ldmatrix meets no bank twice
constexpr int kRnnFlagStride = 32;  // words: each counter has a line of 128 bytes for itself
constexpr int kRnnMaxSlots = 8;
constexpr int kRnnPersistentShared = 227 * 1024;

// Warps along places, units and the summed index.
struct RnnPersistentWarps {
  std::int32_t m;
  std::int32_t n;
  std::int32_t k;
};
constexpr RnnPersistentWarps kRnnPersistentBlocks[] = {{1, 2, 4}, {2, 2, 2}, {4, 2, 1}, {1, 4, 2}};
constexpr int kRnnPersistentBlockCount = 4;

struct RnnPersistentShape {
  std::int32_t block = -1;   // of kRnnPersistentBlocks; -1: none fits
  std::int32_t columns = 0;  // of the weights in shared memory, whole chunks
  std::int32_t slots = 0;
  std::int32_t shared_bytes = 0;
};

// The blocks with the shortest step of those that fit `multiprocessors`.
[[nodiscard]] RnnPersistentShape rnn_persistent_shape(RnnCell cell, std::int32_t units, std::int32_t batch,
                                                      std::int32_t directions, bool backward, int multiprocessors);

bool launch_rnn_persistent_f16(const RnnLayer& layer, const RnnPersistentShape& shape, bool backward,
                               std::uint32_t* flags, CUstream_st* stream);
bool launch_rnn_persistent_bf16(const RnnLayer& layer, const RnnPersistentShape& shape, bool backward,
                                std::uint32_t* flags, CUstream_st* stream);

// Forward sweeps by clusters of up to 16 blocks of the first kind.
[[nodiscard]] RnnPersistentShape rnn_cluster_shape(RnnCell cell, std::int32_t units);
bool launch_rnn_cluster_f16(const RnnLayer& layer, const RnnPersistentShape& shape, CUstream_st* stream);
bool launch_rnn_cluster_bf16(const RnnLayer& layer, const RnnPersistentShape& shape, CUstream_st* stream);

}  // namespace gpudnn::kernels
