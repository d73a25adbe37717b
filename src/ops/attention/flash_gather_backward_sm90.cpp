// The launcher of flash_gather_backward_sm90: attention backward with options in 16-bit types on Hopper.
// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_gather.hpp"
#include "ops/attention/flash_sm90.hpp"

namespace gpudnn::attention {
namespace {

std::int64_t key_tiles_of_all_heads(const Problem& problem) {
  constexpr std::int64_t kRows = kernels::kFlashBackwardRows;
  return problem.batch() * problem.heads_k() * ((problem.length_kv + kRows - 1) / kRows);
}

std::int64_t parts_of_group(const Problem& problem, const Device& device) {
  return parts_of_group(problem, key_tiles_of_all_heads(problem), device.multiprocessors);
}

// Floats of one of their sums.
std::int64_t partial_elements(const Problem& problem, std::int64_t parts) {
  return parts == 1 ? 0 : parts * key_tiles_of_all_heads(problem) * kernels::kFlashBackwardRows * gather_dim(problem);
}

std::size_t partial_offset(const Problem& problem, const Device& device) {
  return (gather_backward_workspace(problem, device) + 15) / 16 * 16;
}

}  // namespace

Support supports_flash_gather_backward_sm90(const Problem& problem, const Device& device) {
  if (problem.backward == 0) return Support::no("it is a backward engine");
  if (const char* const reason = unsupported_gather(problem, device)) return Support::no(reason);
  for (const Tensor* tensor : {&problem.d_o, &problem.dq, &problem.dk, &problem.dv}) {
    if (!tensor->exists()) continue;
    if (const char* const reason = unsupported_gather_layout(*tensor)) return Support::no(reason);
  }
  return Support::yes();
}

std::size_t flash_gather_backward_sm90_workspace(const Problem& problem, const Device& device) {
  const std::int64_t elements = partial_elements(problem, parts_of_group(problem, device));
  return elements == 0 ? gather_backward_workspace(problem, device)
                       : partial_offset(problem, device) + static_cast<std::size_t>(8 * elements);
}

Status flash_gather_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::FlashGatherBackwardParams params = gather_backward_params(site, problem, args);
  params.parts = static_cast<std::int32_t>(parts_of_group(problem, site.device));
  if (params.parts > 1) {
    auto* const partial = static_cast<std::byte*>(site.workspace) + partial_offset(problem, site.device);
    params.partial_dk = reinterpret_cast<float*>(partial);
    params.partial_dv = params.partial_dk + partial_elements(problem, params.parts);
  }
  launch_gather_backward(site, problem, params, kernels::launch_flash_gather_backward_sm90);
  return cuda::launch_status("flash_gather_backward_sm90");
}

}  // namespace gpudnn::attention
