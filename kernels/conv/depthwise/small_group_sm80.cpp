// The launch of the convolution of small groups: from the type to the file that has the instance.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/depthwise/small_group_sm80.hpp"

namespace gpudnn::kernels::small_group {

void launch(int row, ElementType type, const Params& params, CUstream_st* stream) {
  if (type == ElementType::f16) {
    launch_of_type<tile::Half>(row, params, stream);
  } else if (type == ElementType::f32) {
    launch_of_type<float>(row, params, stream);
  } else {
    launch_of_type<tile::BFloat16>(row, params, stream);
  }
}

void launch_wgrad(int row, ElementType type, const Params& params, CUstream_st* stream) {
  if (type == ElementType::f16) {
    launch_wgrad_of_type<tile::Half>(row, params, stream);
  } else {
    launch_wgrad_of_type<tile::BFloat16>(row, params, stream);
  }
}

}  // namespace gpudnn::kernels::small_group
