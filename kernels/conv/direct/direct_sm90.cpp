// The launch of the Hopper direct convolution: from the type to the file that has its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/direct/direct_sm90.hpp"

namespace gpudnn::kernels::direct {

void launch(int shape, ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  const LaunchShape launch_shape = type == ElementType::f16    ? launch_of<tile::Half>(shape)
                                   : type == ElementType::bf16 ? launch_of<tile::BFloat16>(shape)
                                                               : launch_of<float>(shape);
  launch_shape(params, blocks, stream);
}

}  // namespace gpudnn::kernels::direct
