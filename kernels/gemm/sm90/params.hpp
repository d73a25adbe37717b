// What the Hopper matrix product kernel gets. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/epilogue/params.hpp"
#include "kernels/gemm/sm90/tile_shape.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/tensor_map.hpp"

namespace gpudnn::kernels::gemm::sm90 {

// Clusters share what they load (multicast) or the reduction over k (splits), not both.
enum class Multicast : std::int32_t { none, a, b };  // a: pairs of tiles along n share A; b: pairs along m share B

// How sums get to D. boxes: by TMA, straight from the fragments. rows: along the rows of D, any strides and types; and
// wherever a cluster shares a reduction, but for halves: of the two blocks that share one, each exchanges half of the
// columns for the other's sums of its own half, which go by TMA. lines: D = alpha * sum + beta * c of 16 bits in
// contiguous rows that begin anywhere.
enum class Store : std::int32_t { boxes, rows, halves, lines };

struct Params {
  // With swap-AB `a` is what wgmma has as its A: the caller's b. The tiles, m, n and the epilogue are the caller's.
  // --- work tiles: batch, then groups along m, then n, then m in the group. They count in units: a tile, or the pair
  // of tiles of a cluster.
  std::uint32_t works = 0;
  std::uint32_t splits = 1;
  Multicast multicast = Multicast::none;
  std::uint32_t k_tiles = 0;
  std::uint32_t k_tiles_per_split = 0;
  tile::FastDivmod units;        // of a batch
  tile::FastDivmod group_units;  // of a full group
  tile::FastDivmod group;        // units along m of a full group ...
  tile::FastDivmod last_group;   // ... and of what is left after the full ones
  std::uint32_t full_groups = 0;
  tile::FastDivmod inner_batches;
  tile::FastDivmod a_repeat[2];
  tile::FastDivmod b_repeat[2];
  bool a_mn_major = false;
  bool b_mn_major = false;
  bool a_is_e5m2 = false;  // of 8-bit elements
  bool b_is_e5m2 = false;
  bool starts_early = false;  // one batch, K-major operands, no multicast: the first copies precede the block's start
  bool promotes = false;      // 8-bit elements: a k tile's sums are added to others in float

  // --- the epilogue
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  bool stores_boxes = false;  // D has a tensor map
  Store store = Store::rows;  // filled in for each launch
  Epilogue epilogue;

  tile::TensorMap a;
  tile::TensorMap b;
  tile::TensorMap d;
};
static_assert(sizeof(Params) <= 4096, "parameters of a kernel");

}  // namespace gpudnn::kernels::gemm::sm90
