// Instances and launches of the channel-wise affine kernel.
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/fused_ops/channel_affine.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

constexpr std::int64_t kMaxPackedGroups = std::int64_t{65535} * kAffineThreads;  // of a grid's second dimension

// Whether tensor t can be read and written by whole groups.
bool has_whole_groups(const ChannelAffineParams& params, int t, const void* data) {
  if (params.channel_strides[t] != 1 || !tile::is_aligned(data, 16)) return false;
  for (int i = 0; i < params.places.rank; ++i) {
    if (params.places.dims[i] > 1 && params.places.strides[t][i] % kAffineGroup != 0) return false;
  }
  return true;
}

// Channels of a place as bytes of a row of bits.
std::int64_t bit_row_bytes(const ChannelAffineParams& params) { return (params.channels + 31) / 32 * 4; }

// Of a place, with those that only fill up a row of bits.
std::int64_t groups_of(const ChannelAffineParams& params) {
  return params.bits != nullptr ? bit_row_bytes(params) : (params.channels + kAffineGroup - 1) / kAffineGroup;
}

template <class Args>
void set_piece(const ChannelAffineParams& params, std::uint8_t* bits, const std::int64_t (&offsets)[tile::kMaxTensors],
               const tile::HostNest& piece, Args* args) {
  using Element = std::remove_pointer_t<decltype(args->y)>;
  args->activation = params.activation;
  args->propagate_nan = params.propagate_nan;
  args->gates = params.gates;
  args->ceiling = static_cast<decltype(args->ceiling)>(params.ceiling);
  args->x = static_cast<const Element*>(params.x) + offsets[0];
  args->z = params.z != nullptr ? static_cast<const Element*>(params.z) + offsets[1] : nullptr;
  args->y = static_cast<Element*>(params.y) + offsets[2];
  std::memcpy(args->vectors, params.vectors, sizeof args->vectors);
  args->bits = bits;
  args->bit_row_bytes = static_cast<std::uint32_t>(bit_row_bytes(params));
  args->channels = static_cast<std::uint32_t>(params.channels);
  args->nest = tile::LoopNest<3>(piece);
}

// launch(piece, offsets, bits) for parts of the places that 32-bit indices count.
template <class Launch>
void for_each_part(const ChannelAffineParams& params, Launch&& launch) {
  std::uint8_t* bits = params.bits;
  const std::int64_t most = tile::greatest<std::int64_t>(1, tile::kMaxIterations / groups_of(params));
  tile::for_each_piece(params.places, most, {},
                       [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                         launch(piece, offsets, bits);
                         if (bits != nullptr) bits += piece.count() * bit_row_bytes(params);
                       });
}

template <class T>
void launch_elements(const ChannelAffineParams& params, cudaStream_t stream) {
  const std::int64_t groups = groups_of(params);
  std::int64_t closest = params.channel_strides[2] + 1;
  for (int i = 0; i < params.places.rank; ++i) {
    if (params.places.dims[i] > 1) closest = tile::least(closest, params.places.strides[2][i]);
  }
  for_each_part(params, [&](const tile::HostNest& piece, const auto& offsets, std::uint8_t* bits) {
    ChannelAffineArgs<T> args{};
    set_piece(params, bits, offsets, piece, &args);
    args.groups_fastest = closest > params.channel_strides[2];
    const auto places = static_cast<std::uint32_t>(piece.count());
    args.threads = static_cast<std::uint32_t>(groups) * places;
    args.fastest = tile::FastDivmod(args.groups_fastest ? static_cast<std::uint32_t>(groups) : places);
    std::memcpy(args.channel_strides, params.channel_strides, sizeof args.channel_strides);
    tile::launch_kernel(&channel_affine<T>, {(args.threads + kAffineThreads - 1) / kAffineThreads, kAffineThreads},
                        stream, args);
  });
}

template <class T>
void launch_packs(const ChannelAffineParams& params, cudaStream_t stream) {
  constexpr std::int64_t kBlocksAtOnce = 2;  // of a multiprocessor
  const auto groups = static_cast<std::uint32_t>(groups_of(params));
  const std::uint32_t columns = tile::least<std::uint32_t>(groups, kAffineThreads);
  const std::uint32_t column_blocks = (groups + columns - 1) / columns;
  const std::uint32_t rows = kAffineThreads / columns;
  for_each_part(params, [&](const tile::HostNest& piece, const auto& offsets, std::uint8_t* bits) {
    AffinePacksArgs<T> args{};
    set_piece(params, bits, offsets, piece, &args);
    args.groups = groups;
    args.places = static_cast<std::uint32_t>(piece.count());
    args.rows = rows;
    args.columns = tile::FastDivmod(columns);
    const std::int64_t needed = (piece.count() + rows * kAffineLoads<T> - 1) / (rows * kAffineLoads<T>);
    const std::int64_t at_once =
        tile::greatest<std::int64_t>(1, kBlocksAtOnce * params.multiprocessors / column_blocks);
    const dim3 blocks(static_cast<unsigned>(tile::least(needed, at_once)), column_blocks);
    tile::launch_kernel(&channel_affine_packs<T>, {blocks, (columns * rows + 31) / 32 * 32}, stream, args);
  });
}

}  // namespace

void launch_channel_affine(const ChannelAffineParams& params, CUstream_st* stream) {
  const bool packs = params.channels % kAffineGroup == 0 && groups_of(params) <= kMaxPackedGroups &&
                     has_whole_groups(params, 0, params.x) &&
                     (params.z == nullptr || has_whole_groups(params, 1, params.z)) &&
                     has_whole_groups(params, 2, params.y);
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (sizeof(T) < 8) {
      if (packs) return launch_packs<T>(params, stream);
    }
    launch_elements<T>(params, stream);
  });
}

}  // namespace gpudnn::kernels
