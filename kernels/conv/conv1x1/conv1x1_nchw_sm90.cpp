// The launch of the Hopper pointwise convolution on planes: from the type and direction to the file that has its
// instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/conv1x1/conv1x1_nchw_sm90.hpp"

#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::sm90::planes {

namespace {

template <class T>
LaunchPlanes launch_of_direction(Direction direction, int shape) {
  if (direction == Direction::filter_gradient) return launch_of<T, Direction::filter_gradient>(shape);
  if constexpr (!std::is_same_v<T, float>) {
    if (direction == Direction::data_gradient) return launch_of<T, Direction::data_gradient>(shape);
  }
  return launch_of<T, Direction::forward>(shape);
}

}  // namespace

void launch(int shape, ElementType type, Direction direction, const Params& params, std::uint32_t blocks,
            CUstream_st* stream) {
  tile::with_tensor_core_type(type,
                              [&]<class T>() { launch_of_direction<T>(direction, shape)(params, blocks, stream); });
}

}  // namespace gpudnn::kernels::sm90::planes
