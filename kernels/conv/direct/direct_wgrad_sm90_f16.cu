// The Hopper direct filter gradient's instance for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/direct/direct_wgrad_sm90.cuh"

namespace gpudnn::kernels::direct_wgrad {

template void launch_of<tile::Half>(const Params&, CUstream_st*);

}  // namespace gpudnn::kernels::direct_wgrad
