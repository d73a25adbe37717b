// From the problem and a call's pointers to what the kernels and the host reference are told.
// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/params.hpp"

#include <cmath>

#include "ops/element_type.hpp"

namespace gpudnn::attention {
namespace {

template <class Pointer>
kernels::AttentionTensor tensor_of(const Tensor& tensor, const Data<Pointer>& data) {
  kernels::AttentionTensor result;
  if (!tensor.exists()) return result;
  result.data = const_cast<void*>(static_cast<const void*>(data.data));  // NOLINT: one struct for inputs and outputs
  result.offsets = data.offsets;
  result.offset_bits = static_cast<std::int32_t>(tensor.offset_bits);
  result.offset_scale = tensor.offset_scale;
  for (int i = 0; i < 4; ++i) result.strides[i] = tensor.geometry.strides[i];
  return result;
}

void add_pages(const TensorGeometry& table, const std::int32_t* data, const Tensor& pages,
               kernels::AttentionTensor* tensor) {
  if (table.rank == 0) return;
  tensor->page_table = data;
  tensor->page_rows = static_cast<std::int32_t>(pages.geometry.dims[2]);
  tensor->table_stride_batch = table.strides[0];
  tensor->table_stride_page = table.strides[2];
}

kernels::AttentionBias bias_of(const TensorGeometry& bias, const void* data) {
  kernels::AttentionBias result;
  if (bias.rank == 0) return result;
  result.data = const_cast<void*>(data);  // NOLINT: one struct for bias and its gradient
  result.type = element_type(bias.type);
  for (int i = 0; i < 4; ++i) result.strides[i] = bias.dims[i] == 1 ? 0 : bias.strides[i];
  return result;
}

void add_dropout(const Problem& problem, const Args& args, kernels::AttentionParams* params) {
  if (problem.has_dropout == 0) return;
  params->has_dropout = true;
  params->dropout = {args.seed,
                     args.offset,
                     args.seed_value,
                     args.offset_value,
                     problem.seed_bits,
                     static_cast<std::uint32_t>(std::lround(problem.dropout * 65536)),
                     problem.dropout < 1 ? 1 / (1 - problem.dropout) : 0};
  if (problem.dropout_mask.rank == 0) return;
  params->dropout_mask = tensor_of<void*>({problem.dropout_mask}, {args.dropout_mask});
  params->dropout_mask_type = element_type(problem.dropout_mask.type);
}

void add_score_options(const Problem& problem, const Args& args, kernels::AttentionParams* params) {
  params->bias = bias_of(problem.bias, args.bias);
  params->dbias = bias_of(problem.dbias, args.dbias);
  for (int i = 0; i < 4; ++i) params->dbias_dims[i] = problem.dbias.dims[i];
  params->lengths_q = problem.has_length_q != 0 ? args.length_q : nullptr;
  params->lengths_kv = problem.has_length_kv != 0 ? args.length_kv : nullptr;
  params->alibi_slopes = problem.has_alibi != 0 ? args.alibi_slopes : nullptr;
  params->sink = problem.has_sink != 0 ? args.sink : nullptr;
  params->dsink = problem.has_dsink != 0 ? args.dsink : nullptr;
  if (problem.block_mask.rank != 0) {
    params->block_mask = args.block_mask;
    for (int i = 0; i < 4; ++i) params->block_mask_strides[i] = problem.block_mask.strides[i];
  }
  params->has_left = problem.has_left != 0;
  params->has_right = problem.has_right != 0;
  params->bottom_right = problem.bottom_right != 0;
  params->left = problem.left;
  params->right = problem.right;
  params->scale = problem.scale;
  params->soft_cap = problem.has_soft_cap != 0 ? problem.soft_cap : 0;
}

}  // namespace

kernels::AttentionParams attention_params(const Problem& problem, const Args& args) {
  kernels::AttentionParams params;
  params.type = element_type(problem.type());
  params.batch = static_cast<std::int32_t>(problem.batch());
  params.heads_q = static_cast<std::int32_t>(problem.heads_q());
  params.heads_k = static_cast<std::int32_t>(problem.heads_k());
  params.heads_v = static_cast<std::int32_t>(problem.heads_v());
  params.length_q = problem.length_q();
  params.length_kv = problem.length_kv;
  params.dim_qk = static_cast<std::int32_t>(problem.dim_qk());
  params.dim_v = static_cast<std::int32_t>(problem.dim_v());
  params.q = tensor_of(problem.q, args.q);
  params.k = tensor_of(problem.k, args.k);
  params.v = tensor_of(problem.v, args.v);
  params.o = tensor_of(problem.o, args.o);
  params.stats = tensor_of(problem.stats, args.stats);
  params.max = tensor_of(problem.max, args.max);
  params.sum_exp = tensor_of(problem.sum_exp, args.sum_exp);
  params.d_o = tensor_of(problem.d_o, args.d_o);
  params.dq = tensor_of(problem.dq, args.dq);
  params.dk = tensor_of(problem.dk, args.dk);
  params.dv = tensor_of(problem.dv, args.dv);
  add_pages(problem.page_table_k, args.page_table_k, problem.k, &params.k);
  add_pages(problem.page_table_v, args.page_table_v, problem.v, &params.v);
  add_score_options(problem, args, &params);
  add_dropout(problem, args, &params);
  return params;
}

}  // namespace gpudnn::attention
