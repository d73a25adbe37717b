// The parameters of the Fourier convolution on bfloat16 tensor cores. See fft_sm90.hpp for the batches.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/fft/fft_sm90_params.hpp"

#include <algorithm>
#include <cmath>

#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/fft/fft_simt_params.hpp"
#include "ops/conv/fp32_split/row_batches.hpp"
#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv {
namespace {

namespace fft = kernels::fft;
namespace split = kernels::fp32_split;
namespace sm90 = kernels::sm90;
using tile::FastDivmod;

// Blocks of channels of a group, and floats of a row.
std::int64_t blocks_of(std::int64_t channels) { return ceil_div(channels, split::kComplexBlock); }
std::int64_t floats_of(std::int64_t channels) { return 2 * split::kComplexBlock * blocks_of(channels); }

fft::RowBlocks row_blocks(std::int64_t channels, int groups) {
  return {FastDivmod(static_cast<std::uint32_t>(blocks_of(channels))), FastDivmod(static_cast<std::uint32_t>(groups))};
}

// Strides of a transform of so many rows a batch.
fft::SpectrumRows spectrum_as(const Rows& rows, std::int64_t rows_of_batch, int groups) {
  const std::int64_t batch = rows_of_batch * rows.pitch;
  return {groups * batch, batch, rows.pitch};
}

fft::DataRowsParams data_of(const Problem& p, const TensorGeometry& image, const fft::Tiles& tiles, const Rows& rows,
                            std::int64_t padded) {
  fft::DataRowsParams d;
  d.data.image = fourier_image(image, p.groups);
  d.data.tiles = tiles;
  d.blocks = row_blocks(image.dims[1] / p.groups, p.groups);
  d.rows = spectrum_as(rows, padded, p.groups);
  d.padded = static_cast<std::int32_t>(padded);
  return d;
}

void set_filter(const Problem& p, std::int64_t inner, std::int64_t outer, FourierSm90Launch* l) {
  fft::FilterTermsParams& f = l->filter;
  f.filter.image = fourier_filter_image(p, p.direction == Direction::dgrad, &l->first_tap);
  f.filter.tiles = fourier_filter_tiles(p, outer, inner);
  f.blocks = row_blocks(inner, p.groups);
  l->rows_of_batch = f.rows_of_batch = static_cast<std::uint32_t>(round_up(outer, 8));
  const std::int64_t rows = l->batches * l->rows_of_batch;
  l->terms = {3,
              {split::kChunkChannels, rows, blocks_of(inner) * split::kPlanes},
              {split::kChunkBytes, rows * split::kChunkBytes},
              {split::kChunkChannels, split::kComplexRowsOfB, split::kTerms}};
}

// Forward and data gradient.
void set_image_launch(const Problem& p, std::int64_t chunks, FourierSm90Launch* l) {
  const TensorGeometry& in = windows_of(p);
  const TensorGeometry& out = pixels_of(p);
  const std::int64_t inner = in.dims[1] / p.groups;
  const std::int64_t outer = out.dims[1] / p.groups;
  const sm90::TileShape& shape = split::kComplexShape;
  l->chunk_tiles = round_up(ceil_div(l->tiles, chunks), shape.bm);
  l->padded_tiles = l->chunk_tiles;
  const Rows data = rows_of(floats_of(inner), l->batches, l->padded_tiles);
  const Rows products = rows_of(floats_of(outer), l->batches, l->padded_tiles);

  set_filter(p, inner, outer, l);
  l->data = data_of(p, in, fourier_window_tiles(p, in, l->size), data, l->padded_tiles);

  fft::InverseParams& o = l->result.result;
  o.image = fourier_image(out, p.groups);
  o.addend_image = p.has_z != 0 ? fourier_image(p.z, p.groups) : o.image;
  o.tiles = fourier_pixel_tiles(p, out, l->size);
  if (p.direction == Direction::forward) set_activation(p, &o);
  l->result.blocks = row_blocks(outer, p.groups);
  l->result.rows = spectrum_as(products, l->padded_tiles, p.groups);

  l->product = sm90_plan(product_problem(Direction::forward, data, products), shape, 1);
  l->product.params.is_plain = true;
  l->m_tiles_of_batch = static_cast<std::uint32_t>(l->padded_tiles / shape.bm);

  l->filter_at = take_part(l->terms.step[1] * l->terms.extent[2], &l->workspace);
  l->data_at = take_part(data.bytes(), &l->workspace);
  l->product_at = take_part(products.bytes(), &l->workspace);
}

// Filter gradient: each chunk's product is added to that of those before.
void set_filter_launch(const Problem& p, FourierSm90Launch* l) {
  const sm90::TileShape& shape = split::kWgradShapes[l->tile];
  const std::int64_t inputs = p.x.dims[1] / p.groups;
  const std::int64_t outputs = p.y.dims[1] / p.groups;
  const double bytes =
      static_cast<double>(l->batches * l->tiles * (floats_of(inputs) + floats_of(outputs))) * sizeof(float);
  const auto chunks = static_cast<std::int64_t>(std::ceil(bytes / kFourierWgradChunkBytes));
  l->chunk_tiles = round_up(ceil_div(l->tiles, chunks), kPixelsOfKTile);
  l->padded_tiles = l->chunk_tiles;
  const Rows x = rows_of(floats_of(inputs), l->batches, l->padded_tiles);
  const Rows y = rows_of(floats_of(outputs), l->batches, l->padded_tiles);

  l->data = data_of(p, p.x, fourier_window_tiles(p, p.x, l->size), x, l->padded_tiles);
  l->grad = data_of(p, p.y, fourier_pixel_tiles(p, p.y, l->size), y, l->padded_tiles);
  l->product = sm90_plan(product_problem(Direction::wgrad, x, y), shape, 1);
  l->k_tiles_of_batch = static_cast<std::uint32_t>(l->padded_tiles / kPixelsOfKTile);
  make_batches(l->batches, l->k_tiles_of_batch, y.channels, x.pitch, &l->product);

  fft::InverseParams& o = l->result.result;
  o.image = fourier_filter_image(p, false, &l->first_tap);
  o.addend_image = o.image;
  o.tiles = fourier_filter_tiles(p, outputs, inputs);
  l->result.blocks = row_blocks(inputs, p.groups);
  const std::int64_t batch = y.channels / 2 * x.pitch;
  l->result.rows = {p.groups * batch, batch, x.pitch};

  l->filter_at = take_part(y.bytes(), &l->workspace);
  l->data_at = take_part(x.bytes(), &l->workspace);
  l->product_at = take_part(l->batches * batch * static_cast<std::int64_t>(sizeof(float)), &l->workspace);
}

}  // namespace

