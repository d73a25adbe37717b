// The mapping of pointwise convolutions on planes to their Hopper kernels.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/conv1x1/conv1x1_nchw_sm90_params.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace planes = kernels::sm90::planes;
using kernels::sm90::kRowBytes;
using planes::Kind;
using tile::FastDivmod;

constexpr std::int64_t kMapAlignment = 16;
constexpr std::int64_t kPiece = 8;  // that threads copy
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40;
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

std::int64_t element_size(const Problem& problem) { return data_type_bits(problem.x.type) / 8; }

// An image tensor: strides of extents of 1 say nothing, so they get ones that TMA takes. Bytes.
struct Image {
  std::int64_t count = 0, planes = 0, pixels = 0;
  std::int64_t image = 0, plane = 0;
};

Image image_of(const TensorGeometry& tensor, std::int64_t element) {
  Image image;
  image.count = tensor.dims[0];
  image.planes = tensor.dims[1];
  image.pixels = pixels_of(tensor);
  image.plane = image.planes > 1 ? tensor.strides[1] * element : round_up(image.pixels * element, kMapAlignment);
  image.image = image.count > 1 ? tensor.strides[0] * element : round_up(image.planes * image.plane, kMapAlignment);
  return image;
}

// Planes of the problem begin and end at multiples of so many bytes, at most 16.
std::int64_t alignment_of(const Problem& problem, std::int64_t element) {
  std::int64_t alignment = kMapAlignment;
  for (const TensorGeometry* tensor : {&problem.x, &problem.y}) {
    const Image image = image_of(*tensor, element);
    for (const std::int64_t step : {image.plane, image.image, image.pixels * element}) {
      alignment = std::gcd(alignment, step);
    }
  }
  return alignment;
}

// The tensor whose planes are summed over, or whose planes are columns; and the one whose planes are rows or written.
const TensorGeometry& in_of(const Problem& problem) {
  return problem.direction == Direction::dgrad ? problem.y : problem.x;
}
const TensorGeometry& out_of(const Problem& problem) {
  return problem.direction == Direction::dgrad ? problem.x : problem.y;
}

PlaneMap map_of(const Image& image, int box_rows) {
  return {{image.pixels, image.planes, image.count}, {image.plane, image.image}, box_rows};
}

// The filter has a row for each plane that is summed over in the data gradient of 16 bits, else for each written one.
FilterCopy copy_of(const Problem& problem, std::int64_t element) {
  const bool rows_are_filters = problem.direction != Direction::dgrad || planes_kind(problem) == Kind::across;
  const std::int64_t filters = problem.w.dims[0];
  const std::int64_t channels = problem.w.dims[1];
  const std::int64_t filter_step = filters > 1 ? problem.w.strides[0] : round_up(channels, kMapAlignment);
  const std::int64_t channel_step = channels > 1 ? problem.w.strides[1] : 1;
  FilterCopy copy = rows_are_filters ? FilterCopy{filters, channels, filter_step, channel_step, 0}
                                     : FilterCopy{channels, filters, channel_step, filter_step, 0};
  copy.pitch = round_up(copy.columns, kMapAlignment / element);
  return copy;
}

bool is_needed(const FilterCopy& copy, std::int64_t element) {
  return copy.column_step != 1 || copy.row_step * element % kMapAlignment != 0;
}

void set_filter(const Problem& problem, const planes::TileShape& shape, const PlanesSizes& sizes, PlanesPlan* plan) {
  const FilterCopy& copy = plan->copy = copy_of(problem, sizes.element);
  plan->has_filter = true;
  plan->copies_filter = sizes.filter_bytes > 0;
  plan->filter_bytes = sizes.filter_bytes;
  PlaneMap& map = plan->filter;
  map.dims[0] = copy.columns;
  map.dims[1] = copy.rows;
  map.dims[2] = 1;
  map.steps[0] = (plan->copies_filter ? copy.pitch : copy.row_step) * sizes.element;
  map.steps[1] = kMapAlignment;
  // Rows along the sum: as many as the tile has written planes. Across it: those of a block of the sum.
  const bool rows_are_summed = problem.direction == Direction::dgrad && shape.kind == Kind::across;
  const int written = shape.kind == Kind::across ? shape.bm : shape.bn;
  map.box_rows = static_cast<std::int32_t>(rows_are_summed ? kRowBytes / sizes.element
                                                           : std::min<std::int64_t>(written, sizes.out_planes));
}

bool divides(std::int64_t divisor, const std::int64_t (&steps)[2]) {
  return steps[0] % divisor == 0 && steps[1] % divisor == 0;
}

