// The launch of the Hopper filter gradient by rows of patches: from the type to the file that has its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/smem_im2col_wgrad_sm90.hpp"

#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::smem_im2col_wgrad {

void launch(int shape, ElementType type, const Params& params, CUstream_st* stream) {
  tile::with_tensor_core_type(type, [&]<class T>() { launch_of<T>(shape)(params, stream); });
}

}  // namespace gpudnn::kernels::smem_im2col_wgrad
