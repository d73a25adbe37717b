// The launch of the Hopper forward convolution for few channels: from the type to the file that has its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/few_channels_forward_sm90.hpp"

#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::few_channels_forward {

void launch(int shape, ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  tile::with_tensor_core_type(type, [&]<class T>() { launch_of<T>(shape)(params, blocks, stream); });
}

}  // namespace gpudnn::kernels::few_channels_forward
