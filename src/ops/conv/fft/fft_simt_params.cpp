// The parameters of the Fourier convolution. See fft_simt.hpp for the mathematics.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/fft/fft_simt_params.hpp"

#include <algorithm>
#include <limits>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/transform_params.hpp"

namespace gpudnn::conv {
namespace {

namespace fft = kernels::fft;
namespace winograd = kernels::winograd;
using tile::FastDivmod;

constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxPaddedImage = 256;  // of the number FFT ...
constexpr std::int64_t kMaxTiledFilter = 32;   // ... and of FFT_TILING
constexpr std::int64_t kMaxSize = 64;

void set_image_launch(const Problem& p, std::int64_t chunks, FourierLaunch* l) {
  const TensorGeometry& in = windows_of(p);
  const TensorGeometry& out = pixels_of(p);
  const std::int64_t frequencies = fft::frequencies_of(l->size);
  const std::int64_t inner = in.dims[1] / p.groups;
  const std::int64_t outer = out.dims[1] / p.groups;
  const std::int64_t filter_pitch = pitch_of(2 * outer);
  l->chunk_tiles = pitch_of(ceil_div(l->tiles, chunks));
  l->swapped = runs_along_channels(out);
  const std::int64_t tile_pitch = l->chunk_tiles;

  fft::ForwardParams& f = l->filter;
  f.image = fourier_filter_image(p, p.direction == Direction::dgrad, &l->first_tap);
  f.tiles = fourier_filter_tiles(p, outer, inner);
  const std::int64_t filter_group = 2 * inner * filter_pitch;
  f.spectrum = {p.groups * filter_group, filter_group, filter_pitch, 1, inner * filter_pitch, outer};

  fft::ForwardParams& d = l->data;
  d.image = fourier_image(in, p.groups);
  d.tiles = fourier_window_tiles(p, in, l->size);
  const std::int64_t data_group = 2 * inner * tile_pitch;
  d.spectrum = {p.groups * data_group, data_group, tile_pitch, 1, inner * tile_pitch, 0};

  fft::InverseParams& o = l->output;
  o.image = fourier_image(out, p.groups);
  o.addend_image = p.has_z != 0 ? fourier_image(p.z, p.groups) : o.image;
  o.tiles = fourier_pixel_tiles(p, out, l->size);
  o.tiles.along_channels = l->swapped;
  const std::int64_t result_group = l->swapped ? tile_pitch * filter_pitch : 2 * outer * tile_pitch;
  o.spectrum = {p.groups * result_group,
                result_group,
                l->swapped ? 1 : tile_pitch,
                l->swapped ? filter_pitch : 1,
                l->swapped ? outer : outer * tile_pitch,
                0};
  if (p.direction == Direction::forward) set_activation(p, &o);

  winograd::BatchedProduct& b = l->product;
  b.k = static_cast<std::int32_t>(2 * inner);
  b.k_per_split = b.k;
  b.batches = static_cast<std::int32_t>(frequencies * p.groups);
  b.m = static_cast<std::int32_t>(l->swapped ? tile_pitch : 2 * outer);
  b.n = static_cast<std::int32_t>(l->swapped ? 2 * outer : tile_pitch);
  b.a_pitch = static_cast<std::int32_t>(l->swapped ? tile_pitch : filter_pitch);
  b.b_pitch = static_cast<std::int32_t>(l->swapped ? filter_pitch : tile_pitch);
  b.c_pitch = b.b_pitch;
  b.a_batch = static_cast<std::int64_t>(b.k) * b.a_pitch;
  b.b_batch = static_cast<std::int64_t>(b.k) * b.b_pitch;
  b.c_batch = result_group;

  l->data_at = frequencies * f.spectrum.frequency;
  l->product_at = l->data_at + frequencies * d.spectrum.frequency;
  l->workspace_floats = l->product_at + frequencies * o.spectrum.frequency;
}

// Filter gradient: dy (tile, 2 k) stands for the filter, x (tile, c), result (2 k, c), in splits.
void set_filter_launch(const Problem& p, std::int64_t splits, FourierLaunch* l) {
  const std::int64_t frequencies = fft::frequencies_of(l->size);
  const std::int64_t inputs = p.x.dims[1] / p.groups;
  const std::int64_t outputs = p.y.dims[1] / p.groups;
  const std::int64_t x_pitch = pitch_of(inputs);
  const std::int64_t y_pitch = pitch_of(2 * outputs);
  l->chunk_tiles = l->tiles;

  fft::ForwardParams& y = l->filter;
  y.image = fourier_image(p.y, p.groups);
  y.tiles = fourier_pixel_tiles(p, p.y, l->size);
  y.tiles.along_channels = true;
  const std::int64_t y_group = 2 * l->tiles * y_pitch;
  y.spectrum = {p.groups * y_group, y_group, 1, y_pitch, l->tiles * y_pitch, outputs};

  fft::ForwardParams& x = l->data;
  x.image = fourier_image(p.x, p.groups);
  x.tiles = fourier_window_tiles(p, p.x, l->size);
  x.tiles.along_channels = true;
  const std::int64_t x_group = 2 * l->tiles * x_pitch;
  x.spectrum = {p.groups * x_group, x_group, 1, x_pitch, l->tiles * x_pitch, 0};

  winograd::BatchedProduct& b = l->product;
  b.m = static_cast<std::int32_t>(2 * outputs);
  b.n = static_cast<std::int32_t>(inputs);
  b.k = static_cast<std::int32_t>(2 * l->tiles);
  b.k_per_split =
      static_cast<std::int32_t>(ceil_div(ceil_div(b.k, splits), winograd::kProductTileK) * winograd::kProductTileK);
  b.splits = static_cast<std::int32_t>(ceil_div(b.k, b.k_per_split));
  b.batches = static_cast<std::int32_t>(frequencies * p.groups);
  b.a_pitch = static_cast<std::int32_t>(y_pitch);
  b.b_pitch = static_cast<std::int32_t>(x_pitch);
  b.c_pitch = b.b_pitch;
  b.a_batch = y_group;
  b.b_batch = x_group;
  b.c_batch = 2 * outputs * x_pitch;
  b.c_split = b.c_batch * b.batches;

  fft::InverseParams& o = l->output;
  o.image = fourier_filter_image(p, false, &l->first_tap);
  o.addend_image = o.image;
  o.tiles = fourier_filter_tiles(p, outputs, inputs);
  o.tiles.along_channels = true;
  o.spectrum = {p.groups * b.c_batch, b.c_batch, 1, x_pitch, outputs * x_pitch, 0};
  o.splits = b.splits;
  o.split = b.c_split;

  l->data_at = frequencies * y.spectrum.frequency;
  l->product_at = l->data_at + frequencies * x.spectrum.frequency;
  l->workspace_floats = l->product_at + b.splits * b.c_split;
}

}  // namespace

fft::Image fourier_image(const TensorGeometry& image, int groups) {
  return {image.strides[0],
          image.strides[1] * (image.dims[1] / groups),
          image.strides[1],
          image.strides[2],
          image.strides[3],
          static_cast<std::int32_t>(image.dims[2]),
          static_cast<std::int32_t>(image.dims[3])};
}

// Outputs of a tile along one side.
std::int64_t fourier_step(const Problem& p, int size, int axis) { return size - p.w.dims[2 + axis] + 1; }

std::int64_t fourier_tile_count(const Problem& p, int size) {
  const TensorGeometry& pixels = pixels_of(p);
  return pixels.dims[0] * ceil_div(pixels.dims[2], fourier_step(p, size, 0)) *
         ceil_div(pixels.dims[3], fourier_step(p, size, 1));
}

// Of an image with all of its tiles.
fft::Tiles fourier_pixel_tiles(const Problem& p, const TensorGeometry& image, int size) {
  const TensorGeometry& pixels = pixels_of(p);
  fft::Tiles t;
  t.step_h = static_cast<std::int32_t>(fourier_step(p, size, 0));
  t.step_w = static_cast<std::int32_t>(fourier_step(p, size, 1));
  t.per_column = FastDivmod(static_cast<std::uint32_t>(ceil_div(pixels.dims[2], t.step_h)));
  t.per_row = FastDivmod(static_cast<std::uint32_t>(ceil_div(pixels.dims[3], t.step_w)));
  t.channels = static_cast<std::int32_t>(image.dims[1]);
  t.group_channels = FastDivmod(static_cast<std::uint32_t>(image.dims[1] / p.groups));
  t.window_h = t.step_h;
  t.window_w = t.step_w;
  return t;
}

// The tiles that windows read begin at the first one's origin and are whole.
fft::Tiles fourier_window_tiles(const Problem& p, const TensorGeometry& image, int size) {
  fft::Tiles t = fourier_pixel_tiles(p, image, size);
  t.origin_h = origin_of(p, 0);
  t.origin_w = origin_of(p, 1);
  t.window_h = t.window_w = size;
  return t;
}

// A filter of `images` outer channels by the inner channels of all groups.
fft::Tiles fourier_filter_tiles(const Problem& p, std::int64_t images, std::int64_t inner) {
  fft::Tiles t;
  t.count = static_cast<std::int32_t>(images);
  t.channels = static_cast<std::int32_t>(inner * p.groups);
  t.group_channels = FastDivmod(static_cast<std::uint32_t>(inner));
  t.window_h = static_cast<std::int32_t>(p.w.dims[2]);
  t.window_w = static_cast<std::int32_t>(p.w.dims[3]);
  return t;
}

fft::Image fourier_filter_image(const Problem& p, bool channels_are_filters, std::int64_t* first_tap) {
  fft::Image i;
  *first_tap = set_taps(p, &i.h, &i.w);
  i.group = p.w.dims[0] / p.groups * p.w.strides[0];
  i.n = p.w.strides[channels_are_filters ? 1 : 0];
  i.channel = p.w.strides[channels_are_filters ? 0 : 1];
  i.height = static_cast<std::int32_t>(p.w.dims[2]);
  i.width = static_cast<std::int32_t>(p.w.dims[3]);
  return i;
}

const char* fourier_unsupported_reason(const Problem& p, Family family) {
  const char* const reason = transform_unsupported_reason(p);
  if (reason != nullptr) return reason;
  for (int i = 0; i < 2; ++i) {
    if (p.w.dims[2 + i] > kMaxSize) return "a filter of more than 64 taps along a side";
    const bool too_large = p.x.dims[2 + i] + 2 * p.pad[i] > kMaxPaddedImage;
    if (family == Family::fft && too_large) return "a padded image of more than 256 pixels along a side";
    if (family == Family::fft_tiling && p.w.dims[2 + i] > kMaxTiledFilter) return "the filter is larger than 32x32";
  }
  for (const int size : fft::kTileSizes) {
    if (fourier_step(p, size, 0) < 1 || fourier_step(p, size, 1) < 1) continue;
    const std::int64_t tiles = fourier_tile_count(p, size);
    if (tiles > kMaxIndex / 4) return "too many tiles for 32-bit indices";
    const std::int64_t channels = std::max(p.x.dims[1], p.y.dims[1]) / p.groups;
    const std::int64_t blocks = ceil_div(tiles, 32) * ceil_div(2 * channels, 32) * p.groups * fft::frequencies_of(size);
    if (blocks > kMaxIndex / 64) return "too many thread blocks for 32-bit indices";
  }
  return nullptr;
}

FourierLaunch fourier_launch(const Problem& p, const Config& config) {
  FourierLaunch l;
  l.direction = p.direction;
  l.size = fft::kTileSizes[config.tile / winograd::kProductTileCount];
  l.product_row = config.tile % winograd::kProductTileCount;
  l.tiles = fourier_tile_count(p, l.size);
  if (p.direction == Direction::wgrad) {
    set_filter_launch(p, config.split_k, &l);
  } else {
    set_image_launch(p, config.split_k, &l);
  }
  return l;
}

std::size_t fourier_workspace(const FourierLaunch& launch) {
  return static_cast<std::size_t>(launch.workspace_floats) * sizeof(float) + kTransformAlignment;
}

}  // namespace gpudnn::conv
