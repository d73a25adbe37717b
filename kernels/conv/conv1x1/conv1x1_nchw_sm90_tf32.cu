// Instances of the Hopper pointwise convolution on planes: tf32. The data gradient is the forward kernel on a
// transposed copy of the filter.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/conv1x1/conv1x1_nchw_sm90.cuh"

namespace gpudnn::kernels::sm90::planes {

template LaunchPlanes launch_of<float, Direction::forward>(int);
template LaunchPlanes launch_of<float, Direction::filter_gradient>(int);

}  // namespace gpudnn::kernels::sm90::planes
