// The launch of the Hopper filter gradient of images with few channels: from the type to the file that has its
// instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_wgrad_sm90.hpp"

namespace gpudnn::kernels::small_c_wgrad {

void launch(int shape, ElementType type, const Params& params, CUstream_st* stream) {
  const LaunchShape launch_shape =
      type == ElementType::f16 ? launch_of<tile::Half>(shape) : launch_of<tile::BFloat16>(shape);
  launch_shape(params, stream);
}

}  // namespace gpudnn::kernels::small_c_wgrad
