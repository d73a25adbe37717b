// From the masked scores of a composite attention graph down to the matrix product of q and k.
// SPDX-License-Identifier: Apache-2.0
#include "graph/attention_scores.hpp"

#include <algorithm>

namespace gpudnn::graph {

Walk::Walk(const Graph& graph, std::string* why)
    : graph_(graph),
      why_(why),
      makers_(graph.tensors.size(), -1),
      taken_(graph.nodes.size(), 0),
      allowed_(graph.tensors.size(), 0) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const Link& link : graph.nodes[n].links)
      if (is_output(graph.nodes[n], link.port)) makers_[static_cast<std::size_t>(link.tensor)] = static_cast<int>(n);
}

const Node* Walk::maker(int place) const {
  const int n = place < 0 ? -1 : makers_[static_cast<std::size_t>(place)];
  return n < 0 ? nullptr : &graph_.nodes[static_cast<std::size_t>(n)];
}

const Node* Walk::maker(int place, Op op, int mode) const {
  const Node* node = maker(place);
  if (node == nullptr || node->op != op || (mode >= 0 && node->mode != mode)) return nullptr;
  return op == Op::pointwise && (node->alpha != 1 || node->alpha2 != 1) ? nullptr : node;
}

bool Walk::is_number(int place) const {
  return place >= 0 && tensor(place).by_value && element_count(tensor(place).geometry) == 1;
}

bool Walk::is_scalar(int place) const {
  return place >= 0 && !tensor(place).by_value && !tensor(place).is_virtual && maker(place) == nullptr &&
         element_count(tensor(place).geometry) == 1 && tensor(place).geometry.type == GPUDNN_DATA_FLOAT;
}

int Walk::take_scalar(const Node* product, std::vector<int>* scalars) {
  if (product == nullptr) return -1;
  const int x = product->at(Port::x);
  const int b = product->at(Port::b);
  if (is_scalar(x) == is_scalar(b)) return -1;
  take(product);
  scalars->push_back(is_scalar(b) ? b : x);
  return is_scalar(b) ? x : b;
}

bool Walk::fail(std::string reason) {
  *why_ = std::move(reason);
  return false;
}

bool Walk::complete() {
  for (std::size_t n = 0; n < taken_.size(); ++n)
    if (taken_[n] == 0) return fail("'" + to_text(graph_.nodes[n], graph_) + "' is no part of attention");
  for (std::size_t t = 0; t < makers_.size(); ++t) {
    if (makers_[t] >= 0 && allowed_[t] == 0 && !graph_.tensors[t].is_virtual) {
      return fail("tensor " + std::to_string(graph_.tensors[t].uid) +
                  " is not virtual, but attention does not keep what it holds");
    }
  }
  return true;
}

bool has_dims(const Tensor& tensor, const std::int64_t (&dims)[4]) {
  return tensor.geometry.rank == 4 && std::equal(dims, dims + 4, tensor.geometry.dims);
}

TensorGeometry transposed(const TensorGeometry& geometry) {
  TensorGeometry result = geometry;
  std::swap(result.dims[2], result.dims[3]);
  std::swap(result.strides[2], result.strides[3]);
  return result;
}

namespace {

std::string uid_of(const Walk& walk, int place) { return std::to_string(walk.tensor(place).uid); }

}  // namespace

// --- conditions -----------------------------------------------------------------------------------------------------

