// The launch of the pointwise convolution of few channels, and its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/pointwise_few_channels_sm80.cuh"

namespace gpudnn::kernels::pointwise_few {

template <class T>
void launch_of(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  if (params.steps == 1) {
    (params.halves == 2 ? &launch_instance<T, 2, 1> : &launch_instance<T, 1, 1>)(params, blocks, stream);
  } else {
    (params.halves == 2 ? &launch_instance<T, 2, 2> : &launch_instance<T, 1, 2>)(params, blocks, stream);
  }
}

void launch(ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  (type == ElementType::f16 ? &launch_of<tile::Half> : &launch_of<tile::BFloat16>)(params, blocks, stream);
}

}  // namespace gpudnn::kernels::pointwise_few
