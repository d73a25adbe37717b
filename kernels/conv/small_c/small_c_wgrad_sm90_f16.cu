// Instances of the Hopper filter gradient of images with few channels for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_wgrad_sm90.cuh"

namespace gpudnn::kernels::small_c_wgrad {

template LaunchShape launch_of<tile::Half>(int);

}  // namespace gpudnn::kernels::small_c_wgrad
