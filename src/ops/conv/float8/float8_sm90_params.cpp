// The mapping of convolutions of 8-bit floats to the Hopper kernel, and the footprints of its configs.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/float8/float8_sm90_params.hpp"

#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "core/float8.hpp"
#include "core/integer.hpp"
#include "ops/any_type.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/select/offer_splits.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

namespace float8 = kernels::float8;
namespace sm90 = kernels::sm90;

constexpr std::int64_t kVector = 16;  // elements that TMA counts in
constexpr std::int64_t kRow = 128;    // elements of a k tile
constexpr double kTileSeconds = 1.2e-6;
constexpr double kMaxPairedKTiles = 8;  // of blocks that share a multiprocessor: beyond, the L2 holds them up
constexpr double kPartialRate = 0.39;   // of the L2's
constexpr double kLaunch = 2.5e-6;      // of one more kernel
constexpr std::size_t kAlignment = 256;

constexpr auto kNames = tile_names(float8::kShapes, [](const sm90::TileShape& tile) {
  return TileName().add("bm", tile.bm).add("_bn", tile.bn).add("_s", tile.stages);
});

bool is_wgrad(const Problem& problem) { return problem.direction == Direction::wgrad; }
bool is_dgrad(const Problem& problem) { return problem.direction == Direction::dgrad; }

TensorGeometry bytes_of_shape(const TensorGeometry& tensor) {
  TensorGeometry result = tensor;
  result.type = GPUDNN_DATA_FP8_E4M3;
  return result;
}

// What the implicit GEMM is told: elements of a byte, so that C's distances are in elements; or those of halves.
Problem shape_of(const Problem& problem) {
  Problem result = problem;
  result.has_z = 0;
  if (!is_wgrad(problem)) {
    for (TensorGeometry* tensor : {&result.x, &result.w, &result.y}) *tensor = bytes_of_shape(*tensor);
    return result;
  }
  for (TensorGeometry* tensor : {&result.x, &result.w, &result.y}) tensor->type = GPUDNN_DATA_HALF;
  set_packed_strides(&result.w, GPUDNN_TENSOR_NHWC);
  result.math = GPUDNN_TENSOR_OP_MATH;
  result.activation = -1;
  return result;
}

// [group][k][tap][c] to [group][c][tap][k].
float8::TransposeParams transposition_of(const Problem& problem) {
  float8::TransposeParams p;
  p.groups = static_cast<std::uint32_t>(problem.groups);
  p.a = static_cast<std::uint32_t>(problem.w.dims[0] / problem.groups);
  p.middle = static_cast<std::uint32_t>(pixels_of(problem.w));
  p.b = static_cast<std::uint32_t>(problem.w.dims[1]);
  return p;
}

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Whether eight elements of a row are whole aligned vectors.
bool stores_vectors(const Sm90Plan& plan, std::int64_t column_step) {
  const sm90::Params& p = plan.params;
  if (column_step != 1 || p.n_count % 8 != 0 || p.group_columns % 8 != 0) return false;
  for (const std::int64_t step : p.c_step)
    if (step % 8 != 0) return false;
  for (std::uint32_t i = 0; i < p.phases; ++i)
    if (p.problem[i].c_base % 8 != 0) return false;
  return true;
}

// A shape of the filter gradient of halves whose sums go through the workspace.
bool is_plain_shape(const sm90::TileShape& shape) {
  return !shape.stream_k && !shape.cluster_split_k && !shape.transposes && !shape.swap_ab;
}

// Where the sums of a filter gradient go.
void set_filter_steps(const Problem& problem, Float8Plan* plan) {
  for (int axis = 0; axis < problem.spatial; ++axis) {
    const int i = problem.spatial - 1 - axis;
    plan->filter_step[axis] = problem.w.strides[2 + i];
    if (problem.mode != GPUDNN_CONVOLUTION) continue;
    plan->filter_base += (problem.w.dims[2 + i] - 1) * plan->filter_step[axis];
    plan->filter_step[axis] = -plan->filter_step[axis];
  }
  plan->filter_step[3] = problem.w.strides[0];
}

