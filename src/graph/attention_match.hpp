// Attention in a graph: one SDPA operation, or the composite of matrix products, pointwise operations and reductions
// that clients send in its place, as one attention problem.
//
// What only the values of an execution can tell (that the masking number is minus infinity, that the factors of dropout
// are those of its probability) is noted as an assumption, and checked by bind_values() at each execution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "graph/engine.hpp"
#include "ops/attention/problem.hpp"

namespace gpudnn::graph {

// Places in Graph::tensors of the problem's tensors; -1 where it has none.
struct AttentionPlaces {
  int q = -1, k = -1, v = -1, o = -1, stats = -1, max = -1, sum_exp = -1;
  int d_o = -1, dq = -1, dk = -1, dv = -1;
  int bias = -1, dbias = -1, block_mask = -1, page_table_k = -1, page_table_v = -1;
  int length_q = -1, length_kv = -1, slopes = -1, sink = -1, dsink = -1;
  int seed = -1, offset = -1, dropout_mask = -1;
};

// Places of the numbers that come with 8-bit floats, named as in kernels::AttentionFloat8.
struct Float8Places {
  std::vector<int> scores, output, delta, dp, dq, dk, dv;  // at most two each
  int scale_s = -1, scale_o = -1, scale_ds = -1, scale_dq = -1, scale_dk = -1, scale_dv = -1;
  int amax_s = -1, amax_o = -1, amax_ds = -1, amax_dq = -1, amax_dk = -1, amax_dv = -1;
};

// A tensor that is added, or subtracted.
struct SignedTerm {
  int place = -1;
  int sign = 1;
  bool integral = false;  // the sum passes through an integer tensor
};

struct AttentionMatch {
  attention::Problem problem;  // without the values of one execution
  AttentionPlaces at;
  Float8Places float8;
  bool composite = false;
  bool is_8_bit = false;
  std::int64_t seed_value = 0;

  // Numbers by value.
  std::vector<int> scales;  // their product is the scale
  int soft_cap = -1;        // what scores are divided by, and what their hyperbolic tangent is multiplied by
  int soft_cap_factor = -1;
  std::vector<SignedTerm> right, left;  // sums of numbers that are the bounds
  bool right_strict = false;            // column < row + right, in place of <=
  bool left_inclusive = false;          // column >= row - left, in place of >
  std::vector<int> hidden;              // what hidden scores are set to: minus infinity, or the lowest float
  // Factors whose product must be 1, times 1 - p to a power, times the scale to a power.
  struct Factors {
    std::vector<int> places;
    int keep_power = 0;
    int scale_power = 0;
    const char* what = "";
  };
  std::vector<Factors> factors;
};

// False, and why, if the graph is not one attention.
[[nodiscard]] bool match_attention(const Graph& graph, AttentionMatch* match, std::string* why);

// Fills in the values of an execution. False, and which number is not what the match assumed.
[[nodiscard]] bool bind_values(const Graph& graph, const AttentionMatch& match, void* const* data,
                               attention::Problem* problem, std::string* why);

}  // namespace gpudnn::graph
