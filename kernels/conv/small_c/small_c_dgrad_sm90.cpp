// The launch of the Hopper data gradient for images of few channels: from the type to the file that has its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_dgrad_sm90.hpp"

#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::small_c_dgrad {

void launch(int shape, ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  tile::with_tensor_core_type(type, [&]<class T>() { launch_of<T>(shape)(params, blocks, stream); });
}

}  // namespace gpudnn::kernels::small_c_dgrad
