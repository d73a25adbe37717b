// Resident sweeps: which blocks, and whether.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/resident.hpp"

#include <initializer_list>

namespace gpudnn::kernels {

RnnResidentShape rnn_resident_shape(RnnCell cell, std::int32_t units, std::int32_t batch, std::int32_t lanes,
                                    bool across, bool backward, int element_bytes, int multiprocessors) {
  RnnResidentShape best;
  std::int64_t best_rounds = 0;
  for (const std::int32_t owned : {32, 16}) {
    if (!rnn_resident_holds(cell, units, owned, across, backward, element_bytes)) continue;
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
