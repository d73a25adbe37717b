// The Hopper halo convolution's instances for f32, cut to TF32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/halo_sm90.cuh"

namespace gpudnn::kernels::halo {

template LaunchShape launch_of<float>(int);

}  // namespace gpudnn::kernels::halo
