// The Hopper direct convolution's instances for f32, cut to TF32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/direct/direct_sm90.cuh"

namespace gpudnn::kernels::direct {

template LaunchShape launch_of<float>(int);

}  // namespace gpudnn::kernels::direct
