// Instances of the float convolution on bfloat16 tensor cores: the data gradient.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/fp32_split/fp32_split_sm90.cuh"

namespace gpudnn::kernels::fp32_split {

template LaunchShape launch_of<Direction::data_gradient>(int);

}  // namespace gpudnn::kernels::fp32_split
