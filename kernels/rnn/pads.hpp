// Copies of several matrices in odd rows, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rnn/rnn.hpp"

namespace gpudnn::kernels {

// Of one type of 16 bits.
struct RnnPads {
  std::int32_t count = 0;
  RnnPad pad[kRnnLanes];
};
void launch_rnn_pads(const RnnPads& pads, CUstream_st* stream);

}  // namespace gpudnn::kernels
