// The packed channels-last form of a convolution: padded extents, the copies of each operand, and their tiles.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/transpose/nhwc_transpose_packing.hpp"

#include <algorithm>
#include <limits>

#include "core/data_type.hpp"
#include "core/integer.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/tensor_math.hpp"

namespace gpudnn::kernels::channels_last {
namespace {

std::uint32_t divide_up(std::uint64_t a, std::uint64_t b) { return static_cast<std::uint32_t>((a + b - 1) / b); }

// A tile has at most this many bytes in shared memory, whatever its form.
constexpr std::uint32_t kFlatBytes = 25 << 10;
constexpr std::uint32_t kTileBytes = 16 << 10;
constexpr std::uint32_t kRowBytes = 128;  // of channels, where there are as many

// Whole images of an odd number of pixels, one behind the other: as many channels as fit, a multiple of 64 bytes.
bool make_flat(const Shape& s, std::uint32_t vector, Task* task) {
  const std::uint32_t pixels = task->all_pixels;
  if (s.channel_step != pixels || pixels % vector == 0) return false;
  const std::uint64_t room = kFlatBytes / static_cast<std::uint32_t>(s.element_bytes) / pixels;
  const std::uint32_t padded = divide_up(s.channels_padded, vector) * vector;
  const auto channels = static_cast<std::uint32_t>(std::min<std::uint64_t>(room / (4 * vector) * (4 * vector), 512));
  if (channels == 0 && room < padded) return false;
  task->flat = true;
  task->tile_channels = std::min(padded, channels == 0 ? padded : channels);
  task->tile_pixels = pixels;
  task->line_vectors = tile::FastDivmod(divide_up(std::uint64_t{task->tile_channels} * pixels + vector - 1, vector));
  task->pitch = pixels;
  task->skew = 0;
  task->shared_bytes = task->line_vectors.divisor * 16;
  return true;
}

void make_lines(const Shape& s, std::uint32_t vector, Task* task) {
  const auto bytes = static_cast<std::uint32_t>(s.element_bytes);
  const std::uint32_t padded = divide_up(s.channels_padded, vector) * vector;
  task->tile_channels = std::min(padded, kRowBytes / bytes);
  const std::uint32_t pixels =
      std::min<std::uint32_t>(kTileBytes / bytes / task->tile_channels, 1024) / vector * vector;
  task->tile_pixels = std::min(pixels, divide_up(task->all_pixels, vector) * vector);
  task->pitch = task->tile_pixels + vector;
  task->skew = vector;
  task->line_vectors = tile::FastDivmod(task->pitch / vector);
  task->shared_bytes = (task->tile_channels * task->pitch + task->tile_channels / vector * vector) * bytes;
}

}  // namespace

Task make_task(const Shape& s) {
  const auto vector = static_cast<std::uint32_t>(16 / s.element_bytes);
  Task task;
  task.shape = s;
  task.all_pixels = s.pixels[0] * s.pixels[1] * s.pixels[2];
  task.outer = tile::FastDivmod(s.outer);
  for (int i = 0; i < 2; ++i) task.pixels[i] = tile::FastDivmod(s.pixels[i + 1]);
  task.tight = s.channels_padded % vector != 0 || s.packed_pixel_step % vector != 0;
  const bool one_run = task.all_pixels == s.pixels[2] && s.pixel_step[2] == 1 && task.all_pixels > 1;
  // Tight tiles hold whole rows, which must follow each other.
  const bool rows_fit = !task.tight || (s.channels_padded <= kRowBytes / 2 && s.groups == 1);
  if (one_run && rows_fit) {
    task.mode = Mode::tiles;
    if (!make_flat(s, vector, &task)) make_lines(s, vector, &task);
    if (task.tight && task.tile_channels < s.channels_padded) task.mode = Mode::elements;
  }
  std::uint32_t tiles = 0;
  if (task.mode == Mode::tiles) {
    const std::uint32_t channel_tiles = divide_up(s.channels_padded, task.tile_channels);
    const std::uint32_t pixel_tiles = divide_up(task.all_pixels, task.tile_pixels);
    task.channel_tiles = tile::FastDivmod(channel_tiles);
    task.pixel_tiles = tile::FastDivmod(pixel_tiles);
    task.row_items = tile::FastDivmod(task.tight ? s.channels_padded : task.tile_channels / vector);
    tiles = channel_tiles * pixel_tiles;
  } else {
    const std::uint32_t items = task.tight ? s.channels_padded : s.channels_padded / vector;
    task.flat = false;
    task.shared_bytes = 0;
    task.row_items = tile::FastDivmod(items);
    tiles = divide_up(std::uint64_t{items} * task.all_pixels, kThreads * kItems);
    task.pixel_tiles = tile::FastDivmod(tiles);
  }
  task.blocks = tiles * s.outer * s.groups;
  return task;
}

}  // namespace gpudnn::kernels::channels_last

