// The recurrent-network problem: the network, the sequences, and which of the three calls it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine.hpp"
#include "gpudnn/adv.h"
#include "kernels/rnn/rnn.hpp"

namespace gpudnn::rnn {

enum class Pass : std::int32_t { infer, train, dgrad, wgrad };

struct Network {
  gpudnnRNNMode_t cell = GPUDNN_LSTM;
  gpudnnRNNBiasMode_t bias = GPUDNN_RNN_DOUBLE_BIAS;
  bool bidirectional = false;
  bool skip = false;  // the first layer has no W
  DataType type = GPUDNN_DATA_FLOAT;
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
  std::int32_t input = 1;
  std::int32_t hidden = 1;
  std::int32_t projected = 1;  // width of h; equal to hidden: no projection
  std::int32_t layers = 1;
  bool clips = false;
  bool clip_passes_nan = true;
  double clip_low = 0;
  double clip_high = 0;
  float dropout = 0;

  [[nodiscard]] int directions() const noexcept { return bidirectional ? 2 : 1; }
  [[nodiscard]] int pseudo_layers() const noexcept { return layers * directions(); }
  [[nodiscard]] kernels::RnnCell kind() const noexcept { return static_cast<kernels::RnnCell>(cell); }
  [[nodiscard]] int gates() const noexcept { return kernels::rnn_gates(kind()); }
  [[nodiscard]] int slots() const noexcept { return kernels::rnn_slots(kind()); }
  // Elements from row to row of the products with the input, and of what training keeps in their place.
  [[nodiscard]] std::int64_t gates_row(bool training) const noexcept {
    return kernels::rnn_whole_row(std::int64_t{training ? slots() : gates()} * hidden, data_type_bits(type) / 8);
  }
  [[nodiscard]] bool projects() const noexcept { return cell == GPUDNN_LSTM && projected != hidden; }
  // Width of all directions of a layer, and of the input of layer l.
  [[nodiscard]] std::int64_t output_width() const noexcept { return std::int64_t{projected} * directions(); }
  [[nodiscard]] std::int64_t input_width(int layer) const noexcept { return layer == 0 ? input : output_width(); }
  [[nodiscard]] bool has_input_matrix(int layer) const noexcept { return layer > 0 || !skip; }
  [[nodiscard]] bool has_input_bias() const noexcept {
    return bias == GPUDNN_RNN_SINGLE_INP_BIAS || bias == GPUDNN_RNN_DOUBLE_BIAS;
  }
  [[nodiscard]] bool has_hidden_bias() const noexcept {
    return bias == GPUDNN_RNN_SINGLE_REC_BIAS || bias == GPUDNN_RNN_DOUBLE_BIAS;
  }
  // Dropout stands between layers, in training.
  [[nodiscard]] bool drops() const noexcept { return layers > 1 && dropout > 0; }
};

struct Sequences {
  gpudnnRNNDataLayout_t layout = GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
  std::int32_t steps = 1;
  std::int32_t batch = 1;
  std::vector<std::int32_t> lengths;  // one for each sequence

  // All sequences have all steps.
  [[nodiscard]] bool even() const noexcept;
  // The caller's layout is that of the rows inside.
  [[nodiscard]] bool direct() const noexcept;
  [[nodiscard]] std::int64_t capacity() const noexcept { return std::int64_t{steps} * batch; }
};

struct Problem {
  Pass pass = Pass::infer;
  Network net;
  Sequences sequences;
  bool adds = false;   // wgrad: to what is there
  bool fills = false;  // padding of y, or of dx, gets `fill`
  double fill = 0;
};

// The pointers of one call; those that the interface lets be null may be.
struct Args {
  gpudnnHandle_t handle = nullptr;
  const void* x = nullptr;
  void* y = nullptr;  // read by dgrad and wgrad
  const void* hx = nullptr;
  const void* cx = nullptr;
  void* hy = nullptr;
  void* cy = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  const void* dhy = nullptr;
  const void* dcy = nullptr;
  void* dhx = nullptr;
  void* dcx = nullptr;
  const void* weights = nullptr;
  void* dweights = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  void* reserve = nullptr;
  std::size_t reserve_bytes = 0;
  void* dropout_states = nullptr;
};

// The weight space. All matrices of the pseudo-layers in order, then all biases. A pseudo-layer's matrices: the gates'
// W [hidden, input], the gates' R [hidden, projected], the projection [projected, hidden]; its biases: b_W, b_R.
struct WeightBlock {
  std::int64_t input = -1;  // offsets in elements; -1: there is none
  std::int64_t recurrent = -1;
  std::int64_t projection = -1;
  std::int64_t input_bias = -1;
  std::int64_t hidden_bias = -1;
};
[[nodiscard]] WeightBlock weight_block(const Network& net, int pseudo_layer) noexcept;
[[nodiscard]] std::int64_t weight_count(const Network& net) noexcept;

// Bytes for the longest sequences of this batch, whatever the lengths; `forward_only`: of inference.
[[nodiscard]] Status workspace_size(gpudnnHandle_t handle, const Problem& problem, bool forward_only,
                                    std::size_t* bytes);
[[nodiscard]] std::size_t reserve_size(const Problem& problem) noexcept;

[[nodiscard]] Status validate(const Network& net);
[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);

[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::rnn
