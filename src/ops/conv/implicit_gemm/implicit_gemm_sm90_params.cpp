// The mapping of convolution problems to the Hopper implicit GEMM.
//
// Longer than most files: the three directions fill one set of parameters from the same view of a problem.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/tma_layout.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace sm90 = kernels::sm90;
using sm90::DenseProblem;
using sm90::FastDivmod;

constexpr int kAxes = 3;  // w, h, d
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

// A spatial axis of the problem; an absent one has a single pixel and a single tap.
struct Axis {
  std::int64_t in = 1, out = 1, taps = 1, pad = 0, stride = 1, dilation = 1;
  std::int64_t x_step = 0, y_step = 0, z_step = 0;  // bytes
};

struct View {
  Axis axis[kAxes];
  std::int64_t images = 0, groups = 1;
  std::int64_t channels = 0, filters = 0;  // of a group
  std::int64_t x_image = 0, y_image = 0, z_image = 0;
  std::int64_t element = 2;
  std::int64_t taps = 1;
};

std::int64_t element_size(const Problem& problem) { return data_type_bits(problem.x.type) / 8; }

sm90::Direction direction_of(const Problem& problem) {
  switch (problem.direction) {
    case Direction::forward:
      return sm90::Direction::forward;
    case Direction::dgrad:
      return sm90::Direction::data_gradient;
    default:
      return sm90::Direction::filter_gradient;
  }
}

View view_of(const Problem& problem) {
  View view;
  view.element = element_size(problem);
  view.images = problem.x.dims[0];
  view.groups = problem.groups;
  view.channels = problem.x.dims[1] / problem.groups;
  view.filters = problem.y.dims[1] / problem.groups;
  view.x_image = copy_step(problem.x, 0, view.element);
  view.y_image = copy_step(problem.y, 0, view.element);
  if (problem.has_z != 0) view.z_image = copy_step(problem.z, 0, view.element);
  for (int a = 0; a < kAxes; ++a) {
    Axis& axis = view.axis[a];
    const int i = problem.spatial - 1 - a;
    axis.x_step = axis.y_step = axis.z_step = 16;
    if (i < 0) continue;
    axis.in = problem.x.dims[2 + i];
    axis.out = problem.y.dims[2 + i];
    axis.taps = problem.w.dims[2 + i];
    axis.pad = problem.pad[i];
    axis.stride = problem.stride[i];
    axis.dilation = problem.dilation[i];
    axis.x_step = copy_step(problem.x, 2 + i, view.element);
    axis.y_step = copy_step(problem.y, 2 + i, view.element);
    if (problem.has_z != 0) axis.z_step = copy_step(problem.z, 2 + i, view.element);
    view.taps *= axis.taps;
  }
  return view;
}

// What an axis contributes to a dense problem.
struct AxisClass {
  std::int64_t pixels = 0;  // of the written tensor
  std::int64_t first = 0;   // position of the first
  std::int64_t taps = 0;
  std::int64_t corner = 0;     // of the first pixel's window in the tensor that is read
  std::int64_t upper = 0;      // of the last one's, from the last pixel
  std::int64_t first_tap = 0;  // of the filter, at the corner
  std::int64_t tap_step = 1;
};

AxisClass forward_axis(const Axis& axis) {
  AxisClass c;
  c.pixels = axis.out;
  c.taps = axis.taps;
  c.corner = -axis.pad;
  c.upper = (axis.out - 1) * axis.stride + c.corner - (axis.in - 1);
  return c;
}

// Pixels h of x with (h + pad) mod stride == rho, and the taps r with r * dilation mod stride == rho, which read
// p = (h + pad - r * dilation) / stride of y. Windows count taps from the last one on, so that offsets are positive.
AxisClass gradient_axis(const Axis& axis, std::int64_t rho) {
  AxisClass c;
  const std::int64_t gcd = std::gcd(axis.stride, axis.dilation);
  c.first = ((rho - axis.pad) % axis.stride + axis.stride) % axis.stride;
  c.pixels = c.first < axis.in ? (axis.in - c.first + axis.stride - 1) / axis.stride : 0;
  const std::int64_t tap_step = axis.stride / gcd;
  std::int64_t first_tap = 0;
  while (first_tap < tap_step && first_tap * axis.dilation % axis.stride != rho) ++first_tap;
  c.taps = first_tap < tap_step && first_tap < axis.taps ? (axis.taps - first_tap + tap_step - 1) / tap_step : 0;
  if (c.taps == 0) return c;
  const std::int64_t first_p = (c.first + axis.pad - first_tap * axis.dilation) / axis.stride;
  c.corner = first_p - (c.taps - 1) * (axis.dilation / gcd);
  c.upper = c.pixels - 1 + c.corner - (axis.out - 1);
  c.first_tap = first_tap + tap_step * (c.taps - 1);
  c.tap_step = -tap_step;
  return c;
}

