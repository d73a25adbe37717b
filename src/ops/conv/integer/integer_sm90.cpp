// Launcher of the Hopper convolution of integers: tensor maps are made once for each plan, with addresses to be
// replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/launch/launch.hpp"
#include "ops/conv/integer/integer_params.hpp"
#include "ops/conv/integer/integer_sm90_params.hpp"
#include "ops/conv/padding.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

namespace integer = kernels::integer;

struct Prepared {
  Problem problem;
  IntegerSm90Plan plan;
  std::uint32_t blocks = 0;
  bool encoded = false;
};

bool encode_pixels(const IntegerSm90Plan& plan, tile::TensorMap* map) {
  const CUtensorMapSwizzle swizzle = cuda::swizzle_of_rows(plan.pixels.box[0]);
  if (plan.params.x_is_matrix) {
    return cuda::encode_boxes(plan.pixels, {CU_TENSOR_MAP_DATA_TYPE_UINT8, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B},
                              map);
  }
  cuuint64_t dims[5] = {};
  cuuint64_t steps[4] = {};
  cuuint32_t traversal[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < plan.pixels.rank; ++i) {
    dims[i] = static_cast<cuuint64_t>(plan.pixels.extent[i]);
    if (i > 0) steps[i - 1] = static_cast<cuuint64_t>(plan.pixels.step[i - 1]);
    if (i > 0 && i + 1 < plan.pixels.rank) traversal[i] = static_cast<cuuint32_t>(plan.traversal[i - 1]);
  }
  const auto encode_im2col = cuda::tensor_map_driver().encode_im2col;
  if (encode_im2col == nullptr) return false;  // a plan for a device that is only described
  return encode_im2col(reinterpret_cast<CUtensorMap*>(map), CU_TENSOR_MAP_DATA_TYPE_UINT8,
                       static_cast<cuuint32_t>(plan.pixels.rank), cuda::placeholder_address(), dims, steps, plan.lower,
                       plan.upper, static_cast<cuuint32_t>(plan.pixels.box[0]),
                       static_cast<cuuint32_t>(plan.pixels.box[4]), traversal, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                       CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool encode(IntegerSm90Plan* plan) {
  const cuda::MapFormat filter = {CU_TENSOR_MAP_DATA_TYPE_UINT8, cuda::swizzle_of_rows(plan->filter.box[0]),
                                  CU_TENSOR_MAP_L2_PROMOTION_L2_128B};
  return encode_pixels(*plan, &plan->params.x_map) && cuda::encode_boxes(plan->filter, filter, &plan->params.w_map);
}

Support supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* const against = uneven_padding_unsupported_reason(problem)) return Support::no(against);
  if (const char* const against = integer_sm90_unsupported_reason(problem)) return Support::no(against);
  return cuda::makes_tensor_maps(device) ? Support::yes() : Support::no("the driver does not make tensor maps");
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  prepared->plan = integer_sm90_plan(problem, config);
  const kernels::integer::Sm90Params& params = prepared->plan.params;
  prepared->blocks = params.splits > 1 ? params.tiles * params.splits
                                       : std::min(static_cast<std::uint32_t>(device.multiprocessors), params.tiles);
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode(&prepared->plan); });
  return prepared;
}

Status launch(const LaunchSite& site, const void* opaque, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(opaque);
  GPUDNN_TRY(require_maps(prepared.encoded));
  integer::Sm90Params params = prepared.plan.params;
  params.p.y = args.out;
  set_integer_epilogue(prepared.problem, args, &params.p);
  GPUDNN_TRY(replace_addresses(site, [&] {
    return cuda::replace_address(&params.x_map, args.x) && cuda::replace_address(&params.w_map, args.w);
  }));
  integer::launch_sm90(prepared.plan.tile, params, prepared.blocks, site.stream);
  return cuda::launch_status("integer_sm90");
}

}  // namespace

extern const ConvEngine kIntegerSm90 = {.name = "integer_sm90",
                                        .math = GPUDNN_TENSOR_OP_MATH,
                                        .alignment = 16,
                                        .supports = &supports,
                                        .candidates = &integer_sm90_candidates,
                                        .prepare = &prepare,
                                        .launch = &launch};

}  // namespace gpudnn::conv
