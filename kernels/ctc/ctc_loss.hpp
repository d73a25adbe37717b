// What the launch functions of the CTC-loss kernels take, and how their workspace is laid out. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace gpudnn::kernels {

struct CtcShape {
  bool wide = false;  // double, else float
  bool softmax = false;
  bool has_gradients = false;
  std::int64_t steps = 0;
  std::int64_t sequences = 0;
  std::int64_t alphabet = 0;
  std::int64_t max_labels = 0;     // of one sequence
  std::int64_t stored_labels = 0;  // labels of all sequences, kept in the workspace with 2 lengths a sequence; or 0
  bool stores_labels = false;
};

// Offsets in bytes from the start of the workspace. A number with an exponent of its own takes two elements.
struct CtcWorkspace {
  std::size_t alpha = 0;            // [sequence][step][state] of such numbers; without gradients nothing
  std::size_t beta = 0;             // the same
  std::size_t rows = 0;             // two rows of states a block, where shared memory has no room for them
  std::size_t log_sum = 0;          // [step][sequence] in double: the logarithm of softmax's denominator
  std::size_t log_probability = 0;  // [sequence] in double, but for those denominators
  std::size_t first_label = 0;      // [sequence] in 64 bits: where its labels begin
  std::size_t ints = 0;             // label lengths, input lengths, labels, and labels again for the walk down
  std::size_t flags = 0;            // [sequence]: 1 where no alignment exists
  std::size_t finished = 0;         // [sequence]: blocks of its gradients that are done
  std::size_t links = 0;            // [sequence][label]: see ctc_loss.cu
  std::size_t bytes = 0;
};

constexpr std::int64_t kCtcRowMargin = 4;

// Two rows of states, in elements; and whether shared memory has room for them.
[[nodiscard]] inline std::size_t ctc_row_bytes(const CtcShape& shape) {
  return static_cast<std::size_t>(2 * (2 * shape.max_labels + 1 + kCtcRowMargin)) * (shape.wide ? 16 : 8);
}
[[nodiscard]] inline bool ctc_rows_are_shared(const CtcShape& shape) { return ctc_row_bytes(shape) <= 32u << 10; }

[[nodiscard]] inline CtcWorkspace ctc_workspace(const CtcShape& shape) {
  const std::size_t number = shape.wide ? 16 : 8;
  const auto steps = static_cast<std::size_t>(shape.steps);
  const auto sequences = static_cast<std::size_t>(shape.sequences);
  const auto states = static_cast<std::size_t>(2 * shape.max_labels + 1);
  CtcWorkspace place;
  const auto take = [&place](std::size_t bytes) {
    const std::size_t start = place.bytes;
    place.bytes += (bytes + 15) / 16 * 16;
    return start;
  };
  const std::size_t table = shape.has_gradients ? sequences * steps * states * number : 0;
  place.alpha = take(table);
  place.beta = take(table);
  place.rows = take(ctc_rows_are_shared(shape) ? 0 : 2 * sequences * ctc_row_bytes(shape));
  place.log_sum = take(shape.softmax ? steps * sequences * 8 : 0);
  place.log_probability = take(sequences * 8);
  place.first_label = take(sequences * 8);
  place.ints = take(shape.stores_labels ? (2 * sequences + 2 * static_cast<std::size_t>(shape.stored_labels)) * 4 : 0);
  place.flags = take(sequences * 4);
  place.finished = take(sequences * 4);
  place.links = take(shape.has_gradients ? sequences * static_cast<std::size_t>(shape.max_labels) * 4 : 0);
  return place;
}

struct CtcParams {
  CtcShape shape;
  bool skip_impossible = false;  // leave the gradients of a sequence without an alignment as they are
  std::int64_t x_strides[3] = {};
  std::int64_t gradient_strides[3] = {};
  const void* x = nullptr;
  void* costs = nullptr;
  void* gradients = nullptr;
  void* workspace = nullptr;
  // On the device; or, if shape.stores_labels, on the host: they are copied by way of kernel arguments, so the caller's
  // arrays are done with when the launch function returns, in a captured graph too.
  const int* labels = nullptr;
  const int* label_lengths = nullptr;
  const int* input_lengths = nullptr;
};

void launch_ctc_loss(const CtcParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
