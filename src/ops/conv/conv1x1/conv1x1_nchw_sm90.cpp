// Launcher of the Hopper pointwise convolution on planes: problem + config -> parameters and tensor maps -> launch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/tensor/tensor.hpp"
#include "ops/conv/conv1x1/conv1x1_nchw_sm90_params.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

namespace planes = kernels::sm90::planes;

struct Prepared {
  PlanesPlan plan;
  std::uint32_t blocks = 0;
  kernels::LinearParams copy;  // of the filter, where the plan has one; but for the pointers
  bool encoded = false;
};

bool encode(const PlaneMap& map, kernels::sm90::ElementType type, bool written, kernels::sm90::TensorMap* to) {
  const TmaBoxes boxes = {3,
                          {map.dims[0], map.dims[1], map.dims[2]},
                          {map.steps[0], map.steps[1]},
                          {kernels::sm90::kRowBytes / tile::element_bytes(type), map.box_rows, 1}};
  return cuda::encode_boxes(boxes, {cuda::map_type(type, !written), CU_TENSOR_MAP_SWIZZLE_128B}, to);
}

bool encode_all(const PlanesPlan& plan, planes::Params* p) {
  const bool out_is_written = plan.direction != kernels::sm90::Direction::filter_gradient;
  return (!plan.in_has_map || encode(plan.in, plan.type, false, &p->in)) &&
         (!plan.out_has_map || encode(plan.out, plan.type, out_is_written, &p->out)) &&
         (!plan.has_filter || encode(plan.filter, plan.type, false, &p->filter));
}

bool replace_all(const PlanesPlan& plan, const void* in, const void* out, const void* filter, planes::Params* p) {
  return (!plan.in_has_map || cuda::replace_address(&p->in, in)) &&
         (!plan.out_has_map || cuda::replace_address(&p->out, out)) &&
         (!plan.has_filter || cuda::replace_address(&p->filter, filter));
}

// Loops: rows, columns of the copy.
kernels::LinearParams copy_of_filter(const PlanesPlan& plan) {
  const FilterCopy& copy = plan.copy;
  kernels::LinearParams params;
  params.in_type = params.out_type = plan.type;
  params.nest.rank = 2;
  params.nest.tensors = 2;
  params.nest.dims[0] = copy.rows;
  params.nest.dims[1] = copy.columns;
  params.nest.strides[0][0] = copy.row_step;
  params.nest.strides[0][1] = copy.column_step;
  params.nest.strides[1][0] = copy.pitch;
  params.nest.strides[1][1] = 1;
  return params;
}

void launch_copy(kernels::LinearParams params, const void* from, void* to, CUstream_st* stream) {
  params.in = from;
  params.out = to;
  constexpr int kRows = 0;
  const tile::HostNest& nest = params.nest;
  if (nest.strides[0][kRows] == 1 && nest.dims[0] > 1 && nest.dims[1] > 1) {
    kernels::launch_transpose(params, kRows, stream);
  } else {
    kernels::launch_linear(params, stream);
  }
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  PlanesPlan& plan = prepared->plan;
  plan = planes_plan(problem, config);
  const auto cluster = static_cast<std::uint32_t>(planes::kTileShapes[plan.shape].cluster);
  const std::uint32_t slots = std::max(1u, static_cast<std::uint32_t>(device.multiprocessors) / cluster);
  prepared->blocks = std::min(slots, plan.params.works.divisor * plan.params.splits) * cluster;
  if (plan.copies_filter) prepared->copy = copy_of_filter(plan);
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode_all(plan, &plan.params); });
  return prepared;
}

Status launch(const LaunchSite& site, const void* opaque, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(opaque);
  const PlanesPlan& plan = prepared.plan;
  GPUDNN_TRY(require_maps(prepared.encoded));
  GPUDNN_TRY(require_workspace(site, plan.workspace));
  planes::Params params = plan.params;
  params.c = args.out;
  set_epilogue(args, &params);
  auto* const workspace = static_cast<char*>(site.workspace);
  const void* filter = args.w;
  if (plan.copies_filter) {
    launch_copy(prepared.copy, args.w, workspace, site.stream);
    filter = workspace;
  }
  params.partials = reinterpret_cast<float*>(workspace + plan.filter_bytes);
  const bool by_data = plan.direction == kernels::sm90::Direction::data_gradient;
  const void* const in = by_data ? args.y : args.x;
  const void* const out = plan.direction == kernels::sm90::Direction::filter_gradient ? args.y : args.out;
  params.in_data = in;
  params.out_data = out;
  GPUDNN_TRY(replace_addresses(site, [&] { return replace_all(plan, in, out, filter, &params); }));
  planes::launch(plan.shape, plan.type, plan.direction, params, prepared.blocks, site.stream);
  return cuda::launch_status("conv1x1_nchw_sm90");
}

}  // namespace

extern const ConvEngine kConv1x1NchwSm90 = {.name = "conv1x1_nchw_sm90",
                                            .math = GPUDNN_TENSOR_OP_MATH,
                                            .alignment = 16,
                                            .supports = &sm90_supports<&conv1x1_nchw_unsupported_reason>,
                                            .candidates = &planes_candidates,
                                            .prepare = &prepare,
                                            .launch = &launch};

}  // namespace gpudnn::conv
