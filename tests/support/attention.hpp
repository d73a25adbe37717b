// Attention cases: memory for a problem's tensors, filled from a seed, and the comparison of an engine with the host
// reference in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ops/attention/problem.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

// The problem that the line says; throws where it says none.
[[nodiscard]] attention::Problem attention_problem(const std::string& line);

struct AttentionCase {
  attention::Problem problem;
  bool low_scores = false;  // nothing of q is below 0, and nothing of k above
  std::uint64_t seed = 1;
  double magnitude = 1;      // of q and k
  bool in_units = false;     // q and k are 0 or the magnitude, of either sign: powers of two have exact scores
  int zero_lengths = 0;      // every so many sequences has length 0; 0: none
  int first_offset = 0;      // of ragged tensors: where the first sequence starts, in elements
  bool hidden_rows = false;  // bias holds `hidden_by` in some places and all along some rows
  double hidden_by = -std::numeric_limits<double>::infinity();
};
[[nodiscard]] std::string describe(const AttentionCase& c);

struct AttentionOptions {
  bool misaligned = false;    // each tensor one of its elements off its alignment
  bool ends_mapping = false;  // nothing is mapped behind any tensor: who reads beyond it faults
  int more_runs = 0;          // on the same memory, each of which must write the same bits
  // Makes the call, where it is not made at once: `change` writes what a call may read on the device alone (lengths,
  // offsets, pages, seeds), which is garbage before.
  std::function<bool(const std::function<bool()>& call, const std::function<void()>& change)> captured = nullptr;
};

// A case's memory, and what the reference in double on the host makes of it, once for all engines.
struct PreparedAttention;
[[nodiscard]] std::shared_ptr<const PreparedAttention> prepare(const AttentionCase& c);

// Runs the engine on the backend with the same data. Empty, or what is wrong: a value beyond its bound, a NaN,
// something written outside of the outputs' elements.
[[nodiscard]] std::string check(const Backend& backend, const attention::AttentionEngine& engine,
                                const PreparedAttention& prepared, const AttentionOptions& options = {});

[[nodiscard]] AttentionCase random_attention(Random& random, bool in_8_bits = false);

}  // namespace gpudnn::test
