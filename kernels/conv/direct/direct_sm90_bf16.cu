// The Hopper direct convolution's instances for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/direct/direct_sm90.cuh"

namespace gpudnn::kernels::direct {

template LaunchShape launch_of<tile::BFloat16>(int);

}  // namespace gpudnn::kernels::direct
