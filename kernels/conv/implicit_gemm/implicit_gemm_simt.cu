// The launch of the SIMT implicit GEMM: the instance of a row, and the reduction of a split one.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_simt.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_simt_split_k.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/instances.hpp"
#include "kernels/tile/launch.hpp"

namespace gpudnn::kernels::simt {
namespace {

// Lanes that share an element: enough threads to fill a device while splits last.
int lanes_of_reduction(std::size_t elements, std::uint32_t splits) {
  constexpr std::size_t kThreadsToFill = std::size_t{1} << 18;
  constexpr int kMaximum = 32;  // leaves 8 elements, a 32-byte sector, to a lane
  int lanes = 1;
  while (lanes < kMaximum && static_cast<std::uint32_t>(2 * lanes) <= splits &&
         elements * static_cast<std::size_t>(lanes) < kThreadsToFill) {
    lanes *= 2;
  }
  return lanes;
}

template <class T>
void launch_reduction(int bm, int bn, const Params& params, std::uint32_t tiles, CUstream_st* stream) {
  const std::size_t elements = static_cast<std::size_t>(tiles) * static_cast<std::size_t>(bm * bn);
  const int lanes = lanes_of_reduction(elements, params.splits);
  const auto columns = static_cast<std::size_t>(kReduceThreads / lanes);
  const auto blocks = static_cast<unsigned>((elements + columns - 1) / columns);
  const auto kernel = params.wide ? &reduce_splits<T, true> : &reduce_splits<T, false>;
  tile::launch_kernel(kernel, {blocks, kReduceThreads}, stream, params, bm, bn, tiles, lanes);
}

}  // namespace

void launch(int row, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  // The instances are made in the files of their types.
  tile::entry_at<kTileCount>(row, [](auto tile_row) -> LaunchRow { return &launch_row<tile_row()>; })(params, blocks,
                                                                                                      stream);
  if (params.splits <= 1) return;
  const TileRow& tile = kTiles[row];
  reduce_partial_sums(tile.type, tile.bm, tile.bn, params, blocks / params.splits, stream);
}

void reduce_partial_sums(tile::ElementType type, int bm, int bn, const Params& params, std::uint32_t tiles,
                         CUstream_st* stream) {
  tile::with_element_type(type, [&]<class T>() { launch_reduction<T>(bm, bn, params, tiles, stream); });
}

}  // namespace gpudnn::kernels::simt
