// Persistent sweeps: which blocks, and whether.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/persistent.hpp"

namespace gpudnn::kernels {

RnnPersistentShape rnn_persistent_shape(RnnCell cell, std::int32_t units, std::int32_t batch, std::int32_t directions,
                                        bool backward, int multiprocessors) {
  const std::int64_t gates = backward ? 1 : rnn_gates(cell);
  const std::int64_t depth = backward ? std::int64_t{rnn_gates(cell)} * units : units;
  const std::int64_t columns = (depth + kRnnChunk - 1) / kRnnChunk * kRnnChunk;
  RnnPersistentShape best;
  double best_cycles = 0;
  for (int block = 0; block < kRnnPersistentBlockCount; ++block) {
    const RnnPersistentWarps warps = kRnnPersistentBlocks[block];
    const std::int64_t places = 16 * warps.m;
    const std::int64_t owned = 8 * warps.n;
    if (units % owned != 0) continue;
    const std::int64_t tiles = (batch + places - 1) / places;
    if (units / owned * tiles * directions > multiprocessors) continue;
    if (tiles * directions * kRnnFlagStride * 4 > kRnnFlagBytes) continue;
    const std::int64_t fixed = gates * owned * (columns + kRnnPadding) * 2 + warps.k * places * (gates * owned + 2) * 4;
    const std::int64_t slot = places * (kRnnChunk + kRnnPadding) * 2;
    std::int64_t slots = (kRnnPersistentShared - fixed) / slot;
    if (fixed > kRnnPersistentShared || slots < 1) continue;
    slots = slots < columns / kRnnChunk ? slots : columns / kRnnChunk;
    slots = slots < kRnnMaxSlots ? slots : kRnnMaxSlots;
    // A multiprocessor takes in some 60 bytes a cycle; a product of 16 x 8 x 16 takes about 3 of its cycles.
    const double cycles = static_cast<double>(places * depth * 2) / 60 +
                          static_cast<double>(warps.m * warps.n * gates * (columns / 16)) * 3;
    if (best.block >= 0 && cycles >= best_cycles) continue;
    best_cycles = cycles;
    best.block = block;
    best.columns = static_cast<std::int32_t>(columns);
    best.slots = static_cast<std::int32_t>(slots);
    best.shared_bytes = static_cast<std::int32_t>(fixed + slots * slot);
  }
  return best;
}

// Blocks of 32 units would let hidden sizes up to 512 in, but took 6.9 us a step in one run where blocks that meet in
// device memory took 4.6 in another.
RnnPersistentShape rnn_cluster_shape(RnnCell cell, std::int32_t units) {
  constexpr std::int64_t kMaxBlocks = 16;
  constexpr std::int64_t kPlaces = 16;
  constexpr RnnPersistentWarps kWarps = kRnnPersistentBlocks[0];
  constexpr std::int64_t kOwned = 8 * kWarps.n;
  const std::int64_t gates = rnn_gates(cell);
  const std::int64_t columns = (std::int64_t{units} + kRnnChunk - 1) / kRnnChunk * kRnnChunk;
  const std::int64_t bytes =
      (gates * kOwned + 2 * kPlaces) * (columns + kRnnPadding) * 2 + kWarps.k * kPlaces * (gates * kOwned + 2) * 4;
  if (units % kOwned != 0 || units / kOwned > kMaxBlocks || bytes > kRnnPersistentShared) return {};
  return {.block = 0,
          .columns = static_cast<std::int32_t>(columns),
          .slots = 0,
          .shared_bytes = static_cast<std::int32_t>(bytes)};
}

}  // namespace gpudnn::kernels
