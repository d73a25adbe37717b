// Instances and launch of the channel sums.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/fused_ops/channel_sums.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

struct Shape {
  int lane_bits;
  std::int64_t tiles;
  std::int64_t shares;
};

// Blocks for each tile so that every multiprocessor has one; none with less than half a round of loads.
Shape shape_of(const ChannelSumsParams& params, int width) {
  Shape shape{};
  const std::int64_t packs = params.channels / width;
  while (2 << shape.lane_bits <= kSumsWidth / width && 1 << shape.lane_bits < packs && shape.lane_bits < 5) {
    ++shape.lane_bits;
  }
  shape.tiles = (packs + (std::int64_t{1} << shape.lane_bits) - 1) >> shape.lane_bits;
  const std::int64_t halves = params.places.count() / ((kSumsThreads >> shape.lane_bits) * kSumsLoads / 2);
  shape.shares = tile::greatest<std::int64_t>(1, tile::least(params.multiprocessors / shape.tiles, halves));
  return shape;
}

int width_of(tile::ElementType type) {
  return type == tile::ElementType::f64 ? 2 : type == tile::ElementType::f32 ? 4 : 8;
}

}  // namespace

bool takes_channel_sums(const ChannelSumsParams& params) {
  const int width = width_of(params.type);
  bool packs = params.channel_stride == 1 && params.channels % width == 0 && params.channels <= tile::kMaxIterations;
  for (int i = 0; i < params.places.rank; ++i) {
    packs = packs && (params.places.dims[i] == 1 || params.places.strides[0][i] % width == 0);
  }
  return packs && params.places.count() <= tile::kMaxIterations;
}

std::size_t channel_sums_workspace(const ChannelSumsParams& params) {
  const Shape shape = shape_of(params, width_of(params.type));
  if (shape.shares == 1) return 0;
  const std::size_t each = params.type == tile::ElementType::f64 ? 2 * sizeof(double) : 2 * sizeof(float);
  return static_cast<std::size_t>(shape.shares * params.channels) * each;
}

void launch_channel_sums(const ChannelSumsParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    using C = tile::Compute<T>;
    constexpr int N = tile::kPackWidth<T>;
    const Shape shape = shape_of(params, N);
    ChannelSumsArgs<T> args{};
    args.y = static_cast<const T*>(params.y);
    args.sum = static_cast<C*>(params.sum);
    args.squares = static_cast<C*>(params.squares);
    args.sum_stride = params.sum_stride;
    args.key = cuda::mailbox_key(params.sum != nullptr ? params.sum : params.squares);
    args.squares_stride = params.squares_stride;
    args.parts = static_cast<tile::Totals<C>*>(params.workspace);
    args.channels = static_cast<std::uint32_t>(params.channels);
    args.shares = static_cast<std::uint32_t>(shape.shares);
    args.places = static_cast<std::uint32_t>(params.places.count());
    args.lane_bits = shape.lane_bits;
    args.nest = tile::LoopNest<1>(params.places);
    const dim3 blocks(static_cast<unsigned>(shape.tiles), args.shares);
    cuda::launch_kernel(&channel_sums<T, N>, {blocks, kSumsThreads}, stream, args);
  });
}

}  // namespace gpudnn::kernels
