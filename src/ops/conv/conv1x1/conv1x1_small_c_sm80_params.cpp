// The mapping of convolution problems to the pointwise convolution of few channels, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/conv1x1/conv1x1_small_c_sm80_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::conv1x1_small_c;

constexpr std::int64_t kVector = 8;  // elements of 16 bytes
constexpr std::int64_t kMaxPixels = std::numeric_limits<std::int32_t>::max() / 2;
constexpr std::uint32_t kMaxShared = 48 * 1024;  // what a block may have on every device

const TensorGeometry& input_of(const Problem& problem) {
  return problem.direction == Direction::forward ? problem.x : problem.y;
}

// The distance of pixels in the order of image, d, h, w, where it is always the same.
std::optional<std::int64_t> pixel_step(const TensorGeometry& tensor) {
  std::int64_t step = tensor.dims[1];
  std::int64_t span = 0;  // of the dimensions so far; 0: they have one pixel
  for (int i = tensor.rank - 1; i >= 0; --i) {
    const int dim = i;
    if (dim == 1 || tensor.dims[dim] == 1) continue;
    if (span == 0) {
      step = tensor.strides[dim];
    } else if (tensor.strides[dim] != span) {
      return std::nullopt;
    }
    span = tensor.strides[dim] * tensor.dims[dim];
  }
  return step;
}

const char* layout_unsupported_reason(const TensorGeometry& tensor) {
  if (tensor.dims[1] > 1 && tensor.strides[1] != 1) return "a tensor is not contiguous along channels";
  const std::optional<std::int64_t> step = pixel_step(tensor);
  if (!step) return "a tensor's pixels do not lie at even distances";
  return *step % kVector != 0 ? "pixels do not begin at multiples of 16 bytes" : nullptr;
}

const char* geometry_unsupported_reason(const Problem& problem) {
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] != 1) return "a filter of more than one tap";
    if (problem.stride[i] != 1) return "strides over 1";
    if (problem.pad[i] != 0) return "padding";
  }
  return problem.x.dims[0] * pixels_of(problem.x) > kMaxPixels ? "2^30 pixels or more" : nullptr;
}

}  // namespace

const char* conv1x1_small_c_unsupported_reason(const Problem& problem) {
  if (problem.direction == Direction::wgrad) return "it does forward and the data gradient only";
  if (problem.x.type != GPUDNN_DATA_HALF && problem.x.type != GPUDNN_DATA_BFLOAT16) return "it takes f16 and bf16 only";
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (problem.groups != 1) return "groups";
  if (const char* reason = geometry_unsupported_reason(problem)) return reason;
  if (input_of(problem).dims[1] > few::kMaxSteps * few::kStepChannels) return "more than 64 channels to sum over";
  if (problem.x.dims[1] % kVector != 0 || problem.y.dims[1] % kVector != 0) {
    return "channels or filters do not fill whole 16-byte vectors";
  }
  for (const TensorGeometry* tensor : {&problem.x, &problem.y, problem.has_z != 0 ? &problem.z : &problem.y}) {
    if (const char* reason = layout_unsupported_reason(*tensor)) return reason;
  }
  if (const char* reason = channel_scale_unsupported_reason(problem)) return reason;
  const TensorGeometry& out = problem.direction == Direction::forward ? problem.y : problem.x;
  if (out.dims[1] > kMaxShared) return "more channels than shared memory has room for";
  return conv1x1_small_c_params(problem).shared_bytes > kMaxShared ? "the filter is larger than a block's shared memory"
                                                                   : nullptr;
}

few::Params conv1x1_small_c_params(const Problem& problem) {
  const bool forward = problem.direction == Direction::forward;
  const TensorGeometry& in = input_of(problem);
  const TensorGeometry& out = forward ? problem.y : problem.x;
  few::Params p;
  p.pixels = static_cast<std::uint32_t>(in.dims[0] * pixels_of(in));
  p.tiles = static_cast<std::uint32_t>(ceil_div(p.pixels, few::kTilePixels));
  p.k = static_cast<std::uint32_t>(in.dims[1]);
  p.m = static_cast<std::uint32_t>(out.dims[1]);
  p.steps = static_cast<std::uint32_t>(ceil_div(p.k, few::kStepChannels));
  p.groups = static_cast<std::uint32_t>(ceil_div(p.m, few::kGroupChannels));
  p.in_step = pixel_step(in).value_or(0) * 2;
  p.out_step = pixel_step(out).value_or(0) * 2;
  p.addend_step = problem.has_z != 0 ? pixel_step(problem.z).value_or(0) * 2 : p.out_step;
  p.filter_m_step = problem.w.strides[forward ? 0 : 1];
  p.filter_k_step = problem.w.strides[forward ? 1 : 0];
  p.filter_vectors = p.filter_k_step == 1 && (p.m == 1 || p.filter_m_step % kVector == 0);
  set_activation(problem, &p);
  p.shared_bytes = p.groups * (p.steps * few::kEntriesPerStep * 16 + few::kGroupChannels * 4);
  return p;
}

std::uint32_t conv1x1_small_c_blocks(const few::Params& params, int multiprocessors) {
  const auto slots = static_cast<std::int64_t>(std::max(multiprocessors, 1)) *
                     few::blocks_per_multiprocessor(static_cast<int>(params.steps));
  return static_cast<std::uint32_t>(std::min(slots, ceil_div(params.tiles, few::kWarps)));
}

// The longer of bytes and products, the latter with what fills k and m up; and the start, which loads the filter in
// batches. Fitted to 9 layers on an H200: within 1.15 on 8 of them.
void conv1x1_small_c_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  constexpr double kStart = 2.0e-6;
  constexpr double kCyclesOfProduct = 2.5;  // 16 x 8 x 16, of a multiprocessor
  constexpr double kBatch = 0.6e-6;
  constexpr double kEntriesOfBatch = few::kEntriesTogether * few::kThreads;
  const few::Params p = conv1x1_small_c_params(problem);
  const double pixels = p.pixels;
  const double addend = problem.has_z != 0 ? p.m : 0;
  const double batches = std::ceil(static_cast<double>(p.groups) * p.steps * few::kEntriesPerStep / kEntriesOfBatch);
  Footprint f;
  f.cycles = pixels / 16 * p.groups * 4 * p.steps * 2 * kCyclesOfProduct / device.rates.multiprocessors;
  f.dram_bytes = 1.02 * pixels * 2 * (p.k + p.m + addend);
  f.start_seconds = kStart + kBatch * batches;
  candidates->push_back({{.tile_name = "k64"}, estimate(f, device.rates), 0});
}

}  // namespace gpudnn::conv
