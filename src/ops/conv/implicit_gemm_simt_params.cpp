// From a convolution problem to the parameters of the SIMT implicit GEMM.
//
// Longer than most files: the mapping of the directions, the load modes and the assembly share one set of small types.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm_simt_params.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <initializer_list>
#include <numeric>

#include "ops/loop_nest.hpp"

namespace gpudnn::conv {
namespace {

using namespace kernels::simt;  // NOLINT: this file speaks of nothing else
using std::int64_t;

// --- the problem with three spatial dimensions, per group, strides in elements ---------------------------------------

// Spatial vectors are front-padded: the last dimension is always at index 2.
struct Spatial {
  int64_t of[3];
  int64_t& operator[](int i) { return of[i]; }
  int64_t operator[](int i) const { return of[i]; }
};

struct Tensor {
  int64_t outer = 0;    // step of the image, or of the filter
  int64_t channel = 0;  // step of the channel
  Spatial spatial = {{0, 0, 0}};
  int64_t base = 0;
};

struct Conv {
  int64_t images, channels, filters;  // channels and filters of one group
  Spatial x, r, y;                    // extents of image, filter, output
  Spatial pad, stride, dilation;
  Tensor xs, ws, ys, zs;
};

Tensor tensor_steps(const TensorGeometry& geometry, int spatial) {
  Tensor t;
  t.outer = geometry.strides[0];
  t.channel = geometry.strides[1];
  for (int i = 0; i < spatial; ++i) t.spatial[3 - spatial + i] = geometry.strides[2 + i];
  return t;
}

// A 1x1 filter without stride and padding sees the pixels as one row, where they lie like one.
void merge_pixels(Conv* conv) {
  const auto plain = [&](int i) { return conv->r[i] == 1 && conv->stride[i] == 1 && conv->pad[i] == 0; };
  for (const auto& [i, j] : {std::array{1, 2}, std::array{0, 2}}) {
    if (!plain(i) || !plain(j) || conv->x[i] == 1) continue;
    const auto joined = [&, i = i, j = j](const Tensor& t) { return t.spatial[i] == conv->x[j] * t.spatial[j]; };
    if (!joined(conv->xs) || !joined(conv->ys) || (conv->zs.outer != 0 && !joined(conv->zs))) return;
    conv->x[j] *= conv->x[i];
    conv->y[j] = conv->x[j];
    conv->x[i] = conv->y[i] = 1;
  }
}

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

// --- the three indices, digit by digit -------------------------------------------------------------------------------

// What a step of a digit adds in the two tensors that the index addresses (and z): elements, and positions.
struct Step {
  int64_t offset = 0;
  Spatial position = {{0, 0, 0}};
};
struct Digit {
  int64_t radix = 1;  // the largest over the classes
  Step first;
  Step second;
  int64_t addend = 0;
  bool varies = false;  // between classes
};
using Digits = std::array<Digit, kDigits>;

// Indices m (A, C), n (B, C), k (A, B), bases, and the extents that bound the positions.
struct Gemm {
  Digits m, n, k;
  Step a_base, b_base, c_base;
  Spatial a_extent, b_extent, c_extent;
  bool a_checked[3], b_checked[3], c_checked[3];
  int64_t a_group, b_group, c_group, z_group;
  bool tap_digits_first = false;
  bool has_classes = false;
};

Spatial unit(int i, int64_t value) {
  Spatial s = {{0, 0, 0}};
  s[i] = value;
  return s;
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
    g.a_checked[i] = conv.pad[i] > 0;  // the padding behind is as wide as the one in front
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
    g.a_checked[i] = conv.pad[i] > 0;
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

// Whether the classes of a strided data gradient become columns. Then k runs over the union of their taps, with zeros
// for taps that a class lacks: worth it where the channels alone leave a narrow tile mostly idle, or where nothing is
// lacking.
bool phases_as_columns(const Conv& conv) {
  constexpr int64_t kNarrow = 16;
  int64_t classes = 1;
  bool exact = true;
  for (int i = 0; i < 3; ++i) {
    if (conv.dilation[i] != 1) return false;
    classes *= conv.stride[i];
    exact = exact && phase_window(conv, i).count * conv.stride[i] == conv.r[i];
  }
  return classes > 1 && (exact || conv.channels * classes <= kNarrow);
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

// One class after the other; what differs between classes is in the residues.
Gemm class_gemm(const Conv& conv) {
  Gemm g = {};
  set_data_gradient_common(conv, &g);
  g.has_classes = true;
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

// --- packed positions ------------------------------------------------------------------------------------------------

struct Packing {
  Bounds bounds = {};
  int shift[3] = {-1, -1, -1};  // -1: not checked
  bool fits = true;
  [[nodiscard]] int64_t pack(const Spatial& position) const {
    int64_t packed = 0;
    for (int i = 0; i < 3; ++i) {
      if (shift[i] >= 0) packed += position[i] * (int64_t{1} << shift[i]);
    }
    return packed;
  }
};

// Largest position, in absolute value, that a digit reaches along dimension i.
int64_t reach(const Digits& digits, Step Digit::*side, int i) {
  int64_t sum = 0;
  for (const Digit& digit : digits) sum += (digit.radix - 1) * std::abs((digit.*side).position[i]);
  return sum;
}

Packing pack_positions(const bool (&checked)[3], const Spatial& extent, const Spatial& reach_of, bool wide) {
  const int bits = wide ? 64 : 32;
  Packing packing;
  int used = 0;
  for (int i = 0; i < 3; ++i) {
    if (!checked[i]) continue;
    const auto largest = static_cast<std::uint64_t>(reach_of[i] + extent[i]);
    const int width = static_cast<int>(std::bit_width(largest)) + 2;
    if (used + width > bits - 3) {
      packing.fits = false;
      return packing;
    }
    packing.shift[i] = used;
    packing.bounds.limit += (extent[i] - 1) << used;
    packing.bounds.guards |= int64_t{1} << (used + width - 1);
    used += width;
  }
  packing.bounds.poison = int64_t{1} << (bits - 3);
  packing.bounds.guards |= static_cast<int64_t>(std::uint64_t{1} << (bits - 1));
  return packing;
}

struct Packings {
  Packing a, b, c;
};
// Extents of classes shift the positions of A by up to a padding and a filter.
Packings pack_all(const Gemm& g, const Conv& conv, bool wide) {
  Spatial a, b, c;
  for (int i = 0; i < 3; ++i) {
    const int64_t shift =
        g.has_classes ? conv.pad[i] + conv.r[i] * conv.dilation[i] + 2 : std::abs(g.a_base.position[i]);
    a[i] = shift + reach(g.m, &Digit::first, i) + reach(g.k, &Digit::first, i);
    b[i] = std::abs(g.b_base.position[i]) + reach(g.n, &Digit::first, i) + reach(g.k, &Digit::second, i);
    c[i] = reach(g.m, &Digit::second, i) + reach(g.n, &Digit::second, i);
  }
  return {pack_positions(g.a_checked, g.a_extent, a, wide), pack_positions(g.b_checked, g.b_extent, b, wide),
          pack_positions(g.c_checked, g.c_extent, c, wide)};
}
bool all_fit(const Packings& p) { return p.a.fits && p.b.fits && p.c.fits; }

// --- load and store modes --------------------------------------------------------------------------------------------

// How memory runs along an index, from its innermost digit that counts.
struct Run {
  int64_t step = 0;     // elements between neighbours
  int64_t length = 1;   // neighbours before the step changes
  unsigned digits = 0;  // the digits that it spans, as bits
};
// Within a run for vectors, neighbours must also be alike in position, and in every class.
Run run_along(const Digits& digits, Step Digit::*side, bool for_vectors) {
  Run run;
  for (int i = kDigits - 1; i >= 0; --i) {
    const Digit& digit = digits[static_cast<std::size_t>(i)];
    if (digit.radix == 1) continue;
    const Step& step = digit.*side;
    const bool moves = step.position[0] != 0 || step.position[1] != 0 || step.position[2] != 0;
    if (for_vectors && (moves || digit.varies)) break;
    if (run.digits == 0) {
      run = {step.offset, digit.radix, 1U << i};
    } else if (step.offset == run.step * run.length) {
      run.length *= digit.radix;
      run.digits |= 1U << i;
    } else {
      break;
    }
  }
  return run;
}
double score(const Digits& digits, Step Digit::*side) {
  const Run run = run_along(digits, side, false);
  return static_cast<double>(std::min<int64_t>(run.length, 32)) /
         static_cast<double>(std::max<int64_t>(std::abs(run.step), 1));
}

bool all_multiples(const Digits& digits, Step Digit::*side, unsigned except, int64_t width) {
  for (int i = 0; i < kDigits; ++i) {
    const Digit& digit = digits[static_cast<std::size_t>(i)];
    if ((except >> i & 1U) == 0 && digit.radix > 1 && (digit.*side).offset % width != 0) return false;
  }
  return true;
}

// Vectors along `along`: neighbours in memory, alike in position, whole vectors only, and aligned ones.
bool vectors_along(const Digits& along, Step Digit::*along_side, const Digits& other, Step Digit::*other_side,
                   int64_t width) {
  const Run run = run_along(along, along_side, true);
  return run.step == 1 && run.length % width == 0 && all_multiples(along, along_side, run.digits, width) &&
         all_multiples(other, other_side, 0, width);
}

bool multiples(std::initializer_list<int64_t> values, int64_t width) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v % width == 0; });
}

LoadMode load_mode(const Digits& outer, const Digits& inner, Step Digit::*inner_side, bool aligned, int64_t width) {
  if (aligned && vectors_along(outer, &Digit::first, inner, inner_side, width)) return LoadMode::outer_vector;
  if (aligned && vectors_along(inner, inner_side, outer, &Digit::first, width)) return LoadMode::k_vector;
  return score(outer, &Digit::first) >= score(inner, inner_side) ? LoadMode::outer_scalar : LoadMode::k_scalar;
}

// Positions that are not checked must not keep vectors from forming.
void drop_unchecked(Digits* digits, Step Digit::*side, const bool (&checked)[3]) {
  for (Digit& digit : *digits) {
    for (int i = 0; i < 3; ++i) {
      if (!checked[i]) (digit.*side).position[i] = 0;
    }
  }
}

// Bases of classes are aligned: multiples of the tensor's step in each dimension with more than one class. With one
// class only dy has a base, the padding.
bool class_bases_aligned(const Gemm& g, const Conv& conv, const Tensor& tensor, int64_t width, bool padded) {
  if (!g.has_classes) return true;
  for (int i = 0; i < 3; ++i) {
    const int64_t units = conv.stride[i] > 1 ? 1 : padded ? conv.pad[i] : 0;
    if (units * tensor.spatial[i] % width != 0) return false;
  }
  return true;
}

void drop_all_unchecked(Gemm* g) {
  drop_unchecked(&g->m, &Digit::first, g->a_checked);
  drop_unchecked(&g->k, &Digit::first, g->a_checked);
  drop_unchecked(&g->n, &Digit::first, g->b_checked);
  drop_unchecked(&g->k, &Digit::second, g->b_checked);
  drop_unchecked(&g->m, &Digit::second, g->c_checked);
  drop_unchecked(&g->n, &Digit::second, g->c_checked);
}

SimtLoadModes load_modes(const Gemm& g, const Conv& conv, int64_t width, bool grouped) {
  const auto group = [&](int64_t step) { return grouped ? step : 0; };
  return {load_mode(g.m, g.k, &Digit::first,
                    multiples({g.a_base.offset, group(g.a_group)}, width) &&
                        class_bases_aligned(g, conv, conv.ys, width, true),
                    width),
          load_mode(g.n, g.k, &Digit::second,
                    multiples({g.b_base.offset, group(g.b_group)}, width) &&
                        class_bases_aligned(g, conv, conv.ws, width, false),
                    width)};
}

void set_modes(Gemm* g, const Conv& conv, int64_t width, bool grouped, Params* p) {
  drop_all_unchecked(g);
  const SimtLoadModes modes = load_modes(*g, conv, width, grouped);
  p->operand_a.mode = modes.a;
  p->operand_b.mode = modes.b;
  Output& out = p->output;
  out.m_is_fast = score(g->m, &Digit::second) >= score(g->n, &Digit::second);
  const Digits& fast = out.m_is_fast ? g->m : g->n;
  const Digits& slow = out.m_is_fast ? g->n : g->m;
  out.vectors = multiples({g->c_base.offset, grouped ? g->c_group : 0}, width) &&
                class_bases_aligned(*g, conv, conv.xs, width, false) &&
                vectors_along(fast, &Digit::second, slow, &Digit::second, width);
}

// z is read like C is written, so it must run alike.
bool addend_vectors(const Gemm& g, bool m_is_fast, int64_t width, bool grouped) {
  const auto as_first = [](Digits digits) {
    for (Digit& digit : digits) digit.first = {digit.addend};
    return digits;
  };
  const Digits m = as_first(g.m);
  const Digits n = as_first(g.n);
  return (!grouped || g.z_group % width == 0) &&
         vectors_along(m_is_fast ? m : n, &Digit::first, m_is_fast ? n : m, &Digit::first, width);
}

// --- assembly --------------------------------------------------------------------------------------------------------

LinearMap to_map(const Digits& digits, Step Digit::*side, const Packing& packing, int64_t bytes) {
  LinearMap map;
  for (int i = 0; i < kDigits; ++i) {
    const Step& step = digits[static_cast<std::size_t>(i)].*side;
    map.step[i] = {step.offset * bytes, packing.pack(step.position)};
  }
  return map;
}
Entry to_entry(const Step& step, const Packing& packing, int64_t bytes) {
  return {step.offset * bytes, packing.pack(step.position)};
}
Radices to_radices(const Digits& digits) {
  Radices radices;
  for (int i = 1; i < kDigits; ++i) {
    radices.of[i - 1] = FastDivmod(static_cast<std::uint32_t>(digits[static_cast<std::size_t>(i)].radix));
  }
  return radices;
}
int64_t count(const Digits& digits) {
  int64_t product = 1;
  for (const Digit& digit : digits) product *= digit.radix;
  return product;
}

std::uint32_t inverse_modulo(int64_t value, int64_t modulus) {
  for (int64_t i = 0; i < modulus; ++i) {
    if (value * i % modulus == 1 % modulus) return static_cast<std::uint32_t>(i);
  }
  return 0;  // cannot be: the two are coprime
}

FastDivmod divisor(int64_t value) { return FastDivmod(static_cast<std::uint32_t>(std::max<int64_t>(value, 1))); }

Residue make_residue(const Conv& conv, int i, const Packing& packing, int64_t bytes) {
  const int64_t s = conv.stride[i];
  const int64_t gcd = std::gcd(s, conv.dilation[i]);
  const int64_t tap_step = s / gcd;
  Residue r;
  r.stride = divisor(s);
  r.gcd = divisor(gcd);
  r.tap_step = divisor(tap_step);
  r.inverse = inverse_modulo(conv.dilation[i] / gcd % tap_step, tap_step);
  r.dilation = static_cast<std::uint32_t>(conv.dilation[i]);
  r.pad_remainder = static_cast<std::int32_t>(conv.pad[i] % s);
  r.pad_quotient = static_cast<std::int32_t>(conv.pad[i] / s);
  r.pixel_remainder = static_cast<std::uint32_t>(conv.x[i] % s);
  r.tap_remainder = static_cast<std::uint32_t>(conv.r[i] % tap_step);
  r.pixel_quotient = static_cast<std::uint32_t>(conv.x[i] / s);
  r.tap_quotient = static_cast<std::uint32_t>(conv.r[i] / tap_step);
  for (int more = 0; more < 2; ++more) {
    r.pixels[more] = divisor(conv.x[i] / s + more);
    r.taps[more] = divisor(conv.r[i] / tap_step + more);
  }
  r.a_offset_of_p = conv.ys.spatial[i] * bytes;
  r.a_coord_of_p = packing.pack(unit(i, 1));
  r.b_offset_of_tap = conv.ws.spatial[i] * bytes;
  r.c_offset_of_pixel = conv.xs.spatial[i] * bytes;
  return r;
}

Gemm make_gemm(const Conv& conv, Direction direction) {
  switch (direction) {
    case Direction::forward:
      return forward_gemm(conv);
    case Direction::backward_filter:
      return filter_gradient_gemm(conv);
    case Direction::backward_data:
      break;
  }
  return phases_as_columns(conv) ? phase_gemm(conv) : class_gemm(conv);
}

constexpr int64_t kLargestIndex = (int64_t{1} << 31) - 4096;  // room for the last tile
bool has_wide_counts(const Gemm& g) { return count(g.m) > kLargestIndex || count(g.k) > kLargestIndex; }

// Whether the problem is so small that, whatever the direction, counts and positions fit into 32 bits: most are, and
// are spared the mapping. Bounds from above of what has_wide_counts and pack_all find.
bool is_surely_narrow(const Problem& problem) {
  double pixels = 1;
  double outputs = 1;
  double taps = 1;
  int bits = 0;
  for (int i = 0; i < problem.spatial; ++i) {
    const int64_t x = problem.x.dims[2 + i];
    const int64_t y = problem.y.dims[2 + i];
    const int64_t r = problem.w.dims[2 + i];
    const int64_t most = int64_t{1} << 24;
    if (x > most || y > most || r > most || problem.pad[i] > most) return false;
    if (problem.stride[i] > (1 << 15) || problem.dilation[i] > (1 << 15)) return false;
    pixels *= static_cast<double>(x);
    outputs *= static_cast<double>(y);
    taps *= static_cast<double>(r);
    if (x == 1 && r == 1 && problem.pad[i] == 0 && problem.stride[i] == 1) continue;  // never checked
    const int64_t reach = 2 * x + y * (problem.stride[i] + 1) + 3 * r * problem.dilation[i] + 3 * problem.pad[i] +
                          4 * problem.stride[i] + 8;
    bits += static_cast<int>(std::bit_width(static_cast<std::uint64_t>(reach))) + 2;
  }
  const double images = static_cast<double>(std::max<int64_t>(problem.x.dims[0], 1));
  const double channels = static_cast<double>(std::max(problem.w.dims[0], problem.w.dims[1]));
  const double largest = std::max({images * pixels, images * outputs, channels * taps});
  return bits <= 32 - 3 && largest <= static_cast<double>(kLargestIndex);
}

}  // namespace

const char* simt_index_obstacle(const Problem& problem, bool* wide) {
  if (is_surely_narrow(problem)) {
    if (wide != nullptr) *wide = false;
    return nullptr;
  }
  const Conv conv = normalize(problem);
  for (int i = 0; i < 3; ++i) {
    if (conv.stride[i] > (1 << 15) || conv.dilation[i] > (1 << 15) || conv.pad[i] > kLargestIndex) {
      if (problem.direction == Direction::backward_data) return "a stride or dilation is beyond 32768";
    }
    if (conv.x[i] > kLargestIndex || conv.y[i] > kLargestIndex) return "a spatial extent is beyond 2^31";
  }
  const Gemm g = make_gemm(conv, problem.direction);
  const bool narrow_positions = all_fit(pack_all(g, conv, false));
  if (!narrow_positions && !all_fit(pack_all(g, conv, true))) return "positions do not fit into 64 bits";
  if (wide != nullptr) *wide = !narrow_positions || has_wide_counts(g);
  return nullptr;
}

Params simt_params(const Problem& problem, bool wide) {
  const Conv conv = normalize(problem);
  const int64_t bytes = tile::element_bytes(element_type(problem.x.type));
  const int64_t width = bytes == 8 ? 2 : 4;
  Gemm g = make_gemm(conv, problem.direction);
  Params p;
  const int64_t m_count = count(g.m);
  const int64_t k_count = count(g.k);
  Packings packings = pack_all(g, conv, false);
  p.wide = wide || has_wide_counts(g) || !all_fit(packings);
  if (p.wide) packings = pack_all(g, conv, true);

  p.groups = static_cast<std::uint32_t>(problem.groups);
  p.group_count = FastDivmod(p.groups);
  set_modes(&g, conv, width, problem.groups > 1, &p);
  p.operand_a.outer = to_map(g.m, &Digit::first, packings.a, bytes);
  p.operand_a.inner = to_map(g.k, &Digit::first, packings.a, bytes);
  p.operand_a.base = to_entry(g.a_base, packings.a, bytes);
  p.operand_a.bounds = packings.a.bounds;
  p.operand_a.group_step = g.a_group * bytes;
  p.operand_b.outer = to_map(g.n, &Digit::first, packings.b, bytes);
  p.operand_b.inner = to_map(g.k, &Digit::second, packings.b, bytes);
  p.operand_b.base = to_entry(g.b_base, packings.b, bytes);
  p.operand_b.bounds = packings.b.bounds;
  p.operand_b.group_step = g.b_group * bytes;
  p.output.m = to_map(g.m, &Digit::second, packings.c, bytes);
  p.output.n = to_map(g.n, &Digit::second, packings.c, bytes);
  p.output.base = to_entry(g.c_base, packings.c, bytes);
  p.output.bounds = packings.c.bounds;
  p.output.group_step = g.c_group * bytes;
  p.addend = p.output;
  for (std::size_t i = 0; i < kDigits; ++i) {
    p.addend.m.step[i] = {g.m[i].addend * bytes, 0};
    p.addend.n.step[i] = {g.n[i].addend * bytes, 0};
  }
  p.addend.base = {0, 0};
  p.addend.group_step = g.z_group * bytes;
  p.addend.vectors = problem.has_z != 0 && addend_vectors(g, p.output.m_is_fast, width, problem.groups > 1);

  p.tap_digits_first = g.tap_digits_first;
  p.activation = problem.activation;
  p.has_bias = problem.has_bias != 0;
  p.has_z = problem.has_z != 0;
  p.bias_step = problem.bias_stride * bytes;
  p.n_count = count(g.n);
  p.n = to_radices(g.n);
  p.whole = {m_count, k_count, to_radices(g.m), to_radices(g.k), {0, 0}, 0, 0};
  if (g.has_classes) {
    for (int i = 0; i < 3; ++i) {
      p.residues[i] = make_residue(conv, i, packings.a, bytes);
      p.classes *= static_cast<std::uint32_t>(conv.stride[i]);
    }
    p.m_images = conv.images;
    p.k_channels = conv.filters;
    if (p.classes == 1) set_residue(p, 0, &p.whole);
  }
  p.class_count = FastDivmod(p.classes);
  return p;
}

tile::ElementType tile_type(const Problem& problem) { return element_type(problem.x.type); }

SimtShape simt_shape(const Problem& problem, std::span<const int> vectors, SimtLoadModes* modes) {
  const Conv conv = normalize(problem);
  Gemm g = make_gemm(conv, problem.direction);
  SimtShape shape = {tile_type(problem), false, 0, 0, 0, 0, 1, static_cast<std::uint32_t>(problem.groups)};
  shape.wide = !is_surely_narrow(problem) && (has_wide_counts(g) || !all_fit(pack_all(g, conv, false)));
  shape.m = static_cast<double>(count(g.m));
  shape.n = static_cast<double>(count(g.n));
  shape.k = static_cast<double>(count(g.k));
  shape.useful_k = shape.k;
  if (g.has_classes) {
    double useful = static_cast<double>(conv.filters);
    for (int i = 0; i < 3; ++i) {
      shape.classes *= static_cast<std::uint32_t>(conv.stride[i]);
      // Taps of all classes together are the filter's; a tap belongs to one class.
      useful *= static_cast<double>(conv.r[i]) / static_cast<double>(conv.stride[i]);
    }
    if (shape.classes > 1) shape.useful_k = useful;
  }
  if (vectors.empty()) return shape;
  drop_all_unchecked(&g);
  const int bytes = tile::element_bytes(shape.type);
  for (const int vector : vectors) *modes++ = load_modes(g, conv, vector / bytes, problem.groups > 1);
  return shape;
}

std::uint32_t set_simt_config(const Config& config, Params* p) {
  const TileRow& row = kTiles[config.tile];
  const auto tiles = [](int64_t extent, int size) { return static_cast<std::uint32_t>((extent + size - 1) / size); };
  const std::uint32_t m_tiles = tiles(p->whole.m_count, row.bm);
  const std::uint32_t n_tiles = tiles(p->n_count, row.bn);
  p->m_tiles = FastDivmod(m_tiles);
  p->n_tiles = FastDivmod(n_tiles);
  p->splits = static_cast<std::uint32_t>(std::max(config.split_k, 1));
  const int64_t k_tiles = (p->whole.k_count + kTileK - 1) / kTileK;
  p->k_per_split = std::max<int64_t>((k_tiles + p->splits - 1) / p->splits, 1) * kTileK;
  return m_tiles * n_tiles * p->classes * p->groups * p->splits;
}

void restrict_to_alignment(const void* a, const void* b, const void* c, const void* z, tile::ElementType type,
                           Params* p) {
  const auto bytes = static_cast<std::uintptr_t>(tile::element_bytes(type));
  const std::uintptr_t vector = bytes == 8 ? 16 : 4 * bytes;
  const auto aligned = [&](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % vector == 0; };
  const auto scalar = [](LoadMode mode) {
    return mode == LoadMode::outer_vector ? LoadMode::outer_scalar
           : mode == LoadMode::k_vector   ? LoadMode::k_scalar
                                          : mode;
  };
  if (!aligned(a)) p->operand_a.mode = scalar(p->operand_a.mode);
  if (!aligned(b)) p->operand_b.mode = scalar(p->operand_b.mode);
  p->store_vectors = p->output.vectors && aligned(c) && (!p->has_z || (p->addend.vectors && aligned(z)));
}

void set_simt_pointers(Direction direction, const Args& args, Params* p) {
  p->a = direction == Direction::backward_data ? args.y : args.x;
  p->b = direction == Direction::backward_filter ? args.y : args.w;
  p->c = args.out;
  p->z = args.z;
  p->bias = args.bias;
  p->alpha = args.alpha;
  p->beta = args.beta;
  p->alpha2 = args.alpha2;
  p->activation_coef = args.activation_coef;
  p->propagate_nan = args.propagate_nan;
}

void* align_simt_workspace(void* workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  return reinterpret_cast<void*>((address + kWorkspaceAlignment - 1) & ~(kWorkspaceAlignment - 1));
}

}  // namespace gpudnn::conv