// The window's taps as numbers of the filter, which runs s, r, t; a mirrored filter runs backwards.
void set_taps(const Problem& problem, const View& view, const AxisClass (&phases)[kAxes], DenseProblem* dense) {
  const bool mirrored = problem.mode == GPUDNN_CONVOLUTION;
  std::int64_t number_step = 1;
  std::int64_t first = 0;
  for (int a = 0; a < kAxes; ++a) {
    const AxisClass& c = phases[a];
    const std::int64_t tap = mirrored ? view.axis[a].taps - 1 - c.first_tap : c.first_tap;
    first += tap * number_step;
    dense->taps[a] = static_cast<std::uint32_t>(c.taps);
    dense->tap_step[a] = static_cast<std::int32_t>((mirrored ? -c.tap_step : c.tap_step) * number_step);
    number_step *= view.axis[a].taps;
  }
  dense->first_tap = static_cast<std::int32_t>(first);
}

void set_grid(const View& view, const AxisClass (&phases)[kAxes], DenseProblem* dense) {
  std::int64_t pixels = view.images;
  for (int a = 0; a < kAxes; ++a) {
    pixels *= phases[a].pixels;
    dense->extent[a] = FastDivmod(static_cast<std::uint32_t>(phases[a].pixels));
    dense->corner[a] = static_cast<std::int32_t>(phases[a].corner);
  }
  dense->pixels = static_cast<std::uint32_t>(pixels);
}

int row_elements(const View& view) { return sm90::kRowBytes / static_cast<int>(view.element); }

// Channels in a k tile.
int block_elements(const View& view, const sm90::TileShape& shape) {
  return shape.k_bytes / static_cast<int>(view.element);
}

PixelMap image_map(const View& view, bool of_x, const AxisClass (&phases)[kAxes], bool strided, int pixels_per_box) {
  PixelMap map;
  map.channels = view.groups * (of_x ? view.channels : view.filters);
  map.images = view.images;
  map.step[3] = of_x ? view.x_image : view.y_image;
  for (int a = 0; a < kAxes; ++a) {
    const Axis& axis = view.axis[a];
    map.extent[a] = of_x ? axis.in : axis.out;
    map.step[a] = of_x ? axis.x_step : axis.y_step;
    map.lower[a] = static_cast<std::int32_t>(phases[a].corner);
    map.upper[a] = static_cast<std::int32_t>(phases[a].upper);
    map.stride[a] = strided ? static_cast<std::int32_t>(axis.stride) : 1;
  }
  map.pixels_per_box = pixels_per_box;
  map.box_channels = row_elements(view);
  return map;
}

// Every phase of the data gradient with a pixel in it, in order: visit(phases of the axes).
template <class Visit>
void for_each_class(const View& view, Visit visit) {
  AxisClass c[kAxes];
  for (std::int64_t d = 0; d < view.axis[2].stride; ++d) {
    c[2] = gradient_axis(view.axis[2], d);
    for (std::int64_t h = 0; h < view.axis[1].stride; ++h) {
      c[1] = gradient_axis(view.axis[1], h);
      for (std::int64_t w = 0; w < view.axis[0].stride; ++w) {
        c[0] = gradient_axis(view.axis[0], w);
        if (c[0].pixels > 0 && c[1].pixels > 0 && c[2].pixels > 0) visit(c);
      }
    }
  }
}

bool has_taps(const AxisClass (&c)[kAxes]) { return c[0].taps > 0 && c[1].taps > 0 && c[2].taps > 0; }

std::uint32_t ceil_div(std::int64_t a, std::int64_t b) { return static_cast<std::uint32_t>((a + b - 1) / b); }