const char* fourier_sm90_unsupported_reason(const Problem& p, Family family) {
  if (const char* const reason = fp32_split_off_reason()) return reason;
  if (const char* const reason = fourier_unsupported_reason(p, family)) return reason;
  constexpr int kLargest = fft::kRowTileSizes[std::size(fft::kRowTileSizes) - 1];
  if (std::max(p.w.dims[2], p.w.dims[3]) > kLargest) return "a filter of more than 32 taps along a side";
  // Of the largest tiles: rows of the batches, of images and of filters, and thread blocks.
  const std::int64_t batches = std::int64_t{fft::row_frequencies_of(kLargest)} * p.groups;
  const std::int64_t filters = std::max(p.x.dims[1], p.y.dims[1]) / p.groups;
  if (batches * round_up(filters, split::kComplexShape.bm) >= sm90::kMaxRows) return "too many filters";
  for (const int size : fft::kRowTileSizes) {
    if (fourier_step(p, size, 0) < 1 || fourier_step(p, size, 1) < 1) continue;
    const std::int64_t rows = fft::row_frequencies_of(size) * std::int64_t{p.groups} * fourier_tile_count(p, size);
    if (rows >= sm90::kMaxRows / 2) return "too many tiles for 32-bit indices";
  }
  return nullptr;
}

FourierSm90Launch fourier_sm90_launch(const Problem& p, const Config& config) {
  FourierSm90Launch l;
  const bool is_wgrad = p.direction == Direction::wgrad;
  const int products = is_wgrad ? split::kWgradShapeCount : 1;
  l.direction = p.direction;
  l.size = fft::kRowTileSizes[config.tile / products];
  l.tile = config.tile % products;
  l.batches = fft::row_frequencies_of(l.size) * std::int64_t{p.groups};
  l.tiles = fourier_tile_count(p, l.size);
  if (is_wgrad) {
    set_filter_launch(p, &l);
  } else {
    set_image_launch(p, config.split_k, &l);
  }
  l.workspace += kPartAlignment;  // before its first aligned address
  return l;
}

}  // namespace gpudnn::conv
