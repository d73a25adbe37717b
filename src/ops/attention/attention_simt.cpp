// The launcher of the general attention engine: every type, shape and option, on any device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention_simt.hpp"

#include "kernels/attention/attention_simt_float8.hpp"
#include "ops/any_type.hpp"
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/params.hpp"

namespace gpudnn::attention {

Support supports_attention_simt(const Problem&, const Device&) { return Support::yes(); }

std::size_t attention_simt_workspace(const Problem& problem, const Device&) {
  if (problem.backward == 0) return 0;
  const std::int64_t rows = problem.batch() * problem.heads_q() * problem.length_q();
  return static_cast<std::size_t>(rows) * (problem.type() == GPUDNN_DATA_DOUBLE ? 8 : 4);
}

namespace {

Status attention_float8_simt(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::AttentionFloat8Params params;
  static_cast<kernels::AttentionParams&>(params) = attention_params(problem, args);
  params.numbers = args.float8;
  params.q_type = any_type(problem.q.geometry.type);
  params.k_type = any_type(problem.k.geometry.type);
  params.v_type = any_type(problem.v.geometry.type);
  params.o_type = any_type(problem.o.geometry.type);
  params.d_o_type = any_type(problem.d_o.geometry.type);
  params.dq_type = any_type(problem.dq.geometry.type);
  params.dk_type = any_type(problem.dk.geometry.type);
  params.dv_type = any_type(problem.dv.geometry.type);
  params.p_type = any_type(problem.p_type);
  params.ds_type = any_type(problem.ds_type);
  kernels::launch_attention_clear_amax(params.numbers, site.stream);
  if (problem.backward == 0) {
    if (problem.dropout_mask.rank != 0) kernels::launch_attention_dropout_mask_simt(params, site.stream);
    kernels::launch_attention_forward_float8_simt(params, site.stream);
  } else {
    params.delta = site.workspace;
    kernels::launch_attention_backward_float8_simt(params, site.stream);
  }
  return cuda::launch_status("attention_simt");
}

}  // namespace

Status attention_simt(const LaunchSite& site, const Problem& problem, const Args& args) {
  if (problem.is_8_bit()) return attention_float8_simt(site, problem, args);
  kernels::AttentionParams params = attention_params(problem, args);
  if (problem.backward == 0) {
    kernels::launch_attention_forward_simt(params, site.stream);
  } else {
    params.delta = site.workspace;
    kernels::launch_attention_backward_simt(params, site.stream);
  }
  return cuda::launch_status("attention_simt");
}

}  // namespace gpudnn::attention
