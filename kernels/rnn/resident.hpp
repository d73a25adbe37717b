// What the launch functions of the resident sweeps take, and how a shape becomes blocks. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rnn/rnn.hpp"

namespace gpudnn::kernels {

constexpr int kRnnResidentThreads = 256;
constexpr int kRnnResidentLanes = 8;
constexpr int kRnnResidentRounds = 64;          // at most, of places in a step
constexpr int kRnnResidentShared = 160 * 1024;  // at most, of a block

// Units of a direction as the exchange holds them: whole blocks of 32.
GPUDNN_HOST_DEVICE constexpr std::int64_t rnn_exchange_units(std::int64_t units) { return (units + 31) / 32 * 32; }
// Elements of an exchanged row: h, or backward the recurrent gradients of all gates.
GPUDNN_HOST_DEVICE constexpr std::int64_t rnn_exchange_row(RnnCell cell, std::int64_t units, bool backward) {
  return rnn_exchange_units(units) * (backward ? rnn_gates(cell) : 1);
}

// Columns of 16-bit weights that the registers of a block of `units` units hold; 0: there is no such block.
constexpr std::int64_t rnn_resident_depth(int gates, int units, bool backward) {
  const bool wide = units == 32;
  if (backward) return wide ? 2048 : 4096;
  if (gates == 4) return wide ? 512 : 1024;
  if (gates == 3) return wide ? 640 : 1280;
  return wide ? 2048 : 0;
}
// Whether the registers of a block that owns `owned` units hold their weights, of the layer below too where it goes
// `across` layers.
constexpr bool rnn_resident_holds(RnnCell cell, std::int64_t units, int owned, bool across, bool backward,
                                  int element_bytes) {
  const std::int64_t depth = rnn_exchange_row(cell, units, backward) * (across ? 2 : 1);
  return depth * element_bytes <= 2 * rnn_resident_depth(rnn_gates(cell), owned, backward);
}

// A block owns `units` units and, of each 256 / units places that it takes at a time, `places`.
struct RnnResidentShape {
  std::int32_t units = 0;  // 0: none fits
  std::int32_t groups = 0;
  std::int32_t tiles = 0;   // blocks that share the places
  std::int32_t rounds = 0;  // of places that a block goes through in a step
};

// One direction of one layer. With a neighbour its inputs, backward the gradients of its outputs, come from that lane
// within the launch: the layer below, backward that above.
struct RnnResidentLane {
  RnnDirection d;
  std::int32_t neighbour = -1;
  bool feeds = false;  // it is the neighbour of another
  // Of launches with lanes for products: this is one, for the layer above its neighbour; it takes what such a one
  // makes.
  bool multiplies = false;
  bool awaits = false;
};

struct RnnResident {
  RnnCell cell = RnnCell::tanh;
  bool backward = false;
  bool in_clusters = false;
  bool whole = false;    // float is not cut to TF32
  bool vectors = false;  // weights and first states in vectors of 16 bytes
  RnnLayer layer;        // its directions say nothing
  bool pipes = false;    // every other lane is one for products, which has no part of the exchange
  std::int32_t lanes = 1;
  std::int64_t lane_bytes = 0;  // of the exchange
  std::int32_t copies = 1;      // of each row: blocks that look for it do so in different places
  void* exchange = nullptr;     // all bits set
  RnnResidentShape shape;
  RnnResidentLane lane[kRnnResidentLanes];
};

// The blocks with the shortest step of those that fit `multiprocessors`.
[[nodiscard]] RnnResidentShape rnn_resident_shape(RnnCell cell, std::int32_t units, std::int32_t batch,
                                                  std::int32_t lanes, bool across, bool backward, int element_bytes,
                                                  int multiprocessors);

// False where the grid would not be resident as a whole, or its blocks are no clusters: nothing was launched. Clusters
// need the exchange only where lanes have neighbours.
[[nodiscard]] bool launch_rnn_resident_f16(const RnnResident& resident, CUstream_st* stream);
[[nodiscard]] bool launch_rnn_resident_bf16(const RnnResident& resident, CUstream_st* stream);
[[nodiscard]] bool launch_rnn_resident_f32(const RnnResident& resident, CUstream_st* stream);

// Sweeps of few sequences of equal length, whose steps are matrix-vector products (gemv_sm90.cuh): most units.
constexpr int kRnnGemvPlaces = 2;
constexpr int kRnnGemvClusterUnits = 512;                                  // of a lane that one cluster takes
constexpr int rnn_gemv_copies(bool backward) { return backward ? 1 : 4; }  // of states that go through L2
constexpr int rnn_gemv_units(RnnCell cell, bool across, int element_bytes) {
  if (rnn_gates(cell) == 1 || (across && cell == RnnCell::gru)) return 0;
  if (element_bytes == 2) return across ? 256 : 1024;
  return across ? 128 : 256;
}
constexpr bool rnn_gemv_takes(const RnnLayer& l, bool across) {
  return l.rows.batch <= kRnnGemvPlaces && l.rows.offsets == nullptr && l.units % 8 == 0 &&
         l.units <= rnn_gemv_units(l.cell, across, tile::element_bytes(l.type));
}
// Layers of an LSTM whose W and R together no cluster holds go forward a step apart, too: with lanes for the products
// between them.
constexpr bool rnn_gemv_pipes(const RnnLayer& l, int layers, bool backward) {
  return !backward && l.cell == RnnCell::lstm && tile::element_bytes(l.type) == 2 && layers > 1 &&
         2 * layers - 1 <= kRnnResidentLanes && rnn_gemv_takes(l, false) && l.units > rnn_gemv_units(l.cell, true, 2) &&
         l.units <= kRnnGemvClusterUnits;
}
// False: as above.
[[nodiscard]] bool launch_rnn_gemv_f16(const RnnResident& resident, CUstream_st* stream);
[[nodiscard]] bool launch_rnn_gemv_bf16(const RnnResident& resident, CUstream_st* stream);
[[nodiscard]] bool launch_rnn_gemv_f32(const RnnResident& resident, CUstream_st* stream);

}  // namespace gpudnn::kernels
