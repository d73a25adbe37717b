// What a call of the classic multi-head attention keeps in the reserve space, and what it works with.
//
// Kept, in the workspace in inference: the dropout's state, lengths, windows; then, of the CUDA backend alone, the
// operands of the attention core (projected, or gathered where there is no projection), its output and statistics, and
// what backward data leaves for the gradients of the weights. Rows are {batch, beam, step}. The host backend computes
// all that anew.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/attention/problem.hpp"
#include "ops/multi_head_attn/problem.hpp"

namespace gpudnn::mha {

struct Buffers {
  kernels::MhaDropout* dropout = nullptr;
  std::int32_t* length_q = nullptr;   // {batch, beam}
  std::int32_t* length_kv = nullptr;  // {batch, beam}
  std::int32_t* windows = nullptr;    // {first, end} of each row of queries in a batch of the core
  void* operand[3] = {};              // q, k, v
  void* context = nullptr;            // the heads' results side by side
  void* stats = nullptr;
  void* gradient[3] = {};  // of the operands

  void* gathered[3] = {};        // inputs of projections, or their gradients
  void* out_rows = nullptr;      // out, or its gradient
  void* context_rows = nullptr;  // the gradient of context
  void* core = nullptr;          // workspace of the core
  std::size_t core_bytes = 0;
  void* product = nullptr;  // workspace of products and sums
  std::size_t product_bytes = 0;
};

// Where all of it lies in the two spaces, both of which may be null: to measure. They are multiples of 16 bytes.
[[nodiscard]] BufferBytes place(const Problem& problem, const Device& device, void* workspace, void* reserve,
                                Buffers* buffers);

// The attention core of the problem: one batch for each sequence of queries, or, where all beams share keys, for each
// batch with the beams' rows one after the other.
[[nodiscard]] bool folds_beams(const Problem& problem) noexcept;
[[nodiscard]] std::int64_t core_batch(const Problem& problem) noexcept;
[[nodiscard]] std::int64_t core_rows(const Problem& problem) noexcept;
[[nodiscard]] attention::Problem core_problem(const Problem& problem, bool backward);

}  // namespace gpudnn::mha
