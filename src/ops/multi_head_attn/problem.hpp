// The classic multi-head attention: for each head i, with projections of queries q, keys K and values V by its weights,
//   h_i = dropout(softmax(scale * (W_K,i K + b_K,i)^T (W_Q,i q + b_Q,i))) (W_V,i V + b_V,i)
//   out = dropout(sum over i of W_O,i h_i + b_O) + residual
// A projection of size 0 is none: each head sees the whole vector, or `out` has the heads side by side.
// docs/attention.md defines each option.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine.hpp"
#include "gpudnn/adv.h"
#include "kernels/multi_head_attn/sequences.hpp"

namespace gpudnn::mha {

enum class Pass : std::int32_t { forward, dgrad, wgrad };

// The four inputs of projections, and their weights.
enum Part : std::int32_t { kQ, kK, kV, kO };
constexpr int kParts = 4;

// What an attention descriptor says.
struct Layer {
  DataType type = GPUDNN_DATA_FLOAT;
  DataType compute = GPUDNN_DATA_FLOAT;
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
  std::int32_t one_to_one = 0;  // each beam of queries has its own keys and values; else all beams of a batch share one
  std::int32_t biases = 0;
  std::int32_t heads = 1;
  double scale = 1;
  float attn_dropout = 0;  // probabilities, of training alone
  float post_dropout = 0;
  std::int32_t size[3] = {};    // of a vector of q, k, v
  std::int32_t proj[4] = {};    // of its projection in one head; 0: none. [kO]: of a vector of out
  std::int32_t max_time_q = 0;  // what buffers are sized for
  std::int32_t max_time_kv = 0;
  std::int32_t max_batch = 0;
  std::int32_t max_beam = 0;

  // The length of a head's vector of q, k or v, and of a vector of out.
  [[nodiscard]] std::int64_t head_size(int part) const noexcept { return proj[part] > 0 ? proj[part] : size[part]; }
  [[nodiscard]] std::int64_t out_size() const noexcept { return proj[kO] > 0 ? proj[kO] : heads * head_size(kV); }
  // The length of the vector that a part's weights multiply.
  [[nodiscard]] std::int64_t in_size(int part) const noexcept { return part == kO ? head_size(kV) : size[part]; }
  // The columns of a row of heads: one after the other, or the one vector that all of them see.
  [[nodiscard]] std::int64_t row_size(int part) const noexcept {
    return proj[part] > 0 ? std::int64_t{heads} * proj[part] : size[part];
  }
  bool operator==(const Layer&) const = default;
};

// Sequences in memory: the axes time, batch and beam in any order, outermost first, vectors innermost; packed.
struct Sequences {
  std::int32_t time = 0;
  std::int32_t batch = 0;
  std::int32_t beam = 0;
  std::int32_t size = 0;
  gpudnnSeqDataAxis_t axes[3] = {GPUDNN_SEQDATA_TIME_DIM, GPUDNN_SEQDATA_BATCH_DIM, GPUDNN_SEQDATA_BEAM_DIM};

  [[nodiscard]] std::int64_t rows() const noexcept { return std::int64_t{time} * batch * beam; }
  // In elements, of the axis of time, batch or beam.
  [[nodiscard]] std::int64_t stride(gpudnnSeqDataAxis_t axis) const noexcept;
  bool operator==(const Sequences&) const = default;
};

// Everything about the work but the pointers.
struct Problem {
  Pass pass = Pass::forward;
  Layer layer;
  Sequences q;
  Sequences k;
  Sequences v;
  Sequences o;
  std::int32_t training = 0;      // there is a reserve space, which backward reads
  std::int32_t has_residual = 0;  // laid out as q
  std::int32_t has_fill = 0;      // padding of out gets a value; else it becomes 0
  std::int32_t current = -1;      // the one step of queries that is wanted; negative: all
  std::int32_t add = 0;           // gradients of weights are added to what is there

  [[nodiscard]] std::int64_t steps() const noexcept { return current < 0 ? q.time : 1; }
  [[nodiscard]] std::int64_t rows_q() const noexcept { return steps() * q.batch * q.beam; }
  [[nodiscard]] std::int64_t rows_kv() const noexcept { return k.rows(); }
  bool operator==(const Problem&) const = default;
};

// The pointers of one call. Data is the backend's memory; `windows` and the lengths of descriptors are the host's.
struct Args {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* residual = nullptr;
  void* out = nullptr;
  const void* dout = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  const void* weights = nullptr;
  void* dweights = nullptr;
  const int* first = nullptr;  // step t of queries sees keys first[t] to end[t] - 1
  const int* end = nullptr;
  const int* length_q = nullptr;  // (batch, beam), the backend's memory; null: the host's
  const int* length_kv = nullptr;
  const int* host_length_q = nullptr;
  const int* host_length_kv = nullptr;
  double fill = 0;
  kernels::DropoutStates* attn_states = nullptr;  // forward in training advances them
  kernels::DropoutStates* post_states = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  void* reserve = nullptr;
  std::size_t reserve_bytes = 0;
};

// --- weights: those of q, k, v and o, then their biases, one after the other -----------------------------------------
struct WeightPart {
  bool exists = false;
  std::int64_t offset = 0;  // elements
  std::int64_t dims[3] = {};
  std::int64_t strides[3] = {};

  [[nodiscard]] std::int64_t count() const noexcept { return exists ? dims[0] * dims[1] * dims[2] : 0; }
};
[[nodiscard]] WeightPart weight_part(const Layer& layer, gpudnnMultiHeadAttnWeightKind_t kind) noexcept;
[[nodiscard]] std::size_t weight_bytes(const Layer& layer) noexcept;

// --- buffers ---------------------------------------------------------------------------------------------------------
struct BufferBytes {
  std::size_t workspace = 0;
  std::size_t reserve = 0;
};
// For calls of any pass and any extents up to the layer's greatest.
[[nodiscard]] Status buffer_bytes(gpudnnHandle_t handle, const Layer& layer, bool training, BufferBytes* bytes);

[[nodiscard]] Status validate(const Layer& layer);
[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] Status validate(const Problem& problem, const Args& args);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);

// The columns that step t of queries sees if the keys are `time` long; empty where its end is not after its first.
struct Window {
  std::int32_t first = 0;
  std::int32_t end = 0;
};
[[nodiscard]] std::vector<Window> windows_of(const Problem& problem, const Args& args);

[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::mha
