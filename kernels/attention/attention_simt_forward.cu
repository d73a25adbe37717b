// The instances of the general forward kernel, and the dropout mask.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/attention_simt.hpp"
#include "kernels/attention/attention_simt_forward.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

using namespace attention_simt;

__global__ void __launch_bounds__(kThreads) attention_dropout_mask_simt(const __grid_constant__ AttentionParams p) {
  const DropoutKey key = dropout_key(p.dropout);
  const std::int64_t count = p.batch * p.heads_q * p.length_q * p.length_kv;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const std::int64_t column = i % p.length_kv;
    const std::int64_t row = i / p.length_kv % p.length_q;
    const std::int64_t batch_head = i / p.length_kv / p.length_q;
    const bool kept = is_score_kept(key, p.dropout.threshold, static_cast<std::uint32_t>(batch_head),
                                    static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(column));
    const std::int64_t offset = row_offset(p.dropout_mask, batch_head / p.heads_q, batch_head % p.heads_q, row) +
                                column * p.dropout_mask.strides[3];
    store_element<float>(p.dropout_mask_type, p.dropout_mask.data, offset, kept ? 1.0F : 0.0F);
  }
}

}  // namespace

void launch_attention_dropout_mask_simt(const AttentionParams& params, CUstream_st* stream) {
  const std::int64_t count = params.batch * params.heads_q * params.length_q * params.length_kv;
  const std::int64_t wanted = (count + kThreads - 1) / kThreads;
  cuda::launch_kernel(attention_dropout_mask_simt, {static_cast<unsigned>(wanted < 8192 ? wanted : 8192), kThreads},
                      stream, params);
}

void launch_attention_forward_simt(const AttentionParams& params, CUstream_st* stream,
                                   const std::int32_t* row_windows) {
  const std::int64_t row_tiles = (params.length_q + kTile - 1) / kTile;
  const int slices = (params.dim_v + kOutColumns - 1) / kOutColumns;
  const auto blocks = static_cast<unsigned>(row_tiles * slices * params.heads_q * params.batch);
  if (params.dropout_mask.data != nullptr) launch_attention_dropout_mask_simt(params, stream);
  tile::with_element_type(params.type, [&]<class T>() {
    cuda::launch_kernel(attention_forward_simt<T>, {blocks, kThreads}, stream, SimtParams{params, row_windows},
                        row_tiles, slices);
  });
}

}  // namespace gpudnn::kernels
