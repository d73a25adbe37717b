// The launch of the Hopper implicit GEMM: from the type and direction to the file that has its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm_sm90.cuh"

namespace gpudnn::kernels::sm90 {

template <>
LaunchShape launch_of<tile::Half, Direction::forward>(int shape);
template <>
LaunchShape launch_of<tile::Half, Direction::data_gradient>(int shape);
template <>
LaunchShape launch_of<tile::Half, Direction::filter_gradient>(int shape);
template <>
LaunchShape launch_of<tile::BFloat16, Direction::forward>(int shape);
template <>
LaunchShape launch_of<tile::BFloat16, Direction::data_gradient>(int shape);
template <>
LaunchShape launch_of<tile::BFloat16, Direction::filter_gradient>(int shape);
template <>
LaunchShape launch_of<float, Direction::forward>(int shape);
template <>
LaunchShape launch_of<float, Direction::data_gradient>(int shape);

namespace {

template <class T>
LaunchShape launch_of_direction(Direction direction, int shape) {
  if (direction == Direction::forward) return launch_of<T, Direction::forward>(shape);
  if constexpr (sizeof(T) == 2) {
    if (direction == Direction::filter_gradient) return launch_of<T, Direction::filter_gradient>(shape);
  }
  return launch_of<T, Direction::data_gradient>(shape);
}

constexpr int kTransposeTile = 32;

__global__ void __launch_bounds__(kTransposeTile * 8)
    transpose_filter_kernel(const float* from, float* to, std::int64_t filters, std::int64_t taps,
                            std::int64_t channels) {
  __shared__ float tile[kTransposeTile][kTransposeTile + 1];
  const std::int64_t group = blockIdx.z / taps;
  const std::int64_t tap = blockIdx.z % taps;
  const std::int64_t offset = group * filters * taps * channels;
  const std::int64_t c0 = static_cast<std::int64_t>(blockIdx.x) * kTransposeTile;
  const std::int64_t k0 = static_cast<std::int64_t>(blockIdx.y) * kTransposeTile;
  for (int row = static_cast<int>(threadIdx.y); row < kTransposeTile; row += 8) {
    const std::int64_t k = k0 + row;
    const std::int64_t c = c0 + threadIdx.x;
    if (k < filters && c < channels) tile[row][threadIdx.x] = from[offset + (k * taps + tap) * channels + c];
  }
  __syncthreads();
  for (int row = static_cast<int>(threadIdx.y); row < kTransposeTile; row += 8) {
    const std::int64_t c = c0 + row;
    const std::int64_t k = k0 + threadIdx.x;
    if (k < filters && c < channels) to[offset + (c * taps + tap) * filters + k] = tile[threadIdx.x][row];
  }
}

}  // namespace

void launch(int shape, ElementType type, Direction direction, const Params& params, std::uint32_t blocks, int device,
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
  launch_shape(params, blocks, device, stream);
}

void transpose_filter(const float* from, float* to, std::int64_t groups, std::int64_t filters, std::int64_t taps,
                      std::int64_t channels, CUstream_st* stream) {
  const dim3 grid(static_cast<unsigned>((channels + kTransposeTile - 1) / kTransposeTile),
                  static_cast<unsigned>((filters + kTransposeTile - 1) / kTransposeTile),
                  static_cast<unsigned>(groups * taps));
  transpose_filter_kernel<<<grid, dim3(kTransposeTile, 8), 0, stream>>>(from, to, filters, taps, channels);
}

}  // namespace gpudnn::kernels::sm90
