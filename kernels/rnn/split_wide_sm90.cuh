// Direct split sweeps (`split_direct_sm90.cuh`) of weights beyond a block's shared memory, of cells with gates: half of
// its weights are in its registers. Half and bfloat16. Hopper.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rnn/split_direct_sm90.cuh"

namespace gpudnn::kernels {

template <class T>
bool launch_rnn_wide_type(const RnnSplit& p, bool backward, cudaStream_t stream) {
  const auto launch = [&]<int kGates>(std::integral_constant<int, kGates>) {
    if (!backward) return launch_rnn_direct_block<T, kGates, 32, 2, 2, RnnHeld::half, false>(p, stream);
    return p.shape.places == 16 ? launch_rnn_direct_block<T, kGates, 16, 4, 2, RnnHeld::half, true>(p, stream)
                                : launch_rnn_direct_block<T, kGates, 32, 4, 2, RnnHeld::half, true>(p, stream);
  };
  return p.layer.cell == RnnCell::lstm ? launch(std::integral_constant<int, 4>())
                                       : launch(std::integral_constant<int, 3>());
}

}  // namespace gpudnn::kernels
