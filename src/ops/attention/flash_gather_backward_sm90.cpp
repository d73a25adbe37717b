// The launcher of flash_gather_backward_sm90: attention backward with options in 16-bit types on Hopper.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_gather_backward_sm90.hpp"

#include <algorithm>

#include "kernels/attention/attention_simt.hpp"
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_sm90.hpp"
#include "ops/attention/params.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::attention {
namespace {

std::int64_t pitch_of(const Problem& problem) {
  constexpr std::int64_t kTo = kernels::kFlashBackwardPitch;
  return (problem.length_q() + kTo - 1) / kTo * kTo;
}

std::int64_t row_values(const Problem& problem) { return pitch_of(problem) * problem.batch() * problem.heads_q(); }

// The general kernels of dBias and dSink have delta in a layout of their own.
bool needs_plain_delta(const Problem& problem) { return problem.dbias.rank != 0 || problem.has_dsink != 0; }

kernels::FlashGatherBackwardParams params_of(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::FlashGatherBackwardParams params;
  params.problem = attention_params(problem, args);
  params.mask = mask_of(problem, args);
  params.lse = static_cast<float*>(site.workspace);
  params.delta = params.lse + row_values(problem);
  params.pitch = pitch_of(problem);
  params.group = static_cast<std::int32_t>(problem.heads_q() / problem.heads_k());
  params.modifies = problem.has_soft_cap != 0 || problem.bias.rank != 0 || problem.has_alibi != 0;
  params.scale = static_cast<float>(problem.scale);
  params.scale_log2 = static_cast<float>(problem.scale * kLog2E);
  if (problem.has_soft_cap != 0) {
    params.cap_log2 = static_cast<float>(problem.soft_cap * kLog2E);
    params.scale_by_cap = static_cast<float>(problem.scale / problem.soft_cap);
  }
  return params;
}

void launch_gradients(const LaunchSite& site, const Problem& problem, kernels::FlashGatherBackwardParams params) {
  using kernels::FlashGradient;
  const auto launch = [&](FlashGradient gradient) {
    const bool of_keys = gradient != FlashGradient::dq;
    params.heads_of_section = heads_of_section(problem, site.device, of_keys ? problem.heads_k() : problem.heads_q(),
                                               of_keys ? problem.length_q() : problem.length_kv);
    kernels::launch_flash_gather_backward_sm90(params, gradient, site.stream);
  };
  if (problem.dq.exists()) launch(FlashGradient::dq);
  if (problem.dim_qk() <= 128 && problem.dim_v() <= 128) {
    if (problem.dk.exists() || problem.dv.exists()) launch(FlashGradient::dk_dv);
    return;
  }
  if (problem.dk.exists()) launch(FlashGradient::dk);
  if (problem.dv.exists()) launch(FlashGradient::dv);
}

}  // namespace

Support supports_flash_gather_backward_sm90(const Problem& problem, const Device& device) {
  if (problem.backward == 0) return Support::no("it is a backward engine");
  if (const char* const reason = unsupported_gather(problem, device)) return Support::no(reason);
  if (problem.heads_k() != problem.heads_v()) return Support::no("it takes as many heads of k as of v");
  for (const Tensor* tensor : {&problem.d_o, &problem.dq, &problem.dk, &problem.dv}) {
    if (!tensor->exists()) continue;
    if (const char* const reason = unsupported_gather_layout(*tensor)) return Support::no(reason);
  }
  return Support::yes();
}

std::size_t flash_gather_backward_sm90_workspace(const Problem& problem, const Device&) {
  const std::int64_t plain = problem.batch() * problem.heads_q() * problem.length_q();
  return static_cast<std::size_t>(2 * 4 * row_values(problem) + (needs_plain_delta(problem) ? 4 * plain : 0));
}

Status flash_gather_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::FlashGatherBackwardParams params = params_of(site, problem, args);
  kernels::launch_flash_gather_delta_sm90(params, site.stream);
  launch_gradients(site, problem, params);
  if (needs_plain_delta(problem)) {
    kernels::AttentionParams plain = params.problem;
    plain.delta = params.delta + row_values(problem);
    kernels::launch_attention_delta_simt(plain, site.stream);
    if (problem.dbias.rank != 0) kernels::launch_attention_dbias_simt(plain, site.stream);
    if (problem.has_dsink != 0) kernels::launch_attention_dsink_simt(plain, site.stream);
  }
  return cuda::launch_status("flash_gather_backward_sm90");
}

}  // namespace gpudnn::attention
