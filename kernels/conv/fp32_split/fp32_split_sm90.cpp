// The launch of the float convolution on bfloat16 tensor cores: to the file that has the direction's instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/fp32_split/fp32_split_sm90.hpp"

namespace gpudnn::kernels::fp32_split {

void launch(int shape, Direction direction, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  const LaunchShape launch_shape = direction == Direction::forward ? launch_of<Direction::forward>(shape)
                                                                   : launch_of<Direction::data_gradient>(shape);
  launch_shape(params, blocks, stream);
}

}  // namespace gpudnn::kernels::fp32_split
