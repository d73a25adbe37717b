// Resident sweeps: which blocks, and whether.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/resident.hpp"

#include <initializer_list>

namespace gpudnn::kernels {
namespace {

// Columns of 16-bit weights that the registers of a block of `units` units hold; 0: there is no such block.
std::int64_t resident_depth(int gates, int units, bool backward) {
  const bool wide = units == 32;
  if (backward) return wide ? 2048 : 4096;
  if (gates == 4) return wide ? 512 : 1024;
  if (gates == 3) return wide ? 640 : 1280;
  return wide ? 2048 : 0;
}

}  // namespace

RnnResidentShape rnn_resident_shape(RnnCell cell, std::int32_t units, std::int32_t batch, std::int32_t lanes,
                                    bool across, bool backward, int element_bytes, int multiprocessors) {
  RnnResidentShape best;
  std::int64_t best_rounds = 0;
  const std::int64_t depth = rnn_exchange_row(cell, units, backward) * (across ? 2 : 1);
  for (const std::int32_t owned : {32, 16}) {
    if (depth * element_bytes > 2 * resident_depth(rnn_gates(cell), owned, backward)) continue;
    const std::int64_t places = kRnnResidentThreads / owned;
    const std::int64_t groups = rnn_exchange_units(units) / owned;
    const std::int64_t all = (std::int64_t{batch} + places - 1) / places;
    const std::int64_t room = multiprocessors / (groups * lanes);
    if (room < 1) continue;
    const std::int64_t rounds = (all + room - 1) / room;
    if (rounds > kRnnResidentRounds) continue;
    if (best.units != 0 && rounds >= best_rounds) continue;
    best_rounds = rounds;
    best.units = owned;
    best.groups = static_cast<std::int32_t>(groups);
    best.tiles = static_cast<std::int32_t>((all + rounds - 1) / rounds);
    best.rounds = static_cast<std::int32_t>(rounds);
  }
  return best;
}

}  // namespace gpudnn::kernels
