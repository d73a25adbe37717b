// Launchers of the Fourier convolution on bfloat16 tensor cores: problem + config -> parameters -> launches.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/fft/fft_sm90_params.hpp"
#include "ops/conv/fp32_split/row_products.hpp"

namespace gpudnn::conv {
namespace {

namespace fft = kernels::fft;
namespace split = kernels::fp32_split;
namespace sm90 = kernels::sm90;

using Prepared = RowProducts<FourierSm90Launch>;

template <Family kFamily>
const char* unsupported_reason(const Problem& problem) {
  return fourier_sm90_unsupported_reason(problem, kFamily);
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  return prepare_row_products(fourier_sm90_launch(problem, config), device);
}

void set_tiles(std::int64_t first, std::int64_t count, fft::Tiles* tiles) {
  tiles->first = first;
  tiles->count = static_cast<std::int32_t>(count);
}

// Forward and data gradient: chunks of tiles take turns in the workspace.
Status launch_images(const Prepared& prepared, const LaunchSite& site, const Args& args,
                     const PartsOfWorkspace& workspace) {
  const FourierSm90Launch& l = prepared.launch;
  split::ComplexParams product = {.product = {.gemm = l.product.params,
                                              .m_tiles_of_batch = tile::FastDivmod(l.m_tiles_of_batch),
                                              .b_rows_of_batch = l.rows_of_batch}};
  GPUDNN_TRY(set_row_addresses(site, l, workspace, &product.product.gemm));

  fft::FilterTermsParams filter = l.filter;
  filter.filter.in = static_cast<const float*>(args.w) + l.first_tap;
  filter.terms = workspace.floats(l.filter_at);
  fft::DataRowsParams data = l.data;
  data.data.in = static_cast<const float*>(l.direction == Direction::forward ? args.x : args.y);
  data.data.out = workspace.floats(l.data_at);
  fft::ResultRowsParams result = l.result;
  result.result.in = workspace.floats(l.product_at);
  result.result.out = args.out;
  set_epilogue(args, &result.result);
  for (std::int64_t first = 0; first < l.tiles; first += l.chunk_tiles) {
    const std::int64_t count = std::min(l.chunk_tiles, l.tiles - first);
    set_tiles(first, count, &data.data.tiles);
    data.padded = static_cast<std::int32_t>(count);  // what the product makes of other rows, nobody reads
    set_tiles(first, count, &result.result.tiles);
    // The image's transform last: the product finds most of it in the L2.
    data.runs_beside = first == 0;
    if (first == 0) fft::launch_filter_terms(l.size, filter, site.stream);
    fft::launch_data_rows(l.size, data, site.stream);
    product.rows_of_batch = static_cast<std::uint32_t>(count);
    split::launch_complex(product, prepared.blocks, site.stream);
    fft::launch_result_rows(l.size, result, site.stream);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status launch_filter_gradient(const Prepared& prepared, const LaunchSite& site, const Args& args,
                              const PartsOfWorkspace& workspace) {
  const FourierSm90Launch& l = prepared.launch;
  split::WgradParams product = {.gemm = l.product.params, .k_tiles_of_group = l.k_tiles_of_batch, .is_complex = true};
  GPUDNN_TRY(set_row_addresses(site, l, workspace, &product.gemm));

  fft::DataRowsParams grad = l.grad;
  grad.data.in = static_cast<const float*>(args.y);
  grad.data.out = workspace.floats(l.filter_at);
  fft::DataRowsParams data = l.data;
  data.data.in = static_cast<const float*>(args.x);
  data.data.out = workspace.floats(l.data_at);
  data.runs_beside = true;
  for (std::int64_t first = 0; first < l.tiles; first += l.chunk_tiles) {
    const std::int64_t count = std::min(l.chunk_tiles, l.tiles - first);
    set_tiles(first, count, &grad.data.tiles);
    set_tiles(first, count, &data.data.tiles);
    fft::launch_data_rows(l.size, grad, site.stream);
    fft::launch_data_rows(l.size, data, site.stream);
    product.gemm.addend_scale = first == 0 ? 0.0f : 1.0f;
    split::launch_wgrad(l.tile, product, prepared.blocks, site.stream);
  }
  fft::ResultRowsParams result = l.result;
  result.result.in = workspace.floats(l.product_at);
  result.result.out = static_cast<float*>(args.out) + l.first_tap;
  set_epilogue(args, &result.result);
  result.result.addend = result.result.out;
  fft::launch_result_rows(l.size, result, site.stream);
  return GPUDNN_STATUS_SUCCESS;
}

Status launch(const LaunchSite& site, const void* state, const Args& args) {
  GPUDNN_TRY(launch_row_products<FourierSm90Launch>(site, state, args, &launch_images, &launch_filter_gradient));
  return cuda::launch_status("fft_sm90");
}

}  // namespace

// Their math is float's: a program that is told of it must not take TF32 for allowed.
extern const ConvEngine kFftSm90 = {.name = "fft_sm90",
                                    .math = GPUDNN_FMA_MATH,
                                    .family = Family::fft,
                                    .supports = &sm90_supports<&unsupported_reason<Family::fft>>,
                                    .candidates = &fft_sm90_candidates,
                                    .prepare = &prepare,
                                    .launch = &launch};

extern const ConvEngine kFftTilingSm90 = {.name = "fft_tiling_sm90",
                                          .math = GPUDNN_FMA_MATH,
                                          .family = Family::fft_tiling,
                                          .supports = &sm90_supports<&unsupported_reason<Family::fft_tiling>>,
                                          .candidates = &fft_tiling_sm90_candidates,
                                          .prepare = &prepare,
                                          .launch = &launch};

}  // namespace gpudnn::conv
