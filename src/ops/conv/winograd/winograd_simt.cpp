// Launcher of the Winograd convolution: problem + config -> parameters -> launches.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/supports.hpp"
#include "ops/conv/winograd/winograd_simt_params.hpp"

namespace gpudnn::conv {
namespace {

namespace winograd = kernels::winograd;

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device&) {
  return std::make_shared<WinogradLaunch>(winograd_launch(problem, config));
}

void launch_product(const WinogradLaunch& l, const float* a, const float* b, float* c, std::int32_t m, std::int32_t n,
                    cudaStream_t stream) {
  winograd::BatchedProduct product = l.product;
  product.a = a;
  product.b = b;
  product.c = c;
  product.m = m;
  product.n = n;
  const std::int64_t blocks = winograd::set_product_tiles(l.product_row, &product);
  winograd::launch_product(l.product_row, product, static_cast<std::uint32_t>(blocks), stream);
}

bool allows_vectors(const Args& args, int m) {
  return reinterpret_cast<std::uintptr_t>(args.out) % (static_cast<std::uintptr_t>(m) * sizeof(float)) == 0;
}

// Forward and data gradient: chunks of tiles take turns in the workspace.
void launch_images(const WinogradLaunch& l, const LaunchSite& site, const Args& args, float* workspace) {
  winograd::FilterParams filter = l.filter;
  filter.in = static_cast<const float*>(args.w) + l.first_tap;
  filter.out = workspace + l.filter_at;
  winograd::launch_filter(l.m, filter, site.stream);

  winograd::DataParams data = l.data;
  data.in = static_cast<const float*>(l.direction == Direction::forward ? args.x : args.y);
  data.out = workspace + l.data_at;
  winograd::OutputParams output = l.output;
  output.in = workspace + l.product_at;
  output.out = args.out;
  output.vectors = output.vectors && allows_vectors(args, l.m);
  set_epilogue(args, &output);
  for (std::int64_t first = 0; first < l.tiles; first += l.chunk_tiles) {
    const auto count = static_cast<std::int32_t>(std::min(l.chunk_tiles, l.tiles - first));
    data.tiles.first = output.tiles.first = first;
    data.tiles.count = output.tiles.count = count;
    winograd::launch_data(l.m, false, data, site.stream);
    if (l.swapped) {
      launch_product(l, data.out, filter.out, workspace + l.product_at, count, l.product.n, site.stream);
    } else {
      launch_product(l, filter.out, data.out, workspace + l.product_at, l.product.m, count, site.stream);
    }
    winograd::launch_output(l.m, output, site.stream);
  }
}

void launch_filter_gradient(const WinogradLaunch& l, const LaunchSite& site, const Args& args, float* workspace) {
  winograd::DataParams grad = l.grad;
  grad.in = static_cast<const float*>(args.y);
  grad.out = workspace + l.filter_at;
  grad.tiles.count = static_cast<std::int32_t>(l.tiles);
  winograd::launch_data(l.m, true, grad, site.stream);

  winograd::DataParams data = l.data;
  data.in = static_cast<const float*>(args.x);
  data.out = workspace + l.data_at;
  data.tiles.count = static_cast<std::int32_t>(l.tiles);
  winograd::launch_data(l.m, false, data, site.stream);

  launch_product(l, grad.out, data.out, workspace + l.product_at, l.product.m, l.product.n, site.stream);
  winograd::FilterOutputParams output = l.filter_output;
  output.in = workspace + l.product_at;
  output.out = static_cast<float*>(args.out) + l.first_tap;
  output.alpha = static_cast<float>(args.alpha);
  output.beta = static_cast<float>(args.beta);
  winograd::launch_filter_output(l.m, output, site.stream);
}

Status launch(const LaunchSite& site, const void* state, const Args& args) {
  const auto& l = *static_cast<const WinogradLaunch*>(state);
  GPUDNN_TRY(require_workspace(site, winograd_workspace(l)));
  auto* const workspace = static_cast<float*>(align_up(site.workspace, 16));
  if (l.direction == Direction::wgrad) {
    launch_filter_gradient(l, site, args, workspace);
  } else {
    launch_images(l, site, args, workspace);
  }
  return cuda::launch_status("winograd_simt");
}

}  // namespace

extern const ConvEngine kWinogradSimt = {.name = "winograd_simt",
                                         .family = Family::winograd_nonfused,
                                         .supports = &float_supports<&winograd_unsupported_reason>,
                                         .candidates = &winograd_candidates,
                                         .prepare = &prepare,
                                         .launch = &launch};

}  // namespace gpudnn::conv
