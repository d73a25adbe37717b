// The parameters of the Winograd convolution on bfloat16 tensor cores. See winograd_sm90.hpp for the batches.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/winograd/winograd_sm90_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/fp32_split/row_batches.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/transform_params.hpp"
#include "ops/conv/winograd/winograd_simt_params.hpp"

namespace gpudnn::conv {
namespace {

namespace split = kernels::fp32_split;
namespace sm90 = kernels::sm90;
namespace winograd = kernels::winograd;
using tile::FastDivmod;

std::int64_t channels_of(const Problem& p, const TensorGeometry& image) { return image.dims[1] / p.groups; }

// Strides of a transform of so many rows a batch.
winograd::Transformed transformed_as(const Rows& rows, std::int64_t rows_of_batch, std::int64_t groups) {
  const std::int64_t batch = rows_of_batch * rows.pitch;
  return {groups * batch, batch, 1, rows.pitch};
}

void set_tiles(const TensorGeometry& image, std::int64_t padded, winograd::Tiles* tiles) {
  tiles->padded = static_cast<std::int32_t>(padded);
  tiles->channel_blocks = FastDivmod(static_cast<std::uint32_t>(ceil_div(image.dims[1], winograd::kChannelsOfBlock)));
}

winograd::DataParams data_of(const Problem& p, const TensorGeometry& image, const Rows& rows, std::int64_t of_batch,
                             const WinogradSm90Launch& l) {
  winograd::DataParams d = winograd_data(p, image, l.m);
  set_tiles(image, of_batch, &d.tiles);
  d.transformed = transformed_as(rows, of_batch, p.groups);
  return d;
}

// Of tiles with 4 outputs a side: an image that windows read has the output's width and one pixel of padding; dy of the
// filter gradient has no windows.
bool loads_vectors(const Problem& p, const TensorGeometry& image, bool has_windows, int m) {
  if (m != 4 || !winograd_stores_vectors(image, m)) return false;
  return !has_windows || (origin_of(p, 1) == -1 && image.dims[3] == pixels_of(p).dims[3]);
}

void set_filter(const Problem& p, WinogradSm90Launch* l) {
  winograd::FilterTermsParams& f = l->filter;
  const bool dgrad = p.direction == Direction::dgrad;
  const std::int64_t inner = channels_of(p, windows_of(p));
  const std::int64_t outer = channels_of(p, pixels_of(p));
  const std::int64_t chunks = ceil_div(inner, split::kChunkChannels);
  l->first_tap = set_taps(p, &f.r, &f.s);
  f.group = p.w.dims[0] / p.groups * p.w.strides[0];
  f.outer = p.w.strides[dgrad ? 1 : 0];
  f.inner = p.w.strides[dgrad ? 0 : 1];
  f.outer_count = FastDivmod(static_cast<std::uint32_t>(outer));
  f.chunks = FastDivmod(static_cast<std::uint32_t>(chunks));
  f.inner_count = static_cast<std::uint32_t>(inner);
  f.groups = static_cast<std::uint32_t>(p.groups);
  const std::int64_t rows = l->batches * outer;
  l->rows_of_batch = static_cast<std::uint32_t>(outer);
  l->terms = {3,
              {split::kChunkChannels, rows, chunks * split::kPlanes},
              {split::kChunkBytes, rows * split::kChunkBytes},
              {split::kChunkChannels, split::kShapes[l->tile].bn, split::kTerms}};
}

void set_output(const Problem& p, const TensorGeometry& out, const Rows& rows, WinogradSm90Launch* l) {
  winograd::OutputParams& o = l->output;
  const winograd::DataParams like = data_of(p, out, rows, l->padded_tiles, *l);
  o.image = like.image;
  o.tiles = like.tiles;
  o.transformed = like.transformed;
  o.addend_image = p.has_z != 0 ? winograd_image(p.z) : o.image;
  o.vectors = winograd_stores_vectors(out, l->m);
  l->output_exchanges = !like.along_channels;
  if (p.direction == Direction::forward) set_activation(p, &o);
}

// Forward and data gradient.
void set_image_launch(const Problem& p, std::int64_t chunks, WinogradSm90Launch* l) {
  const TensorGeometry& in = windows_of(p);
  const TensorGeometry& out = pixels_of(p);
  const sm90::TileShape& shape = split::kShapes[l->tile];
  l->chunk_tiles = round_up(ceil_div(l->tiles, chunks), shape.bm);
  l->padded_tiles = l->chunk_tiles;
  const Rows data = rows_of(channels_of(p, in), l->batches, l->padded_tiles);
  const Rows products = rows_of(channels_of(p, out), l->batches, l->padded_tiles);

  set_filter(p, l);
  l->data = data_of(p, in, data, l->padded_tiles, *l);
  l->data.origin_h = origin_of(p, 0);
  l->data.origin_w = origin_of(p, 1);
  l->data.vectors = loads_vectors(p, windows_of(p), true, l->m);
  l->data_exchanges = !l->data.along_channels;
  set_output(p, out, products, l);

  l->product = sm90_plan(product_problem(Direction::forward, data, products), shape, 1);
  l->product.params.is_plain = true;
  l->m_tiles_of_batch = static_cast<std::uint32_t>(l->padded_tiles / shape.bm);

  const std::int64_t terms = l->terms.step[1] * l->terms.extent[2];
  l->filter_at = take_part(terms, &l->workspace);
  l->data_at = take_part(data.bytes(), &l->workspace);
  l->product_at = take_part(products.bytes(), &l->workspace);
}

// Filter gradient: each chunk's product is added to that of those before.
void set_filter_launch(const Problem& p, double chunk_bytes, int splits, WinogradSm90Launch* l) {
  const sm90::TileShape& shape = split::kWgradShapes[l->tile];
  l->chunk_tiles = winograd_sm90_wgrad_chunk(p, l->m, chunk_bytes);
  l->padded_tiles = l->chunk_tiles;
  const Rows x = rows_of(channels_of(p, p.x), l->batches, l->padded_tiles);
  const Rows y = rows_of(channels_of(p, p.y), l->batches, l->padded_tiles);

  l->data = data_of(p, p.x, x, l->padded_tiles, *l);
  l->data.origin_h = origin_of(p, 0);
  l->data.origin_w = origin_of(p, 1);
  l->data.vectors = loads_vectors(p, windows_of(p), true, l->m);
  l->data_exchanges = !l->data.along_channels;
  l->grad = data_of(p, p.y, y, l->padded_tiles, *l);
  l->grad.vectors = loads_vectors(p, p.y, false, l->m);
  l->grad_exchanges = !l->grad.along_channels;

  l->product = sm90_plan(product_problem(Direction::wgrad, x, y), shape, splits);
  l->k_tiles_of_batch = static_cast<std::uint32_t>(l->padded_tiles / kPixelsOfKTile);
  make_batches(l->batches, l->k_tiles_of_batch, y.channels, x.pitch, &l->product);

  winograd::FilterOutputParams& o = l->filter_output;
  l->first_tap = set_taps(p, &o.r, &o.s);
  o.k = p.w.strides[0];
  o.c = p.w.strides[1];
  o.group_outputs = static_cast<std::int32_t>(y.channels);
  o.group_inputs = static_cast<std::int32_t>(x.channels);
  o.groups = p.groups;
  o.row = x.pitch;
  o.group = y.channels * x.pitch;
  o.point = p.groups * o.group;

  l->filter_at = take_part(y.bytes(), &l->workspace);
  l->data_at = take_part(x.bytes(), &l->workspace);
  l->product_at = take_part(l->batches * o.group * static_cast<std::int64_t>(sizeof(float)), &l->workspace);
  if (splits > 1) {
    const std::size_t partials = sm90::partial_bytes(shape, std::size_t{l->product.tiles} * l->product.params.splits);
    l->partials_at = take_part(static_cast<std::int64_t>(partials), &l->workspace);
  }
}

}  // namespace

std::int64_t winograd_sm90_wgrad_chunk(const Problem& p, int m, double chunk_bytes) {
  const std::int64_t tiles = winograd_tiles(p, m);
  const std::int64_t channels = pitch_of(channels_of(p, p.x)) + pitch_of(channels_of(p, p.y));
  const double bytes = static_cast<double>(winograd::points_of(m) * p.groups * tiles * channels) * sizeof(float);
  return round_up(ceil_div(tiles, static_cast<std::int64_t>(std::ceil(bytes / chunk_bytes))), kPixelsOfKTile);
}

const char* winograd_sm90_unsupported_reason(const Problem& p) {
  if (const char* const reason = fp32_split_off_reason()) return reason;
  if (const char* const reason = winograd_unsupported_reason(p)) return reason;
  // Each word of the filter's terms is a thread's. What bounds the tiles bounds the rows of their transforms.
  const std::int64_t words = round_up(channels_of(p, p.x), split::kChunkChannels) *
                             round_up(channels_of(p, p.y), split::kChunkChannels) * p.groups;
  if (words >= sm90::kMaxRows) return "a filter of about 2^31 elements or more";
  return nullptr;
}

WinogradSm90Launch winograd_sm90_launch(const Problem& p, const Config& config) {
  WinogradSm90Launch l;
  constexpr int kSides = static_cast<int>(std::size(winograd::kOutputTiles));
  const bool is_wgrad = p.direction == Direction::wgrad;
  const int tiles = is_wgrad ? split::kWgradShapeCount : split::kShapeCount;
  l.direction = p.direction;
  l.m = winograd::kOutputTiles[config.tile / tiles % kSides];
  l.tile = config.tile % tiles;
  l.batches = winograd::points_of(l.m) * std::int64_t{p.groups};
  l.tiles = winograd_tiles(p, l.m);
  if (is_wgrad) {
    set_filter_launch(p, kWgradChunkBytes[config.tile / tiles / kSides], config.split_k, &l);
  } else {
    set_image_launch(p, config.split_k, &l);
  }
  l.workspace += kPartAlignment;  // before its first aligned address
  return l;
}

}  // namespace gpudnn::conv