// Whether the pixels of a phase, in order, lie the same distance apart.
bool is_even(const DenseProblem& dense, const std::int64_t (&step)[4]) {
  std::int64_t expected = step[0];
  for (int a = 0; a < kAxes; ++a) {
    const std::int64_t extent = dense.extent[a].divisor;
    if (extent > 1 && step[a] != expected) return false;
    expected *= extent;
  }
  // A single image's stride says nothing.
  return dense.pixels == static_cast<std::uint32_t>(expected / step[0]) || step[3] == expected;
}

// The step along w of images one pixel wide says nothing: the next axis lends its own, so that rows may be even.
void borrow_first_step(const DenseProblem& dense, std::int64_t (&step)[4]) {
  for (int a = 0; a < kAxes && dense.extent[a].divisor == 1; ++a) step[0] = step[a + 1];
}

// Marks a map whose boxes are rows of a matrix: a window is one pixel, and the pixels of the grid, in order, lie the
// same distance apart.
void find_matrix(const AxisClass (&phases)[kAxes], const DenseProblem& dense, PixelMap* map) {
  for (int a = 0; a < kAxes; ++a) {
    if (map->lower[a] != 0 || map->upper[a] != 0 || map->stride[a] != 1 || phases[a].taps > 1) return;
  }
  std::int64_t step[4] = {map->step[0], map->step[1], map->step[2], map->step[3]};
  borrow_first_step(dense, step);
  if (is_even(dense, step)) map->row_step = step[0];
}

// C goes out in boxes of 64 rows of 128 bytes where it is a matrix of even rows, and no box reaches into the columns or
// rows of the next group.
void set_c_map(const View& view, const sm90::TileShape& shape, bool by_taps, Sm90Plan* plan) {
  sm90::Params& p = plan->params;
  if (by_taps) {
    p.stores_boxes = !shape.transposes && (view.groups == 1 || view.filters % shape.bm == 0);
    plan->c = {view.channels, view.taps, view.groups * view.filters, 0, row_elements(view), 64};
  } else {
    p.stores_boxes =
        p.c_is_even && (view.groups == 1 || p.n_count % static_cast<std::uint32_t>(row_elements(view)) == 0);
    plan->c = {view.groups * p.n_count,
               1,
               p.problem[0].pixels,
               p.problem[0].pixels > 1 ? p.c_step[0] : 0,
               sm90::chunk_bytes(shape) / static_cast<int>(view.element),
               shape.swap_ab ? shape.bn : 64};
  }
}

// The fused epilogue and its addend z, which comes in the boxes in which C leaves.
void set_fused(const Problem& problem, const View& view, const sm90::TileShape& shape, Sm90Plan* plan) {
  const sm90::Params& p = plan->params;
  plan->fuses = sm90::has_fused_epilogue(shape, plan->direction, static_cast<int>(view.element)) && p.stores_boxes &&
                p.splits == 1;
  plan->adds_boxes = plan->fuses && problem.has_z != 0 && p.addend_is_even;
  if (!plan->adds_boxes) return;
  plan->z = plan->c;
  plan->z.row_step = p.problem[0].pixels > 1 ? p.addend_step[0] : 0;
}

// The order in which float's data gradient reads the filter: one that comes so needs no transposition.
bool is_by_output(const Problem& problem) {
  return problem.direction == Direction::dgrad && problem.x.type == GPUDNN_DATA_FLOAT && problem.groups == 1 &&
         same_layout(problem.w, packed_by_output(problem.w));
}

bool transposes_filter(const Problem& problem) {
  return problem.direction == Direction::dgrad && problem.x.type == GPUDNN_DATA_FLOAT && !is_by_output(problem);
}

std::size_t transposition_bytes(const Problem& problem) { return (size_in_bytes(problem.w) + 255) / 256 * 256; }

// --- the directions ------------------------------------------------------------------------------------------------

// A filter of [outputs][taps][summed] in boxes of as many outputs as a tile has columns, or fewer where all are fewer:
// TMA takes longer over a row out of bounds than over one that is there.
void set_filter_rows(const View& view, const sm90::TileShape& shape, std::int64_t summed, std::int64_t outputs,
                     Sm90Plan* plan) {
  const auto rows = static_cast<std::int32_t>(std::min<std::int64_t>(shape.columns_of_c(), outputs));
  plan->filter = {summed, view.taps, view.groups * outputs, 0, block_elements(view, shape), rows};
}

