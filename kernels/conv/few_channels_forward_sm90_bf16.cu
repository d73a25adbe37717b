// The instances of the Hopper forward convolution for few channels, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/few_channels_forward_sm90.cuh"

namespace gpudnn::kernels::few_channels_forward {

template LaunchShape launch_of<tile::BFloat16>(int);

}  // namespace gpudnn::kernels::few_channels_forward