void set_epilogue(const Problem& problem, const Image& out, std::int64_t element, PlanesPlan* plan) {
  planes::Params& p = plan->params;
  set_activation(problem, &p);
  if (problem.direction == Direction::wgrad) {
    p.c_step[0] = problem.w.strides[0] * element;
    p.c_step[1] = problem.w.strides[1] * element;
    return;
  }
  const Image addend = problem.has_z != 0 ? image_of(problem.z, element) : out;
  p.c_step[0] = out.plane;
  p.c_step[1] = out.image;
  p.addend_step[0] = addend.plane;
  p.addend_step[1] = addend.image;
  p.addend_vectors = divides(element == 2 ? 4 : 16, p.addend_step);
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

const char* layout_unsupported_reason(const TensorGeometry& tensor, std::int64_t element) {
  if (!planes_are_contiguous(tensor)) return "the pixels of a plane do not follow each other";
  const Image image = image_of(tensor, element);
  if (image.plane < image.pixels * element) return "planes are interleaved";
  if (image.image >= kMaxSteps || image.plane >= kMaxSteps) return "a stride of 2^40 bytes or more";
  return nullptr;
}

const char* window_unsupported_reason(const Problem& problem) {
  if (problem.groups != 1) return "it takes one group";
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] != 1) return "the filter is larger than a pixel";
    if (problem.stride[i] != 1 || problem.pad[i] != 0) return "it has a stride or padding";
  }
  return nullptr;
}

const char* epilogue_unsupported_reason(const Problem& problem) {
  return problem.has_z != 0 && !planes_are_contiguous(problem.z) ? "the pixels of a plane of z do not follow each other"
                                                                 : nullptr;
}

const char* size_unsupported_reason(const Problem& problem, std::int64_t element) {
  const std::int64_t chunks = problem.x.dims[0] * ceil_div(pixels_of(problem.x), kRowBytes / element);
  const std::int64_t most_planes = std::int64_t{1} << 24;
  if (problem.x.dims[1] > most_planes || problem.y.dims[1] > most_planes) return "over 2^24 planes";
  const std::int64_t tiles = ceil_div(std::max(problem.x.dims[1], problem.y.dims[1]), planes::kBlock);
  if (pixels_of(problem.x) > kMaxCount - kRowBytes || chunks > kMaxCount / 2 || chunks * tiles > kMaxCount / 2) {
    return "about 2^31 tiles or pixels of a plane, or more";
  }
  const std::int64_t filter = (problem.w.dims[0] + planes::kBlock) * (problem.w.dims[1] + planes::kBlock);
  return filter > kMaxCount ? "a filter of about 2^31 elements or more" : nullptr;
}

}  // namespace

const char* conv1x1_nchw_unsupported_reason(const Problem& problem) {
  using kernels::matmul::Activation;
  const Activation activation = activation_of(problem);
  if (activation != Activation::identity && activation != Activation::relu)
    return "of the activations, it fuses ReLU, clipped ReLU and identity only";
  if (problem.float_vectors != 0) return "its bias is of the data's type";
  if (const char* const reason = channel_scale_unsupported_reason(problem)) return reason;
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (const char* reason = window_unsupported_reason(problem)) return reason;
  const std::int64_t element = element_size(problem);
  for (const TensorGeometry* tensor : {&problem.x, &problem.y}) {
    if (const char* reason = layout_unsupported_reason(*tensor, element)) return reason;
  }
  const std::int64_t alignment = alignment_of(problem, element);
  if (alignment < kPiece) return "planes do not begin and end at multiples of 8 bytes";
  if (alignment < kMapAlignment && element == 4) return "planes do not begin and end at multiples of 16 bytes";
  if (const char* reason = epilogue_unsupported_reason(problem)) return reason;
  return size_unsupported_reason(problem, element);
}

Kind planes_kind(const Problem& problem) {
  if (problem.direction == Direction::wgrad) return Kind::along;
  return problem.x.type == GPUDNN_DATA_FLOAT ? Kind::across_tf32 : Kind::across;
}