struct Counts {
  double tiles = 0, all_k = 0, longest_k = 0;
};
Counts counts_of(const Sm90Plan& plan) {
  const sm90::Params& p = plan.params;
  Counts c;
  c.tiles = plan.tiles;
  for (std::uint32_t i = 0; i < p.phases; ++i) {
    const std::uint32_t end = i + 1 < p.phases ? p.problem[i + 1].first_work : plan.tiles;
    c.all_k += static_cast<double>(end - p.problem[i].first_work) * p.problem[i].k_blocks;
    c.longest_k = std::max(c.longest_k, static_cast<double>(p.problem[i].k_blocks));
  }
  return c;
}

}  // namespace

const char* float8_sm90_unsupported_reason(const Float8Problem& problem) {
  const Problem& conv = problem.conv;
  const TensorGeometry& out = output(conv);
  for (const TensorGeometry* tensor : {&conv.x, &conv.w, &conv.y})
    if (tensor != &out && !is_float8(tensor->type)) return "an operand is no 8-bit float";
  if (!is_float8(out.type) && (!is_floating(out.type) || out.type == GPUDNN_DATA_DOUBLE))
    return "the result is none of f16, bf16, f32 and the 8-bit floats";
  if (element_count(conv.x) == 0 || element_count(conv.y) == 0) return "an image is empty";
  if (!is_wgrad(conv) && !is_packed_nhwc(conv.w)) return "the filter is not packed in the order k, taps, channels";
  const Problem shape = shape_of(conv);
  if (is_wgrad(conv)) {
    if (!is_packed_nhwc(conv.x) || !is_packed_nhwc(conv.y)) return "x or dy are not packed in NHWC";
    if (element_count(conv.x) % kVector != 0 || element_count(conv.y) % kVector != 0)
      return "x or dy are no whole vectors of 16 elements";
    return sm90_unsupported_reason(shape);
  }
  if (conv.groups > 1) {
    const std::int64_t summed = (is_dgrad(conv) ? conv.y : conv.x).dims[1] / conv.groups;
    if (summed % kRow != 0) return "a group's share of the reduction is no multiple of 128 channels";
  }
  return sm90_layout_unsupported_reason(shape, true);
}

Float8Plan float8_sm90_plan(const Float8Problem& problem, const Config& config) {
  const Problem& conv = problem.conv;
  Float8Plan plan;
  plan.tile = config.tile;
  plan.is_wgrad = is_wgrad(conv);
  const sm90::TileShape& tile = plan.is_wgrad ? sm90::kShapes[config.tile] : float8::kShapes[config.tile];
  const Problem shape = shape_of(conv);
  plan.gemm = plan.is_wgrad ? sm90_plan(shape, config) : sm90_plan(shape, tile, config.split_k);
  sm90::Params& p = plan.gemm.params;
  p.stores_boxes = false;
  set_activation_mode(conv, &p.activation);
  p.bias_step = conv.bias_stride * data_type_bits(problem.bias_type) / 8;
  std::size_t at = 0;
  if (is_dgrad(conv)) {
    plan.transposes = p.filter_by_pdl = true;
    plan.transposition = transposition_of(conv);
    at += aligned(size_in_bytes(conv.w));
  }
  if (plan.is_wgrad) {
    set_filter_steps(conv, &plan);
    const TensorGeometry* const operands[] = {&conv.x, &conv.y};
    for (int i = 0; i < 2; ++i) {
      plan.elements[i] = static_cast<std::size_t>(element_count(*operands[i]));
      plan.places[i] = at;
      at += aligned(2 * plan.elements[i]);
    }
    plan.result_at = at;
    at += aligned(2 * static_cast<std::size_t>(element_count(conv.w)));
  }
  plan.partials_at = plan.workspace = at;
  if (config.split_k > 1) {
    plan.workspace +=
        sm90::partial_bytes(tile, static_cast<std::size_t>(plan.gemm.tiles) * static_cast<std::size_t>(config.split_k));
  }
  const TensorGeometry& a = is_dgrad(conv) ? conv.y : conv.x;
  const TensorGeometry& b = plan.is_wgrad ? conv.y : conv.w;
  const TensorGeometry& c = output(conv);
  plan.params.a_is_e5m2 = a.type == GPUDNN_DATA_FP8_E5M2;
  plan.params.b_is_e5m2 = b.type == GPUDNN_DATA_FP8_E5M2;
  plan.params.promotes = problem.promotes;
  plan.params.c_type = any_type(c.type);
  plan.params.bias_type = any_type(problem.bias_type);
  plan.params.c_column_step = c.dims[1] > 1 ? c.strides[1] : 1;
  plan.params.stores_vectors = !plan.is_wgrad && stores_vectors(plan.gemm, plan.params.c_column_step);
  plan.params.bm = tile.bm;
  plan.params.bn = tile.bn;
  return plan;
}

