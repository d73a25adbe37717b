// The Hopper data gradient for images of few channels: its instances for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_dgrad_sm90.cuh"

namespace gpudnn::kernels::small_c_dgrad {

template LaunchShape launch_of<tile::Half>(int);

}  // namespace gpudnn::kernels::small_c_dgrad
