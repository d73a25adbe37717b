// What the kernels of the image's gradient take, and what they leave each other in the memory that the caller lends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/spatial_transformer/sampler.cuh"

namespace gpudnn::kernels {

constexpr int kMaxBoxes = 4 * kSamplerThreads;  // a thread tests four
constexpr int kPatch = 8;                       // points across and down of a patch, a warp's work in a round
constexpr int kListed = kSamplerThreads;        // patches that are listed at a time: a thread tests one
constexpr int kWarps = kSamplerThreads / 32;
constexpr int kRound = kWarps * kPatch * kPatch;  // points of a round
// Image tiles that some points touch, both ends included; first > last: none.
struct alignas(8) TileRange {
  std::uint16_t first_x, last_x, first_y, last_y;

  __device__ __forceinline__ bool holds(std::int32_t x, std::int32_t y) const {
    return first_x <= x && x <= last_x && first_y <= y && y <= last_y;
  }
};
constexpr std::int32_t kMaxTileNumber = 65535;  // tiles beyond count as this one: visited too often, never too rarely

// How the grid is cut: `across` x `down` boxes of 2^shift_x x 2^shift_y patches.
struct GridBoxes {
  tile::FastDivmod across;
  std::uint32_t count;
  std::uint32_t shift_x;
  std::uint32_t shift_y;
  std::uint32_t height;  // of the grid
};

// What tile_queue.cuh fills.
constexpr int kTileQueues = 8;
struct TileQueues {
  std::uint32_t count[kTileQueues];
  std::uint32_t taken;   // tiles beyond the first of each block
  std::uint32_t listed;  // patches of all lists
  std::uint32_t parts;   // of all tiles that are shared out
  std::uint32_t unused[5];
};

// What share of a tile's patches an entry of the queues is: part `part` of `parts`, the tile's first being part `first`
// of all tiles'. Zero: the whole tile.
struct TilePart {
  std::uint32_t part, parts, first;

  __device__ __forceinline__ explicit TilePart(std::uint32_t word)
      : part(word & 31u), parts(word >> 5 & 31u), first(word >> 10) {}
  static __device__ __forceinline__ std::uint32_t word(std::uint32_t part, std::uint32_t parts, std::uint32_t first) {
    return part | parts << 5 | first << 10;
  }
};

// Where the queues are in the memory that the caller lends.
struct TileQueueSpace {
  TileQueues* queues;  // null where each tile is a block's own
  uint4* queued;       // of each queue: tile (of all images), where its list of patches begins, its length, a TilePart
  std::uint32_t* listed;
  float* part_sums;           // kFewStaged for each pixel of a part of a tile
  std::uint32_t* arrived;     // parts of a tile that are done, by its first part
  std::uint32_t most_queued;  // of a queue
  std::uint32_t most_listed;
  std::uint32_t most_parts;
};

template <class T>
struct ImageGradientArgs {
  SamplerArgs<T> sampler;  // `tiles` of the image, `chunks` of channels, `chunk` channels in each
  GridBoxes boxes;
  tile::FastDivmod tiles_across;
  tile::FastDivmod tiles;
  std::int32_t tile_width;  // pixels
  std::int32_t tile_height;
  std::uint32_t blocks;           // of an image: one for each tile and chunk of channels
  const TileRange* box_ranges;    // image after image; null: there is one box, which every tile visits
  const TileRange* patch_ranges;  // box after box; null: a box is one patch, or there are no ranges
  TileQueueSpace space;
  bool linear;  // the rows of the sample follow each other without a gap
};

// What the kernel takes that fills the queues.
struct TileQueueArgs {
  TileQueueSpace space;
  GridBoxes boxes;
  tile::FastDivmod tiles_across;
  tile::FastDivmod tiles;
  std::uint32_t all_tiles;  // of all images
  std::int32_t tile_width;
  std::int32_t tile_height;
  const TileRange* box_ranges;
  const TileRange* patch_ranges;
  // The gradient, where tiles without patches become 0.
  bool clears;
  int element_bytes;  // 2 or 4
  void* out;
  std::int64_t strides[4];
  std::uint32_t channels;
  std::int32_t height;
  std::int32_t width;
};

}  // namespace gpudnn::kernels
