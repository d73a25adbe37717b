// Instances of the filter gradient of small groups, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/depthwise/small_group_wgrad_sm80_entries.cuh"

namespace gpudnn::kernels::small_group {

template void launch_wgrad_of_type<tile::BFloat16>(int, const Params&, CUstream_st*);
template void launch_sums<tile::BFloat16>(const Params&, const SumShape&, CUstream_st*);

}  // namespace gpudnn::kernels::small_group
