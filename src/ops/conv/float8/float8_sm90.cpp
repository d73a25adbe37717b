// Launcher of the Hopper convolution of 8-bit floats: copies of operands where the direction wants them, the product,
// and the filter gradient's sums.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/float8/float8_sm90.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_maps.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

namespace float8 = kernels::float8;
namespace sm90 = kernels::sm90;

constexpr MapElement kBytes = {.type = tile::ElementType::f16, .rounds_to_tf32 = false, .is_byte = true};

constexpr MapElement kHalves = {.type = tile::ElementType::f16};

bool encode_all(Float8Plan* plan) {
  Sm90Plan& gemm = plan->gemm;
  sm90::Params& p = gemm.params;
  const MapElement& element = plan->is_wgrad ? kHalves : kBytes;
  const bool encoded = plan->is_wgrad ? encode_pixels(gemm.b, p.three_dimensional, element, &p.b)
                                      : encode_filter(gemm.filter, element, &p.b);
  return encode_phases(gemm, element, &p) && encoded;
}

// The call's part of the epilogue.
void set_call(const Float8Args& args, float8::Params* params) {
  params->gemm.c = args.conv.out;
  set_epilogue(args.conv, &params->gemm);
  std::copy(std::begin(args.factors), std::end(args.factors), params->factors);
  std::copy(std::begin(args.c_factors), std::end(args.c_factors), params->c_factors);
  params->c_alpha = static_cast<float>(args.c_alpha);
  params->amax = args.amax;
}

Status launch_by_pixels(const LaunchSite& site, const Float8Prepared& prepared, const Float8Args& args) {
  const Float8Plan& plan = prepared.plan;
  auto* const workspace = static_cast<char*>(site.workspace);
  const void* filter = args.conv.w;
  if (plan.transposes) {
    float8::TransposeParams transposition = plan.transposition;
    transposition.in = filter;
    transposition.out = workspace;
    float8::launch_transpose_bytes(transposition, site.stream);
    filter = workspace;
  }
  float8::Params params = plan.params;
  params.gemm = plan.gemm.params;
  set_call(args, &params);
  params.gemm.partials = reinterpret_cast<float*>(workspace + plan.partials_at);
  const void* const image = args.conv.x != nullptr ? args.conv.x : args.conv.y;
  GPUDNN_TRY(replace_addresses(site, [&] { return replace_operands(image, filter, nullptr, &params.gemm); }));
  float8::launch(plan.tile, params, prepared.blocks, site.stream);
  return cuda::launch_status("float8_sm90");
}

// The product of halves also joins its sums, in halves that nobody reads.
Status launch_wgrad(const LaunchSite& site, const Float8Prepared& prepared, const Float8Args& args) {
  const Float8Plan& plan = prepared.plan;
  auto* const workspace = static_cast<char*>(site.workspace);
  float8::launch_widen(args.conv.x, workspace + plan.places[0], plan.params.a_is_e5m2, plan.elements[0], site.stream);
  float8::launch_widen(args.conv.y, workspace + plan.places[1], plan.params.b_is_e5m2, plan.elements[1], site.stream);
  sm90::Params product = plan.gemm.params;
  product.c = workspace + plan.result_at;
  product.partials = reinterpret_cast<float*>(workspace + plan.partials_at);
  GPUDNN_TRY(replace_addresses(site, [&] {
    return replace_operands(workspace + plan.places[1], workspace + plan.places[0], nullptr, &product);
  }));
  sm90::launch(plan.tile, tile::ElementType::f16, sm90::Direction::filter_gradient, product, prepared.blocks,
               site.stream);
  float8::Params params = plan.params;
  params.gemm = product;
  set_call(args, &params);
  std::copy(std::begin(plan.filter_step), std::end(plan.filter_step), params.gemm.c_step);
  params.gemm.problem[0].c_base = plan.filter_base;
  float8::launch_join_wgrad(params, site.stream);
  return cuda::launch_status("float8_sm90");
}

}  // namespace

Support float8_sm90_supports(const Float8Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* const against = float8_sm90_unsupported_reason(problem)) return Support::no(against);
  return cuda::makes_tensor_maps(device) ? Support::yes() : Support::no("the driver does not make tensor maps");
}

std::shared_ptr<const Float8Prepared> float8_sm90_prepare(const Float8Problem& problem, const Config& config,
                                                          const Device& device) {
  const cuda::DeviceScope scope(device);
  auto prepared = std::make_shared<Float8Prepared>();
  prepared->plan = float8_sm90_plan(problem, config);
  sm90::Params& p = prepared->plan.gemm.params;
  sm90_take_turns(2 * static_cast<std::uint32_t>(device.multiprocessors), &p);
  const int blocks = prepared->plan.is_wgrad ? 1 : float8::blocks_of_multiprocessor(float8::kShapes[config.tile]);
  prepared->blocks = std::min(static_cast<std::uint32_t>(blocks * device.multiprocessors), p.works.divisor * p.splits);
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode_all(&prepared->plan); });
  return prepared;
}

Status float8_sm90_launch(const LaunchSite& site, const Float8Prepared& prepared, const Float8Args& args) {
  const Float8Plan& plan = prepared.plan;
  GPUDNN_TRY(require_maps(prepared.encoded));
  GPUDNN_TRY(require_workspace(site, plan.workspace));
  const cuda::DeviceScope scope(site.device);
  if (args.amax != nullptr) (void)cudaMemsetAsync(args.amax, 0, sizeof(float), site.stream);
  return plan.is_wgrad ? launch_wgrad(site, prepared, args) : launch_by_pixels(site, prepared, args);
}

}  // namespace gpudnn::conv
