// The launch of the Hopper pointwise convolution on planes: from the type and direction to the file that has its
// instances; and the copy of the filter in the order of the planes.
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

constexpr int kSide = 32;
constexpr int kRowsAtOnce = 8;

// A block has a square of 32 x 32; threads run along whatever lies contiguous in `from`.
template <class T>
__global__ void __launch_bounds__(kSide* kRowsAtOnce) arrange_filter(const __grid_constant__ ArrangeParams p) {
  __shared__ T square[kSide][kSide + 1];
  const std::uint32_t first_row = blockIdx.y * kSide;
  const std::uint32_t first_column = blockIdx.x * kSide;
  const bool along_rows = p.row_step == 1;
#pragma unroll
  for (std::uint32_t i = 0; i < kSide; i += kRowsAtOnce) {
    const std::uint32_t slow = threadIdx.y + i;
    const std::uint32_t r = along_rows ? threadIdx.x : slow;
    const std::uint32_t c = along_rows ? slow : threadIdx.x;
    const std::uint32_t row = plane_at(p.rows, first_row + r);
    const std::uint32_t column = plane_at(p.columns, first_column + c);
    T value = T(0.0f);
    if (row < p.rows.planes && column < p.columns.planes) {
      value = static_cast<const T*>(p.from)[row * p.row_step + column * p.column_step];
    }
    square[r][c] = value;
  }
  __syncthreads();
#pragma unroll
  for (std::uint32_t i = 0; i < kSide; i += kRowsAtOnce) {
    const std::uint32_t r = threadIdx.y + i;
    static_cast<T*>(p.to)[static_cast<std::size_t>(first_row + r) * p.column_count + first_column + threadIdx.x] =
        square[r][threadIdx.x];
  }
}

}  // namespace

void launch_arrange(const ArrangeParams& params, CUstream_st* stream) {
  const dim3 grid(params.column_count / kSide, params.row_count / kSide);
  const dim3 block(kSide, kRowsAtOnce);
  if (params.element_bytes == 4) {
    arrange_filter<float><<<grid, block, 0, stream>>>(params);
  } else {
    arrange_filter<unsigned short><<<grid, block, 0, stream>>>(params);
  }
}

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
