// Instances of the gradients of weights.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/weights_sm90.cuh"

namespace gpudnn::kernels {

void launch_rnn_weights_f16(const RnnWeights& weights, CUstream_st* stream) {
  launch_rnn_weights<tile::Half>(weights, stream);
}

}  // namespace gpudnn::kernels
