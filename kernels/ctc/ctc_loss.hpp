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

// Offsets in bytes from the start of the workspace.
struct CtcWorkspace {
  std::size_t alpha = 0;    // [sequence][step][state]; without gradients nothing
  std::size_t beta = 0;     // the same
  std::size_t rows = 0;     // two rows of states a block, where shared memory has no room for them
  std::size_t log_sum = 0;  // [step][sequence]: the logarithm of softmax's denominator
  std::size_t ints = 0;     // label lengths, input lengths, labels
  std::size_t flags = 0;    // [sequence]: 1 where no alignment exists
  std::size_t links = 0;    // [sequence][label]: see ctc_loss.cu
  std::size_t bytes = 0;
};

constexpr std::int64_t kCtcSharedStates = 2048;  // two rows of double are 32 KB
constexpr std::int64_t kCtcRowMargin = 4;

[[nodiscard]] inline CtcWorkspace ctc_workspace(const CtcShape& shape) {
  const std::size_t element = shape.wide ? 8 : 4;
  const auto steps = static_cast<std::size_t>(shape.steps);
  const auto sequences = static_cast<std::size_t>(shape.sequences);
  const auto states = static_cast<std::size_t>(2 * shape.max_labels + 1);
  CtcWorkspace place;
  const auto take = [&place](std::size_t bytes) {
    const std::size_t start = place.bytes;
    place.bytes += (bytes + 15) / 16 * 16;
    return start;
  };
  const std::size_t table = shape.has_gradients ? sequences * steps * states * element : 0;
  place.alpha = take(table);
  place.beta = take(table);
  const std::size_t row = (states + static_cast<std::size_t>(kCtcRowMargin)) * element;
  place.rows = take(states > static_cast<std::size_t>(kCtcSharedStates) ? 4 * sequences * row : 0);
  place.log_sum = take(shape.softmax ? steps * sequences * element : 0);
  place.ints = take(shape.stores_labels ? (2 * sequences + static_cast<std::size_t>(shape.stored_labels)) * 4 : 0);
  place.flags = take(sequences * 4);
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
