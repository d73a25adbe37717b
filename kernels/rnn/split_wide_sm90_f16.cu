// Instances of the split sweeps whose weights are in shared memory and in registers.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/split_wide_sm90.cuh"

namespace gpudnn::kernels {

bool launch_rnn_wide_f16(const RnnSplit& split, bool backward, CUstream_st* stream) {
  return launch_rnn_wide_type<tile::Half>(split, backward, stream);
}

}  // namespace gpudnn::kernels
