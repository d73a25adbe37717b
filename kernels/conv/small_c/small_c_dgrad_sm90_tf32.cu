// The Hopper data gradient for images of few channels: its instances for f32, as TF32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_dgrad_sm90.cuh"

namespace gpudnn::kernels::small_c_dgrad {

template LaunchShape launch_of<float>(int);

}  // namespace gpudnn::kernels::small_c_dgrad
