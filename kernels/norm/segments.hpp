// What the launch function of the normalization over segments takes besides NormParams. Plain data.
//
// A *segment* is a contiguous stretch of a tensor of whole packs of 16 bytes: the elements of a few neighbouring sets
// in one line. Sets that share segments are a *group*.
//
//   NCHW            a line is an image; a group is one channel, or as few channels as fill whole packs (8 for 7x7 in
//                   16 bits, 784 bytes); an element's set is its place in the segment over the pixels of a channel
//   NHWC, per       a line is a pixel (an image); a group is `units` packs of neighbouring sets, an element a set
//   activation
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/norm.hpp"

namespace gpudnn::kernels {

constexpr int kSegmentThreads = 448;  // most threads of a block: with all slots, 196 KB
constexpr int kSegmentSlots = 7;      // chunks of units in shared memory for each thread
constexpr int kSegmentSets = 128;     // most sets of a group
// Units of a chunk, of x forward, of x and dy backward: 64 bytes.
constexpr int segment_chunk(bool backward) { return backward ? 2 : 4; }

struct NormSegments {
  std::uint32_t line_packs = 0;  // from line to line, in packs; the same in all data tensors
  std::uint32_t group_packs = 0;
  tile::FastDivmod units;    // of a segment
  tile::FastDivmod per_set;  // elements of a set in a segment
  std::uint32_t lines = 1;
  std::uint32_t groups = 1;
  std::int32_t last_units = 1;  // of the segments of the last group
  std::int32_t sets = 1;        // of a whole group
  std::int32_t active = 32;     // threads of a block that work: a multiple of `units` where a group has several sets
  std::int32_t groups_at_once = 1;  // the blocks are this many times the parts of a group, and take turns
  std::int32_t grid = 0;         // the parts of a group are blocks of the grid that meet in memory, else of a cluster
  std::int64_t mask_line = 0;    // bytes of the mask from line to line
  std::int64_t params_step = 1;  // from set to set
  std::int64_t stats_step = 1;
};

constexpr int segment_chunks(const NormSegments& segments, int parts, bool backward) {
  const std::int64_t units = static_cast<std::int64_t>(segments.lines) * segments.units.divisor;
  const std::int64_t round = static_cast<std::int64_t>(parts) * segments.active * segment_chunk(backward);
  return static_cast<int>((units + round - 1) / round);
}

// Bytes of shared memory of a block: what it knows of the sets, the slots, and room to join what threads gathered.
constexpr int segment_shared_bytes(const NormSegments& segments, int parts, int threads, bool backward) {
  const int value = backward ? 8 : 12;
  const int chunks = segment_chunks(segments, parts, backward);
  const int slots = (chunks < kSegmentSlots ? chunks : kSegmentSlots) * threads * 64;
  const bool several = segments.sets > 1 && segments.per_set.divisor > 1;
  const int joined = several ? 2 * threads : threads / 32 * segments.sets;
  const int of_grid = segments.grid != 0 && segments.sets > 32 ? threads : 0;
  return (3 * value + 16) * kSegmentSets + slots + value * (joined > of_grid ? joined : of_grid);
}
// Clusters of `parts` blocks that the current device runs side by side; 0 if it takes none.
int resident_segment_clusters(tile::ElementType type, bool backward, int parts, int threads, int shared);
// False, with nothing launched, where the blocks of a grid that must meet do not all find a place.
[[nodiscard]] bool launch_norm_segments(const NormParams& params, const NormSegments& segments, CUstream_st* stream);

}  // namespace gpudnn::kernels
