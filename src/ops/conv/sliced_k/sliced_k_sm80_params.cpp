// The mapping of forward convolutions to the kernel whose warps share a tile's reduction, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/sliced_k/sliced_k_sm80_params.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

namespace sliced = kernels::sliced_k;
using kernels::gemm::Activation;

constexpr std::int64_t kVector = 8;
constexpr std::int64_t kMaxSpan = std::numeric_limits<std::int32_t>::max();
constexpr double kMaxBlocks = 4096;

struct Slices {
  int count;
};
constexpr Slices kRows[] = {{8}, {4}, {2}, {1}};
constexpr auto kNames = tile_names(kRows, [](const Slices& row) { return TileName().add("slices", row.count); });
static_assert(std::size(kRows) == std::size(sliced::kSlices));

sliced::Image image_of(const TensorGeometry& tensor, int spatial) {
  sliced::Image at;
  at.image = static_cast<std::int32_t>(tensor.strides[0]);
  at.channel = static_cast<std::int32_t>(tensor.strides[1]);
  for (int axis = 0; axis < spatial; ++axis) {
    at.axis[axis] = static_cast<std::int32_t>(tensor.strides[2 + spatial - 1 - axis]);
  }
  return at;
}

// Whether channels are neighbours in whole aligned vectors.
bool has_vectors(const TensorGeometry& tensor, std::int64_t vector = kVector) {
  if (tensor.dims[1] % vector != 0 || tensor.strides[1] != 1) return false;
  for (int i = 0; i < tensor.rank; ++i)
    if (i != 1 && tensor.dims[i] > 1 && tensor.strides[i] % vector != 0) return false;
  return true;
}

// Elements from a pixel to the next where all lie in rows one after the other, else 0.
std::int64_t row_of(const TensorGeometry& tensor) {
  std::int64_t row = tensor.dims[1];  // of one pixel
  std::int64_t next = 0;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    if (i == 1 || tensor.dims[i] == 1) continue;
    if (next == 0) row = tensor.strides[i];
    if (next != 0 && tensor.strides[i] != next) return 0;
    next = tensor.strides[i] * tensor.dims[i];
  }
  return row < tensor.dims[1] ? 0 : row;
}

double blocks_of(const Problem& problem, int warps, int slices) {
  const double rows = static_cast<double>(sliced::kTilePixels) * warps / slices;
  return std::ceil(static_cast<double>(problem.y.dims[0] * pixels_of(problem.y)) / rows) *
         std::ceil(static_cast<double>(problem.y.dims[1]) / sliced::kTileFilters);
}

// Whether the convolution is a product of two matrices of rows, and how they lie.
void set_rows(const Problem& problem, sliced::Params* p) {
  const TensorGeometry& addend = problem.has_z != 0 ? problem.z : problem.y;
  const std::int64_t x_row = row_of(problem.x);
  const std::int64_t y_row = row_of(problem.y);
  const std::int64_t addend_row = row_of(addend);
  const auto in_vectors = [&](std::int64_t vector) {
    return has_vectors(problem.x, vector) && has_vectors(problem.w, vector) && has_vectors(problem.y, vector) &&
           has_vectors(addend, vector);
  };
  p->rows = in_vectors(kVector / 2) && taps_of(problem) == 1 && x_row > 0 && y_row > 0 && addend_row > 0;
  p->row_halves = !in_vectors(kVector);
  for (int i = 0; i < problem.spatial; ++i)
    p->rows = p->rows && problem.pad[i] == 0 && problem.x.dims[2 + i] == problem.y.dims[2 + i] &&
              (problem.stride[i] == 1 || problem.x.dims[2 + i] == 1);
  if (!p->rows) return;
  p->x_row = static_cast<std::uint32_t>(x_row * 2);
  p->w_row = static_cast<std::uint32_t>(problem.w.strides[0] * 2);
  p->y_at.axis[0] = static_cast<std::int32_t>(y_row);
  p->addend_at.axis[0] = static_cast<std::int32_t>(addend_row);
}

