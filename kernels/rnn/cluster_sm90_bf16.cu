// Instances of the sweeps by clusters.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/cluster_sm90.cuh"

namespace gpudnn::kernels {

bool launch_rnn_cluster_bf16(const RnnLayer& layer, const RnnPersistentShape& shape, CUstream_st* stream) {
  return launch_rnn_cluster_type<tile::BFloat16>(layer, shape, stream);
}

}  // namespace gpudnn::kernels
