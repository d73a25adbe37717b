// What flash_wide_backward_sm90's kernels are told, and their launch functions. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_sections.hpp"
#include "kernels/attention/flash_sm90.hpp"

namespace gpudnn::kernels {

constexpr std::int32_t kFlashWideRows = 64;    // of a tile of keys
constexpr std::int32_t kFlashWideStream = 64;  // of a tile of queries; lse and delta are padded to a multiple of it
// The two blocks of a cluster share the tiles of queries that they read: boxes of q and dO have so many rows.
constexpr std::int32_t kFlashWideBlocks = 2;
constexpr std::int32_t kFlashWideBox = kFlashWideStream / kFlashWideBlocks;

// The head dimension that the kernels are built for; smaller ones are filled with zeros.
constexpr std::int32_t kFlashWideDim = 256;

// Words that tell who has added to a tile of dq: one for each warpgroup that adds, in each block of a cluster.
constexpr std::int32_t kFlashWideWords = 4;

struct FlashWideBackwardParams {
  tile::TensorMap q, k, v, d_o;
  tile::TensorMap dk, dv;
  FlashMask mask;
  const float* lse = nullptr;  // as FlashDeltaParams has them
  const float* delta = nullptr;
  std::int64_t pitch = 0;
  float* dq = nullptr;  // {batch, query heads, query tiles} of tiles, each in the order of fragments; null: no dq
  // {batch, query heads, query tiles, kFlashWideWords}: the cluster's key tile that added last, plus 1;
  // from 0.
  std::uint32_t* added = nullptr;
  std::uint32_t* tickets = nullptr;  // tiles that clusters have taken; from 0
  // Sums of the parts of a group: {parts, batch, heads of k, rows of a tile's multiple, head dimension}.
  float* partial_dk = nullptr;
  float* partial_dv = nullptr;
  std::int64_t partial_rows = 0;
  std::int32_t batch = 0;
  std::int32_t heads = 0;      // of k and v
  std::int32_t group = 1;      // query heads for each of them
  std::int32_t parts = 1;      // that the heads of a group are shared by
  std::int32_t key_tiles = 0;  // a cluster's
  std::int32_t query_tiles = 0;
  std::int32_t period = 1;       // how far apart the places are where key tiles start (QueryTiles)
  FlashSections sections;        // of parts, whose ascending tiles of keys go together
  tile::FastDivmod by_parts;     // of a head
  std::int32_t batch_heads = 0;  // of k and v, each part apart
  std::int32_t clusters = 0;     // no more than run at once
  bool writes_dk = false;
  bool writes_dv = false;
  float scale_log2 = 0;
  float scale = 0;
};

// dq in 16 bits from its tiles.
struct FlashWideDqParams {
  const float* tiles = nullptr;
  const std::uint32_t* added = nullptr;
  AttentionTensor dq;
  std::int32_t length = 0;
  std::int32_t heads = 0;
  std::int32_t dim = 0;
  std::int32_t query_tiles = 0;
  std::int32_t batch_heads = 0;
  float scale = 0;
};

// dk or dv in 16 bits from the sums of all parts.
struct FlashWideSumParams {
  const float* partial = nullptr;
  AttentionTensor out;
  FlashMask mask;
  std::int64_t rows = 0;
  std::int32_t batch = 0;
  std::int32_t heads = 0;
  std::int32_t parts = 1;
  std::int32_t dim = 0;        // of the tensor
  std::int32_t built_dim = 0;  // of the sums
  float scale = 0;
};

void launch_flash_wide_backward_sm90(const FlashWideBackwardParams& params, const FlashWideDqParams& dq,
                                     tile::ElementType type, CUstream_st* stream);
void launch_flash_wide_sums_sm90(const FlashWideSumParams& params, tile::ElementType type, CUstream_st* stream);

}  // namespace gpudnn::kernels