namespace {

// Those of the kernel of halves whose sums go through the workspace, with what is done before and after.
void wgrad_candidates(const Float8Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  constexpr int kLeastSplits = 2;
  std::vector<Candidate> halves;
  sm90_candidates(shape_of(problem.conv), device, &halves);
  for (Candidate& candidate : halves) {
    if (!is_plain_shape(sm90::kShapes[candidate.config.tile]) || candidate.config.split_k < kLeastSplits) continue;
    const Float8Plan plan = float8_sm90_plan(problem, candidate.config);
    const double widened = 3.0 * static_cast<double>(plan.elements[0] + plan.elements[1]);
    candidate.seconds += 3 * kLaunch + widened / device.rates.copy_bytes;
    candidate.workspace = plan.workspace;
    candidates->push_back(candidate);
  }
  if (!candidates->empty()) return;
  for (int tile = 0; tile < sm90::kShapeCount; ++tile) {
    const sm90::TileShape& shape = sm90::kShapes[tile];
    if (!is_plain_shape(shape) || !sm90_shape_fits(shape_of(problem.conv), shape)) continue;
    const Config config = {.tile = tile, .split_k = kLeastSplits, .tile_name = "halves"};
    candidates->push_back({config, 1e-3 + 1e-6 * tile, float8_sm90_plan(problem, config).workspace});
  }
}

}  // namespace

void float8_sm90_candidates(const Float8Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  if (is_wgrad(problem.conv)) return wgrad_candidates(problem, device, candidates);
  for (int tile = 0; tile < float8::kShapeCount; ++tile) {
    const sm90::TileShape& shape = float8::kShapes[tile];
    Config config = {.tile = tile, .split_k = 1, .tile_name = kNames[static_cast<std::size_t>(tile)].text};
    const Float8Plan plan = float8_sm90_plan(problem, config);
    const Counts counts = counts_of(plan.gemm);
    const bool in_pairs = float8::blocks_of_multiprocessor(shape) > 1;
    if (in_pairs && counts.longest_k > kMaxPairedKTiles) continue;
    const double multiprocessors = std::max(device.rates.multiprocessors, 2);
    offer_full_rounds(counts.tiles, counts.longest_k, multiprocessors, 256, [&](int splits) {
      config.split_k = splits;
      Footprint f;
      f.tiles = counts.tiles * config.split_k;
      f.k_tiles = std::ceil(counts.all_k / counts.tiles / config.split_k);
      f.flops = 2.0 * shape.bm * shape.bn * kRow;
      f.flops_rate = 2 * device.rates.half_flops;
      f.efficiency = shape.efficiency;
      f.l2_bytes = static_cast<double>((shape.bm + shape.bn) * kRow);
      f.tile_seconds = in_pairs ? 0.1 * kTileSeconds : kTileSeconds * shape.bm / 256;
      f.resident = in_pairs ? 2 : 1;
      f.store_overlaps = in_pairs;
      f.store_bytes =
          shape.bm * shape.bn * (config.split_k > 1 ? 4.0 : data_type_bits(output(problem.conv).type) / 8.0);
      f.dram_bytes = bytes_of_tensors(problem.conv);
      const double copied = static_cast<double>(plan.partials_at);
      if (copied > 0) f.start_seconds = kLaunch + 2 * copied / device.rates.copy_bytes;
      if (config.split_k > 1) {
        f.partial_bytes = 2.0 * f.tiles * shape.bm * shape.bn * sizeof(float);
        f.partial_rate = kPartialRate;
        f.reduce_seconds = kLaunch;
      }
      candidates->push_back({config, estimate(f, device.rates), float8_sm90_plan(problem, config).workspace});
    });
  }
}

}  // namespace gpudnn::conv
