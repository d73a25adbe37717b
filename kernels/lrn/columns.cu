// Instances and launch of local response normalization over columns.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/lrn/columns.cuh"

namespace gpudnn::kernels {
namespace {

bool packs_fit(const LrnParams& params, int lanes) {
  const int bytes = tile::element_bytes(params.type) * lanes;
  const tile::HostNest& pixels = params.pixels;
  if (!tile::can_pack(pixels, lanes, 2)) return false;
  for (int t = 0; t < 3; ++t) {
    if (pixels.strides[t][pixels.rank - 1] != 1 || params.channel_strides[t] % lanes != 0) return false;
  }
  return tile::is_aligned(params.x, bytes) && tile::is_aligned(params.dy, bytes) && tile::is_aligned(params.out, bytes);
}

template <class T, int kLanes>
void launch(const LrnParams& params, cudaStream_t stream) {
  const std::int64_t chunks = (params.channels + kLrnChunk - 1) / kLrnChunk;
  const tile::HostNest packs = kLanes > 1 ? tile::packed_nest(params.pixels, kLanes) : params.pixels;
  // A grid has fewer than 2^31 blocks, one for each chunk of 256 packs.
  const std::int64_t most = chunks > 128 ? tile::kMostIterations / chunks * 128 : tile::kMostIterations;
  tile::for_each_piece(
      packs, most, {}, [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
        LrnArgs<T> args = lrn_args<T>(params);
        args.x += offsets[0];
        args.dy += offsets[1];
        args.out += offsets[2];
        LrnColumns columns;
        columns.pixels = tile::LoopNest<3>(piece);
        columns.chunks = static_cast<std::uint32_t>(chunks);
        const unsigned blocks = (columns.pixels.count + kLrnThreads - 1) / kLrnThreads * columns.chunks;
        if constexpr (kLanes > kLrnLanes) {
          lrn_columns<T, kLanes, false><<<blocks, kLrnThreads, 0, stream>>>(args, columns);
        } else if (params.backward) {
          lrn_columns<T, kLanes, true><<<blocks, kLrnThreads, 0, stream>>>(args, columns);
        } else {
          lrn_columns<T, kLanes, false><<<blocks, kLrnThreads, 0, stream>>>(args, columns);
        }
      });
}

}  // namespace

bool lrn_columns_fit(const LrnParams& params) {
  // The channels, with a batch beyond them, count in 31 bits.
  return params.type != tile::ElementType::f64 && params.n == kLrnWindow && params.channels < tile::kMostIterations;
}

void launch_lrn_columns(const LrnParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      constexpr int kWide = tile::kPackWidth<T>;
      if (kWide > kLrnLanes && !params.backward && packs_fit(params, kWide)) {
        launch<T, kWide>(params, stream);
      } else if (packs_fit(params, kLrnLanes)) {
        launch<T, kLrnLanes>(params, stream);
      } else {
        launch<T, 1>(params, stream);
      }
    }
  });
}

}  // namespace gpudnn::kernels
