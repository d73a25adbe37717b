// Instances of the Hopper filter gradient of images with few channels for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/few_channels_filter_sm90.cuh"

namespace gpudnn::kernels::few_channels_filter {

template LaunchShape launch_of<tile::Half>(int);

}  // namespace gpudnn::kernels::few_channels_filter
