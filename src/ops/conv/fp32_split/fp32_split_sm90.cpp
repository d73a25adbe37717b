// Launcher of the float convolution on bfloat16 tensor cores: the filter's terms, then the product.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/fp32_split/fp32_split_sm90_params.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_maps.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

namespace split = kernels::fp32_split;
namespace sm90 = kernels::sm90;

struct Prepared {
  Fp32SplitPlan plan;
  std::uint32_t blocks = 0;
  bool encoded = false;
};

// A box is a tile's rows of all terms.
TmaBoxes boxes_of_terms(const Fp32SplitPlan& plan) {
  const std::int64_t rows = plan.filter.rows.divisor;
  const std::int64_t planes = static_cast<std::int64_t>(plan.terms_bytes) / (rows * split::kChunkBytes);
  return {3,
          {split::kChunkChannels, rows, planes},
          {split::kChunkBytes, rows * split::kChunkBytes},
          {split::kChunkChannels, split::kShapes[plan.tile].bn, split::kTerms}};
}

constexpr MapElement kFloats = {.type = tile::ElementType::f32, .rounds_to_tf32 = false};

bool encode_all(Fp32SplitPlan* plan) {
  Sm90Plan& gemm = plan->gemm;
  sm90::Params& p = gemm.params;
  bool encoded = gemm.b_is_filter ? encode_rows(boxes_of_terms(*plan), tile::ElementType::bf16, &p.b)
                                  : encode_pixels(gemm.b, p.three_dimensional, kFloats, &p.b);
  encoded = encode_phases(gemm, kFloats, &p) && encoded;
  if (p.stores_boxes) encoded = encode_filter(gemm.c, kFloats, &p.c_map) && encoded;
  return encoded;
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  Fp32SplitPlan& plan = prepared->plan;
  plan = fp32_split_sm90_plan(problem, config);
  sm90::Params& p = plan.gemm.params;
  sm90_take_turns(2 * static_cast<std::uint32_t>(device.multiprocessors), &p);
  prepared->blocks = std::min(static_cast<std::uint32_t>(device.multiprocessors), p.works.divisor * p.splits);
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode_all(&plan); });
  return prepared;
}

// The call's part of the parameters; a and b are what the product reads.
Status set_call(const LaunchSite& site, const Fp32SplitPlan& plan, const Args& args, const void* a, const void* b,
                sm90::Params* p) {
  p->c = args.out;
  set_epilogue(args, p);
  p->is_plain = p->is_plain && p->stores_boxes;
  p->partials = reinterpret_cast<float*>(static_cast<char*>(site.workspace) + plan.partials_at);
  GPUDNN_TRY(replace_addresses(site, [&] { return replace_operands(a, b, args.out, p); }));
  return GPUDNN_STATUS_SUCCESS;
}

Status launch_by_filter(const LaunchSite& site, const Prepared& prepared, const Args& args) {
  const Fp32SplitPlan& plan = prepared.plan;
  auto* const workspace = static_cast<char*>(site.workspace);
  split::SplitFilterParams filter = plan.filter;
  filter.filter = static_cast<const float*>(args.w);
  filter.flags = reinterpret_cast<std::uint32_t*>(workspace);
  filter.terms = workspace + split::kFlagBytes;
  split::launch_split_filter(filter, site.stream);
  GPUDNN_TRY(cuda::launch_status("split_filter"));
  split::Params params = {.gemm = plan.gemm.params,
                          .flags = filter.flags,
                          .c_column_step = plan.c_column_step,
                          .addend_column_step = plan.addend_column_step};
  const void* const a = plan.gemm.direction == sm90::Direction::forward ? args.x : args.y;
  GPUDNN_TRY(set_call(site, plan, args, a, filter.terms, &params.gemm));
  split::launch(plan.tile, plan.gemm.direction, params, prepared.blocks, site.stream);
  return cuda::launch_status("fp32_split_sm90");
}

Status launch(const LaunchSite& site, const void* opaque, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(opaque);
  GPUDNN_TRY(require_maps(prepared.encoded));
  GPUDNN_TRY(require_workspace(site, prepared.plan.workspace));
  if (prepared.plan.gemm.b_is_filter) return launch_by_filter(site, prepared, args);
  split::WgradParams params = {.gemm = prepared.plan.gemm.params};
  GPUDNN_TRY(set_call(site, prepared.plan, args, args.y, args.x, &params.gemm));
  split::launch_wgrad(prepared.plan.tile, params, prepared.blocks, site.stream);
  return cuda::launch_status("fp32_split_wgrad_sm90");
}

}  // namespace

// Its math is float's: a program that is told of it must not take TF32 for allowed.
extern const ConvEngine kFp32SplitSm90 = {.name = "fp32_split_sm90",
                                          .math = GPUDNN_FMA_MATH,
                                          .alignment = 16,
                                          .supports = &sm90_supports<&fp32_split_sm90_unsupported_reason, true>,
                                          .candidates = &fp32_split_sm90_candidates,
                                          .prepare = &prepare,
                                          .launch = &launch};

}  // namespace gpudnn::conv