// Whether pixels of the tensor are neighbours, an image's all in one row, in whole aligned vectors.
bool has_planes(const TensorGeometry& tensor, std::int64_t pixels) {
  std::int64_t next = 1;
  for (int i = tensor.rank - 1; i >= 2; --i) {
    if (tensor.dims[i] > 1 && tensor.strides[i] != next) return false;
    next *= tensor.dims[i];
  }
  const auto is_whole = [&](int i) {
    return tensor.dims[i] == 1 || (tensor.strides[i] >= pixels && tensor.strides[i] % kVector == 0);
  };
  return pixels % kVector == 0 && is_whole(0) && is_whole(1);
}

// Whether the convolution is a product of a matrix of rows and one of planes. For the first config alone, whose warps
// all share a tile.
void set_planes(const Problem& problem, int slices, sliced::Params* p) {
  const std::int64_t pixels = pixels_of(problem.y);
  p->planes = !p->rows && slices == sliced::kWarps && taps_of(problem) == 1 && has_vectors(problem.w) &&
              has_planes(problem.x, pixels) && has_planes(problem.y, pixels) &&
              (problem.has_z == 0 || has_planes(problem.z, pixels));
  for (int i = 0; i < problem.spatial; ++i)
    p->planes = p->planes && problem.pad[i] == 0 && problem.x.dims[2 + i] == problem.y.dims[2 + i] &&
                (problem.stride[i] == 1 || problem.x.dims[2 + i] == 1);
  if (!p->planes) return;
  p->plane_pixels = static_cast<std::uint32_t>(pixels);
  p->plane_tiles = sliced::FastDivmod(static_cast<std::uint32_t>(ceil_div(pixels, sliced::kPlanePixels)));
}

}  // namespace

const char* sliced_k_unsupported_reason(const Problem& problem) {
  if (problem.direction != Direction::forward) return "it goes forward only";
  if (problem.x.type != GPUDNN_DATA_HALF && problem.x.type != GPUDNN_DATA_BFLOAT16) return "it takes f16 and bf16 only";
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (problem.groups != 1) return "groups";
  if (problem.spatial > 2) return "three spatial dimensions";
  if (problem.mode != GPUDNN_CROSS_CORRELATION) return "a mirrored filter";
  if (const char* reason = channel_scale_unsupported_reason(problem)) return reason;
  const Activation activation = activation_of(problem);
  if (activation != Activation::identity && activation != Activation::relu) return "an activation but ReLU";
  for (const TensorGeometry* tensor :
       {&problem.x, &problem.w, &problem.y, problem.has_z != 0 ? &problem.z : &problem.y})
    if (element_span(*tensor) >= kMaxSpan) return "a tensor of 2^31 elements or more";
  for (int i = 0; i < problem.spatial; ++i)
    if (problem.pad[i] + problem.w.dims[2 + i] * problem.dilation[i] + problem.y.dims[2 + i] * problem.stride[i] >=
        kMaxSpan / 2)
      return "windows beyond 2^30";
  return blocks_of(problem, sliced::kWarps, 1) > kMaxBlocks ? "more tiles than are worth it" : nullptr;
}

