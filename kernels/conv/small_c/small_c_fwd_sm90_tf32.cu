// The instances of the Hopper forward convolution for few channels, tf32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_fwd_sm90.cuh"

namespace gpudnn::kernels::small_c_fwd {

template LaunchShape launch_of<float>(int);

}  // namespace gpudnn::kernels::small_c_fwd