namespace gpudnn::conv {
namespace {

namespace layout = kernels::channels_last;
using std::int64_t;
using std::uint32_t;

constexpr int64_t kMaxRun = int64_t{1} << 31;
constexpr int64_t kMaxElements = int64_t{1} << 33;  // indices of tiles and items stay below 2^31

// Merges the spatial dimensions into runs and right-aligns them.
void set_pixels(const TensorGeometry& t, bool mirrored, layout::Shape* s) {
  int64_t extent[kMaxSpatial] = {1, 1, 1};
  int64_t step[kMaxSpatial] = {};
  int at = kMaxSpatial;  // the slowest digit so far
  for (int i = t.rank - 1; i >= 2; --i) {
    if (t.dims[i] == 1) continue;
    const int64_t stride = mirrored ? -t.strides[i] : t.strides[i];
    if (mirrored) s->base += (t.dims[i] - 1) * t.strides[i];
    if (at < kMaxSpatial && stride == extent[at] * step[at]) {
      extent[at] *= t.dims[i];
      continue;
    }
    --at;
    extent[at] = t.dims[i];
    step[at] = stride;
  }
  for (int i = 0; i < kMaxSpatial; ++i) {
    s->pixels[i] = static_cast<uint32_t>(extent[i]);
    s->pixel_step[i] = step[i];
  }
}

// The channels of an image tensor fall into groups, and so do the outer entries of a filter.
layout::Shape shape_of(const TensorGeometry& t, const TensorGeometry& packed, int64_t groups, bool filter,
                       bool mirrored) {
  layout::Shape s;
  const bool by_group = filter ? packed.dims[0] != t.dims[0] : packed.dims[1] != t.dims[1];
  const int64_t g = by_group ? groups : 1;
  const int64_t outer_groups = filter ? g : 1;
  const int64_t channel_groups = filter ? 1 : g;
  s.element_bytes = data_type_bits(t.type) / 8;
  s.groups = static_cast<uint32_t>(g);
  s.outer = static_cast<uint32_t>(packed.dims[0] / outer_groups);
  s.outer_kept = static_cast<uint32_t>(t.dims[0] / outer_groups);
  s.channels = static_cast<uint32_t>(t.dims[1] / channel_groups);
  s.channels_padded = static_cast<uint32_t>(packed.dims[1] / channel_groups);
  set_pixels(t, mirrored, &s);
  s.span = element_span(t);
  s.outer_step = t.strides[0];
  s.channel_step = t.strides[1];
  s.group_step = filter ? s.outer_kept * t.strides[0] : s.channels * t.strides[1];
  s.packed_pixel_step = packed.dims[1];
  s.packed_outer_step = pixels_of(t) * packed.dims[1];
  s.packed_group_step = filter ? s.outer * s.packed_outer_step : s.channels_padded;
  return s;
}

// `inner` is the tensor's packed form.
void add_operand(const TensorGeometry& t, const TensorGeometry& inner, bool mirrored, NhwcForm* form,
                 PackedOperand* operand) {
  operand->packed = mirrored || !same_dims(t, inner) || !same_layout(t, inner);
  if (!operand->packed) return;
  operand->offset = form->bytes;
  form->bytes += static_cast<std::size_t>(round_up(static_cast<int64_t>(size_in_bytes(inner)), kPackingAlignment));
}

// Stores of single elements of 16 bits take four times as long as their bytes.
double bytes_copied(const TensorGeometry& t, const TensorGeometry& packed, bool is_output,
                    const PackedOperand& operand) {
  const double element = data_type_bits(t.type) / 8.0;
  const bool stores_elements = is_output && operand.task.mode == layout::Mode::elements && element < 4;
  return (stores_elements ? 4 : 1) *
         (element * static_cast<double>(element_count(t)) + static_cast<double>(size_in_bytes(packed)));
}

bool is_mirrored(const Problem& problem) { return problem.mode == GPUDNN_CONVOLUTION && taps_of(problem) > 1; }

// The bias as an image of one pixel.
TensorGeometry bias_tensor(DataType type, int64_t channels, int64_t stride) {
  const int64_t values[] = {1, channels, 1};
  TensorGeometry bias = packed_tensor(type, GPUDNN_TENSOR_NHWC, 3, values);
  bias.strides[1] = stride;
  return bias;
}

// Float's data gradient multiplies by the filter with its output channels innermost. Where that is a plain
// transposition, the copies that are made anyway do it, and the inner engine needs none of its own.
bool packs_by_output(const Problem& problem, const Problem& inner) {
  if (problem.direction != Direction::dgrad || problem.x.type != GPUDNN_DATA_FLOAT || problem.groups != 1 ||
      is_mirrored(problem) || inner.w.dims[1] != problem.w.dims[1]) {
    return false;
  }
  const bool copies = inner.w.dims[0] != problem.w.dims[0] || !is_packed_nhwc(problem.x) ||
                      !is_packed_nhwc(problem.w) || !is_packed_nhwc(problem.y);
  TensorGeometry run = problem.w;  // one filter
  run.dims[0] = 1;
  return copies && is_packed_nchw(run) && element_count(run) < kMaxRun;
}

// Such a filter is an image of one row, with its output channels as channels.
layout::Shape shape_by_output(const TensorGeometry& filter, int64_t padded_outputs) {
  const int64_t run = element_count(filter) / filter.dims[0];
  const int64_t dims[] = {1, filter.dims[0], run};
  const int64_t padded[] = {1, padded_outputs, run};
  TensorGeometry image = packed_tensor(filter.type, GPUDNN_TENSOR_NCHW, 3, dims);
  image.strides[1] = filter.strides[0];
  return shape_of(image, packed_tensor(filter.type, GPUDNN_TENSOR_NHWC, 3, padded), 1, false, false);
}

}  // namespace

const char* make_nhwc_form(const Problem& problem, bool padded, NhwcForm* form) {
  const char* const no_tf32 = tensor_math_unsupported_reason(problem);
  if (no_tf32 != nullptr && fp32_split_unsupported_reason(problem) != nullptr) return no_tf32;
  *form = NhwcForm();
  Problem& inner = form->inner = problem;
  // The engine that splits floats takes filters of any strides, and stores to any.
  const bool keeps_output = no_tf32 != nullptr && problem.direction != Direction::wgrad;
  const int64_t vector = padded ? 16 / static_cast<int64_t>(data_type_bits(problem.x.type) / 8) : 1;
  const int64_t groups = problem.groups;
  const int64_t filters = problem.w.dims[0] / groups;
  if (!keeps_output || problem.direction == Direction::forward) {
    inner.w.dims[1] = round_up(problem.w.dims[1], vector);
  }
  if (!keeps_output || problem.direction == Direction::dgrad) {
    inner.w.dims[0] = round_up(filters, vector) * groups;
  }
  inner.x.dims[1] = inner.w.dims[1] * groups;
  inner.y.dims[1] = inner.w.dims[0];
  for (const TensorGeometry* t : {&inner.x, &inner.w, &inner.y}) {
    if (element_count(*t) >= kMaxElements) return "its packed tensors would be too large";
  }
  const double real =
      static_cast<double>(element_count(problem.x) + element_count(problem.w) + element_count(problem.y));
  const double more = static_cast<double>(element_count(inner.x) + element_count(inner.w) + element_count(inner.y));
  if (more > 4 * real + 8e6) return "padding its channels to whole vectors would multiply its size";

  for (TensorGeometry* t : {&inner.x, &inner.w, &inner.y}) set_packed_strides(t, GPUDNN_TENSOR_NHWC);
  const bool by_output = !keeps_output && packs_by_output(problem, inner);
  if (by_output) inner.w = packed_by_output(inner.w);
  if (keeps_output) {
    (problem.direction == Direction::forward ? inner.y : inner.x) = output(problem);
    if (same_dims(inner.w, problem.w)) inner.w = problem.w;
  }
  const bool keeps_filter = keeps_output && same_dims(inner.w, problem.w);
  const bool mirrors = is_mirrored(problem) && !keeps_filter;
  if (!keeps_filter) inner.mode = GPUDNN_CROSS_CORRELATION;
  add_operand(problem.x, inner.x, false, form, &form->x);
  add_operand(problem.w, inner.w, mirrors, form, &form->w);
  add_operand(problem.y, inner.y, false, form, &form->y);
  if (problem.has_z != 0 && !keeps_output) {
    inner.z = inner.y;
    add_operand(problem.z, inner.z, false, form, &form->z);
  }
  if (inner.w.dims[0] != problem.w.dims[0] && (problem.has_scale != 0 || problem.float_vectors != 0))
    return "it pads no scale of channels, and no bias of floats";
  if (problem.has_bias != 0 && inner.w.dims[0] != problem.w.dims[0]) {
    const TensorGeometry longer = bias_tensor(problem.y.type, inner.w.dims[0], 1);
    add_operand(bias_tensor(problem.y.type, problem.w.dims[0], problem.bias_stride), longer, false, form, &form->bias);
    inner.bias_stride = 1;
  }
  if (form->bytes == 0) return "its tensors are packed channels-last already";
  // The output's pass comes after the inner kernel, the others in one launch before it.
  const PackedOperand& out = output(*form);
  const bool before = (form->x.packed && &out != &form->x) || (form->w.packed && &out != &form->w) ||
                      (form->y.packed && &out != &form->y) || form->z.packed || form->bias.packed;
  form->launches = (before ? 1 : 0) + (out.packed ? 1 : 0);
  const auto set_task = [&](const TensorGeometry& t, const TensorGeometry& packed, bool filter,
                            PackedOperand* operand) {
    if (!operand->packed) return;
    const bool mirrored = filter && mirrors;
    operand->task = layout::make_task(shape_of(t, packed, problem.groups, filter, mirrored));
    form->dram_bytes += bytes_copied(t, packed, operand == &out, *operand);
  };
  set_task(problem.x, inner.x, false, &form->x);
  if (by_output) {
    if (form->w.packed) {
      form->w.task = layout::make_task(shape_by_output(problem.w, inner.w.dims[0]));
      form->dram_bytes += bytes_copied(problem.w, inner.w, false, form->w);
    }
  } else {
    set_task(problem.w, inner.w, true, &form->w);
  }
  set_task(problem.y, inner.y, false, &form->y);
  set_task(problem.z, inner.z, false, &form->z);
  set_task(bias_tensor(problem.y.type, problem.w.dims[0], problem.bias_stride),
           bias_tensor(problem.y.type, inner.w.dims[0], 1), false, &form->bias);
  return nullptr;
}

}  // namespace gpudnn::conv
