// The Hopper data gradient for images of few channels: its instances for f32, as TF32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/few_channels_data_sm90.cuh"

namespace gpudnn::kernels::few_channels_data {

template LaunchShape launch_of<float>(int);

}  // namespace gpudnn::kernels::few_channels_data
