// The instances of the general backward kernels.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/attention_simt.hpp"
#include "kernels/attention/attention_simt_backward.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

using namespace attention_simt;

template <class T, Gradient kGradient>
void launch_gradient(const SimtParams& p, std::int64_t length, int heads, int dim, CUstream_st* stream) {
  const std::int64_t tiles = (length + kTile - 1) / kTile;
  const int slices = (dim + kOutColumns - 1) / kOutColumns;
  const auto blocks = static_cast<unsigned>(tiles * slices * heads * p.batch);
  cuda::launch_kernel(attention_gradient_simt<T, kGradient>, {blocks, kThreads}, stream, p, tiles, slices);
}

void launch_dbias(const SimtParams& p, CUstream_st* stream) {
  const std::int64_t row_tiles = (p.dbias_dims[2] + kTile - 1) / kTile;
  const std::int64_t column_tiles = (p.dbias_dims[3] + kTile - 1) / kTile;
  const auto blocks = static_cast<unsigned>(row_tiles * column_tiles * p.dbias_dims[0] * p.dbias_dims[1]);
  tile::with_element_type(p.type, [&]<class T>() {
    cuda::launch_kernel(attention_dbias_simt<T>, {blocks, kThreads}, stream, p, row_tiles, column_tiles);
  });
}

void launch_delta(const AttentionParams& params, CUstream_st* stream) {
  const std::int64_t rows = params.length_q * params.heads_q * params.batch;
  const auto blocks = static_cast<unsigned>((rows + kThreads / 32 - 1) / (kThreads / 32));
  tile::with_element_type(params.type, [&]<class T>() {
    cuda::launch_kernel(attention_delta_simt<T>, {blocks, kThreads}, stream, params);
  });
}

}  // namespace

void launch_attention_dsink_simt(const AttentionParams& params, std::int64_t pitch, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    cuda::launch_kernel(attention_dsink_simt<T>, {static_cast<unsigned>(params.heads_q), kThreads}, stream, params,
                        pitch);
  });
}

void launch_attention_backward_simt(const AttentionParams& params, CUstream_st* stream,
                                    const std::int32_t* row_windows) {
  const SimtParams p{params, row_windows};
  launch_delta(p, stream);
  tile::with_element_type(p.type, [&]<class T>() {
    if (p.dq.data != nullptr) launch_gradient<T, Gradient::dq>(p, p.length_q, p.heads_q, p.dim_qk, stream);
    if (p.dk.data != nullptr) launch_gradient<T, Gradient::dk>(p, p.length_kv, p.heads_k, p.dim_qk, stream);
    if (p.dv.data != nullptr) launch_gradient<T, Gradient::dv>(p, p.length_kv, p.heads_v, p.dim_v, stream);
  });
  if (p.dbias.data != nullptr) launch_dbias(p, stream);
  if (p.dsink != nullptr) launch_attention_dsink_simt(p, p.length_q, stream);
}

}  // namespace gpudnn::kernels
