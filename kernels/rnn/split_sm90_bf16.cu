// Instances of the split sweeps.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/split_sm90.cuh"

namespace gpudnn::kernels {

bool launch_rnn_split_bf16(const RnnSplit& split, CUstream_st* stream) {
  return launch_rnn_split_type<tile::BFloat16>(split, stream);
}

}  // namespace gpudnn::kernels
