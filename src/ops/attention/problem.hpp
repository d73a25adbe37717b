// The attention problem: forward and backward of
//   s = scale * q k^T;  s = soft_cap * tanh(s / soft_cap);  s += bias;  s += slope[head] * (column - row);
//   s = -inf where a bound, a length or the block mask hides the column;
//   p = exp(s - stats),  stats = log(sum of exp(s) [+ exp(sink[head])]);  o = dropout(p) v
// for each batch and each of the heads_q heads; head h meets head h / (heads_q / heads_k) of k, likewise of v. A row
// without a visible column has o = 0, stats = -inf and gradients of 0; so have, in tensors without ragged offsets, the
// rows beyond a sequence's length. With q, k and v in 8-bit floats, p and the scores' gradient are rounded before they
// are multiplied, and numbers in device memory scale what is rounded. docs/attention.md defines each option.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/float8.hpp"
#include "core/geometry.hpp"
#include "kernels/attention/attention_float8.hpp"

namespace gpudnn::attention {

// A tensor of the call; rank 0 where the call has none. With ragged offsets, batch b starts `offset_scale *
// offsets[b]` elements after the first one, in place of b * strides[0]; nothing outside the packed rows is written.
struct Tensor {
  TensorGeometry geometry;
  std::int64_t offset_bits = 0;  // of one ragged offset: 32 or 64; 0 for a tensor without
  std::int64_t offset_scale = 1;

  [[nodiscard]] bool exists() const noexcept { return geometry.rank != 0; }
  [[nodiscard]] bool is_ragged() const noexcept { return offset_bits != 0; }
  bool operator==(const Tensor&) const = default;
};

// Plain data without padding. `scale`, `soft_cap`, `dropout`, `left` and `right` are values of one call: which engine
// takes a problem and how much workspace it wants depends on whether they are there, never on the value.
struct Problem {
  std::int32_t backward = 0;
  std::int32_t bottom_right = 0;  // bounds count from the last row and the last column (else from the first)
  std::int32_t has_right = 0;     // column <= row + right is visible; right = 0 is the causal mask
  std::int32_t has_left = 0;      // column > row - left is visible: a window of `left` columns, the row's own included
  std::int64_t right = 0;
  std::int64_t left = 0;
  std::int64_t length_kv = 0;  // the greatest; that of k and v, or of what a row of the page table holds

  // Of f16, bf16, f32 or f64, all tensors are; of q in an 8-bit type, k, v are 8-bit ones, and o, dO and the gradients
  // are of those, f16, bf16 or f32, each its own.
  Tensor q;        // {batch, heads_q, length_q, dim_qk}
  Tensor k;        // {batch, heads_k, length_kv, dim_qk}; paged: {pages, heads_k, page length, dim_qk}
  Tensor v;        // {batch, heads_v, length_kv, dim_v}; paged: {pages, heads_v, page length, dim_v}
  Tensor o;        // {batch, heads_q, length_q, dim_v}
  Tensor stats;    // {batch, heads_q, length_q, 1}: f32 (f64 with f64 tensors). Backward reads it
  Tensor max;      // the same of the rows' greatest score; forward, optional
  Tensor sum_exp;  // the same of sum exp(s - max); forward, optional
  Tensor d_o;      // backward: as o
  Tensor dq;       // backward, each optional: as q, k, v
  Tensor dk;
  Tensor dv;

  TensorGeometry bias;          // {batch | 1, heads_q | 1, length_q | 1, length_kv | 1}, any of the four types
  TensorGeometry dbias;         // backward: summed over the dimensions that are 1
  TensorGeometry block_mask;    // UINT8 {batch, heads_q, ceil(length_q / 128), ceil(ceil(length_kv / 128) / 8)}
  TensorGeometry page_table_k;  // INT32 {batch, 1, pages of a sequence, 1}; rank 0: not paged
  TensorGeometry page_table_v;
  TensorGeometry dropout_mask;  // forward: {batch, heads_q, length_q, length_kv}, 1 where kept, 0 where dropped

  std::int32_t has_length_q = 0;   // INT32 lengths {batch} in device memory: q, o, stats
  std::int32_t has_length_kv = 0;  // and k, v
  std::int32_t has_alibi = 0;
  std::int32_t has_soft_cap = 0;
  std::int32_t has_sink = 0;
  std::int32_t has_dsink = 0;
  std::int32_t has_dropout = 0;
  std::int32_t seed_bits = 64;  // of seed and offset in device memory: 32 or 64
  double scale = 1;
  double soft_cap = 0;
  double dropout = 0;  // probability of being dropped
  // With q in 8 bits: what p and, backward, the scores' gradient are rounded to, E4M3 or E5M2; FLOAT: they are not.
  DataType p_type = GPUDNN_DATA_FLOAT;
  DataType ds_type = GPUDNN_DATA_FLOAT;