void plan_forward(const Problem& problem, const View& view, const sm90::TileShape& shape, Sm90Plan* plan) {
  sm90::Params& p = plan->params;
  AxisClass c[kAxes];
  for (int a = 0; a < kAxes; ++a) {
    c[a] = forward_axis(view.axis[a]);
    p.stride[a] = static_cast<std::int32_t>(view.axis[a].stride);
    p.tap_offset[a] = static_cast<std::int32_t>(view.axis[a].dilation);
    p.c_step[a] = view.axis[a].y_step;
    p.addend_step[a] = problem.has_z != 0 ? view.axis[a].z_step : view.axis[a].y_step;
  }
  p.c_step[3] = view.y_image;
  p.addend_step[3] = problem.has_z != 0 ? view.z_image : view.y_image;
  set_taps(problem, view, c, &p.problem[0]);
  set_grid(view, c, &p.problem[0]);
  p.a_channels = static_cast<std::uint32_t>(view.channels);
  p.b_channels = static_cast<std::uint32_t>(view.filters);
  p.n_count = p.group_columns = static_cast<std::uint32_t>(view.filters);
  p.channel_chunks = ceil_div(view.channels, block_elements(view, shape));
  p.problem[0].k_blocks = static_cast<std::uint32_t>(view.taps) * p.channel_chunks;
  borrow_first_step(p.problem[0], p.c_step);
  borrow_first_step(p.problem[0], p.addend_step);
  p.c_is_even = is_even(p.problem[0], p.c_step);
  p.addend_is_even = is_even(p.problem[0], p.addend_step);
  plan->a[0] = image_map(view, true, c, true, shape.rows_of_c());
  plan->a[0].box_channels = block_elements(view, shape);
  find_matrix(c, p.problem[0], &plan->a[0]);
  set_filter_rows(view, shape, view.channels, view.filters, plan);
}

void plan_data_gradient(const Problem& problem, const View& view, const sm90::TileShape& shape, Sm90Plan* plan) {
  sm90::Params& p = plan->params;
  for (int a = 0; a < kAxes; ++a) {
    const Axis& axis = view.axis[a];
    p.tap_offset[a] = static_cast<std::int32_t>(axis.dilation / std::gcd(axis.stride, axis.dilation));
    p.c_step[a] = p.addend_step[a] = axis.stride * axis.x_step;
  }
  p.c_step[3] = p.addend_step[3] = view.x_image;
  p.a_channels = static_cast<std::uint32_t>(view.filters);
  p.n_count = p.group_columns = static_cast<std::uint32_t>(view.channels);
  p.channel_chunks = ceil_div(view.filters, block_elements(view, shape));
  p.phases = 0;
  const bool all_strides_are_one =
      view.axis[0].stride == 1 && view.axis[1].stride == 1 && view.axis[2].stride == 1;  // so there is one phase
  for_each_class(view, [&](const AxisClass(&c)[kAxes]) {
    DenseProblem& dense = p.problem[p.phases];
    set_grid(view, c, &dense);
    for (int a = 0; a < kAxes; ++a) dense.c_base += c[a].first * view.axis[a].x_step;
    if (has_taps(c)) {
      set_taps(problem, view, c, &dense);
      dense.k_blocks = dense.taps[0] * dense.taps[1] * dense.taps[2] * p.channel_chunks;
      plan->a[p.phases] = image_map(view, false, c, false, shape.rows_of_c());
      plan->a[p.phases].box_channels = block_elements(view, shape);
      if (all_strides_are_one) find_matrix(c, dense, &plan->a[p.phases]);
    }
    ++p.phases;
  });
  if (p.phases == 1) {
    borrow_first_step(p.problem[0], p.c_step);
    borrow_first_step(p.problem[0], p.addend_step);
  }
  p.c_is_even = p.addend_is_even = p.phases == 1 && is_even(p.problem[0], p.c_step);
  if (view.element == 2) {
    p.b_channels = static_cast<std::uint32_t>(view.filters);
    plan->filter = {view.channels, view.taps, view.groups * view.filters, 0, 64, block_elements(view, shape)};
  } else {
    p.b_channels = static_cast<std::uint32_t>(view.channels);
    plan->transposes_filter = transposes_filter(problem);
    if (plan->transposes_filter) plan->filter_bytes = size_in_bytes(problem.w);
    set_filter_rows(view, shape, view.filters, view.channels, plan);
  }
}

