// Which tile of which matrix the tiles of a list of products are: index arithmetic that kernels and host tests share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::kernels {

struct RnnWeightsPlace {
  std::int32_t group;
  std::int32_t matrix;  // of the group
  std::int32_t m, n;    // the first row and column
  bool sums;            // the first tile along n of its rows: it adds up the rows of a, if anybody wants them
};

constexpr std::uint32_t kRnnWeightsRaster = 8;  // tiles along m that neighbouring blocks take before the next along n

// How the tiles of a group lie: set where they are numbered, for a kernel of a few microseconds has no time to divide.
struct RnnWeightsOrder {
  std::uint32_t full = 0;        // rasters of all rows of tiles
  tile::FastDivmod of_raster;    // tiles of such a one
  tile::FastDivmod last_height;  // rows of tiles of the one behind them
};

// Tile number `index` of `w`, of bm x bn.
template <class Weights>
GPUDNN_HOST_DEVICE RnnWeightsPlace rnn_weights_place(const Weights& w, std::uint32_t index, std::uint32_t bm,
                                                     std::uint32_t bn) {
  RnnWeightsPlace place;
  place.group = 0;
  while (place.group + 1 < w.groups && index >= w.first_tile[place.group + 1]) ++place.group;
  const auto& group = w.group[place.group];
  const RnnWeightsOrder& order = group.order;
  std::uint32_t inside = 0;
  const std::uint32_t raster = order.of_raster.divmod(index - w.first_tile[place.group], &inside);
  std::uint32_t m = inside % kRnnWeightsRaster;
  std::uint32_t n = inside / kRnnWeightsRaster;
  if (raster >= order.full) n = order.last_height.divmod(inside, &m);
  const std::uint32_t first = (static_cast<std::uint32_t>(group.matrix[0].n) + bn - 1) / bn;
  place.m = static_cast<std::int32_t>((raster * kRnnWeightsRaster + m) * bm);
  place.matrix = n < first ? 0 : 1;
  place.n = static_cast<std::int32_t>((n < first ? n : n - first) * bn);
  place.sums = n == 0;
  return place;
}

// Numbers the tiles of all groups, one after the other; how many there are.
template <class Weights>
std::uint32_t rnn_weights_number_tiles(Weights* w, std::int32_t bm, std::int32_t bn) {
  std::uint32_t tiles = 0;
  for (std::int32_t i = 0; i < w->groups; ++i) {
    auto& group = w->group[i];
    w->first_tile[i] = tiles;
    const auto along_n =
        static_cast<std::uint32_t>((group.matrix[0].n + bn - 1) / bn + (group.matrix[1].n + bn - 1) / bn);
    const auto along_m = static_cast<std::uint32_t>((group.m + bm - 1) / bm);
    const std::uint32_t rest = along_m % kRnnWeightsRaster;
    group.order.full = along_m / kRnnWeightsRaster;
    group.order.of_raster = tile::FastDivmod(kRnnWeightsRaster * along_n);
    group.order.last_height = tile::FastDivmod(rest > 0 ? rest : 1);
    tiles += along_n * along_m;
  }
  return tiles;
}

}  // namespace gpudnn::kernels
