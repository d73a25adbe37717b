// What the launch functions of the split sweeps take, and how a shape becomes blocks. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rnn/rnn.hpp"

namespace gpudnn::kernels {

constexpr int kRnnSplitThreads = 256;          // of a set, which goes through tiles of its own
constexpr int kRnnSplitSets = 2;               // of a block, at most
constexpr int kRnnDirectSets = 4;              // of a direct sweep backward whose blocks have more than two tiles
constexpr int kRnnDirectThreads = 128;         // of a warpgroup of a set of a direct sweep
constexpr int kRnnDirectWeights = 128 * 1024;  // of a block in its shared memory, at most; as many in its registers
constexpr int kRnnSplitRows = 128;             // of the weights of a cluster
constexpr int kRnnSplitShared = 227 * 1024;
// Direct, backward, of 32 places, with weights in registers and shared memory: blocks count what they have published.
GPUDNN_HOST_DEVICE constexpr bool rnn_direct_counts(int places, bool is_wide, bool backward) {
  return is_wide && backward && places == 32;
}
constexpr int kRnnCountedStages = 8;  // of the ring to which such states are copied
constexpr int kRnnCountedSlots = 2;   // steps that their exchange holds
constexpr int kRnnCountBytes = 128;   // of a count
// Panels of 64 columns of the weights of a block, at most.
GPUDNN_HOST_DEVICE constexpr int rnn_split_most_panels(int places) { return places == 8 ? 12 : 8; }

// Units at a place that a thread finishes in a tile, at most.
GPUDNN_HOST_DEVICE constexpr int rnn_split_most_elements(int places) { return places == 8 ? 1 : 2; }

// Tiles of a set of which threads keep what goes from step to step in registers; 0: in shared memory, of any number.
GPUDNN_HOST_DEVICE constexpr int rnn_split_kept_tiles(int places, int sets) { return places == 32 && sets > 1 ? 2 : 0; }

// Steps of which sums are held without clusters. A block adds the sums of a step when all have read those of two steps
// before.
constexpr int kRnnSplitSumSlots = 2;
GPUDNN_HOST_DEVICE constexpr int rnn_split_sum_slots(int steps) {
  return steps < kRnnSplitSumSlots ? steps : kRnnSplitSumSlots;
}

// Steps that the exchange holds.
GPUDNN_HOST_DEVICE constexpr int rnn_split_slots(int period, int steps) {
  return steps < 2 * period + 2 ? steps : 2 * period + 2;
}

struct RnnSplitShape {
  bool in_clusters = false;
  bool direct = false;      // a thread finishes units of the sums that it has itself
  bool floats = false;      // direct: weights in registers, multiplied in parts
  std::int32_t parts = 0;   // blocks that divide the summed index, a cluster; 0: none fits
  std::int32_t groups = 0;  // of `parts` blocks, which divide the units
  std::int32_t owned = 0;   // units that a block finishes; direct: that its group does
  std::int32_t panels = 0;  // of 128 bytes of columns
  std::int32_t places = 0;  // of a tile
  std::int32_t tiles = 0;
  std::int32_t sets = 0;          // of threads in a block: where it has several tiles, two or four
  std::int32_t slices = 0;        // that divide the tiles; each goes through every slices-th of them in a step
  std::int32_t warpgroups = 0;    // of a set: direct
  double microseconds = 0;        // of a step, as modelled
  std::int32_t column_gates = 0;  // gates of a unit among the columns
};

// Direct: half of the weights of a block are in its registers.
constexpr bool rnn_split_is_wide(const RnnSplitShape& s) {
  return s.direct && s.panels * (s.owned == 64 ? 64 : kRnnSplitRows) * 128 > kRnnDirectWeights;
}

constexpr bool rnn_split_counts(const RnnSplitShape& s) {
  return rnn_direct_counts(s.places, rnn_split_is_wide(s), s.owned == 64);
}

struct RnnSplit {
  RnnLayer layer;
  bool vectors = false;  // weights in vectors of 16 bytes
  RnnSplitShape shape;
  std::int32_t period = 0;   // of steps, in which memory of the exchange is made ready again
  void* exchange = nullptr;  // all bits set; of counted states, and their sums, none
  void* sums = nullptr;      // the same, without clusters
};

constexpr int kRnnSplitPeriod = 6;
// Bytes of the exchange of states and of sums of a shape, and of both of the largest one that a layer may have.
[[nodiscard]] std::int64_t rnn_split_sum_bytes(const RnnSplitShape& shape, std::int32_t directions, std::int32_t steps);
[[nodiscard]] std::int64_t rnn_split_state_bytes(const RnnSplitShape& shape, std::int32_t directions,
                                                 std::int32_t steps, std::int32_t period);
[[nodiscard]] std::int64_t rnn_split_most_exchange_bytes(RnnCell cell, std::int64_t units, std::int64_t batch,
                                                         std::int64_t steps, std::int32_t directions, bool backward,
                                                         int element_bytes);

// The blocks with the shortest step. `clusters[i]` of 2^i blocks are resident at once.
constexpr int kRnnSplitClusterSizes = 5;
[[nodiscard]] RnnSplitShape rnn_split_shape(RnnCell cell, std::int32_t units, std::int32_t batch,
                                            std::int32_t directions, bool backward, int element_bytes,
                                            const int (&clusters)[kRnnSplitClusterSizes]);

// Of direct shapes.
[[nodiscard]] bool launch_rnn_direct_f16(const RnnSplit& split, bool backward, CUstream_st* stream);
[[nodiscard]] bool launch_rnn_direct_bf16(const RnnSplit& split, bool backward, CUstream_st* stream);
[[nodiscard]] bool launch_rnn_direct_f32(const RnnSplit& split, bool backward, CUstream_st* stream);
// Of wide ones.
[[nodiscard]] bool launch_rnn_wide_f16(const RnnSplit& split, bool backward, CUstream_st* stream);
[[nodiscard]] bool launch_rnn_wide_bf16(const RnnSplit& split, bool backward, CUstream_st* stream);
// Clusters of 2^i blocks of these kernels that are resident at once on the current device.
void rnn_split_resident(int (&clusters)[kRnnSplitClusterSizes]);
// False where the launch was refused.
[[nodiscard]] bool launch_rnn_split_f16(const RnnSplit& split, CUstream_st* stream);
[[nodiscard]] bool launch_rnn_split_bf16(const RnnSplit& split, CUstream_st* stream);

}  // namespace gpudnn::kernels
