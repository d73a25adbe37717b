// Instances and launch of local response normalization over columns.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/lrn/columns.cuh"
#include "kernels/tile/dispatch.hpp"

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

// Into how many chunks the channels go: the number that ends soonest, going by the rounds of blocks that the device
// takes for them and the steps of a block. Between 16 and 64 channels a chunk, where there are as many.
template <int kLanes, bool kBackward>
std::int64_t best_chunks(const LrnParams& params, std::int64_t packs) {
  constexpr std::int64_t kBatch = kLrnBatch<kLanes, kBackward>;
  constexpr std::int64_t kResident = kLrnBlocks < kLanes, kBackward >> 0 ? kLrnBlocks<kLanes, kBackward> : 2;
  constexpr std::int64_t kStart = 8;  // what it takes to start a block, in steps
  const auto up = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by; };
  const std::int64_t columns = up(packs, kLrnThreads), places = kResident * params.multiprocessors;
  std::int64_t best = up(params.channels, 64), least = 0;
  if (up(params.channels, 16) - best > 64) return up(params.channels, 40);
  for (std::int64_t chunks = best; chunks <= up(params.channels, 16); ++chunks) {
    const std::int64_t steps = up(up(params.channels, chunks) + (kBackward ? 4 : 0), kBatch) * kBatch;
    const std::int64_t time = up(columns * chunks, places) * (steps + kStart);
    if (least > 0 && time >= least) continue;
    best = chunks;
    least = time;
  }
  return best;
}

template <class T, int kLanes>
void launch(const LrnParams& params, cudaStream_t stream) {
  const std::int64_t pack_count = params.pixels.count() / kLanes;
  const std::int64_t wanted =
      params.backward ? best_chunks<kLanes, true>(params, pack_count) : best_chunks<kLanes, false>(params, pack_count);
  const std::int64_t chunk = (params.channels + wanted - 1) / wanted;
  const std::int64_t chunks = (params.channels + chunk - 1) / chunk;
  const tile::HostNest packs = kLanes > 1 ? tile::packed_nest(params.pixels, kLanes) : params.pixels;
  // A grid has fewer than 2^31 blocks, one for each chunk of 256 packs.
  const std::int64_t most = chunks > 128 ? tile::kMaxIterations / chunks * 128 : tile::kMaxIterations;
  tile::for_each_piece(
      packs, most, {}, [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
        LrnArgs<T> args = lrn_args<T>(params);
        args.x += offsets[0];
        args.dy += offsets[1];
        args.out += offsets[2];
        LrnColumns columns;
        columns.pixels = tile::LoopNest<3>(piece);
        columns.chunks = static_cast<std::uint32_t>(chunks);
        columns.chunk = static_cast<std::int32_t>(chunk);
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
  return params.type != tile::ElementType::f64 && params.n == kLrnWindow && params.channels < tile::kMaxIterations;
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
