// The launch of the Hopper direct filter gradient: from the type to the file that has its instance.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/direct/direct_wgrad_sm90.hpp"

namespace gpudnn::kernels::direct_wgrad {

void launch(ElementType type, const Params& params, CUstream_st* stream) {
  if (type == ElementType::f16) {
    launch_of<tile::Half>(params, stream);
  } else {
    launch_of<tile::BFloat16>(params, stream);
  }
}

}  // namespace gpudnn::kernels::direct_wgrad