sliced::Params sliced_k_params(const Problem& problem, const Config& config) {
  sliced::Params p;
  const int spatial = problem.spatial;
  p.is_bf16 = problem.x.type == GPUDNN_DATA_BFLOAT16;
  p.slice_shift = static_cast<std::uint32_t>(std::countr_zero(static_cast<unsigned>(sliced::kSlices[config.tile])));
  p.pixels = static_cast<std::uint32_t>(problem.y.dims[0] * pixels_of(problem.y));
  p.filters = static_cast<std::uint32_t>(problem.y.dims[1]);
  for (int axis = 0; axis < spatial; ++axis) {
    const int i = spatial - 1 - axis;
    p.extent[axis] = sliced::FastDivmod(static_cast<std::uint32_t>(problem.y.dims[2 + i]));
    p.taps[axis] = sliced::FastDivmod(static_cast<std::uint32_t>(problem.w.dims[2 + i]));
    p.x_extent[axis] = static_cast<std::int32_t>(problem.x.dims[2 + i]);
    p.pad[axis] = static_cast<std::int32_t>(problem.pad[i]);
    p.stride[axis] = static_cast<std::int32_t>(problem.stride[i]);
    p.dilation[axis] = static_cast<std::int32_t>(problem.dilation[i]);
  }
  p.x_at = image_of(problem.x, spatial);
  p.w_at = image_of(problem.w, spatial);
  p.y_at = image_of(problem.y, spatial);
  p.addend_at = problem.has_z != 0 ? image_of(problem.z, spatial) : p.y_at;
  const std::int64_t channels = problem.w.dims[1];
  const std::int64_t taps = taps_of(problem);
  p.vectors = has_vectors(problem.x) && has_vectors(problem.w);
  p.w_vectors = is_packed_nchw(problem.w) && channels * taps % kVector == 0;
  p.y_vectors = has_vectors(problem.y);
  p.terms = static_cast<std::uint32_t>(channels * taps);
  p.chunks = static_cast<std::uint32_t>(ceil_div(p.terms, sliced::kChunk));
  if (p.vectors) p.vectors_of_tap = sliced::FastDivmod(static_cast<std::uint32_t>(channels / kVector));
  set_rows(problem, &p);
  set_planes(problem, sliced::kSlices[config.tile], &p);
  set_activation(problem, &p);
  return p;
}

// Fitted to 40 layers of one image on an H200: a block takes some 2 us to its first bytes and from its last product,
// and then as long as its warps' chunks come from the L2; elements one by one wait for their addresses. Rows of one tap
// have a fraction of the code before and after.
void sliced_k_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  constexpr double kStart = 1.8e-6;
  constexpr double kBlock = 1.6e-6;
  constexpr double kBlockOfRows = 0.1e-6;
  constexpr double kLatency = 0.75e-6;
  constexpr double kHalvesLatency = 3.5e-6;    // of vectors of 4
  constexpr double kElementsLatency = 2.8e-6;  // of x; of the filter as much again
  constexpr double kElementStores = 4e-6;      // of a block's 128 pixels and 32 filters, one by one
  constexpr double kBytesOfChunk = (sliced::kTilePixels + sliced::kTileFilters) * sliced::kChunk * 2.0;
  for (int i = 0; i < sliced::kSliceCount; ++i) {
    const sliced::Params p = sliced_k_params(problem, {.tile = i});
    const double chunks = std::ceil(static_cast<double>(p.chunks) / sliced::kSlices[i]);
    const bool vectors = p.vectors || p.rows;
    const double at_once = sliced::at_once(vectors);
    Footprint f;
    const int warps = p.rows ? static_cast<int>(sliced::warps_of_rows(p.slice_shift)) : sliced::kWarps;
    f.tiles = blocks_of(problem, warps, sliced::kSlices[i]);
    if (p.planes) f.tiles /= static_cast<double>(sliced::kPlanePixels) / sliced::kTilePixels;
    if (p.rows && warps < sliced::kWarps) f.resident = 3;
    if (!vectors) f.resident = 2;
    f.k_tiles = std::ceil(chunks / at_once);
    f.flops = 2.0 * warps * sliced::kTilePixels * sliced::kTileFilters * sliced::kChunk * at_once;
    f.flops_rate = device.rates.mma_half_flops;
    f.efficiency = vectors || p.planes ? 0.4 : 0.1;
    f.l2_bytes = warps * std::fmin(chunks, at_once) * kBytesOfChunk;
    f.k_tile_latency = vectors || p.planes ? kLatency : p.w_vectors ? kElementsLatency : 2 * kElementsLatency;
    if (p.rows && p.row_halves) {  // a warp's chunks one after the other
      f.k_tiles = chunks;
      f.k_tile_latency = kHalvesLatency;
    }
    f.tile_seconds = p.rows || p.planes ? kBlockOfRows : kBlock;
    if (vectors && !p.rows && !p.planes && !p.y_vectors) f.tile_seconds += kElementStores / sliced::kSlices[i];
    f.start_seconds = kStart;
    f.dram_bytes = bytes_of_tensors(problem);
    candidates->push_back(
        {{.tile = i, .tile_name = kNames[static_cast<std::size_t>(i)].text}, estimate(f, device.rates), 0});
  }
}

}  // namespace gpudnn::conv
