// The CTC-loss problem: costs of sequences of labels given probabilities over time, and their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/adv.h"
#include "kernels/ctc/ctc_loss.hpp"

namespace gpudnn::ctc {

struct Problem {
  TensorGeometry x;  // (steps, sequences, alphabet)
  TensorGeometry gradients;
  bool has_gradients = true;
  bool softmax = true;
  bool skip_impossible = false;    // the gradients of a sequence without an alignment stay as they are, else are 0
  bool host_labels = false;        // labels and lengths are in host memory whatever the backend
  std::int64_t max_labels = 0;     // of one sequence
  std::int64_t stored_labels = 0;  // of all sequences, for host labels
};

struct Args {
  const void* x = nullptr;
  const int* labels = nullptr;
  const int* label_lengths = nullptr;
  const int* input_lengths = nullptr;
  void* costs = nullptr;
  void* gradients = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

[[nodiscard]] kernels::CtcShape shape_of(const Problem& problem) noexcept;
[[nodiscard]] std::size_t workspace_size(const Problem& problem) noexcept;

// Checks lengths, and labels unless null, in host memory; sets max_labels and stored_labels.
[[nodiscard]] Status read_host_labels(const int* labels, const int* label_lengths, const int* input_lengths,
                                      Problem* problem);

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::ctc