PlanesSizes planes_sizes(const Problem& problem) {
  PlanesSizes s;
  s.element = element_size(problem);
  s.in_planes = in_of(problem).dims[1];
  s.out_planes = out_of(problem).dims[1];
  const std::int64_t pixels = pixels_of(out_of(problem));
  const std::int64_t of_plane = ceil_div(pixels, kRowBytes / s.element);
  s.chunks = out_of(problem).dims[0] * of_plane;
  s.cut_chunks = pixels % (kRowBytes / s.element) != 0 ? 1 / static_cast<double>(of_plane) : 0;
  s.by_threads = alignment_of(problem, s.element) < kMapAlignment;
  s.cuts_sectors = (image_of(problem.x, s.element).plane | image_of(problem.y, s.element).plane) % 32 != 0;
  if (problem.direction == Direction::wgrad) return s;
  const FilterCopy copy = copy_of(problem, s.element);
  if (is_needed(copy, s.element)) {
    s.filter_bytes = static_cast<std::size_t>(round_up(copy.rows * copy.pitch * s.element, 256));
  }
  return s;
}

PlanesWorks planes_works(const PlanesSizes& sizes, const planes::TileShape& shape) {
  const std::int64_t chunk = kRowBytes / sizes.element;  // pixels
  const std::int64_t written =
      ceil_div(sizes.out_planes, (shape.kind == Kind::across_tf32 ? shape.bn : shape.bm) * shape.cluster);
  if (shape.kind == Kind::along) return {written, ceil_div(sizes.in_planes, shape.bn), sizes.chunks};
  const int pixels = shape.kind == Kind::across ? shape.bn : shape.bm;
  return {written, ceil_div(sizes.chunks, pixels / chunk), ceil_div(sizes.in_planes, chunk)};
}

std::size_t planes_workspace(const PlanesSizes& sizes, const PlanesWorks& works, const planes::TileShape& shape,
                             int splits) {
  if (shape.kind != Kind::along) return sizes.filter_bytes;
  return sizes.filter_bytes + static_cast<std::size_t>(works.written * works.others * splits) *
                                  static_cast<std::size_t>(shape.bm * shape.bn) * sizeof(float);
}

PlanesPlan planes_plan(const Problem& problem, const Config& config) {
  const planes::TileShape& shape = planes::kTileShapes[config.tile];
  const PlanesSizes sizes = planes_sizes(problem);
  const PlanesWorks works = planes_works(sizes, shape);
  const std::int64_t element = sizes.element;
  const Image in = image_of(in_of(problem), element);
  const Image out = image_of(out_of(problem), element);
  const bool along = shape.kind == Kind::along;
  const auto chunk = static_cast<int>(kRowBytes / element);  // pixels

  PlanesPlan plan;
  plan.shape = config.tile;
  plan.type = element_type(problem.x.type);
  plan.direction = problem.direction == Direction::forward ? kernels::sm90::Direction::forward
                   : problem.direction == Direction::dgrad ? kernels::sm90::Direction::data_gradient
                                                           : kernels::sm90::Direction::filter_gradient;
  planes::Params& p = plan.params;
  p.pixels = static_cast<std::uint32_t>(out.pixels);
  p.in_planes = static_cast<std::uint32_t>(in.planes);
  p.out_planes = static_cast<std::uint32_t>(out.planes);
  plan.in_has_map = !shape.by_threads;
  plan.out_has_map = !shape.by_threads && shape.kind != Kind::across_tf32;
  // The filter gradient fetches both, in boxes of the planes that there are.
  const auto block = [&](std::int64_t all) { return static_cast<int>(std::min<std::int64_t>(planes::kBlock, all)); };
  if (plan.in_has_map) plan.in = map_of(in, along ? block(in.planes) : chunk);
  if (plan.out_has_map) plan.out = map_of(out, along ? block(out.planes) : planes::kBlock);
  p.in_step[0] = in.plane;
  p.in_step[1] = in.image;
  p.out_step[0] = out.plane;
  p.out_step[1] = out.image;
  p.chunks_of_image = FastDivmod(static_cast<std::uint32_t>(ceil_div(out.pixels, chunk)));
  p.chunks = static_cast<std::uint32_t>(sizes.chunks);
  if (!along) set_filter(problem, shape, sizes, &plan);
  set_epilogue(problem, out, element, &plan);

  p.inner_tiles = FastDivmod(static_cast<std::uint32_t>(along ? works.others : works.written));
  p.works = FastDivmod(static_cast<std::uint32_t>(works.written * works.others));
  p.k_blocks = static_cast<std::uint32_t>(works.k_blocks);
  p.splits = static_cast<std::uint32_t>(along ? config.split_k : 1);
  p.k_blocks_per_split = static_cast<std::uint32_t>(ceil_div(p.k_blocks, p.splits));
  plan.workspace = planes_workspace(sizes, works, shape, static_cast<int>(p.splits));
  return plan;
}

}  // namespace gpudnn::conv