void plan_filter_gradient(const Problem& problem, const View& view, Sm90Plan* plan) {
  sm90::Params& p = plan->params;
  AxisClass x[kAxes];
  AxisClass y[kAxes];
  for (int a = 0; a < kAxes; ++a) {
    x[a] = forward_axis(view.axis[a]);
    y[a].pixels = view.axis[a].out;
    p.stride[a] = static_cast<std::int32_t>(view.axis[a].stride);
    p.tap_offset[a] = static_cast<std::int32_t>(view.axis[a].dilation);
  }
  set_taps(problem, view, x, &p.problem[0]);
  set_grid(view, x, &p.problem[0]);
  p.a_channels = p.group_columns = p.m_count = static_cast<std::uint32_t>(view.filters);
  p.b_channels = p.n_count = static_cast<std::uint32_t>(view.channels);
  p.b_channels_all = static_cast<std::uint32_t>(view.groups * view.channels);
  const std::uint32_t chunks = ceil_div(view.channels, row_elements(view));
  p.chunks_of_n = FastDivmod(chunks);
  p.taps_of_n[0] = FastDivmod(static_cast<std::uint32_t>(view.axis[0].taps));
  p.taps_of_n[1] = FastDivmod(static_cast<std::uint32_t>(view.axis[1].taps));
  p.n_chunks = chunks * static_cast<std::uint32_t>(view.taps);
  p.c_step[0] = p.addend_step[0] = view.taps * view.channels * view.element;
  p.problem[0].k_blocks = ceil_div(p.problem[0].pixels, row_elements(view));
  plan->a[0] = image_map(view, false, y, false, row_elements(view));
  plan->b_is_filter = false;
  plan->b = image_map(view, true, x, true, row_elements(view));
  // Both or neither: dy alone is not worth loads of its own.
  find_matrix(x, p.problem[0], &plan->b);
  if (plan->b.row_step != 0) find_matrix(y, p.problem[0], &plan->a[0]);
  if (plan->a[0].row_step == 0) plan->b.row_step = 0;
}

// --- legality --------------------------------------------------------------------------------------------------------

const char* map_unsupported_reason(const Problem& problem, const PixelMap& map) {
  const bool deep = problem.spatial == 3;
  const std::int32_t low = deep ? -16 : -128;
  const std::int32_t high = deep ? 15 : 127;
  for (int a = 0; a < (deep ? 3 : 2); ++a) {
    if (map.lower[a] < low || map.lower[a] > high || map.upper[a] < low || map.upper[a] > high) {
      return "padding or the dilated filter reaches further than TMA's windows";
    }
    if (map.stride[a] > 8) return "strides over 8";
  }
  return nullptr;
}

const char* windows_unsupported_reason(const Problem& problem, const View& view) {
  const std::int64_t most_offset = problem.spatial == 3 ? 31 : 255;
  AxisClass c[kAxes];
  for (int a = 0; a < kAxes; ++a) {
    c[a] = forward_axis(view.axis[a]);
    if ((view.axis[a].taps - 1) * view.axis[a].dilation > most_offset) {
      return "the dilated filter is larger than TMA's offsets";
    }
  }
  if (problem.direction != Direction::dgrad) return map_unsupported_reason(problem, image_map(view, true, c, true, 0));
  const char* reason = nullptr;
  int phases = 0;
  if (view.axis[0].stride * view.axis[1].stride * view.axis[2].stride > sm90::kMaxPhases) {
    return "too many stride phases (strides multiply to over 9)";
  }
  for_each_class(view, [&](const AxisClass(&each)[kAxes]) {
    ++phases;
    if (reason == nullptr && has_taps(each))
      reason = map_unsupported_reason(problem, image_map(view, false, each, false, 0));
  });
  return reason;
}

const char* size_unsupported_reason(const View& view) {
  std::int64_t in = view.images;
  std::int64_t out = view.images;
  for (const Axis& axis : view.axis) {
    in *= axis.in;
    out *= axis.out;
  }
  if (in > sm90::kMaxRows || out > sm90::kMaxRows) return "about 2^31 pixels or more";
  if (view.taps * (view.channels + view.filters + 64) * view.groups > kMaxCount) return "a filter of 2^31 or more";
  return nullptr;
}

const char* epilogue_unsupported_reason(const Problem& problem, std::int64_t element) {
  return problem.has_z != 0 ? copy_unsupported_reason(problem.z, element) : nullptr;
}

}  // namespace

const char* sm90_unsupported_reason(const Problem& problem) {
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (!is_packed_nhwc(problem.w) && !is_by_output(problem))
    return "the filter is not packed in the order k, taps, channels";
  return sm90_layout_unsupported_reason(problem, false);
}

