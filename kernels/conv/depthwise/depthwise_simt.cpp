// The launch of the depthwise convolution: from the type and the tile row to the file that has the instance.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/depthwise/depthwise_simt.hpp"

namespace gpudnn::kernels::depthwise {
namespace {

template <class T>
void launch_of_type(int row, const Params& params, CUstream_st* stream) {
  if (is_wgrad(kTiles[row].kernel)) {
    launch_wgrad<T>(row, params, stream);
  } else {
    launch_image<T>(row, params, stream);
  }
}

}  // namespace

void launch(int row, ElementType type, const Params& params, CUstream_st* stream) {
  switch (type) {
    case ElementType::f16:
      return launch_of_type<tile::Half>(row, params, stream);
    case ElementType::bf16:
      return launch_of_type<tile::BFloat16>(row, params, stream);
    default:
      return launch_of_type<float>(row, params, stream);
  }
}

}  // namespace gpudnn::kernels::depthwise
