// The mapping of float convolutions to the kernel of few terms, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/few_terms/few_terms_simt_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::few_terms;
using kernels::gemm::Activation;

constexpr std::int64_t kMaxSpan = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxOutputs = 65535;  // thread blocks along y

constexpr auto kNames = tile_names(few::kTiles, [](const few::TileRow& row) {
  TileName name;
  name.add("outputs", row.outputs).add("_slices", row.slices);
  if (row.rows > 1) name.add("_rows", row.rows);
  return name;
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

std::size_t terms_of(const Problem& problem) {
  return static_cast<std::size_t>(in_of(problem).dims[1] * taps_of(problem));
}
bool is_of_rows(const Problem& problem) {
  if (problem.spatial != 2) return false;
  for (int i = 0; i < 2; ++i)
    if (problem.w.dims[2 + i] != few::kSize || problem.stride[i] != 1 || problem.dilation[i] != 1) return false;
  return true;
}
// Whether the tile is of the problem's kind of filter.
bool fits(const Problem& problem, const few::TileRow& row) {
  const std::size_t most = row.rows > 1 ? few::kMaxSharedOfRows : few::kMaxShared;
  if (few::shared_bytes(row, terms_of(problem)) > most) return false;
  if (is_of_rows(problem)) return row.rows > 1;
  return row.rows == 1 && (taps_of(problem) > 1 || row.outputs == 4);
}

}  // namespace

const char* few_terms_unsupported_reason(const Problem& problem) {
  if (problem.x.type != GPUDNN_DATA_FLOAT) return "it takes f32 only";
  if (problem.direction == Direction::wgrad) return "it does forward and the data gradient only";
  if (problem.groups != 1) return "groups";
  if (problem.spatial > 2) return "three spatial dimensions";
  if (problem.w.dims[1 + problem.spatial] != 5 && taps_of(problem) != 1 && !is_of_rows(problem))
    return "a filter that is neither 5 wide nor of one tap nor 9 x 9 with steps of 1";
  for (int i = 0; i < problem.spatial; ++i)
    if (!is_forward(problem) && problem.stride[i] != 1) return "a data gradient with strides";
  const Activation activation = activation_of(problem);
  if (activation != Activation::identity && activation != Activation::relu) return "an activation but ReLU";
  for (const TensorGeometry* tensor :
       {&problem.x, &problem.w, &problem.y, problem.has_z != 0 ? &problem.z : &problem.y})
    if (element_span(*tensor) >= kMaxSpan) return "a tensor of 2^31 elements or more";
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t reach = problem.w.dims[2 + i] * problem.dilation[i] + problem.pad[i];
    if (reach + std::max(problem.x.dims[2 + i], problem.y.dims[2 + i]) * problem.stride[i] >= kMaxSpan / 2)
      return "windows beyond 2^30";
  }
  if (output(problem).dims[1] > kMaxOutputs) return "more than 65535 channels";
  const auto fits_problem = [&](const few::TileRow& row) { return fits(problem, row); };
  return std::ranges::any_of(few::kTiles, fits_problem) ? nullptr : "a thread's filters are more than 48 KiB";
}

FewTermsPlan few_terms_plan(const Problem& problem, const Config& config) {
  FewTermsPlan plan;
  plan.tile = config.tile;
  plan.forward = is_forward(problem);
  few::Params& p = plan.params;
  const TensorGeometry& in = in_of(problem);
  const TensorGeometry& out = output(problem);
  const int spatial = problem.spatial;
  const int rows = few::kTiles[config.tile].rows;  // of a thread
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
    const std::int64_t step = rows == 1 ? 1 : axis == 1 ? rows : 32;
    const std::int64_t extent = ceil_div(out.dims[2 + i], step);
    p.extent[axis] = few::FastDivmod(static_cast<std::uint32_t>(extent));
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
  p.pixels = static_cast<std::uint32_t>(out.dims[0]) * p.extent[0].divisor * p.extent[1].divisor;
  p.out_rows = static_cast<std::uint32_t>(spatial > 1 ? out.dims[2] : 1);
  p.out_columns = static_cast<std::uint32_t>(out.dims[1 + spatial]);
  set_activation(problem, &p);
  return plan;
}

// A thread's instructions, or how long its loads of a row of the window take where warps are few.
void few_terms_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  constexpr double kStart = 5.0e-6;
  constexpr double kStage = 0.7e-6;       // the filter's first element
  constexpr double kStageStep = 0.05e-6;  // of kThreads elements
  constexpr double kRowLatency = 45;      // cycles of a row of the window
  constexpr double kInstructions = 5;     // of a term beside its products
  constexpr double kSlowdown = 3.5;       // of them, measured over 15 layers: the rate of loads by single elements ...
  constexpr double kSlowdownApart = 8;    // ... that do not lie side by side for neighbouring pixels
  constexpr double kWarps = few::kThreads / 32.0;
  constexpr double kInstructionsOfRows = 2.0;  // of a product, where a thread has several pixels
  const double terms = static_cast<double>(terms_of(problem));
  const double at_once = taps_of(problem) == 1 ? few::kChannelsAtOnce : problem.w.dims[1 + problem.spatial];
  const double slowdown = in_of(problem).strides[1 + problem.spatial] == 1 ? kSlowdown : kSlowdownApart;
  // Results that do not lie side by side for neighbouring pixels: sectors of memory for single elements.
  const TensorGeometry& out = output(problem);
  const double apart = out.strides[1 + problem.spatial] == 1 ? 0 : 11.0 * static_cast<double>(size_in_bytes(out));
  for (int i = 0; i < few::kTileCount; ++i) {
    const few::TileRow& row = few::kTiles[i];
    if (!fits(problem, row)) continue;
    const few::Params p = few_terms_plan(problem, {.tile = i}).params;
    if (row.rows == 1 && row.slices > 1 && p.channels < static_cast<std::uint32_t>(row.slices)) continue;
    const double share = std::ceil(static_cast<double>(p.channels) / row.slices) / p.channels;
    Footprint f;
    const double columns = row.rows > 1 ? 1 : few::kThreads / row.slices;  // of a thread block
    f.tiles = std::ceil(p.pixels / columns) * std::ceil(p.outputs / static_cast<double>(row.outputs));
    f.resident =
        std::clamp(std::floor(200e3 / static_cast<double>(few::shared_bytes(row, terms_of(problem)))), 1.0, 8.0);
    f.cycles = row.rows > 1 ? terms * share * row.rows * kInstructionsOfRows * kWarps / 4
                            : slowdown * terms * share * (kInstructions + row.outputs) * kWarps / 4;
    f.k_tile_latency = std::ceil(terms * share / at_once) * kRowLatency / device.rates.clock;
    f.wave_seconds = kStage + kStageStep * std::ceil(terms * row.outputs / few::kThreads);
    f.start_seconds = kStart;
    f.dram_bytes = bytes_of_tensors(problem) + apart;
    candidates->push_back(
        {{.tile = i, .tile_name = kNames[static_cast<std::size_t>(i)].text}, estimate(f, device.rates), 0});
  }
}

}  // namespace gpudnn::conv