const char* sm90_layout_unsupported_reason(const Problem& problem, bool any_output) {
  const std::int64_t element = element_size(problem);
  for (const TensorGeometry* tensor : {&problem.x, &problem.y}) {
    if (any_output && tensor == &output(problem)) continue;
    if (const char* reason = copy_unsupported_reason(*tensor, element)) return reason;
  }
  const View view = view_of(problem);
  const std::int64_t vector = 16 / element;
  const std::int64_t reduced = problem.direction == Direction::dgrad ? view.filters : view.channels;
  const std::int64_t columns = problem.direction == Direction::dgrad ? view.channels : view.filters;
  if (reduced % vector != 0 || (!any_output && columns % vector != 0)) {
    return "channels or filters of a group do not fill whole 16-byte vectors";
  }
  if (view.groups > 1 && problem.direction != Direction::wgrad && reduced * element % 64 != 0) {
    return "a group's share of the reduction does not fill whole rows of 64 bytes";
  }
  if (!any_output) {
    if (const char* reason = epilogue_unsupported_reason(problem, element)) return reason;
  }
  if (const char* reason = size_unsupported_reason(view)) return reason;
  return windows_unsupported_reason(problem, view);
}

bool sm90_shape_fits(const Problem& problem, const sm90::TileShape& shape) {
  const bool by_taps = problem.direction == Direction::wgrad;
  if (!sm90::has_shape(shape, direction_of(problem), static_cast<int>(element_size(problem)))) return false;
  if (by_taps || (shape.k_bytes == sm90::kRowBytes && problem.groups == 1)) return true;
  const TensorGeometry& reduced = problem.direction == Direction::dgrad ? problem.y : problem.x;
  const std::int64_t bytes = reduced.dims[1] / problem.groups * element_size(problem);
  if (problem.groups > 1 && bytes % shape.k_bytes != 0) return false;
  const bool whole_rows = problem.groups == 1 || bytes % sm90::kRowBytes == 0;  // else no other shape is left
  return shape.k_bytes == sm90::kRowBytes || bytes < 4 * sm90::kRowBytes || !whole_rows;
}

Sm90Sizes sm90_sizes(const Problem& problem) {
  const View view = view_of(problem);
  std::int64_t outputs = view.images;
  for (const Axis& axis : view.axis) outputs *= axis.out;
  Sm90Sizes s;
  const auto add_class = [&](std::int64_t rows, std::int64_t taps) {
    s.rows[s.phases] = static_cast<double>(rows);
    s.taps[s.phases++] = static_cast<double>(taps);
  };
  const auto set_extents = [&](std::int64_t columns, std::int64_t summed) {
    s.columns = static_cast<double>(columns);
    s.summed = static_cast<double>(summed);
  };
  switch (problem.direction) {
    case Direction::forward:
      add_class(outputs, view.taps);
      set_extents(view.filters, view.channels);
      break;
    case Direction::dgrad:
      for_each_class(view, [&](const AxisClass(&c)[kAxes]) {
        add_class(view.images * c[0].pixels * c[1].pixels * c[2].pixels, c[0].taps * c[1].taps * c[2].taps);
      });
      set_extents(view.channels, view.filters);
      break;
    case Direction::wgrad:
      add_class(view.filters, 1);
      set_extents(ceil_div(view.channels, row_elements(view)) * view.taps, outputs);
      break;
  }
  if (transposes_filter(problem)) s.workspace = transposition_bytes(problem);
  return s;
}

Sm90Work sm90_work(const Sm90Sizes& sizes, double groups, double rows, double columns, double summed) {
  Sm90Work work;
  for (int i = 0; i < sizes.phases; ++i) {
    const double tiles = std::ceil(sizes.columns / columns) * std::ceil(sizes.rows[i] / rows) * groups;
    const double k = sizes.taps[i] * std::ceil(sizes.summed / summed);
    work.tiles += tiles;
    work.all_k += tiles * k;
    work.longest_k = std::max(work.longest_k, k);
  }
  return work;
}

