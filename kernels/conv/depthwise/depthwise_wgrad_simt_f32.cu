// Instances of the depthwise convolution, f32: filter gradient.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/depthwise/depthwise_wgrad_simt_entries.cuh"

namespace gpudnn::kernels::depthwise {

template void launch_wgrad<float>(int, const Params&, CUstream_st*);

}  // namespace gpudnn::kernels::depthwise