bool Scores::add_index(int place, int sign, Form* form) {
  if (walk_.is_number(place)) {
    form->numbers.push_back({place, sign});
    return true;
  }
  const Node* node = walk_.maker(place);
  if (node == nullptr) {
    const TensorGeometry& g = walk_.tensor(place).geometry;
    const std::int64_t dims[4] = {dims_[0], 1, 1, 1};
    if (!has_dims(walk_.tensor(place), dims) || g.type != GPUDNN_DATA_INT32)
      return walk_.fail("tensor " + uid_of(walk_, place) +
                        " is neither a length of each sequence nor a number by value");
    form->lengths.push_back({place, sign});
    return true;
  }
  if (node->op != Op::pointwise || node->alpha != 1 || node->alpha2 != 1)
    return walk_.fail("'" + to_text(*node, walk_.graph()) + "' stands in a mask");
  walk_.take(node);
  const DataType type = walk_.tensor(place).geometry.type;
  const bool integral = type == GPUDNN_DATA_INT32 || type == GPUDNN_DATA_INT64;
  if (!integral && type != GPUDNN_DATA_FLOAT && type != GPUDNN_DATA_DOUBLE)
    return walk_.fail("tensor " + uid_of(walk_, place) + " cannot hold every row and column of the scores");
  if (node->mode != GPUDNN_POINTWISE_GEN_INDEX) form->integral = form->integral || integral;
  switch (node->mode) {
    case GPUDNN_POINTWISE_GEN_INDEX:
      if ((node->axis != 2 && node->axis != 3) || walk_.tensor(place).geometry.rank != 4 ||
          walk_.tensor(place).geometry.dims[node->axis] != dims_[node->axis])
        return walk_.fail("'" + to_text(*node, walk_.graph()) + "' counts neither rows nor columns of the scores");
      (node->axis == 2 ? form->row : form->column) += sign;
      return true;
    case GPUDNN_POINTWISE_IDENTITY:
      return add_index(node->at(Port::x), sign, form);
    case GPUDNN_POINTWISE_ADD:
    case GPUDNN_POINTWISE_SUB:
      return add_index(node->at(Port::x), sign, form) &&
             add_index(node->at(Port::b), node->mode == GPUDNN_POINTWISE_ADD ? sign : -sign, form);
    default:
      return walk_.fail("'" + to_text(*node, walk_.graph()) + "' stands in a mask");
  }
}

// A row is below the length of its sequence, or a column is; else it is a bound.
bool Scores::take_bound(const Form& form) {
  if (form.row + form.column == -1 && form.lengths.size() == 1 && form.lengths[0].sign == 1 && form.numbers.empty() &&
      form.strict) {
    int& length = form.row == -1 ? match_.at.length_q : match_.at.length_kv;
    if (length >= 0 && length != form.lengths[0].place)
      return walk_.fail("two lengths cut the same side of the scores");
    length = form.lengths[0].place;
    return true;
  }
  if (form.row + form.column != 0 || (form.row != 1 && form.row != -1))
    return walk_.fail("a mask compares neither row and column, nor one of them and a length");
  bounds_.push_back(form);
  return true;
}

bool Scores::take_condition(int place, bool negated) {
  const Node* node = walk_.maker(place, Op::pointwise);
  if (node == nullptr) return walk_.fail("the mask in tensor " + uid_of(walk_, place) + " is not made of indices");
  walk_.take(node);
  if (node->mode == GPUDNN_POINTWISE_LOGICAL_NOT) return take_condition(node->at(Port::x), !negated);
  if (node->mode == GPUDNN_POINTWISE_LOGICAL_AND && !negated)
    return take_condition(node->at(Port::x), false) && take_condition(node->at(Port::b), false);
  bool left_less = false;
  Form form;
  switch (node->mode) {
    case GPUDNN_POINTWISE_CMP_LT:
      left_less = form.strict = true;
      break;
    case GPUDNN_POINTWISE_CMP_LE:
      left_less = true;
      break;
    case GPUDNN_POINTWISE_CMP_GT:
      form.strict = true;
      break;
    case GPUDNN_POINTWISE_CMP_GE:
      break;
    default:
      return walk_.fail("'" + to_text(*node, walk_.graph()) + "' is no comparison of row and column");
  }
  if (negated) {
    left_less = !left_less;
    form.strict = !form.strict;
  }
  return add_index(node->at(Port::x), left_less ? -1 : 1, &form) &&
         add_index(node->at(Port::b), left_less ? 1 : -1, &form) && take_bound(form);
}

bool Scores::take_masks(int* place) {
  while (const Node* node = walk_.maker(*place, Op::pointwise, GPUDNN_POINTWISE_BINARY_SELECT)) {
    const bool swapped = walk_.is_number(node->at(Port::x));
    const int number = node->at(swapped ? Port::x : Port::b);
    if (!walk_.is_number(number))
      return walk_.fail("'" + to_text(*node, walk_.graph()) + "' does not hide scores by a number passed by value");
    walk_.take(node);
    match_.hidden.push_back(number);
    if (!take_condition(node->at(Port::t), swapped)) return false;
    *place = node->at(swapped ? Port::b : Port::x);
  }
  return true;
}

