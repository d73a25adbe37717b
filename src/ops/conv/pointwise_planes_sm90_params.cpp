// The mapping of pointwise convolutions on planes to their Hopper kernels.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/pointwise_planes_sm90_params.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv {
namespace {

namespace planes = kernels::sm90::planes;
using kernels::sm90::kRowBytes;
using planes::Kind;
using planes::PlaneSet;
using tile::FastDivmod;

constexpr std::int64_t kMapAlignment = 16;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max();

std::int64_t element_size(const Problem& problem) { return data_type_bits(problem.x.type) / 8; }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

std::int64_t pixels_of(const TensorGeometry& tensor) {
  std::int64_t pixels = 1;
  for (int i = 2; i < tensor.rank; ++i) pixels *= tensor.dims[i];
  return pixels;
}

// An image tensor: strides of extents of 1 say nothing, so they get ones that the copy engine takes. Bytes.
struct Image {
  std::int64_t count = 0, planes = 0, pixels = 0;
  std::int64_t image = 0, plane = 0;
  int classes = 1;  // residue classes of planes
};

Image image_of(const TensorGeometry& tensor, std::int64_t element) {
  Image image;
  image.count = tensor.dims[0];
  image.planes = tensor.dims[1];
  image.pixels = pixels_of(tensor);
  image.plane = image.planes > 1 ? tensor.strides[1] * element : round_up(image.pixels * element, kMapAlignment);
  image.image = image.count > 1 ? tensor.strides[0] * element : round_up(image.planes * image.plane, kMapAlignment);
  image.classes = static_cast<int>(kMapAlignment / std::gcd(kMapAlignment, image.plane));
  return image;
}

// The tensor whose planes are summed over, or whose planes are columns; and the one whose planes are rows or written.
const TensorGeometry& in_of(const Problem& problem) {
  return problem.direction == Direction::backward_data ? problem.y : problem.x;
}
const TensorGeometry& out_of(const Problem& problem) {
  return problem.direction == Direction::backward_data ? problem.x : problem.y;
}

PlaneSet set_of(const Image& image, std::int64_t element, int block) {
  PlaneSet set;
  set.block_log2 = block == 64 ? 6 : 5;
  set.classes = static_cast<std::uint32_t>(image.classes);
  set.planes = static_cast<std::uint32_t>(image.planes);
  set.blocks = FastDivmod(static_cast<std::uint32_t>(ceil_div(image.planes, std::int64_t{block} * image.classes)));
  for (int r = 0; r < image.classes; ++r) {
    set.first[r] = static_cast<std::int32_t>(r * image.plane % kMapAlignment / element);
  }
  return set;
}

std::uint32_t positions_of(const PlaneSet& set) { return set.classes * set.blocks.divisor << set.block_log2; }

void set_maps(const Image& image, const PlaneSet& set, PlaneMap (&maps)[planes::kMostClasses]) {
  for (int r = 0; r < image.classes; ++r) {
    PlaneMap& map = maps[r];
    map.offset = r * image.plane / kMapAlignment * kMapAlignment;
    map.dims[0] = set.first[r] + image.pixels;
    map.dims[1] = ceil_div(image.planes, image.classes);
    map.dims[2] = image.count;
    map.steps[0] = image.plane * image.classes;
    map.steps[1] = image.image;
    map.box_rows = 1 << set.block_log2;
  }
}

// The filter has a row for each plane that is summed over in the data gradient of 16 bits, else for each written one.
void set_filter(const Problem& problem, const planes::TileShape& shape, std::int64_t element, PlanesPlan* plan) {
  const planes::Params& p = plan->params;
  const bool by_data = problem.direction == Direction::backward_data;
  const bool rows_are_summed = by_data && shape.kind == Kind::across;
  const PlaneSet& rows = rows_are_summed ? p.in : p.out;
  const PlaneSet& columns = rows_are_summed ? p.out : p.in;
  const bool transposed = by_data && !rows_are_summed;
  const std::int64_t steps[] = {problem.w.dims[0] > 1 ? problem.w.strides[0] : problem.w.dims[1],
                                problem.w.dims[1] > 1 ? problem.w.strides[1] : 1};
  plan->has_filter = true;
  plan->arranges =
      transposed || rows.classes > 1 || columns.classes > 1 || steps[1] != 1 || steps[0] * element % kMapAlignment != 0;
  PlaneMap& map = plan->filter;
  map.dims[2] = 1;
  map.steps[1] = kMapAlignment;
  // Rows that lie along the sum are as many as the tile has; else a block of the sum has them.
  map.box_rows = rows_are_summed ? 1 << rows.block_log2 : shape.kind == Kind::across ? shape.bm : shape.bn;
  if (!plan->arranges) {
    map.dims[0] = columns.planes;
    map.dims[1] = rows.planes;
    map.steps[0] = steps[0] * element;
    return;
  }
  planes::ArrangeParams& a = plan->arrangement;
  a.element_bytes = static_cast<int>(element);
  a.rows = rows;
  a.columns = columns;
  a.row_count = positions_of(rows);
  a.column_count = positions_of(columns);
  a.row_step = steps[transposed ? 1 : 0];
  a.column_step = steps[transposed ? 0 : 1];
  map.dims[0] = a.column_count;
  map.dims[1] = a.row_count;
  map.steps[0] = a.column_count * element;
  plan->filter_bytes = static_cast<std::size_t>(round_up(std::int64_t{a.row_count} * a.column_count * element, 256));
}

bool divides(std::int64_t divisor, const std::int64_t (&steps)[2]) {
  return steps[0] % divisor == 0 && steps[1] % divisor == 0;
}

void set_epilogue(const Problem& problem, const Image& out, std::int64_t element, PlanesPlan* plan) {
  planes::Params& p = plan->params;
  p.has_bias = problem.has_bias != 0;
  p.bias_step = problem.bias_stride * element;
  p.clipped = problem.activation == GPUDNN_ACTIVATION_CLIPPED_RELU;
  p.relu = p.clipped || problem.activation == GPUDNN_ACTIVATION_RELU;
  if (problem.direction == Direction::backward_filter) {
    p.c_step[0] = problem.w.strides[0] * element;
    p.c_step[1] = problem.w.strides[1] * element;
    return;
  }
  const Image addend = problem.has_z != 0 ? image_of(problem.z, element) : out;
  p.c_step[0] = out.plane;
  p.c_step[1] = out.image;
  p.addend_step[0] = addend.plane;
  p.addend_step[1] = addend.image;
  p.c_vectors = out.pixels % 4 == 0 && divides(16, p.c_step);
  p.addend_vectors = element == 2 ? out.pixels % 2 == 0 && divides(4, p.addend_step)
                                  : out.pixels % 4 == 0 && divides(16, p.addend_step);
}

// --- legality --------------------------------------------------------------------------------------------------------

// All pixels of a plane follow each other in memory.
bool planes_are_contiguous(const TensorGeometry& tensor) {
  std::int64_t expected = 1;
  for (int i = tensor.rank - 1; i >= 2; --i) {
    if (tensor.dims[i] > 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.dims[i];
  }
  return true;
}

const char* layout_obstacle(const TensorGeometry& tensor, std::int64_t element) {
  if (!planes_are_contiguous(tensor)) return "the pixels of a plane do not follow each other";
  const Image image = image_of(tensor, element);
  if (image.plane < image.pixels * element) return "planes are interleaved";
  if (image.image % kMapAlignment != 0) return "images do not begin at multiples of 16 bytes";
  if (image.planes % image.classes != 0) return "planes at odd addresses that are no multiple of their residue classes";
  if (image.image < 0 || image.image >= kMostSteps || image.plane * image.classes >= kMostSteps) {
    return "a stride of 2^40 bytes or more";
  }
  return nullptr;
}

const char* window_obstacle(const Problem& problem) {
  if (problem.groups != 1) return "it takes one group";
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] != 1) return "the filter is larger than a pixel";
    if (problem.stride[i] != 1 || problem.pad[i] != 0) return "it has a stride or padding";
  }
  return nullptr;
}

