// Instances of the convolution of small groups, f32 as TF32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/depthwise/small_group_sm80_entries.cuh"

namespace gpudnn::kernels::small_group {

template void launch_of_type<float>(int, const Params&, CUstream_st*);

}  // namespace gpudnn::kernels::small_group
