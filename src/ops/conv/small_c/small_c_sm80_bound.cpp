// What no row of the kernels for few channels stays below: the products, patches and bytes of a problem, in full tiles
// and without gaps.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/integer.hpp"
#include "ops/conv/small_c/small_c_sm80_cycles.hpp"
#include "ops/conv/small_c/small_c_sm80_params.hpp"

namespace gpudnn::conv {
namespace {

using namespace small_c_cycles;    // NOLINT: this file speaks of nothing else
using namespace kernels::small_c;  // NOLINT
using std::int64_t;
using Rows = std::span<const TileRow>;

// Positions of a patch for each of the `pixels` of a tile, whatever its shape: the square root of their least number is
// that of the strides and that of what windows have beyond these.
double least_patch(double taps_h, double taps_w, double stride_h, double stride_w, double pixels) {
  const double down = std::min(taps_h, stride_h);
  const double across = std::min(taps_w, stride_w);
  const double root = std::sqrt(down * across) + std::sqrt((taps_h - down) * (taps_w - across) / pixels);
  return root * root;
}

// What the bounds need of a problem, which is less than the parameters.
struct Sizes {
  tile::ElementType type;
  int64_t element;  // bytes
  int64_t channels, filters;
  int64_t taps_h = 1, taps_w, stride_h = 1, stride_w;
  bool dy_vectors;  // unless its strides do not allow them
  bool planar;      // channel planes of x
};
Sizes sizes_of(const Problem& problem) {
  const int w = problem.spatial - 1;
  Sizes s = {};
  s.type = small_c_type(problem);
  s.element = tile::element_bytes(s.type);
  s.channels = problem.x.dims[1];
  s.filters = problem.y.dims[1];
  s.taps_w = problem.w.dims[2 + w];
  s.stride_w = problem.stride[w];
  if (problem.spatial > 1) {
    s.taps_h = problem.w.dims[2];
    s.stride_h = problem.stride[0];
  }
  s.dy_vectors = s.filters * s.element % 16 == 0 && (s.filters == 1 || problem.y.strides[1] == 1);
  s.planar = s.channels > 1 && problem.x.dims[2 + w] > 1 && problem.x.strides[2 + w] == 1;
  return s;
}

double as_double(int64_t value) { return static_cast<double>(value); }

// Elements of the patches of a tile of so many pixels, at the least.
double least_elements(const Sizes& s, double pixels) {
  return least_patch(as_double(s.taps_h), as_double(s.taps_w), as_double(s.stride_h), as_double(s.stride_w), pixels) *
         pixels * as_double(s.channels);
}

// Cycles of all tiles together, in full ones and without gaps, of the best row of the kernel; and the most blocks that
// take a tile's columns. `cycles` tells those of a tile of `pixels`, for tile_cycles().
struct LeastCycles {
  double all = std::numeric_limits<double>::infinity();
  double parts = 1;
};
template <class Cycles>
LeastCycles least_of_rows(Rows rows, Kernel kernel, const Sizes& s, double tiles, int64_t columns, Cycles cycles) {
  LeastCycles least;
  for (const TileRow& tile : rows) {
    if (tile.kernel != kernel || tile.type != s.type) continue;
    const double parts = as_double(ceil_div(columns, tile.columns));
    least.all = std::min(least.all, tiles * parts * cycles(tile.columns));
    least.parts = std::max(least.parts, parts);
  }
  return least;
}

double pixels_of(const TensorGeometry& image, int spatial) {
  double pixels = as_double(image.dims[0]);
  for (int i = 0; i < spatial; ++i) pixels *= as_double(image.dims[2 + i]);
  return pixels;
}

LeastCycles least_forward_cycles(Rows rows, const Problem& problem, const Sizes& s) {
  const int64_t words = ceil_div(s.taps_w * s.channels, elements_of_word(s.type));
  const double k_steps = as_double(ceil_div(s.taps_h * words, 8));
  const double staging = least_elements(s, kForwardPixels) * (s.planar ? 1.5 : as_double(s.element) / 32);
  return least_of_rows(rows, Kernel::forward, s, pixels_of(problem.y, problem.spatial) / kForwardPixels, s.filters,
                       [&](int columns) { return forward_products(k_steps, columns) + staging + 3.0 * columns + 150; });
}

LeastCycles least_filter_cycles(Rows rows, const Problem& problem, const Sizes& s) {
  const double pixels = filter_pixels(s.type);
  const double steps = pixels / pixels_of_step(s.type);
  const double staging = least_elements(s, pixels) * (s.planar ? 0.25 : as_double(s.element) / 32);
  const double groups = as_double(ceil_div(s.filters, kFilterRows));
  LeastCycles least = least_of_rows(
      rows, Kernel::wgrad, s, pixels_of(problem.y, problem.spatial) / pixels * groups, s.taps_h * s.taps_w * s.channels,
      [&](int columns) { return steps * filter_step_cycles(columns) + staging + (s.dy_vectors ? 300 : 2000) + 150; });
  least.parts *= groups;
  return least;
}

LeastCycles least_data_cycles(Rows rows, const Problem& problem, const Sizes& s) {
  constexpr double kPositions = 8 * kDataRowsOfWarp * kDataColumnsOfWarp;
  double positions = as_double(problem.x.dims[0]);
  for (int i = 0; i < problem.spatial; ++i) {
    const int64_t first = problem.pad[i] / problem.stride[i];
    const int64_t last = (problem.x.dims[2 + i] - 1 + problem.pad[i]) / problem.stride[i];
    positions *= as_double(last - first + 1);
  }
  const double k_steps = as_double(ceil_div(s.filters * s.element, 32));
  const double taps_u = as_double(ceil_div(ceil_div(s.taps_h, s.stride_h), kDataTapGroup) * kDataTapGroup);
  const double taps_v = as_double(ceil_div(s.taps_w, s.stride_w));
  const double staging = least_patch(taps_u, taps_v, 1, 1, kPositions) * kPositions * (s.dy_vectors ? 0.25 : 2.0);
  return least_of_rows(
      rows, Kernel::dgrad, s, positions / kPositions, s.stride_h * s.stride_w * s.channels, [&](int columns) {
        const double groups = taps_u * taps_v / kDataTapGroup;
        return k_steps * (groups * 1.15 * data_group_cycles(columns) + staging + 150) + 187.5 * columns;
      });
}

}  // namespace

double small_c_least_seconds(const Problem& problem, double multiprocessors, Rows rows) {
  constexpr double kRoundedDown = 1 - 1e-9;  // keeps a bound below what it bounds
  const Sizes sizes = sizes_of(problem);
  const LeastCycles cycles = problem.direction == Direction::forward ? least_forward_cycles(rows, problem, sizes)
                             : problem.direction == Direction::dgrad ? least_data_cycles(rows, problem, sizes)
                                                                     : least_filter_cycles(rows, problem, sizes);
  const double compute = cycles.all / (kClock * multiprocessors);
  const double memory = bytes_of_tensors(problem) / (kBytesPerMultiprocessor * multiprocessors);
  double least = seconds_of(compute, memory);
  if (problem.direction == Direction::wgrad) {
    // Without a split, as many blocks as there are parts; with one, its sums.
    const double alone = cycles.all / (kClock * std::min(cycles.parts, multiprocessors));
    least = std::min(least + 3e-6, seconds_of(alone, memory));
  }
  return kRoundedDown * least;
}

}  // namespace gpudnn::conv