const char* epilogue_obstacle(const Problem& problem) {
  switch (problem.activation) {
    case -1:
    case GPUDNN_ACTIVATION_IDENTITY:
    case GPUDNN_ACTIVATION_RELU:
    case GPUDNN_ACTIVATION_CLIPPED_RELU:
      break;
    default:
      return "of the activations, it fuses ReLU, clipped ReLU and identity only";
  }
  return problem.has_z != 0 && !planes_are_contiguous(problem.z) ? "the pixels of a plane of z do not follow each other"
                                                                 : nullptr;
}

const char* size_obstacle(const Problem& problem, std::int64_t element) {
  const std::int64_t chunks = problem.x.dims[0] * ceil_div(pixels_of(problem.x), kRowBytes / element);
  const std::int64_t most_planes = std::int64_t{1} << 24;
  if (problem.x.dims[1] > most_planes || problem.y.dims[1] > most_planes) return "over 2^24 planes";
  const std::int64_t tiles = ceil_div(std::max(problem.x.dims[1], problem.y.dims[1]), planes::kBlock);
  if (pixels_of(problem.x) > kMostCount - kRowBytes || chunks > kMostCount / 2 || chunks * tiles > kMostCount / 2) {
    return "about 2^31 tiles or pixels of a plane, or more";
  }
  const std::int64_t rows = round_up(problem.w.dims[0], std::int64_t{planes::kBlock} * planes::kMostClasses);
  const std::int64_t columns = round_up(problem.w.dims[1], std::int64_t{planes::kBlock} * planes::kMostClasses);
  return rows * columns > kMostCount ? "a filter of about 2^31 elements or more" : nullptr;
}

}  // namespace