// --- addends and factors --------------------------------------------------------------------------------------------

bool Scores::is_alibi(int place) const {
  const Node* node = walk_.maker(place, Op::pointwise, GPUDNN_POINTWISE_MUL);
  return node != nullptr &&
         (walk_.maker(node->at(Port::x), Op::pointwise, GPUDNN_POINTWISE_SUB) != nullptr ||
          walk_.maker(node->at(Port::b), Op::pointwise, GPUDNN_POINTWISE_SUB) != nullptr) &&
         (walk_.maker(node->at(Port::x)) == nullptr || walk_.maker(node->at(Port::b)) == nullptr);
}

bool Scores::take_alibi(int place) {
  const Node* node = walk_.maker(place);
  walk_.take(node);
  const bool slopes_first = walk_.maker(node->at(Port::x)) == nullptr;
  const int slopes = node->at(slopes_first ? Port::x : Port::b);
  Form form;
  if (!add_index(node->at(slopes_first ? Port::b : Port::x), 1, &form)) return false;
  const Tensor& t = walk_.tensor(slopes);
  const std::int64_t dims[4] = {1, dims_[1], 1, 1};
  if (form.row != -1 || form.column != 1 || !form.lengths.empty() || !form.numbers.empty() || !has_dims(t, dims) ||
      t.geometry.type != GPUDNN_DATA_FLOAT || t.by_value || (dims_[1] > 1 && t.geometry.strides[1] != 1))
    return walk_.fail("'" + to_text(*node, walk_.graph()) + "' is not a slope of each head times column - row");
  if (match_.at.slopes >= 0) return walk_.fail("two slopes are added to the scores");
  match_.at.slopes = slopes;
  match_.problem.has_alibi = 1;
  return true;
}

bool Scores::take_addend(int place) {
  if (is_alibi(place)) return take_alibi(place);
  const Tensor& t = walk_.tensor(place);
  if (walk_.maker(place) != nullptr || t.by_value || t.ragged != Tensor::kNone)
    return walk_.fail("tensor " + uid_of(walk_, place) + ", which is added to the scores, is neither a bias nor ALiBi");
  if (match_.at.bias >= 0) return walk_.fail("two biases are added to the scores");
  match_.at.bias = place;
  match_.problem.bias = t.geometry;
  return true;
}

// Whether a matrix product lies below, along operations on whole scores.
bool Scores::made_from_scores(int place) const {
  const Node* node = walk_.maker(place);
  if (node == nullptr || is_alibi(place)) return false;
  return node->op == Op::matmul || (node->op == Op::pointwise && has_dims(walk_.tensor(place), dims_));
}

