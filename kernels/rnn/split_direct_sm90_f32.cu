// Instances of the split sweeps whose threads finish the sums that they have.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/split_direct_sm90.cuh"

namespace gpudnn::kernels {

bool launch_rnn_direct_f32(const RnnSplit& split, bool backward, CUstream_st* stream) {
  return launch_rnn_direct_type<float>(split, backward, stream);
}

}  // namespace gpudnn::kernels
