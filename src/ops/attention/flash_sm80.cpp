// The launchers of flash_sm80: attention in 16-bit types by mma.sync, on every GPU from Ampere on.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm80.hpp"

#include <algorithm>

#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_gather.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::attention {
namespace {

GatherTiles tiles_of(const Problem& problem, const Device& device) {
  // Of mma.sync's rate that a block's tile reaches.
  constexpr double kEfficiency = 0.7;
  const int dim = gather_dim(problem);
  GatherTiles tiles;
  tiles.rows = tiles.short_rows = kernels::flash_sm80_rows(dim);
  tiles.columns = kernels::flash_sm80_columns(dim);
  tiles.bytes = device.rates.copy_bytes * 1e-6;
  tiles.operations = kEfficiency * device.rates.mma_half_flops / std::max(device.multiprocessors, 1) * 1e-6;
  return tiles;
}

// Whether chunks of 8 elements are not all neighbours at multiples of 16 bytes. What a ragged tensor's sequences start
// at only the device knows.
bool is_elementwise(const Tensor& tensor, const void* data) {
  if (!tensor.exists()) return false;
  const TensorGeometry& g = tensor.geometry;
  if (g.dims[3] > 1 && g.strides[3] != 1) return true;
  for (int i = 0; i < 3; ++i) {
    if (g.dims[i] > 1 && g.strides[i] % 8 != 0) return true;
  }
  return reinterpret_cast<std::uintptr_t>(data) % 16 != 0;
}

kernels::FlashElementwise elementwise_of(const Problem& problem, const Args& args) {
  return {is_elementwise(problem.q, args.q.data),     is_elementwise(problem.k, args.k.data),
          is_elementwise(problem.v, args.v.data),     is_elementwise(problem.o, args.o.data),
          is_elementwise(problem.d_o, args.d_o.data), is_elementwise(problem.dq, args.dq.data),
          is_elementwise(problem.dk, args.dk.data),   is_elementwise(problem.dv, args.dv.data)};
}

}  // namespace

Support supports_flash_sm80(const Problem& problem, const Device& device) {
  if (device.major < 8) return Support::no("it needs compute capability 8.0");
  if (const char* const reason = unsupported_gather_options(problem)) return Support::no(reason);
  if (problem.dim_qk() > 256 || problem.dim_v() > 256) return Support::no("it takes head dimensions up to 256");
  if (problem.backward != 0) return Support::yes();
  return gather_shape(problem, tiles_of(problem, device)).blocks(problem) < 0x1p31
             ? Support::yes()
             : Support::no("it takes fewer than 2^31 tiles");
}

std::size_t flash_sm80_workspace(const Problem& problem, const Device& device) {
  if (problem.backward != 0) return gather_backward_workspace(problem, device);
  const GatherTiles tiles = tiles_of(problem, device);
  const GatherShape shape = gather_shape(problem, tiles);
  return gather_workspace(problem, shape, gather_splits(problem, device, tiles, shape));
}

Status flash_sm80(const LaunchSite& site, const Problem& problem, const Args& args) {
  if (problem.backward != 0) {
    kernels::FlashGatherBackwardParams params = gather_backward_params(site, problem, args);
    params.elementwise = elementwise_of(problem, args);
    launch_gather_backward(site, problem, params, kernels::launch_flash_backward_sm80);
    return cuda::launch_status("flash_sm80");
  }
  GatherShape shape = gather_shape(problem, tiles_of(problem, site.device));
  shape.splits = splits_of_workspace(problem, shape, site.workspace_bytes);
  kernels::FlashGatherParams params = gather_params(site, problem, args, shape);
  params.elementwise = elementwise_of(problem, args);
  kernels::launch_flash_forward_sm80(params, element_type(problem.type()), gather_dim(problem), site.stream);
  return cuda::launch_status("flash_sm80");
}

}  // namespace gpudnn::attention