const char* planes_obstacle(const Problem& problem) {
  if (const char* obstacle = tensor_math_obstacle(problem)) return obstacle;
  if (const char* obstacle = window_obstacle(problem)) return obstacle;
  const std::int64_t element = element_size(problem);
  for (const TensorGeometry* tensor : {&problem.x, &problem.y}) {
    if (const char* obstacle = layout_obstacle(*tensor, element)) return obstacle;
  }
  if (const char* obstacle = epilogue_obstacle(problem)) return obstacle;
  return size_obstacle(problem, element);
}

Kind planes_kind(const Problem& problem) {
  if (problem.direction == Direction::backward_filter) return Kind::along;
  return problem.x.type == GPUDNN_DATA_FLOAT ? Kind::across_tf32 : Kind::across;
}

PlanesPlan planes_plan(const Problem& problem, const Config& config) {
  const planes::TileShape& shape = planes::kTileShapes[config.tile];
  const std::int64_t element = element_size(problem);
  const Image in = image_of(in_of(problem), element);
  const Image out = image_of(out_of(problem), element);
  const bool along = shape.kind == Kind::along;
  const auto chunk = static_cast<int>(kRowBytes / element);  // pixels

  PlanesPlan plan;
  plan.shape = config.tile;
  plan.type = problem.x.type == GPUDNN_DATA_HALF       ? kernels::sm90::ElementType::f16
              : problem.x.type == GPUDNN_DATA_BFLOAT16 ? kernels::sm90::ElementType::bf16
                                                       : kernels::sm90::ElementType::f32;
  plan.direction = problem.direction == Direction::forward         ? kernels::sm90::Direction::forward
                   : problem.direction == Direction::backward_data ? kernels::sm90::Direction::data_gradient
                                                                   : kernels::sm90::Direction::filter_gradient;
  planes::Params& p = plan.params;
  p.pixels = static_cast<std::uint32_t>(out.pixels);
  p.in = set_of(in, element, along ? planes::kBlock : chunk);
  p.out = set_of(out, element, planes::kBlock);
  set_maps(in, p.in, plan.in);
  plan.out_has_maps = shape.kind != Kind::across_tf32;
  if (plan.out_has_maps) set_maps(out, p.out, plan.out);
  const auto chunks_of_image = static_cast<std::uint32_t>(ceil_div(out.pixels, chunk));
  p.chunks_of_image = FastDivmod(chunks_of_image);
  p.chunks = chunks_of_image * static_cast<std::uint32_t>(out.count);
  if (!along) set_filter(problem, shape, element, &plan);
  set_epilogue(problem, out, element, &plan);

  const std::int64_t written = ceil_div(positions_of(p.out), shape.kind == Kind::across_tf32 ? shape.bn : shape.bm);
  if (along) {
    const std::int64_t columns = ceil_div(positions_of(p.in), shape.bn);
    p.inner_tiles = FastDivmod(static_cast<std::uint32_t>(columns));
    p.works = FastDivmod(static_cast<std::uint32_t>(written * columns));
    p.k_blocks = p.chunks;
  } else {
    const std::int64_t pixels = ceil_div(p.chunks, (shape.kind == Kind::across ? shape.bn : shape.bm) / chunk);
    p.inner_tiles = FastDivmod(static_cast<std::uint32_t>(written));
    p.works = FastDivmod(static_cast<std::uint32_t>(written * pixels));
    p.k_blocks = positions_of(p.in) >> p.in.block_log2;
  }
  p.splits = static_cast<std::uint32_t>(along ? config.split_k : 1);
  p.k_blocks_per_split = static_cast<std::uint32_t>(ceil_div(p.k_blocks, p.splits));
  plan.workspace = plan.filter_bytes;
  if (along) {
    plan.workspace += static_cast<std::size_t>(p.works.divisor) * p.splits *
                      static_cast<std::size_t>(shape.bm * shape.bn) * sizeof(float);
  }
  return plan;
}

}  // namespace gpudnn::conv
