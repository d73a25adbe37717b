// Batches of products of float rows by fp32_split's kernels. See row_batches.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/fp32_split/row_batches.hpp"

#include <algorithm>

#include "core/integer.hpp"

namespace gpudnn::conv {
namespace {

TensorGeometry matrix(const Rows& rows) {
  TensorGeometry t;
  t.type = GPUDNN_DATA_FLOAT;
  t.rank = 4;
  const std::int64_t dims[] = {rows.all, rows.channels, 1, 1};
  const std::int64_t strides[] = {rows.pitch, 1, rows.pitch, rows.pitch};
  std::copy(std::begin(dims), std::end(dims), t.dims);
  std::copy(std::begin(strides), std::end(strides), t.strides);
  return t;
}

}  // namespace

std::size_t take_part(std::int64_t bytes, std::size_t* end) {
  const std::size_t at = *end;
  *end += static_cast<std::size_t>(round_up(bytes, static_cast<std::int64_t>(kPartAlignment)));
  return at;
}

Problem product_problem(Direction direction, const Rows& in, const Rows& out) {
  Problem p;
  p.direction = direction;
  for (int i = 0; i < 2; ++i) p.stride[i] = p.dilation[i] = 1;
  p.x = matrix(in);
  p.y = matrix(out);
  p.w = matrix({in.channels, in.channels, out.channels});
  return p;
}

void make_batches(std::int64_t batches, std::int64_t k_tiles, std::int64_t rows_of_c, std::int64_t pitch_of_c,
                  Sm90Plan* plan) {
  kernels::sm90::Params& p = plan->params;
  p.a_channels = p.b_channels = 0;
  p.group_columns = static_cast<std::uint32_t>(rows_of_c);
  p.c_step[0] = p.addend_step[0] = pitch_of_c * static_cast<std::int64_t>(sizeof(float));
  p.problem[0].k_blocks = static_cast<std::uint32_t>(k_tiles);
  p.problem[0].k_blocks_per_split = static_cast<std::uint32_t>(ceil_div(k_tiles, p.splits));
  p.works = tile::FastDivmod(p.works.divisor * static_cast<std::uint32_t>(batches));
  plan->tiles = p.works.divisor;
}

Footprint footprint_of(const RowProductLaunch& l, const kernels::sm90::TileShape& tile, const TransformBytes& bytes,
                       const DeviceRates& rates) {
  constexpr double kStartSeconds = 0.6e-6;
  constexpr double kProductsOfTf32 = 3;  // that six of bfloat16 last
  const kernels::sm90::Params& p = l.product.params;
  Footprint f;
  f.tiles = static_cast<double>(l.product.tiles) * p.splits;
  f.k_tiles = p.problem[0].k_blocks_per_split;
  f.flops_rate = rates.tf32_flops / kProductsOfTf32;
  f.efficiency = tile.efficiency * (l.direction == Direction::wgrad ? kSplitWgradEfficiency : 1);
  f.tile_seconds = 0.32e-6;
  f.store_bytes = tile.bm * tile.bn * static_cast<double>(sizeof(float));
  f.dram_bytes = resident_bytes(bytes.filter + bytes.data + bytes.products);
  f.start_seconds = kStartSeconds;
  return f;
}

TransformBytes bytes_of_parts(const RowProductLaunch& l) {
  const std::size_t end = l.partials_at > 0 ? l.partials_at : l.workspace;
  return {static_cast<double>(l.data_at - l.filter_at), static_cast<double>(l.product_at - l.data_at),
          static_cast<double>(end - l.product_at),
          static_cast<double>(l.tiles) / static_cast<double>(ceil_div(l.tiles, l.chunk_tiles) * l.padded_tiles)};
}

}  // namespace gpudnn::conv
