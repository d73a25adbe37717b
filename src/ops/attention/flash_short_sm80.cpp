// The launcher of flash_short_sm80: attention forward of many short sequences.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_short_sm80.hpp"

#include <algorithm>

#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_gather.hpp"
#include "ops/attention/flash_sm90.hpp"
#include "ops/attention/params.hpp"

namespace gpudnn::attention {

Support supports_flash_short_sm80(const Problem& problem, const Device& device) {
  if (problem.backward != 0) return Support::no("it is a forward engine");
  if (device.major < 8) return Support::no("it needs compute capability 8.0");
  if (const char* const reason = unsupported_gather_options(problem)) return Support::no(reason);
  // Fewer rows are decode's.
  constexpr std::int64_t kFewRows = 16;
  if (problem.length_q() <= kFewRows || problem.length_q() > kernels::kFlashShortRows ||
      problem.length_kv > kernels::kFlashShortRows) {
    return Support::no("it takes 17 to 64 rows, and keys up to 64");
  }
  if (problem.has_alibi != 0 || problem.has_soft_cap != 0 || problem.has_dropout != 0 || problem.is_paged()) {
    return Support::no("it takes no ALiBi, soft cap, dropout and paged keys");
  }
  for (const Tensor* tensor : {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (tensor->is_ragged()) return Support::no("it takes no ragged offsets");
    if (const char* const reason = unsupported_gather_layout(*tensor)) return Support::no(reason);
    if (tensor->geometry.dims[3] > kernels::kFlashShortDim) return Support::no("it takes head dimensions up to 64");
  }
  // Of head dimensions over 32 it has half the blocks, and without bias flash_forward_sm90's tiles are faster.
  const bool is_narrow = problem.dim_qk() <= 32 && problem.dim_v() <= 32;
  if (!is_narrow && supports_flash_forward_sm90(problem, device)) {
    return Support::no("flash_forward_sm90 has a tile for its head dimensions");
  }
  return Support::yes();
}

std::size_t flash_short_sm80_workspace(const Problem&, const Device&) { return 0; }

Status flash_short_sm80(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::FlashShortParams params;
  params.problem = attention_params(problem, args);
  params.mask = mask_of(problem, args);
  const auto group = [&](std::int64_t heads) { return static_cast<std::int32_t>(problem.heads_q() / heads); };
  params.group_k = group(problem.heads_k());
  params.group_v = group(problem.heads_v());
  params.scale = static_cast<float>(problem.scale);
  const TensorGeometry& bias = problem.bias;
  params.bias_is_plain = bias.rank != 0 && bias.type == problem.type() && (bias.dims[3] > 1 && bias.strides[3] == 1);
  params.adds_anew = params.problem.bias.strides[0] != 0 || problem.has_length_q != 0 || problem.has_length_kv != 0;
  // Every block has a place at once, and all make as many batches as the busiest.
  const std::int64_t dim = std::max(problem.dim_qk(), problem.dim_v());
  const std::int64_t places =
      std::int64_t{site.device.multiprocessors} * kernels::flash_short_blocks(static_cast<int>(dim));
  const std::int64_t at_once = std::clamp(places / problem.heads_q(), std::int64_t{1}, problem.batch());
  const std::int64_t each = (problem.batch() + at_once - 1) / at_once;
  params.step = static_cast<std::int32_t>((problem.batch() + each - 1) / each);
  kernels::launch_flash_short_sm80(params, site.stream);
  return cuda::launch_status("flash_short_sm80");
}

}  // namespace gpudnn::attention
