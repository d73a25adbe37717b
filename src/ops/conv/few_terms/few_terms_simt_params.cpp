// The mapping of float convolutions to the kernel of few terms, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/few_terms/few_terms_simt_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost_model.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::few_terms;
using kernels::gemm::Activation;

constexpr std::int64_t kMaxSpan = std::numeric_limits<std::int32_t>::max();

constexpr auto kNames = tile_names(few::kTiles, [](const few::TileRow& row) {
  return TileName().add("outputs", row.outputs).add("_slices", row.slices);
});

bool is_forward(const Problem& problem) { return problem.direction == Direction::forward; }
const TensorGeometry& in_of(const Problem& problem) { return is_forward(problem) ? problem.x : problem.y; }

few::Image image_of(const TensorGeometry& tensor, int spatial) {
  few::Image at;
  at.image = static_cast<std::int32_t>(tensor.strides[0]);
  at.channel = static_cast<std::int32_t>(tensor.strides[1]);
  for (int axis = 0; axis < spatial; ++axis)
    at.axis[axis] = static_cast<std::int32_t>(tensor.strides[2 + spatial - 1 - axis]);
  return at;
}

std::int64_t span_of(const TensorGeometry& tensor) {
  std::int64_t span = 1;
  for (int i = 0; i < tensor.rank; ++i) span += (tensor.dims[i] - 1) * tensor.strides[i];
  return span;
}

std::size_t terms_of(const Problem& problem) {
  std::int64_t terms = in_of(problem).dims[1];
  for (int i = 0; i < problem.spatial; ++i) terms *= problem.w.dims[2 + i];
  return static_cast<std::size_t>(terms);
}

}  // namespace

const char* few_terms_unsupported_reason(const Problem& problem) {
  if (problem.x.type != GPUDNN_DATA_FLOAT) return "it takes f32 only";
  if (problem.direction == Direction::wgrad) return "it does forward and the data gradient only";
  if (problem.groups != 1) return "groups";
  if (problem.spatial > 2) return "three spatial dimensions";
  if (problem.w.dims[1 + problem.spatial] != few::kWidth) return "a filter that is not 5 wide";
  for (int i = 0; i < problem.spatial; ++i)
    if (!is_forward(problem) && problem.stride[i] != 1) return "a data gradient with strides";
  const Activation activation = activation_of(problem);
  if (activation != Activation::identity && activation != Activation::relu) return "an activation but ReLU";
  for (const TensorGeometry* tensor :
       {&problem.x, &problem.w, &problem.y, problem.has_z != 0 ? &problem.z : &problem.y})
    if (span_of(*tensor) >= kMaxSpan) return "a tensor of 2^31 elements or more";
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t reach = problem.w.dims[2 + i] * problem.dilation[i] + problem.pad[i];
    if (reach + std::max(problem.x.dims[2 + i], problem.y.dims[2 + i]) * problem.stride[i] >= kMaxSpan / 2)
      return "windows beyond 2^30";
  }
  return few::shared_bytes({1, 1}, terms_of(problem)) > few::kMaxShared ? "a filter of more than 48 KiB an output"
                                                                        : nullptr;
}

FewTermsPlan few_terms_plan(const Problem& problem, const Config& config) {
  FewTermsPlan plan;
  plan.tile = config.tile;
  plan.forward = is_forward(problem);
  few::Params& p = plan.params;
  const TensorGeometry& in = in_of(problem);
  const TensorGeometry& out = output(problem);
  const int spatial = problem.spatial;
  p.pixels = static_cast<std::uint32_t>(element_count(out) / out.dims[1]);
  p.outputs = static_cast<std::uint32_t>(out.dims[1]);
  p.channels = static_cast<std::uint32_t>(in.dims[1]);
  p.in_at = image_of(in, spatial);
  p.out_at = image_of(out, spatial);
  p.addend_at = problem.has_z != 0 ? image_of(problem.z, spatial) : p.out_at;
  p.filter_at = image_of(problem.w, spatial);
  if (!plan.forward) std::swap(p.filter_at.image, p.filter_at.channel);
  for (int axis = 0; axis < spatial; ++axis) {
    const int i = spatial - 1 - axis;
    const std::int64_t taps = problem.w.dims[2 + i];
    p.extent[axis] = few::FastDivmod(static_cast<std::uint32_t>(out.dims[2 + i]));
    p.taps[axis] = few::FastDivmod(static_cast<std::uint32_t>(taps));
    p.in_extent[axis] = static_cast<std::int32_t>(in.dims[2 + i]);
    p.stride[axis] = static_cast<std::int32_t>(problem.stride[i]);
    p.dilation[axis] = static_cast<std::int32_t>(problem.dilation[i]);
    const std::int64_t reach = (taps - 1) * problem.dilation[i];
    p.pad[axis] = static_cast<std::int32_t>(plan.forward ? problem.pad[i] : reach - problem.pad[i]);
    // A mirrored filter, or the gradient of one that is not, has its taps from the last one on.
    if (plan.forward != (problem.mode == GPUDNN_CONVOLUTION)) continue;
    plan.first_tap += (taps - 1) * problem.w.strides[2 + i];
    p.filter_at.axis[axis] = -p.filter_at.axis[axis];
  }
  set_activation(problem, &p);
  return plan;
}

// A thread's instructions, or how long its loads of a row of the window take where warps are few.
void few_terms_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  constexpr double kStart = 3.0e-6;
  constexpr double kStage = 0.7e-6;       // the filter's first element
  constexpr double kStageStep = 0.05e-6;  // of kThreads elements
  constexpr double kRowLatency = 45;      // cycles of a row of the window
  constexpr double kInstructions = 5;     // of a term beside its products
  constexpr double kSlowdown = 3.5;       // of them, measured over 15 layers: the rate of loads by single elements ...
  constexpr double kSlowdownApart = 8;    // ... that do not lie side by side for neighbouring pixels
  constexpr double kWarps = few::kThreads / 32.0;
  const few::Params p = few_terms_plan(problem, {}).params;
  const double terms = static_cast<double>(terms_of(problem));
  const double slowdown = p.in_at.axis[0] == 1 ? kSlowdown : kSlowdownApart;
  for (int i = 0; i < few::kTileCount; ++i) {
    const few::TileRow& row = few::kTiles[i];
    if (few::shared_bytes(row, terms_of(problem)) > few::kMaxShared) continue;
    if (row.slices > 1 && p.channels < static_cast<std::uint32_t>(row.slices)) continue;
    const double share = std::ceil(static_cast<double>(p.channels) / row.slices) / p.channels;
    Footprint f;
    f.tiles = std::ceil(p.pixels * row.slices / static_cast<double>(few::kThreads)) *
              std::ceil(p.outputs / static_cast<double>(row.outputs));
    f.resident =
        std::clamp(std::floor(200e3 / static_cast<double>(few::shared_bytes(row, terms_of(problem)))), 1.0, 8.0);
    f.cycles = slowdown * terms * share * (kInstructions + row.outputs) * kWarps / 4;
    f.k_tile_latency = terms * share / p.taps[0].divisor * kRowLatency / device.rates.clock;
    f.wave_seconds = kStage + kStageStep * std::ceil(terms * row.outputs / few::kThreads);
    f.start_seconds = kStart;
    f.dram_bytes = bytes_of_tensors(problem);
    candidates->push_back(
        {{.tile = i, .tile_name = kNames[static_cast<std::size_t>(i)].text}, estimate(f, device.rates), 0});
  }
}

}  // namespace gpudnn::conv
