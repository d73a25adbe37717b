// The launch of the pointwise convolution of few channels, and its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/conv1x1/conv1x1_small_c_sm80.cuh"

namespace gpudnn::kernels::conv1x1_small_c {

void launch(ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  const bool is_half = type == ElementType::f16;
  if (params.steps == 1) {
    (is_half ? &launch_instance<tile::Half, 1> : &launch_instance<tile::BFloat16, 1>)(params, blocks, stream);
  } else {
    (is_half ? &launch_instance<tile::Half, 2> : &launch_instance<tile::BFloat16, 2>)(params, blocks, stream);
  }
}

}  // namespace gpudnn::kernels::conv1x1_small_c
