// Launcher of the Hopper implicit GEMM: problem + config -> parameters and tensor maps -> launch.
//
// Tensor maps are made once for each plan, by the driver, with an address to be replaced; a launch copies them and puts
// the addresses in.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/epilogue/is_of_rounding.hpp"
#include "kernels/tensor/tensor.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_maps.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

namespace sm90 = kernels::sm90;

struct Prepared {
  Sm90Plan plan;
  std::uint32_t blocks = 0;
  std::uint32_t channels = 0;           // of y
  kernels::LinearParams transposition;  // of the filter, where the plan has one; but for the pointers
  bool encoded = false;
};

// [group][k][tap][c] to [group][c][tap][k]. Loops: group, c, tap, k.
constexpr int kLoopOfChannels = 1;
kernels::LinearParams transposition_of(const Problem& problem, std::int64_t taps) {
  const std::int64_t k = problem.y.dims[1] / problem.groups;
  const std::int64_t c = problem.x.dims[1] / problem.groups;
  kernels::LinearParams params;
  params.nest.rank = 4;
  params.nest.tensors = 2;
  const std::int64_t dims[] = {problem.groups, c, taps, k};
  const std::int64_t in[] = {k * taps * c, 1, c, taps * c};
  const std::int64_t out[] = {c * taps * k, taps * k, k, 1};
  for (int i = 0; i < params.nest.rank; ++i) {
    params.nest.dims[i] = dims[i];
    params.nest.strides[0][i] = in[i];
    params.nest.strides[1][i] = out[i];
  }
  return params;
}

bool wants_sums(const Args& args) { return args.sum != nullptr || args.squares != nullptr; }

void set_pointers(const Prepared& prepared, const Args& args, sm90::Params* p, const void** a, const void** b) {
  switch (prepared.plan.direction) {
    case sm90::Direction::forward:
      *a = args.x;
      *b = args.w;
      break;
    case sm90::Direction::data_gradient:
      *a = args.y;
      *b = args.w;
      break;
    case sm90::Direction::filter_gradient:
      *a = args.y;
      *b = args.x;
      break;
  }
  p->c = args.out;
  set_epilogue(args, p);
  p->is_plain = p->is_plain && !wants_sums(args);
  const bool adds_boxes = p->addend_scale == 0.0f || args.z == nullptr || prepared.plan.adds_boxes;
  const kernels::gemm::ActivationArgs<float>& f = p->activation;
  p->is_fused = prepared.plan.fuses && !p->is_plain && adds_boxes && kernels::gemm::is_common(f, true);
  p->adds_boxes = p->is_fused && p->addend_scale != 0.0f;
  p->has_curve = !kernels::gemm::is_of_rounding(f);
  p->is_simple = p->is_fused && !p->adds_boxes && !p->has_curve && !p->has_scale && p->alpha == 1.0f &&
                 sm90::starts_with_bias(sm90::kShapes[prepared.plan.shape]);
}

bool replace_all(const void* a, const void* b, const Args& args, sm90::Params* params) {
  const bool replaced = replace_operands(a, b, args.out, params);
  if (!params->adds_boxes) return replaced;
  if (args.z == nullptr) {
    params->addend_map = params->c_map;
    return replaced;
  }
  return cuda::replace_address(&params->addend_map, args.z) && replaced;
}

bool encode_all(const Sm90Plan& plan, sm90::Params* params) {
  bool encoded = plan.b_is_filter ? encode_filter(plan.filter, {plan.type}, &params->b)
                                  : encode_pixels(plan.b, params->three_dimensional, {plan.type}, &params->b);
  encoded = encode_phases(plan, {plan.type}, params) && encoded;
  if (params->stores_boxes) encoded = encode_filter(plan.c, {plan.type}, &params->c_map) && encoded;
  if (plan.adds_boxes) encoded = encode_filter(plan.z, {plan.type}, &params->addend_map) && encoded;
  return encoded;
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  Sm90Plan& plan = prepared->plan;
  plan = sm90_plan(problem, config);
  sm90_take_turns(2 * static_cast<std::uint32_t>(device.multiprocessors), &plan.params);
  prepared->blocks = sm90_blocks(plan, device);
  prepared->channels = static_cast<std::uint32_t>(problem.y.dims[1]);
  if (plan.transposes_filter) prepared->transposition = transposition_of(problem, plan.filter.taps);
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode_all(plan, &plan.params); });
  return prepared;
}

Status launch(const LaunchSite& site, const void* opaque, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(opaque);
  const Sm90Plan& plan = prepared.plan;
  GPUDNN_TRY(require_maps(prepared.encoded));
  GPUDNN_TRY(require_workspace(site, plan.workspace));
  sm90::Params params = plan.params;
  const void* a = nullptr;
  const void* b = nullptr;
  set_pointers(prepared, args, &params, &a, &b);
  auto* workspace = static_cast<char*>(site.workspace);
  if (plan.transposes_filter) {
    kernels::LinearParams transposition = prepared.transposition;
    transposition.in = b;
    transposition.out = workspace;
    kernels::launch_transpose(transposition, kLoopOfChannels, site.stream);
    b = workspace;
    workspace += (plan.filter_bytes + 255) / 256 * 256;
  }
  params.filter_by_pdl = plan.transposes_filter;
  params.partials = reinterpret_cast<float*>(workspace);
  GPUDNN_TRY(replace_addresses(site, [&] { return replace_all(a, b, args, &params); }));
  const sm90::Totals totals = sm90_totals(plan, prepared.blocks);
  if (wants_sums(args)) {
    // implicit_gemm_sm90_sums_workspace told the caller; plans that have them have no splits.
    GPUDNN_REQUIRE(params.is_fused && workspace != nullptr, GPUDNN_STATUS_INTERNAL_ERROR,
                   "this config has no sums by channel");
    params.totals = reinterpret_cast<sm90::ChannelTotal*>(workspace);
    params.total_channels = prepared.channels;
    params.totals_of_blocks = totals.of_blocks;
  }
  sm90::launch(plan.shape, plan.type, plan.direction, params, prepared.blocks, site.stream);
  if (wants_sums(args))
    sm90::launch_finish_sums(params.totals, totals.rows, prepared.channels, args.sum, args.squares, site.stream);
  return cuda::launch_status("implicit_gemm_sm90");
}

}  // namespace

extern const ConvEngine kImplicitGemmSm90 = {.name = "implicit_gemm_sm90",
                                             .math = GPUDNN_TENSOR_OP_MATH,
                                             .alignment = 16,
                                             .supports = &sm90_supports<&sm90_unsupported_reason, true>,
                                             .candidates = &sm90_candidates,
                                             .prepare = &prepare,
                                             .launch = &launch};

}  // namespace gpudnn::conv
