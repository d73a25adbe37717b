// The launch of the Hopper pointwise convolution on planes: from the type and direction to the file that has its
// instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/pointwise_planes_sm90.cuh"

namespace gpudnn::kernels::sm90::planes {

extern template LaunchPlanes launch_of<tile::Half, Direction::forward>(int);
extern template LaunchPlanes launch_of<tile::Half, Direction::data_gradient>(int);
extern template LaunchPlanes launch_of<tile::Half, Direction::filter_gradient>(int);
extern template LaunchPlanes launch_of<tile::BFloat16, Direction::forward>(int);
extern template LaunchPlanes launch_of<tile::BFloat16, Direction::data_gradient>(int);
extern template LaunchPlanes launch_of<tile::BFloat16, Direction::filter_gradient>(int);
extern template LaunchPlanes launch_of<float, Direction::forward>(int);
extern template LaunchPlanes launch_of<float, Direction::filter_gradient>(int);

namespace {

template <class T>
LaunchPlanes launch_of_direction(Direction direction, int shape) {
  if (direction == Direction::filter_gradient) return launch_of<T, Direction::filter_gradient>(shape);
  if constexpr (sizeof(T) == 2) {
    if (direction == Direction::data_gradient) return launch_of<T, Direction::data_gradient>(shape);
  }
  return launch_of<T, Direction::forward>(shape);
}

}  // namespace

void launch(int shape, ElementType type, Direction direction, const Params& params, std::uint32_t blocks,
            CUstream_st* stream) {
  LaunchPlanes launch_planes = nullptr;
  switch (type) {
    case ElementType::f16:
      launch_planes = launch_of_direction<tile::Half>(direction, shape);
      break;
    case ElementType::bf16:
      launch_planes = launch_of_direction<tile::BFloat16>(direction, shape);
      break;
    default:
      launch_planes = launch_of_direction<float>(direction, shape);
      break;
  }
  launch_planes(params, blocks, stream);
}

}  // namespace gpudnn::kernels::sm90::planes
