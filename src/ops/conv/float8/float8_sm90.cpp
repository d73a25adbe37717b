// Launcher of the Hopper convolution of 8-bit floats: transposed copies of operands, then the product.
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

bool encode_all(Float8Plan* plan) {
  Sm90Plan& gemm = plan->gemm;
  sm90::Params& p = gemm.params;
  bool encoded = encode_filter(gemm.filter, kBytes, &p.b);
  for (std::uint32_t i = 0; i < p.phases; ++i) {
    if (p.problem[i].k_blocks == 0) continue;
    encoded = encode_pixels(gemm.a[i], p.three_dimensional, kBytes, &p.a[i]) && encoded;
  }
  return encoded;
}

bool replace_all(const void* a, const void* b, sm90::Params* p) {
  bool replaced = cuda::replace_address(&p->b, b);
  for (std::uint32_t i = 0; i < p->phases; ++i) {
    if (p->problem[i].k_blocks > 0) replaced = cuda::replace_address(&p->a[i], a) && replaced;
  }
  return replaced;
}

const void* copied(const LaunchSite& site, const Float8Copy& copy, const void* operand) {
  if (!copy.exists) return operand;
  float8::TransposeParams params = copy.params;
  params.in = operand;
  params.out = static_cast<char*>(site.workspace) + copy.at;
  float8::launch_transpose_bytes(params, site.stream);
  return params.out;
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
  prepared->blocks = std::min(static_cast<std::uint32_t>(device.multiprocessors), p.works.divisor * p.splits);
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode_all(&prepared->plan); });
  return prepared;
}

Status float8_sm90_launch(const LaunchSite& site, const Float8Prepared& prepared, const Float8Args& args) {
  const Float8Plan& plan = prepared.plan;
  GPUDNN_TRY(require_maps(prepared.encoded));
  GPUDNN_TRY(require_workspace(site, plan.workspace));
  const Args& conv = args.conv;
  const cuda::DeviceScope scope(site.device);
  if (args.amax != nullptr) (void)cudaMemsetAsync(args.amax, 0, sizeof(float), site.stream);
  // Of the three operands the call has two: x or dy is A, the filter or, beside x, dy is B.
  const void* const a = copied(site, plan.a, conv.x != nullptr ? conv.x : conv.y);
  const void* const b = copied(site, plan.b, conv.w != nullptr ? conv.w : conv.y);
  float8::Params params = plan.params;
  params.gemm = plan.gemm.params;
  params.gemm.c = conv.out;
  set_epilogue(conv, &params.gemm);
  params.gemm.partials = reinterpret_cast<float*>(static_cast<char*>(site.workspace) + plan.partials_at);
  std::copy(std::begin(args.factors), std::end(args.factors), params.factors);
  std::copy(std::begin(args.c_factors), std::end(args.c_factors), params.c_factors);
  params.c_alpha = static_cast<float>(args.c_alpha);
  params.amax = args.amax;
  const bool replaced = cuda::with_context(site.device.ordinal, [&] { return replace_all(a, b, &params.gemm); });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM,
                 "the driver refused the address of a tensor, which must be a multiple of 16 bytes");
  float8::launch(plan.tile, params, prepared.blocks, site.stream);
  return cuda::launch_status("float8_sm90");
}

}  // namespace gpudnn::conv
