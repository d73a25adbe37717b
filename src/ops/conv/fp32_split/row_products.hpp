// What the launchers of Winograd's and the Fourier convolution on Hopper have in common: the product of rows by
// fp32_split's kernels, its tensor maps and its addresses in the workspace. A Launch has `direction` and the offsets of
// the workspace's parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "ops/conv/fp32_split/row_batches.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_maps.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {

// `terms`: where forward and the data gradient have the filter's.
template <class Boxes>
[[nodiscard]] bool encode_row_product(Direction direction, const Boxes& terms, Sm90Plan* plan) {
  constexpr MapElement kFloats = {.type = tile::ElementType::f32, .rounds_to_tf32 = false};
  kernels::sm90::Params& p = plan->params;
  bool encoded = encode_pixels(plan->a[0], false, kFloats, &p.a[0]);
  if (direction == Direction::wgrad) return encode_pixels(plan->b, false, kFloats, &p.b) && encoded;
  encoded = encode_rows(terms, tile::ElementType::bf16, &p.b) && encoded;
  return encode_filter(plan->c, kFloats, &p.c_map) && encoded;
}

template <class Launch>
struct RowProducts {
  Launch launch;
  std::uint32_t blocks = 0;  // of the product
  bool encoded = false;
};

template <class Launch>
[[nodiscard]] std::shared_ptr<const void> prepare_row_products(const Launch& launch, const Device& device) {
  auto prepared = std::make_shared<RowProducts<Launch>>();
  Launch& l = prepared->launch;
  l = launch;
  const kernels::sm90::Params& p = l.product.params;
  prepared->blocks = std::min(static_cast<std::uint32_t>(device.multiprocessors), p.works.divisor * p.splits);
  prepared->encoded =
      cuda::with_context(device.ordinal, [&] { return encode_row_product(l.direction, l.terms, &l.product); });
  return prepared;
}

// images(prepared, site, args, workspace) and filter_gradient(the same) launch a direction's kernels.
template <class Launch>
[[nodiscard]] Status launch_row_products(const LaunchSite& site, const void* state, const Args& args, auto images,
                                         auto filter_gradient) {
  const auto& prepared = *static_cast<const RowProducts<Launch>*>(state);
  GPUDNN_TRY(require_maps(prepared.encoded));
  GPUDNN_TRY(require_workspace(site, prepared.launch.workspace));
  const PartsOfWorkspace workspace = {static_cast<char*>(align_up(site.workspace, kPartAlignment))};
  return prepared.launch.direction == Direction::wgrad ? filter_gradient(prepared, site, args, workspace)
                                                       : images(prepared, site, args, workspace);
}

// The product's parameters with the addresses of a call.
template <class Launch>
[[nodiscard]] Status set_row_addresses(const LaunchSite& site, const Launch& l, const PartsOfWorkspace& workspace,
                                       kernels::sm90::Params* p) {
  const bool is_wgrad = l.direction == Direction::wgrad;
  p->c = workspace.floats(l.product_at);
  p->addend = p->c;
  const void* const a = workspace.floats(is_wgrad ? l.filter_at : l.data_at);
  const void* const b = workspace.floats(is_wgrad ? l.data_at : l.filter_at);
  return replace_addresses(site, [&] {
    return cuda::replace_address(&p->a[0], a) && cuda::replace_address(&p->b, b) &&
           (is_wgrad || cuda::replace_address(&p->c_map, p->c));
  });
}

}  // namespace gpudnn::conv
