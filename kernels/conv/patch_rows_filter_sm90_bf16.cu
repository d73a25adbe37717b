// Instances of the Hopper filter gradient by rows of patches for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/patch_rows_filter_sm90.cuh"

namespace gpudnn::kernels::patch_rows_filter {

template LaunchShape launch_of<tile::BFloat16>(int);

}  // namespace gpudnn::kernels::patch_rows_filter
