// The Hopper halo convolution's instances for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/halo_sm90.cuh"

namespace gpudnn::kernels::halo {

template LaunchShape launch_of<tile::BFloat16>(int);

}  // namespace gpudnn::kernels::halo