  [[nodiscard]] std::int64_t batch() const noexcept { return q.geometry.dims[0]; }
  [[nodiscard]] std::int64_t heads_q() const noexcept { return q.geometry.dims[1]; }
  [[nodiscard]] std::int64_t heads_k() const noexcept { return k.geometry.dims[1]; }
  [[nodiscard]] std::int64_t heads_v() const noexcept { return v.geometry.dims[1]; }
  [[nodiscard]] std::int64_t length_q() const noexcept { return q.geometry.dims[2]; }
  [[nodiscard]] std::int64_t dim_qk() const noexcept { return q.geometry.dims[3]; }
  [[nodiscard]] std::int64_t dim_v() const noexcept { return v.geometry.dims[3]; }
  [[nodiscard]] DataType type() const noexcept { return q.geometry.type; }
  [[nodiscard]] bool is_paged() const noexcept { return page_table_k.rank != 0; }
  [[nodiscard]] bool is_8_bit() const noexcept { return is_float8(type()); }
  bool operator==(const Problem&) const = default;
};
static_assert(sizeof(Tensor) == sizeof(TensorGeometry) + 16, "no padding: problems are hashed as bytes");
static_assert(sizeof(Problem) == 16 + 24 + 11 * sizeof(Tensor) + 6 * sizeof(TensorGeometry) + 32 + 24 + 8,
              "no padding: problems are hashed as bytes");

// A tensor's memory and its ragged offsets, batch + 1 of them; null where the problem has no such tensor.
template <class Pointer>
struct Data {
  Pointer data = nullptr;
  const void* offsets = nullptr;
};

// All pointers are the backend's memory, but seed_value and offset_value. f32 where no type is told.
struct Args {
  Data<const void*> q, k, v, d_o;
  Data<void*> o, stats, max, sum_exp, dq, dk, dv;  // backward reads o and stats
  const void* bias = nullptr;
  void* dbias = nullptr;
  const std::uint8_t* block_mask = nullptr;
  const std::int32_t* page_table_k = nullptr;
  const std::int32_t* page_table_v = nullptr;
  const std::int32_t* length_q = nullptr;
  const std::int32_t* length_kv = nullptr;
  const float* alibi_slopes = nullptr;  // {heads_q}
  const float* sink = nullptr;          // {heads_q}
  float* dsink = nullptr;               // {heads_q}
  const void* seed = nullptr;           // one integer of seed_bits each; null: the values below
  const void* offset = nullptr;
  std::uint64_t seed_value = 0;
  std::uint64_t offset_value = 0;
  void* dropout_mask = nullptr;
  kernels::AttentionFloat8 float8;  // of 8-bit problems alone; which of them are there is no part of the problem
};

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] Status validate(const Problem& problem, const Args& args);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] std::uint64_t hash(const Problem& problem);

// One way to compute attention. `workspace` is exact, linear in the lengths, and 0 for the general engines' forward.
struct AttentionEngine {
  const char* name;
  gpudnnBackend_t backend;
  int alignment;  // bytes that the tensors' pointers must be multiples of; 1: an element's
  Support (*supports)(const Problem&, const Device&);
  std::size_t (*workspace)(const Problem&, const Device&);
  Status (*launch)(const LaunchSite&, const Problem&, const Args&);
};

// Best first; the last row of each backend supports everything that validates.
[[nodiscard]] std::span<const AttentionEngine> engines() noexcept;
// The engine that run() takes for tensors whose pointers are multiples of `alignment` bytes: the first that does with
// the bytes of workspace.
[[nodiscard]] const AttentionEngine* choose(const Device& device, const Problem& problem, int alignment,
                                            std::size_t workspace_size = SIZE_MAX);
// Bytes that run() wants, whatever the pointers' alignment; the workspace itself may be aligned to 16 bytes only.
[[nodiscard]] std::size_t workspace_bytes(const Device& device, const Problem& problem);
// Runs one engine, which must support the problem.
[[nodiscard]] Status run_engine(const AttentionEngine& engine, gpudnnHandle_t handle, const Problem& problem,
                                const Args& args, void* workspace, std::size_t workspace_size);
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
                         std::size_t workspace_size);

}  // namespace gpudnn::attention
