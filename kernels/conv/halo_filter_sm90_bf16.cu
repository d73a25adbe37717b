// The Hopper halo filter gradient's instance for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/halo_filter_sm90.cuh"

namespace gpudnn::kernels::halo_filter {

template void launch_of<tile::BFloat16>(const Params&, CUstream_st*);

}  // namespace gpudnn::kernels::halo_filter
