// Instances of the Hopper filter gradient by rows of patches for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/smem_im2col_wgrad_sm90.cuh"

namespace gpudnn::kernels::smem_im2col_wgrad {

template LaunchShape launch_of<tile::BFloat16>(int);

}  // namespace gpudnn::kernels::smem_im2col_wgrad
