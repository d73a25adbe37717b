// Instances of the Hopper pointwise convolution on planes: f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/conv1x1/conv1x1_nchw_sm90.cuh"

namespace gpudnn::kernels::sm90::planes {

template LaunchPlanes launch_of<tile::Half, Direction::forward>(int);
template LaunchPlanes launch_of<tile::Half, Direction::data_gradient>(int);
template LaunchPlanes launch_of<tile::Half, Direction::filter_gradient>(int);

}  // namespace gpudnn::kernels::sm90::planes
