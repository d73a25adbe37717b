// Instances and launch of the reductions to values alone.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduce/launch.cuh"

namespace gpudnn::kernels {

void launch_reduce_values(const ReduceParams& params, CUstream_st* stream) { launch_reduce_any<false>(params, stream); }

void launch_reduce(const ReduceParams& params, CUstream_st* stream) {
  params.indexed ? launch_reduce_places(params, stream) : launch_reduce_values(params, stream);
}

}  // namespace gpudnn::kernels
