// The parameters of the Winograd convolution. See winograd_simt.hpp for the mathematics.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/winograd/winograd_simt_params.hpp"

#include <algorithm>
#include <limits>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/transform_params.hpp"

namespace gpudnn::conv {
namespace {

namespace winograd = kernels::winograd;
using tile::FastDivmod;

constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max();

winograd::Tiles tiles_of(const Problem& p, const TensorGeometry& image, int m) {
  const TensorGeometry& pixels = pixels_of(p);
  winograd::Tiles tiles;
  tiles.per_row = FastDivmod(static_cast<std::uint32_t>(ceil_div(pixels.dims[3], m)));
  tiles.per_column = FastDivmod(static_cast<std::uint32_t>(ceil_div(pixels.dims[2], m)));
  tiles.channels = static_cast<std::int32_t>(image.dims[1]);
  tiles.group_channels = FastDivmod(static_cast<std::uint32_t>(image.dims[1] / p.groups));
  return tiles;
}

// Forward and data gradient: filter (inner, outer), image (inner, tile), result (outer, tile) or (tile, outer).
void set_image_launch(const Problem& p, std::int64_t chunks, WinogradLaunch* l) {
  const TensorGeometry& in = windows_of(p);
  const TensorGeometry& out = pixels_of(p);
  const std::int64_t points = winograd::points_of(l->m);
  const std::int64_t inner = in.dims[1] / p.groups;
  const std::int64_t outer = out.dims[1] / p.groups;
  const std::int64_t outer_pitch = pitch_of(outer);
  l->chunk_tiles = pitch_of(ceil_div(l->tiles, chunks));
  l->swapped = runs_along_channels(out);

  winograd::FilterParams& f = l->filter;
  const bool dgrad = p.direction == Direction::dgrad;
  const std::int64_t filters = p.w.dims[0] / p.groups;
  l->first_tap = set_taps(p, &f.r, &f.s);
  f.group = filters * p.w.strides[0];
  f.outer = p.w.strides[dgrad ? 1 : 0];
  f.inner = p.w.strides[dgrad ? 0 : 1];
  f.outer_count = static_cast<std::int32_t>(outer);
  f.inner_count = static_cast<std::int32_t>(inner);
  f.groups = p.groups;
  f.out_inner = outer_pitch;
  f.out_group = inner * outer_pitch;
  f.point = p.groups * f.out_group;

  const std::int64_t tile_pitch = l->chunk_tiles;
  winograd::DataParams& d = l->data;
  d.origin_h = origin_of(p, 0);
  d.origin_w = origin_of(p, 1);
  d.transformed = {p.groups * inner * tile_pitch, inner * tile_pitch, tile_pitch, 1};
  d.staged = d.along_channels;

  winograd::OutputParams& o = l->output;
  o.image = winograd_image(out);
  o.addend_image = p.has_z != 0 ? winograd_image(p.z) : o.image;
  o.tiles = tiles_of(p, out, l->m);
  o.along_channels = l->swapped;
  o.vectors = winograd_stores_vectors(out, l->m);
  if (l->swapped) {
    o.transformed = {p.groups * tile_pitch * outer_pitch, tile_pitch * outer_pitch, 1, outer_pitch};
  } else {
    o.transformed = {p.groups * outer * tile_pitch, outer * tile_pitch, tile_pitch, 1};
  }
  if (p.direction == Direction::forward) set_activation(p, &o);

  winograd::BatchedProduct& b = l->product;
  b.k = static_cast<std::int32_t>(inner);
  b.k_per_split = b.k;
  b.batches = static_cast<std::int32_t>(points * p.groups);
  const auto filter_pitch = static_cast<std::int32_t>(outer_pitch);
  const auto data_pitch = static_cast<std::int32_t>(tile_pitch);
  b.m = static_cast<std::int32_t>(l->swapped ? tile_pitch : outer);
  b.n = static_cast<std::int32_t>(l->swapped ? outer : tile_pitch);
  b.a_pitch = l->swapped ? data_pitch : filter_pitch;
  b.b_pitch = l->swapped ? filter_pitch : data_pitch;
  b.c_pitch = b.b_pitch;
  b.a_batch = inner * b.a_pitch;
  b.b_batch = inner * b.b_pitch;
  b.c_batch = static_cast<std::int64_t>(b.m) * b.c_pitch;

  l->filter_at = 0;
  l->data_at = points * f.point;
  l->product_at = l->data_at + points * d.transformed.point;
  l->workspace_floats = l->product_at + points * o.transformed.point;
}

// Filter gradient: dy (tile, k), x (tile, c), result (k, c), in splits.
void set_filter_launch(const Problem& p, std::int64_t splits, WinogradLaunch* l) {
  const std::int64_t points = winograd::points_of(l->m);
  const std::int64_t inputs = p.x.dims[1] / p.groups;
  const std::int64_t outputs = p.y.dims[1] / p.groups;
  const std::int64_t x_pitch = pitch_of(inputs);
  const std::int64_t y_pitch = pitch_of(outputs);
  l->chunk_tiles = l->tiles;

  winograd::DataParams& x = l->data;
  x.origin_h = origin_of(p, 0);
  x.origin_w = origin_of(p, 1);
  x.transformed = {p.groups * l->tiles * x_pitch, l->tiles * x_pitch, 1, x_pitch};
  x.staged = !x.along_channels;
  winograd::DataParams& y = l->grad;
  y = winograd_data(p, p.y, l->m);
  y.transformed = {p.groups * l->tiles * y_pitch, l->tiles * y_pitch, 1, y_pitch};
  y.staged = !y.along_channels;

  winograd::BatchedProduct& b = l->product;
  b.m = static_cast<std::int32_t>(outputs);
  b.n = static_cast<std::int32_t>(inputs);
  b.k = static_cast<std::int32_t>(l->tiles);
  b.batches = static_cast<std::int32_t>(points * p.groups);
  b.a_pitch = static_cast<std::int32_t>(y_pitch);
  b.b_pitch = static_cast<std::int32_t>(x_pitch);
  b.c_pitch = b.b_pitch;
  b.a_batch = l->tiles * y_pitch;
  b.b_batch = l->tiles * x_pitch;
  b.c_batch = outputs * x_pitch;
  b.c_split = b.c_batch * b.batches;

  winograd::FilterOutputParams& o = l->filter_output;
  l->first_tap = set_taps(p, &o.r, &o.s);
  o.k = p.w.strides[0];
  o.c = p.w.strides[1];
  o.group_outputs = b.m;
  o.group_inputs = b.n;
  o.groups = p.groups;
  o.group = b.c_batch;
  o.point = p.groups * b.c_batch;
  o.row = x_pitch;
  o.split = b.c_split;

  l->filter_at = 0;  // of dy, which stands for the filter
  l->data_at = points * y.transformed.point;
  l->product_at = l->data_at + points * x.transformed.point;
  set_winograd_splits(splits, l);
}

}  // namespace

winograd::Image winograd_image(const TensorGeometry& image) {
  return {image.strides[0],
          image.strides[1],
          image.strides[2],
          image.strides[3],
          static_cast<std::int32_t>(image.dims[2]),
          static_cast<std::int32_t>(image.dims[3])};
}

winograd::DataParams winograd_data(const Problem& p, const TensorGeometry& image, int m) {
  winograd::DataParams d;
  d.image = winograd_image(image);
  d.step = m;
  d.tiles = tiles_of(p, image, m);
  d.along_channels = runs_along_channels(image);
  return d;
}

bool winograd_stores_vectors(const TensorGeometry& image, int m) {
  return image.strides[3] == 1 && image.dims[3] % m == 0 && image.strides[0] % m == 0 && image.strides[1] % m == 0 &&
         image.strides[2] % m == 0;
}

std::int64_t winograd_tiles(const Problem& p, int m) {
  const TensorGeometry& pixels = pixels_of(p);
  return pixels.dims[0] * ceil_div(pixels.dims[2], m) * ceil_div(pixels.dims[3], m);
}

void set_winograd_splits(std::int64_t splits, WinogradLaunch* l) {
  winograd::BatchedProduct& b = l->product;
  b.k_per_split = static_cast<std::int32_t>(ceil_div(ceil_div(l->tiles, splits), winograd::kProductTileK) *
                                            winograd::kProductTileK);
  b.splits = static_cast<std::int32_t>(ceil_div(l->tiles, b.k_per_split));
  l->filter_output.splits = b.splits;
  l->workspace_floats = l->product_at + b.splits * b.c_split;
}

const char* winograd_unsupported_reason(const Problem& p) {
  const char* const reason = transform_unsupported_reason(p);
  if (reason != nullptr) return reason;
  if (p.w.dims[2] != winograd::kFilter || p.w.dims[3] != winograd::kFilter) return "the filter is not 3x3";
  // The smallest tiles are the most.
  constexpr int kSmallest = 2;
  const std::int64_t tiles = winograd_tiles(p, kSmallest);
  if (tiles > kMaxIndex / 2) return "too many tiles for 32-bit indices";
  const std::int64_t blocks =
      ceil_div(tiles, 32) * ceil_div(std::max(p.x.dims[1], p.y.dims[1]) / p.groups, 32) * p.groups * 36;
  return blocks > kMaxIndex / 64 ? "too many thread blocks for 32-bit indices" : nullptr;
}

WinogradLaunch winograd_launch(const Problem& p, const Config& config) {
  WinogradLaunch l;
  l.direction = p.direction;
  l.m = winograd::kOutputTiles[config.tile / winograd::kProductTileCount];
  l.product_row = config.tile % winograd::kProductTileCount;
  l.split_k = config.split_k;
  l.tiles = winograd_tiles(p, l.m);
  l.data = winograd_data(p, windows_of(p), l.m);
  if (p.direction == Direction::wgrad) {
    set_filter_launch(p, config.split_k, &l);
  } else {
    set_image_launch(p, config.split_k, &l);
  }
  return l;
}

std::size_t winograd_workspace(const WinogradLaunch& launch) {
  return static_cast<std::size_t>(launch.workspace_floats) * sizeof(float) + kTransformAlignment;
}

}  // namespace gpudnn::conv
