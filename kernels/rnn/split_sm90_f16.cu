// Instances of the split sweeps.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/split_sm90.cuh"

namespace gpudnn::kernels {

void rnn_split_resident(int (&clusters)[kRnnSplitClusterSizes]) { rnn_split_resident_type<tile::Half>(clusters); }

bool launch_rnn_split_f16(const RnnSplit& split, CUstream_st* stream) {
  return launch_rnn_split_type<tile::Half>(split, stream);
}

}  // namespace gpudnn::kernels
