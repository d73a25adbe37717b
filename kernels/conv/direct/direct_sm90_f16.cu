// The Hopper direct convolution's instances for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/direct/direct_sm90.cuh"

namespace gpudnn::kernels::direct {

template LaunchShape launch_of<tile::Half>(int);

}  // namespace gpudnn::kernels::direct