bool Scores::take_all(int place, const Node** product) {
  bool below_addends = false;
  for (;;) {
    if (!has_dims(walk_.tensor(place), dims_))
      return walk_.fail("tensor " + uid_of(walk_, place) + " does not have the scores' dimensions");
    const Node* node = walk_.maker(place);
    if (const Node* found = walk_.maker(place, Op::matmul)) {
      walk_.take(found);
      *product = found;
      return true;
    }
    if (node == nullptr || node->op != Op::pointwise || node->alpha != 1 || node->alpha2 != 1)
      return walk_.fail("the scores in tensor " + uid_of(walk_, place) + " are not made by a matrix product");
    const int x = node->at(Port::x);
    const int b = node->at(Port::b);
    if (node->mode == GPUDNN_POINTWISE_BINARY_SELECT && !below_addends) {
      if (!take_masks(&place)) return false;
    } else if (node->mode == GPUDNN_POINTWISE_ADD && !below_addends) {
      walk_.take(node);
      const bool first = made_from_scores(x);
      if (!take_addend(first ? b : x)) return false;
      place = first ? x : b;
    } else if (node->mode == GPUDNN_POINTWISE_MUL && match_.is_8_bit && walk_.is_scalar(x) != walk_.is_scalar(b)) {
      place = walk_.take_scalar(node, &match_.float8.scores);
      below_addends = true;
    } else if (node->mode == GPUDNN_POINTWISE_MUL && (walk_.is_number(b) || walk_.is_number(x))) {
      const int number = walk_.is_number(b) ? b : x;
      const int rest = walk_.is_number(b) ? x : b;
      walk_.take(node);
      below_addends = true;
      const Node* tanh = walk_.maker(rest, Op::pointwise, GPUDNN_POINTWISE_TANH_FWD);
      if (tanh == nullptr) {
        match_.scales.push_back(number);
        place = rest;
        continue;
      }
      const Node* quotient = walk_.maker(tanh->at(Port::x), Op::pointwise, GPUDNN_POINTWISE_DIV);
      if (!match_.scales.empty() || !match_.float8.scores.empty() || quotient == nullptr ||
          !walk_.is_number(quotient->at(Port::b)) || match_.problem.backward != 0)
        return walk_.fail("the hyperbolic tangent is no soft cap: cap * tanh(s / cap), of the scaled scores, forward");
      walk_.take(tanh);
      walk_.take(quotient);
      match_.problem.has_soft_cap = 1;
      match_.soft_cap = quotient->at(Port::b);
      match_.soft_cap_factor = number;
      place = quotient->at(Port::x);
    } else {
      return walk_.fail("'" + to_text(*node, walk_.graph()) + "' is no part of attention's scores there");
    }
  }
}

// --- lengths and bounds ---------------------------------------------------------------------------------------------

bool Scores::settle_bound(const Form& form, bool right) {
  attention::Problem& p = match_.problem;
  std::vector<SignedTerm>& sum = right ? match_.right : match_.left;
  std::int32_t& has = right ? p.has_right : p.has_left;
  if (has != 0) return walk_.fail("the scores have two bounds on the same side");
  has = 1;
  // The right bound is added to the row, the left one to the column.
  const int sign = right ? 1 : -1;
  bool bottom_right = false;
  if (!form.lengths.empty()) {
    const auto is = [&](int place, int expected) {
      return std::count_if(form.lengths.begin(), form.lengths.end(),
                           [&](const SignedTerm& term) { return term.place == place && term.sign == expected; }) == 1;
    };
    if (form.lengths.size() != 2 || match_.at.length_q < 0 || !is(match_.at.length_kv, sign) ||
        !is(match_.at.length_q, -sign))
      return walk_.fail("a bound holds lengths that are not those of the padding mask");
    bottom_right = true;
  }
  const bool other = right ? p.has_left != 0 : p.has_right != 0;
  if (other && (p.bottom_right != 0) != bottom_right)
    return walk_.fail("one bound counts from the first row and column, the other from the last");
  p.bottom_right = bottom_right ? 1 : 0;
  sum = form.numbers;
  for (SignedTerm& term : sum) term.integral = form.integral;
  (right ? match_.right_strict : match_.left_inclusive) = right ? form.strict : !form.strict;
  return true;
}

bool Scores::settle() {
  attention::Problem& p = match_.problem;
  p.has_length_q = match_.at.length_q >= 0 ? 1 : 0;
  p.has_length_kv = match_.at.length_kv >= 0 ? 1 : 0;
  for (const int place : {match_.at.length_q, match_.at.length_kv})
    if (place >= 0 && dims_[0] > 1 && walk_.tensor(place).geometry.strides[0] != 1)
      return walk_.fail("the lengths in tensor " + uid_of(walk_, place) + " do not lie one after the other");
  return std::all_of(bounds_.begin(), bounds_.end(),
                     [&](const Form& form) { return settle_bound(form, form.row == 1); });
}

bool Scores::check_cut(const Node& product, Port of_q, Port of_kv) {
  for (const Port port : {Port::m_override, Port::n_override, Port::k_override}) {
    const int place = product.at(port);
    const int expected = port == of_q ? match_.at.length_q : port == of_kv ? match_.at.length_kv : -1;
    if (place >= 0 && place != expected)
      return walk_.fail("'" + to_text(product, walk_.graph()) +
                        "' is cut to lengths that the padding mask does not have");
  }
  return true;
}

}  // namespace gpudnn::graph
