// Instances of the depthwise convolution, bf16: forward and data gradient.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/depthwise/depthwise_image_simt_entries.cuh"

namespace gpudnn::kernels::depthwise {

template void launch_image<tile::BFloat16>(int, const Params&, CUstream_st*);

}  // namespace gpudnn::kernels::depthwise
