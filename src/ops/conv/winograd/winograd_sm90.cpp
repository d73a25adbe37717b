// Launcher of the Winograd convolution on bfloat16 tensor cores: problem + config -> parameters -> launches.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/fp32_split/row_products.hpp"
#include "ops/conv/winograd/winograd_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace split = kernels::fp32_split;
namespace sm90 = kernels::sm90;
namespace winograd = kernels::winograd;

using Prepared = RowProducts<WinogradSm90Launch>;

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  return prepare_row_products(winograd_sm90_launch(problem, config), device);
}

bool is_vector(const void* address, int floats) {
  return reinterpret_cast<std::uintptr_t>(address) % (static_cast<std::uintptr_t>(floats) * sizeof(float)) == 0;
}

void set_input(const void* in, float* out, winograd::DataParams* p) {
  p->in = static_cast<const float*>(in);
  p->out = out;
  p->vectors = p->vectors && is_vector(in, 4);
}

// Forward and data gradient: chunks of tiles take turns in the workspace.
Status launch_images(const Prepared& prepared, const LaunchSite& site, const Args& args,
                     const PartsOfWorkspace& workspace) {
  const WinogradSm90Launch& l = prepared.launch;
  split::Params product = {.gemm = l.product.params,
                           .m_tiles_of_batch = tile::FastDivmod(l.m_tiles_of_batch),
                           .b_rows_of_batch = l.rows_of_batch};
  GPUDNN_TRY(set_row_addresses(site, l, workspace, &product.gemm));

  winograd::FilterTermsParams filter = l.filter;
  filter.in = static_cast<const float*>(args.w) + l.first_tap;
  filter.terms = workspace.floats(l.filter_at);

  winograd::DataParams data = l.data;
  set_input(l.direction == Direction::forward ? args.x : args.y, workspace.floats(l.data_at), &data);
  winograd::OutputParams output = l.output;
  output.in = workspace.floats(l.product_at);
  output.out = args.out;
  output.vectors = output.vectors && is_vector(args.out, l.m);
  set_epilogue(args, &output);
  for (std::int64_t first = 0; first < l.tiles; first += l.chunk_tiles) {
    const auto count = static_cast<std::int32_t>(std::min(l.chunk_tiles, l.tiles - first));
    data.tiles.first = output.tiles.first = first;
    data.tiles.count = output.tiles.count = count;
    winograd::launch_data_rows(l.m, false, l.data_exchanges, data, site.stream);
    // The filter's kernel waits for the image's alone, which must stand before it.
    if (first == 0) winograd::launch_filter_terms(l.m, filter, site.stream);
    split::launch(l.tile, sm90::Direction::forward, product, prepared.blocks, site.stream);
    winograd::launch_output_rows(l.m, l.output_exchanges, output, site.stream);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status launch_filter_gradient(const Prepared& prepared, const LaunchSite& site, const Args& args,
                              const PartsOfWorkspace& workspace) {
  const WinogradSm90Launch& l = prepared.launch;
  split::WgradParams product = {.gemm = l.product.params, .k_tiles_of_group = l.k_tiles_of_batch};
  GPUDNN_TRY(set_row_addresses(site, l, workspace, &product.gemm));
  product.gemm.partials = workspace.floats(l.partials_at);

  winograd::DataParams grad = l.grad;
  set_input(args.y, workspace.floats(l.filter_at), &grad);
  winograd::DataParams data = l.data;
  set_input(args.x, workspace.floats(l.data_at), &data);
  for (std::int64_t first = 0; first < l.tiles; first += l.chunk_tiles) {
    for (winograd::DataParams* image : {&grad, &data}) {
      image->tiles.first = first;
      image->tiles.count = static_cast<std::int32_t>(std::min(l.chunk_tiles, l.tiles - first));
    }
    winograd::launch_data_rows(l.m, true, l.grad_exchanges, grad, site.stream);
    winograd::launch_data_rows(l.m, false, l.data_exchanges, data, site.stream);
    product.gemm.addend_scale = first == 0 ? 0.0f : 1.0f;
    split::launch_wgrad(l.tile, product, prepared.blocks, site.stream);
  }
  winograd::FilterOutputParams output = l.filter_output;
  output.in = workspace.floats(l.product_at);
  output.out = static_cast<float*>(args.out) + l.first_tap;
  output.alpha = static_cast<float>(args.alpha);
  output.beta = static_cast<float>(args.beta);
  winograd::launch_filter_output(l.m, output, site.stream);
  return GPUDNN_STATUS_SUCCESS;
}

Status launch(const LaunchSite& site, const void* state, const Args& args) {
  GPUDNN_TRY(launch_row_products<WinogradSm90Launch>(site, state, args, &launch_images, &launch_filter_gradient));
  return cuda::launch_status("winograd_sm90");
}

}  // namespace

// Its math is float's: a program that is told of it must not take TF32 for allowed.
extern const ConvEngine kWinogradSm90 = {.name = "winograd_sm90",
                                         .math = GPUDNN_FMA_MATH,
                                         .family = Family::winograd_nonfused,
                                         .supports = &sm90_supports<&winograd_sm90_unsupported_reason>,
                                         .candidates = &winograd_sm90_candidates,
                                         .prepare = &prepare,
                                         .launch = &launch};

}  // namespace gpudnn::conv
