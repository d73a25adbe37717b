// Instances of the filter gradient of small groups, f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/depthwise/small_group_wgrad_sm80_entries.cuh"

namespace gpudnn::kernels::small_group {

template void launch_wgrad_of_type<tile::Half>(int, const Params&, CUstream_st*);
template void launch_sums<tile::Half>(const Params&, const SumShape&, CUstream_st*);

}  // namespace gpudnn::kernels::small_group
