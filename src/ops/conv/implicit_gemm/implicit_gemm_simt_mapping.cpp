// The mapping of each direction to a matrix product.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_simt_mapping.hpp"

#include <cstdlib>
#include <numeric>

namespace gpudnn::conv::mapping {
namespace {

Tensor tensor_steps(const TensorGeometry& geometry, int spatial) {
  Tensor t;
  t.outer = geometry.strides[0];
  t.channel = geometry.strides[1];
  for (int i = 0; i < spatial; ++i) t.spatial[3 - spatial + i] = geometry.strides[2 + i];
  return t;
}

// A 1x1 filter without stride and padding sees the pixels as one row, where they lie like one.
void merge_pixels(Conv* conv) {
  const auto plain = [&](int i) {
    return conv->r[i] == 1 && conv->stride[i] == 1 && conv->pad[i] == 0 && conv->x[i] == conv->y[i];
  };
  for (const auto& [i, j] : {std::array{1, 2}, std::array{0, 2}}) {
    if (!plain(i) || !plain(j) || conv->x[i] == 1) continue;
    const auto joined = [&, i = i, j = j](const Tensor& t) { return t.spatial[i] == conv->x[j] * t.spatial[j]; };
    if (!joined(conv->xs) || !joined(conv->ys) || (conv->zs.outer != 0 && !joined(conv->zs))) return;
    conv->x[j] *= conv->x[i];
    conv->y[j] = conv->x[j];
    conv->x[i] = conv->y[i] = 1;
  }
}

// Channels are innermost in k where they are in the gathered tensor, so that loads along k find neighbours.
bool channels_innermost(const Tensor& t, const Spatial& extent, int64_t channels) {
  if (channels == 1) return false;
  for (int i = 0; i < 3; ++i) {
    if (extent[i] > 1 && std::abs(t.spatial[i]) < t.channel) return false;
  }
  return true;
}

// {channel, d0, d1, d2} or {d0, d1, d2, channel}.
Digits with_channel(const Digit& channel, const std::array<Digit, 3>& spatial, bool innermost) {
  if (innermost) return {spatial[0], spatial[1], spatial[2], channel};
  return {channel, spatial[0], spatial[1], spatial[2]};
}

// Whether some window has taps in the padding.
bool leaves_image(const Conv& conv, int i) {
  const int64_t last = (conv.y[i] - 1) * conv.stride[i] - conv.pad[i] + (conv.r[i] - 1) * conv.dilation[i];
  return conv.pad[i] > 0 || last > conv.x[i] - 1;
}

Gemm forward_gemm(const Conv& conv) {
  Gemm g = {};
  g.m[0] = {conv.images, {conv.xs.outer}, {conv.ys.outer}, conv.zs.outer};
  std::array<Digit, 3> taps;
  for (int i = 0; i < 3; ++i) {
    g.m[static_cast<std::size_t>(1 + i)] = {conv.y[i],
                                            {conv.stride[i] * conv.xs.spatial[i], unit(i, conv.stride[i])},
                                            {conv.ys.spatial[i]},
                                            conv.zs.spatial[i]};
    taps[static_cast<std::size_t>(i)] = {
        conv.r[i], {conv.dilation[i] * conv.xs.spatial[i], unit(i, conv.dilation[i])}, {conv.ws.spatial[i]}};
    g.a_base.offset -= conv.pad[i] * conv.xs.spatial[i];
    g.a_base.position[i] = -conv.pad[i];
    g.a_checked[i] = leaves_image(conv, i);
  }
  g.tap_digits_first = channels_innermost(conv.xs, conv.x, conv.channels);
  g.k = with_channel({conv.channels, {conv.xs.channel}, {conv.ws.channel}}, taps, g.tap_digits_first);
  g.n[0] = {conv.filters, {conv.ws.outer}, {conv.ys.channel}, conv.zs.channel};
  g.b_base.offset = conv.ws.base;
  g.a_extent = conv.x;
  g.a_group = conv.channels * conv.xs.channel;
  g.b_group = conv.filters * conv.ws.outer;
  g.c_group = conv.filters * conv.ys.channel;
  g.z_group = conv.filters * conv.zs.channel;
  return g;
}

Gemm filter_gradient_gemm(const Conv& conv) {
  Gemm g = {};
  std::array<Digit, 3> taps;
  g.k[0] = {conv.images, {conv.xs.outer}, {conv.ys.outer}};
  for (int i = 0; i < 3; ++i) {
    taps[static_cast<std::size_t>(i)] = {
        conv.r[i], {conv.dilation[i] * conv.xs.spatial[i], unit(i, conv.dilation[i])}, {conv.ws.spatial[i]}};
    g.k[static_cast<std::size_t>(1 + i)] = {
        conv.y[i], {conv.stride[i] * conv.xs.spatial[i], unit(i, conv.stride[i])}, {conv.ys.spatial[i]}};
    g.a_base.offset -= conv.pad[i] * conv.xs.spatial[i];
    g.a_base.position[i] = -conv.pad[i];
    g.a_checked[i] = leaves_image(conv, i);
  }
  g.m = with_channel({conv.channels, {conv.xs.channel}, {conv.ws.channel}}, taps,
                     channels_innermost(conv.xs, conv.x, conv.channels));
  g.n[0] = {conv.filters, {conv.ys.channel}, {conv.ws.outer}};
  g.c_base.offset = conv.ws.base;
  g.a_extent = conv.x;
  g.a_group = conv.channels * conv.xs.channel;
  g.b_group = conv.filters * conv.ys.channel;
  g.c_group = conv.filters * conv.ws.outer;
  return g;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

// The output positions that meet a block of stride[i] neighbouring pixels along dimension i, relative to the block.
struct Window {
  int64_t first, count;
};
Window phase_window(const Conv& conv, int i) {
  const int64_t first = ceil_div(conv.pad[i] - (conv.r[i] - 1), conv.stride[i]);
  const int64_t last = floor_div(conv.stride[i] - 1 + conv.pad[i], conv.stride[i]);
  return {first, last - first + 1};
}

// Whether the phases of a strided data gradient become columns. Then k runs over the union of their taps, with zeros
// for taps that a phase lacks: worth it where the channels alone leave a narrow tile mostly idle, or where nothing is
// lacking.
bool phases_as_columns(const Conv& conv) {
  constexpr int64_t kNarrow = 16;
  int64_t phases = 1;
  bool exact = true;
  for (int i = 0; i < 3; ++i) {
    if (conv.dilation[i] != 1) return false;
    phases *= conv.stride[i];
    exact = exact && phase_window(conv, i).count * conv.stride[i] == conv.r[i];
  }
  return phases > 1 && (exact || conv.channels * phases <= kNarrow);
}

void set_data_gradient_common(const Conv& conv, Gemm* g) {
  g->a_extent = conv.y;
  g->b_base.offset = conv.ws.base;
  g->a_group = conv.filters * conv.ys.channel;
  g->b_group = conv.filters * conv.ws.outer;
  g->c_group = conv.channels * conv.xs.channel;
  for (int i = 0; i < 3; ++i) {
    const int64_t lowest = ceil_div(conv.pad[i] - (conv.r[i] - 1) * conv.dilation[i], conv.stride[i]);
    g->a_checked[i] = lowest < 0 || floor_div(conv.x[i] - 1 + conv.pad[i], conv.stride[i]) > conv.y[i] - 1;
  }
}

// h = stride * j + phase meets tap r = phase + pad - stride * v in dy's position p = j + v, v in the window.
Gemm phase_gemm(const Conv& conv) {
  Gemm g = {};
  set_data_gradient_common(conv, &g);
  g.m[0] = {conv.images, {conv.ys.outer}, {conv.xs.outer}};
  std::array<Digit, 3> window_digits;
  std::array<Digit, 3> phases;
  for (int i = 0; i < 3; ++i) {
    const int64_t s = conv.stride[i];
    const Window window = phase_window(conv, i);
    g.m[static_cast<std::size_t>(1 + i)] = {
        ceil_div(conv.x[i], s), {conv.ys.spatial[i], unit(i, 1)}, {s * conv.xs.spatial[i], unit(i, s)}};
    window_digits[static_cast<std::size_t>(i)] = {
        window.count, {conv.ys.spatial[i], unit(i, 1)}, {-s * conv.ws.spatial[i], unit(i, -s)}};
    phases[static_cast<std::size_t>(i)] = {s, {conv.ws.spatial[i], unit(i, 1)}, {conv.xs.spatial[i], unit(i, 1)}};
    g.a_base.offset += window.first * conv.ys.spatial[i];
    g.a_base.position[i] = window.first;
    g.b_base.offset += (conv.pad[i] - s * window.first) * conv.ws.spatial[i];
    g.b_base.position[i] = conv.pad[i] - s * window.first;
    g.a_checked[i] = window.first < 0 || ceil_div(conv.x[i], s) - 1 + window.first + window.count - 1 > conv.y[i] - 1;
    g.b_checked[i] = window.count * s != conv.r[i];
    g.c_checked[i] = conv.x[i] % s != 0;
  }
  g.b_extent = conv.r;
  g.c_extent = conv.x;
  g.tap_digits_first = channels_innermost(conv.ys, conv.y, conv.filters);
  g.k = with_channel({conv.filters, {conv.ys.channel}, {conv.ws.outer}}, window_digits, g.tap_digits_first);
  g.n = with_channel({conv.channels, {conv.ws.channel}, {conv.xs.channel}}, phases,
                     channels_innermost(conv.xs, conv.x, conv.channels));
  return g;
}

// One phase after the other; what differs between phases is in its StridePhase.
Gemm per_phase_gemm(const Conv& conv) {
  Gemm g = {};
  set_data_gradient_common(conv, &g);
  g.has_phases = true;
  g.m[0] = {conv.images, {conv.ys.outer}, {conv.xs.outer}};
  std::array<Digit, 3> taps;
  for (int i = 0; i < 3; ++i) {
    const int64_t gcd = std::gcd(conv.stride[i], conv.dilation[i]);
    const int64_t back = conv.dilation[i] / gcd;
    const int64_t tap_step = conv.stride[i] / gcd;
    g.m[static_cast<std::size_t>(1 + i)] = {ceil_div(conv.x[i], conv.stride[i]),
                                            {conv.ys.spatial[i], unit(i, 1)},
                                            {conv.stride[i] * conv.xs.spatial[i]},
                                            0,
                                            conv.stride[i] > 1};
    taps[static_cast<std::size_t>(i)] = {ceil_div(conv.r[i], tap_step),
                                         {-back * conv.ys.spatial[i], unit(i, -back)},
                                         {tap_step * conv.ws.spatial[i]},
                                         0,
                                         conv.stride[i] > 1};
  }
  g.tap_digits_first = channels_innermost(conv.ys, conv.y, conv.filters);
  g.k = with_channel({conv.filters, {conv.ys.channel}, {conv.ws.outer}}, taps, g.tap_digits_first);
  g.n[0] = {conv.channels, {conv.ws.channel}, {conv.xs.channel}};
  return g;
}

}  // namespace

Conv normalize(const Problem& problem) {
  Conv conv = {};
  conv.images = problem.x.dims[0];
  conv.channels = problem.w.dims[1];
  conv.filters = problem.w.dims[0] / problem.groups;
  conv.x = conv.r = conv.y = conv.stride = conv.dilation = {{1, 1, 1}};
  const int spatial = problem.spatial;
  for (int i = 0; i < spatial; ++i) {
    const int at = 3 - spatial + i;
    conv.x[at] = problem.x.dims[2 + i];
    conv.r[at] = problem.w.dims[2 + i];
    conv.y[at] = problem.y.dims[2 + i];
    conv.pad[at] = problem.pad[i];
    conv.stride[at] = problem.stride[i];
    conv.dilation[at] = conv.r[at] == 1 ? 1 : problem.dilation[i];
  }
  conv.xs = tensor_steps(problem.x, spatial);
  conv.ws = tensor_steps(problem.w, spatial);
  conv.ys = tensor_steps(problem.y, spatial);
  if (problem.has_z != 0) conv.zs = tensor_steps(problem.z, spatial);
  if (problem.mode == GPUDNN_CONVOLUTION) {
    for (int i = 0; i < 3; ++i) {
      conv.ws.base += (conv.r[i] - 1) * conv.ws.spatial[i];
      conv.ws.spatial[i] = -conv.ws.spatial[i];
    }
  }
  merge_pixels(&conv);
  return conv;
}

Gemm make_gemm(const Conv& conv, Direction direction) {
  switch (direction) {
    case Direction::forward:
      return forward_gemm(conv);
    case Direction::wgrad:
      return filter_gradient_gemm(conv);
    case Direction::dgrad:
      break;
  }
  return phases_as_columns(conv) ? phase_gemm(conv) : per_phase_gemm(conv);
}

int64_t count(const Digits& digits) {
  int64_t product = 1;
  for (const Digit& digit : digits) product *= digit.radix;
  return product;
}

}  // namespace gpudnn::conv::mapping
