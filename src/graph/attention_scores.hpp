// The part of a composite attention graph that makes scores: from the matrix product of q and k to the masked scores,
// walked from its end to its start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/attention_match.hpp"

namespace gpudnn::graph {

// A walk over a graph's operations against the flow of data. Operations are taken one by one; a graph matches if all of
// them are taken, and what they write outside has a role.
class Walk {
 public:
  Walk(const Graph& graph, std::string* why);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Tensor& tensor(int place) const { return graph_.tensors[static_cast<std::size_t>(place)]; }
  [[nodiscard]] const Node* maker(int place) const;  // null for the program's tensors
  // The maker, if it is this operation: pointwise ones with factors of 1 alone. Null otherwise.
  [[nodiscard]] const Node* maker(int place, Op op, int mode = -1) const;
  [[nodiscard]] bool is_number(int place) const;  // one element, by value
  // One float of the program's, in the backend's memory: what scales 8-bit floats.
  [[nodiscard]] bool is_scalar(int place) const;
  // The other operand of a product with such a number, which is appended to `scalars`; -1 if it is none.
  [[nodiscard]] int take_scalar(const Node* product, std::vector<int>* scalars);
  void take(const Node* node) { taken_[static_cast<std::size_t>(node - graph_.nodes.data())] = true; }
  // A tensor that the operations write, and that may lie in the program's memory.
  void allow(int place) { allowed_[static_cast<std::size_t>(place)] = true; }
  // Whether nothing is left over.
  [[nodiscard]] bool complete();
  bool fail(std::string reason);

 private:
  const Graph& graph_;
  std::string* why_;
  std::vector<int> makers_;
  std::vector<char> taken_, allowed_;
};

[[nodiscard]] bool has_dims(const Tensor& tensor, const std::int64_t (&dims)[4]);
// The geometry with its last two dimensions exchanged.
[[nodiscard]] TensorGeometry transposed(const TensorGeometry& geometry);

// Conditions and options of the scores as they are met; lengths and bounds are told apart at the end.
class Scores {
 public:
  Scores(Walk* walk, AttentionMatch* match, const std::int64_t (&dims)[4]) : walk_(*walk), match_(*match) {
    for (int i = 0; i < 4; ++i) dims_[i] = dims[i];
  }
  // Takes the masks that `*place` is made of, and leaves the scores below them there.
  [[nodiscard]] bool take_masks(int* place);
  // Takes everything from `place` down to the matrix product, which is left in *product.
  [[nodiscard]] bool take_all(int place, const Node** product);
  // Settles what lengths and bounds are; the lengths that matrix products are cut to must agree.
  [[nodiscard]] bool settle();
  [[nodiscard]] bool check_cut(const Node& product, Port of_q, Port of_kv);

 private:
  // row_sign * row + column_sign * column + lengths + numbers > 0, or >= 0.
  struct Form {
    int row = 0;
    int column = 0;
    std::vector<SignedTerm> lengths, numbers;
    bool strict = false;
    bool integral = false;
  };
  [[nodiscard]] bool add_index(int place, int sign, Form* form);
  [[nodiscard]] bool take_condition(int place, bool negated);
  [[nodiscard]] bool take_bound(const Form& form);
  [[nodiscard]] bool take_addend(int place);
  [[nodiscard]] bool is_alibi(int place) const;
  [[nodiscard]] bool take_alibi(int place);
  [[nodiscard]] bool settle_bound(const Form& form, bool right);
  [[nodiscard]] bool made_from_scores(int place) const;

  Walk& walk_;
  AttentionMatch& match_;
  std::int64_t dims_[4];
  std::vector<Form> bounds_;
};

}  // namespace gpudnn::graph
