// Launchers of the Fourier convolution: problem + config -> parameters -> launches.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/fft/fft_simt_params.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/supports.hpp"
#include "ops/conv/transform_params.hpp"

namespace gpudnn::conv {
namespace {

namespace fft = kernels::fft;
namespace winograd = kernels::winograd;

template <Family kFamily>
const char* unsupported_reason(const Problem& problem) {
  return fourier_unsupported_reason(problem, kFamily);
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device&) {
  return std::make_shared<FourierLaunch>(fourier_launch(problem, config));
}

void launch_product(const FourierLaunch& l, float* workspace, std::int64_t count, cudaStream_t stream) {
  winograd::BatchedProduct product = l.product;
  const bool filter_first = l.direction == Direction::wgrad || !l.swapped;
  product.a = workspace + (filter_first ? l.filter_at : l.data_at);
  product.b = workspace + (filter_first ? l.data_at : l.filter_at);
  product.c = workspace + l.product_at;
  if (l.direction != Direction::wgrad) {
    (l.swapped ? product.m : product.n) = static_cast<std::int32_t>(count);
  }
  const std::int64_t blocks = winograd::set_product_tiles(l.product_row, &product);
  winograd::launch_product(l.product_row, product, static_cast<std::uint32_t>(blocks), stream);
}

Status launch(const LaunchSite& site, const void* state, const Args& args) {
  const auto& l = *static_cast<const FourierLaunch*>(state);
  GPUDNN_TRY(require_workspace(site, fourier_workspace(l)));
  auto* const workspace = static_cast<float*>(align_up(site.workspace, kTransformAlignment));
  const bool wgrad = l.direction == Direction::wgrad;

  fft::ForwardParams filter = l.filter;
  filter.in = wgrad ? static_cast<const float*>(args.y) : static_cast<const float*>(args.w) + l.first_tap;
  filter.out = workspace + l.filter_at;
  if (wgrad) filter.tiles.count = static_cast<std::int32_t>(l.tiles);
  fft::launch_forward(l.size, filter, site.stream);

  fft::ForwardParams data = l.data;
  data.in = static_cast<const float*>(l.direction == Direction::dgrad ? args.y : args.x);
  data.out = workspace + l.data_at;
  fft::InverseParams output = l.output;
  set_epilogue(args, &output);
  output.in = workspace + l.product_at;
  output.out = static_cast<float*>(args.out) + (wgrad ? l.first_tap : 0);
  if (wgrad) output.addend = output.out;
  // Chunks of tiles take turns in the workspace; the filter gradient has one.
  for (std::int64_t first = 0; first < l.tiles; first += l.chunk_tiles) {
    const std::int64_t count = std::min(l.chunk_tiles, l.tiles - first);
    data.tiles.first = first;
    data.tiles.count = static_cast<std::int32_t>(count);
    if (!wgrad) {
      output.tiles.first = first;
      output.tiles.count = static_cast<std::int32_t>(count);
    }
    fft::launch_forward(l.size, data, site.stream);
    launch_product(l, workspace, count, site.stream);
    fft::launch_inverse(l.size, output, site.stream);
  }
  return cuda::launch_status("fft_simt");
}

}  // namespace

extern const ConvEngine kFftSimt = {.name = "fft_simt",
                                    .family = Family::fft,
                                    .supports = &float_supports<&unsupported_reason<Family::fft>>,
                                    .candidates = &fft_candidates,
                                    .prepare = &prepare,
                                    .launch = &launch};

extern const ConvEngine kFftTilingSimt = {.name = "fft_tiling_simt",
                                          .family = Family::fft_tiling,
                                          .supports = &float_supports<&unsupported_reason<Family::fft_tiling>>,
                                          .candidates = &fft_tiling_candidates,
                                          .prepare = &prepare,
                                          .launch = &launch};

}  // namespace gpudnn::conv
