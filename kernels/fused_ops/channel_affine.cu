// Instances and launches of the channel-wise affine kernel.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused_ops/channel_affine.cuh"

namespace gpudnn::kernels {
namespace {

// Whether tensor t can be read and written by whole groups.
bool has_whole_groups(const ChannelAffineParams& params, int t, const void* data) {
  if (params.channel_strides[t] != 1 || !tile::is_aligned(data, 16)) return false;
  for (int i = 0; i < params.places.rank; ++i) {
    if (params.places.dims[i] > 1 && params.places.strides[t][i] % kAffineGroup != 0) return false;
  }
  return true;
}

template <class T, bool kVectors>
void launch_typed(const ChannelAffineParams& params, cudaStream_t stream) {
  constexpr std::uint32_t kPlaces = kVectors ? 8 / sizeof(T) : 1;
  const std::int64_t row_bytes = (params.channels + 31) / 32 * 4;
  const std::int64_t groups = params.bits != nullptr ? row_bytes : (params.channels + kAffineGroup - 1) / kAffineGroup;
  std::uint8_t* bits = params.bits;
  std::int64_t closest = params.channel_strides[2] + 1;
  for (int i = 0; i < params.places.rank; ++i) {
    if (params.places.dims[i] > 1) closest = std::min(closest, params.places.strides[2][i]);
  }
  const std::int64_t most = std::max<std::int64_t>(1, tile::kMostIterations / groups);
  tile::for_each_piece(
      params.places, most, {}, [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
        ChannelAffineArgs<T> args{};
        args.activation = params.activation;
        args.propagate_nan = params.propagate_nan;
        args.gates = params.gates;
        args.groups_fastest = kVectors || closest > params.channel_strides[2];
        args.ceiling = static_cast<tile::Compute<T>>(params.ceiling);
        args.x = static_cast<const T*>(params.x) + offsets[0];
        args.z = params.z != nullptr ? static_cast<const T*>(params.z) + offsets[1] : nullptr;
        args.y = static_cast<T*>(params.y) + offsets[2];
        std::copy_n(params.vectors, 4, args.vectors);
        args.bits = bits;
        args.bit_row_bytes = static_cast<std::uint32_t>(row_bytes);
        args.channels = static_cast<std::uint32_t>(params.channels);
        args.places = static_cast<std::uint32_t>(piece.count());
        args.chunks = (args.places + kPlaces - 1) / kPlaces;
        args.threads = static_cast<std::uint32_t>(groups) * args.chunks;
        args.fastest = tile::FastDivmod(args.groups_fastest ? static_cast<std::uint32_t>(groups) : args.chunks);
        std::copy_n(params.channel_strides, 3, args.channel_strides);
        args.nest = tile::LoopNest<3>(piece);
        const unsigned blocks = (args.threads + kAffineThreads - 1) / kAffineThreads;
        channel_affine<T, kVectors><<<blocks, kAffineThreads, 0, stream>>>(args);
        if (bits != nullptr) bits += piece.count() * row_bytes;
      });
}

}  // namespace

void launch_channel_affine(const ChannelAffineParams& params, CUstream_st* stream) {
  const bool vectors = params.channels % kAffineGroup == 0 && has_whole_groups(params, 0, params.x) &&
                       (params.z == nullptr || has_whole_groups(params, 1, params.z)) &&
                       has_whole_groups(params, 2, params.y);
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (sizeof(T) < 8) {
      if (vectors) return launch_typed<T, true>(params, stream);
    }
    launch_typed<T, false>(params, stream);
  });
}

}  // namespace gpudnn::kernels