namespace {

// Shares of the reduction that leave a helper as much to do as a tile's own block. A helper stores its sums for each
// tile, which takes it as long as some k tiles.
void set_fixup(const sm90::TileShape& shape, std::uint32_t fixup_ctas, sm90::Params* p) {
  constexpr std::uint32_t kStores = 20;  // k tiles
  const std::uint32_t tiles = p->works.divisor;
  const std::uint32_t k = p->problem[0].k_blocks;
  fixup_ctas = std::min(fixup_ctas, tiles);  // so that two at most share a tile
  const std::uint32_t fixup = k > kStores ? (k - kStores) * fixup_ctas / (tiles + fixup_ctas) : 0;
  if (fixup == 0 || tiles > sm90::kMaxFixupTiles || k > sm90::kMaxFixupKTiles) return;
  p->fixup_ctas = fixup_ctas;
  p->fixup = FastDivmod(fixup);
  p->fixup_quantum = ceil_div(std::int64_t{tiles} * fixup, fixup_ctas);
}

}  // namespace

void sm90_take_turns(std::uint32_t tiles, sm90::Params* params) {
  if (params->phases < 2) return;
  const std::uint32_t of_class = params->problem[1].first_work;
  if (params->works.divisor != params->phases * of_class) return;
  for (std::uint32_t i = 0; i < params->phases; ++i) {
    if (params->problem[i].k_blocks == 0 || params->problem[i].first_work != i * of_class) return;
  }
  params->turn = tiles;
  params->tiles_of_class = of_class;
  params->works_of_raster_group = FastDivmod(tiles * params->phases);
}

Sm90Plan sm90_plan(const Problem& problem, const Config& config) {
  Sm90Plan plan = sm90_plan(problem, sm90::kShapes[config.tile], config.split_k);
  plan.shape = config.tile;
  return plan;
}

Sm90Plan sm90_plan(const Problem& problem, const sm90::TileShape& shape, int split_k) {
  const View view = view_of(problem);
  Sm90Plan plan;
  plan.type = element_type(problem.x.type);
  sm90::Params& p = plan.params;
  p.three_dimensional = problem.spatial == 3;
  set_activation(problem, &p);
  plan.direction = direction_of(problem);
  switch (problem.direction) {
    case Direction::forward:
      plan_forward(problem, view, shape, &plan);
      break;
    case Direction::dgrad:
      plan_data_gradient(problem, view, shape, &plan);
      break;
    case Direction::wgrad:
      plan_filter_gradient(problem, view, &plan);
      break;
  }
  const bool by_taps = problem.direction == Direction::wgrad;
  p.a_is_matrix = plan.a[0].row_step != 0;
  p.b_is_matrix = plan.b.row_step != 0;
  p.splits = shape.stream_k ? 1 : static_cast<std::uint32_t>(split_k);
  set_c_map(view, shape, by_taps, &plan);
  set_fused(problem, view, shape, &plan);
  const std::uint32_t n_tiles =
      by_taps ? ceil_div(p.n_chunks, shape.bn / row_elements(view)) : ceil_div(p.n_count, shape.columns_of_c());
  p.n_tiles = FastDivmod(n_tiles);
  std::uint32_t works = 0;
  for (std::uint32_t i = 0; i < p.phases; ++i) {
    DenseProblem& dense = p.problem[i];
    dense.first_work = works;
    const std::uint32_t m_tiles = ceil_div(by_taps ? p.m_count : dense.pixels, shape.rows_of_c());
    dense.m_tiles = FastDivmod(m_tiles);
    dense.k_blocks_per_split = ceil_div(dense.k_blocks, p.splits);
    works += m_tiles * n_tiles * static_cast<std::uint32_t>(view.groups);
  }
  p.works = FastDivmod(works);
  plan.tiles = works;
  if (plan.transposes_filter) plan.workspace = transposition_bytes(problem);
  // Measured: neighbours along the shorter side of C are faster, those of pairs along the longer one.
  const std::uint32_t m_tiles = p.problem[0].m_tiles.divisor;
  p.m_is_fastest = by_taps && view.element == 2 && (shape.cluster_split_k ? m_tiles > n_tiles : m_tiles <= n_tiles);
  if (shape.stream_k) {
    set_fixup(shape, static_cast<std::uint32_t>(split_k), &p);
    if (p.fixup_ctas > 0) plan.workspace += 2 * sm90::partial_bytes(shape, plan.tiles);
  }
  if (p.splits > 1 && !shape.cluster_split_k)
    plan.workspace += sm90::partial_bytes(shape, static_cast<std::size_t>(plan.tiles) * p.splits);
  return plan;
}

}  // namespace gpudnn::conv
