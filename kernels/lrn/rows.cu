// Instances and launch of local response normalization over rows.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/lrn/rows.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {

bool lrn_rows_fit(const LrnParams& params) {
  const int width = 16 / tile::element_bytes(params.type);
  if (params.type == tile::ElementType::f64 || params.n != 2 * kLrnReach + 1 || params.channels % width != 0 ||
      params.channels > tile::kMaxIterations) {
    return false;
  }
  for (int t = 0; t < 3; ++t) {
    if (params.channel_strides[t] != 1) return false;
    for (int i = 0; i < params.pixels.rank; ++i) {
      if (params.pixels.dims[i] > 1 && params.pixels.strides[t][i] % width != 0) return false;
    }
  }
  return tile::is_aligned(params.x, 16) && tile::is_aligned(params.dy, 16) && tile::is_aligned(params.out, 16);
}

void launch_lrn_rows(const LrnParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const std::int64_t packs = params.channels / tile::kPackWidth<T>;
      tile::for_each_piece(params.pixels, tile::kMaxIterations / packs, {},
                           [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                             LrnArgs<T> args = lrn_args<T>(params);
                             args.x += offsets[0];
                             args.dy += offsets[1];
                             args.out += offsets[2];
                             const tile::LoopNest<3> pixels(piece);
                             const tile::FastDivmod by_packs(static_cast<std::uint32_t>(packs));
                             const auto count = static_cast<std::uint32_t>(packs) * pixels.count;
                             const unsigned blocks = (count + kLrnRowThreads - 1) / kLrnRowThreads;
                             if (params.backward) {
                               lrn_rows<T, true><<<blocks, kLrnRowThreads, 0, stream>>>(args, pixels, by_packs, count);
                             } else {
                               lrn_rows<T, false><<<blocks, kLrnRowThreads, 0, stream>>>(args, pixels, by_packs, count);
                             }
                           });
    }
  });
}

}  // namespace gpudnn::kernels
