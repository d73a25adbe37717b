// Instances and launch of the minima and maxima with their places.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduce/launch.cuh"

namespace gpudnn::kernels {

void launch_reduce_places(const ReduceParams& params, CUstream_st* stream) { launch_reduce_any<true>(params, stream); }

}  // namespace gpudnn::kernels
