// The launch of the Hopper implicit GEMM: from the type and direction to the file that has its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm_sm90.cuh"

namespace gpudnn::kernels::sm90 {

extern template LaunchShape launch_of<tile::Half, Direction::forward>(int);
extern template LaunchShape launch_of<tile::Half, Direction::data_gradient>(int);
extern template LaunchShape launch_of<tile::Half, Direction::filter_gradient>(int);
extern template LaunchShape launch_of<tile::BFloat16, Direction::forward>(int);
extern template LaunchShape launch_of<tile::BFloat16, Direction::data_gradient>(int);
extern template LaunchShape launch_of<tile::BFloat16, Direction::filter_gradient>(int);
extern template LaunchShape launch_of<float, Direction::forward>(int);
extern template LaunchShape launch_of<float, Direction::data_gradient>(int);
LaunchShape launch_of_wgrad_tf32(int shape);

namespace {

template <class T>
LaunchShape launch_of_direction(Direction direction, int shape) {
  if (direction == Direction::forward) return launch_of<T, Direction::forward>(shape);
  if (direction == Direction::data_gradient) return launch_of<T, Direction::data_gradient>(shape);
  if constexpr (sizeof(T) == 2) {
    return launch_of<T, Direction::filter_gradient>(shape);
  } else {
    return launch_of_wgrad_tf32(shape);
  }
}

}  // namespace

void launch(int shape, ElementType type, Direction direction, const Params& params, std::uint32_t blocks,
            CUstream_st* stream) {
  LaunchShape launch_shape = nullptr;
  switch (type) {
    case ElementType::f16:
      launch_shape = launch_of_direction<tile::Half>(direction, shape);
      break;
    case ElementType::bf16:
      launch_shape = launch_of_direction<tile::BFloat16>(direction, shape);
      break;
    default:
      launch_shape = launch_of_direction<float>(direction, shape);
      break;
  }
  launch_shape(params, blocks, stream);
}

}  // namespace gpudnn::kernels::sm90
