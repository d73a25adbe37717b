// Attention in a graph as an attention problem: one operation, or the composite forward and backward.
//
// Longer than most files: the walk forward and the walk backward read the same parts.
// SPDX-License-Identifier: Apache-2.0
#include "graph/attention_match.hpp"

#include <algorithm>

#include "core/float8.hpp"
#include "graph/attention_scores.hpp"
#include "graph/match.hpp"
#include "graph/page_tables.hpp"

namespace gpudnn::graph {
namespace {

bool take_tensor(const Graph& graph, int place, attention::Tensor* out, std::string* why) {
  if (place < 0) return true;
  const Tensor& t = tensor_at(graph, place);
  if (t.is_virtual || t.by_value || t.vector_count != 1 || t.reordering != 0)
    return no_match(why, "tensor " + std::to_string(t.uid) +
                             " must lie in memory, without vectors and reordering, to be a tensor of attention");
  out->geometry = t.geometry;
  if (const int offsets = graph.find(t.ragged); offsets >= 0)
    out->offset_bits = tensor_at(graph, offsets).geometry.type == GPUDNN_DATA_INT64 ? 64 : 32;
  return true;
}

// The tensors at their places, and the problem's own checks.
bool finish(const Graph& graph, AttentionMatch* m, std::string* why) {
  attention::Problem& p = m->problem;
  const AttentionPlaces& at = m->at;
  const bool taken = take_tensor(graph, at.q, &p.q, why) && take_tensor(graph, at.k, &p.k, why) &&
                     take_tensor(graph, at.v, &p.v, why) && take_tensor(graph, at.o, &p.o, why) &&
                     take_tensor(graph, at.stats, &p.stats, why) && take_tensor(graph, at.max, &p.max, why) &&
                     take_tensor(graph, at.sum_exp, &p.sum_exp, why) && take_tensor(graph, at.d_o, &p.d_o, why) &&
                     take_tensor(graph, at.dq, &p.dq, why) && take_tensor(graph, at.dk, &p.dk, why) &&
                     take_tensor(graph, at.dv, &p.dv, why);
  if (!taken) return false;
  const auto geometry = [&](int place) { return tensor_at(graph, place).geometry; };
  const auto rows = [&](int place) {
    const Tensor& table = tensor_at(graph, place);
    return table.ragged == Tensor::kNone ? table.geometry : page_rows_geometry(table);
  };
  if (at.page_table_k >= 0) p.page_table_k = rows(at.page_table_k);
  if (at.page_table_v >= 0) p.page_table_v = rows(at.page_table_v);
  if (at.block_mask >= 0) p.block_mask = geometry(at.block_mask);
  if (at.dbias >= 0) p.dbias = geometry(at.dbias);
  if (at.dropout_mask >= 0) p.dropout_mask = geometry(at.dropout_mask);
  if (m->composite && !p.is_paged()) {
    p.k.geometry = transposed(p.k.geometry);
    if (p.backward != 0) p.v.geometry = transposed(p.v.geometry);
  }
  if (p.length_kv == 0) {
    p.length_kv = p.k.geometry.dims[2];
    if (p.is_paged()) p.length_kv *= p.page_table_k.dims[2];
  }
  p.soft_cap = p.has_soft_cap;  // any positive number does, before the values are known
  // A bound without numbers is known; of others the widest wants the most workspace.
  constexpr std::int64_t kWidest = std::int64_t{1} << 40;
  if (p.has_right != 0) p.right = !m->right.empty() ? kWidest : m->right_strict ? -1 : 0;
  if (p.has_left != 0) p.left = !m->left.empty() ? kWidest : m->left_inclusive ? 1 : 0;
  return passed(attention::validate(p), why);
}

bool match_operation(const Graph& graph, const Node& node, AttentionMatch* m, std::string* why) {
  AttentionPlaces& at = m->at;
  m->problem.backward = node.op == Op::sdpa_bwd ? 1 : 0;
  at.q = node.at(Port::q), at.k = node.at(Port::k), at.v = node.at(Port::v), at.o = node.at(Port::o);
  at.stats = node.at(Port::stats), at.d_o = node.at(Port::d_o);
  at.dq = node.at(Port::dq), at.dk = node.at(Port::dk), at.dv = node.at(Port::dv);
  at.block_mask = node.at(Port::block_mask);
  at.page_table_k = node.at(Port::page_table_k), at.page_table_v = node.at(Port::page_table_v);
  at.length_q = node.at(Port::seq_len_q), at.length_kv = node.at(Port::seq_len_kv);
  m->problem.has_length_q = at.length_q >= 0 ? 1 : 0;
  m->problem.has_length_kv = at.length_kv >= 0 ? 1 : 0;
  if (const int scale = node.at(Port::scale); scale >= 0) {
    if (!tensor_at(graph, scale).by_value) return no_match(why, "the attention scale must be passed by value");
    m->scales = {scale};
  }
  return finish(graph, m, why);
}

// --- composites -----------------------------------------------------------------------------------------------------

class Composite {
 public:
  Composite(const Graph& graph, AttentionMatch* m, std::string* why) : walk_(graph, why), m_(*m) {}

  [[nodiscard]] bool forward(const Node& last);
  [[nodiscard]] bool backward();

 private:
  [[nodiscard]] std::string text(const Node& node) const { return to_text(node, walk_.graph()); }
  [[nodiscard]] const Node* made_by(int place, int mode) const { return walk_.maker(place, Op::pointwise, mode); }
  [[nodiscard]] int row_sum(int place);  // what an ADD over the columns sums; -1 if it is none
  bool find_scores(int scores);
  bool take_dropout(int* place, std::vector<int>* factors);
  bool take_random(int place);
  bool take_softmax(int place);
  bool take_sink(const Node& most, int row_max, int total);
  bool take_pages(int* place, int* table, bool turned);
  void take_statistics(int row_max, int total);
  bool take_factors(int* place, std::vector<int>* factors);
  bool take_delta(int place);
  bool take_dsink(int delta);
  bool take_dscores(int place);
  bool take_dbias();
  bool take_products();
  bool check_factors();
  [[nodiscard]] int result_of(const Node& product);
  [[nodiscard]] const Node* reader(int place, Op op, int mode) const;
  void take_amax(int place, int* amax);
  bool take_rounding(int* place, int* scale, int* amax);
  bool take_scaled_result(const Node& product, std::vector<int>* factors, int* scale, int* amax, int* result);
  bool take_gradient(const Node& product, std::vector<int>* factors, int* scale, int* amax, int* result);
  bool check_8_bits();
  [[nodiscard]] int untransposed(int place);
  void take_scalars(int* place, std::vector<int>* scalars);
  bool same_rounding(int transposed, DataType type);

  Walk walk_;
  AttentionMatch& m_;
  std::int64_t dims_[4] = {};
  int random_ = -1;
  int masks_ = 0;           // products with it
  int probabilities_ = -1;  // backward
  int stats_ = -1;
  int delta_ = -1;  // before its factor
  int dscores_ = -1;
  std::vector<int> dscore_tensors_;  // from dscores_ to the product without factors
  std::vector<int> dscore_factors_;  // factor i makes tensor i of tensor i + 1
  std::vector<int> rounded_;         // 8-bit tensors between operations
};

bool Composite::find_scores(int scores) {
  if (walk_.tensor(scores).geometry.rank != 4) return walk_.fail("the scores must have 4 dimensions");
  std::copy_n(walk_.tensor(scores).geometry.dims, 4, dims_);
  return true;
}

int Composite::row_sum(int place) {
  const Node* sum = walk_.maker(place, Op::reduction, GPUDNN_REDUCE_TENSOR_ADD);
  const std::int64_t rows[4] = {dims_[0], dims_[1], dims_[2], 1};
  if (sum == nullptr || !has_dims(walk_.tensor(place), rows)) return -1;
  walk_.take(sum);
  return sum->at(Port::x);
}

bool Composite::take_random(int place) {
  const Node* node = walk_.maker(place, Op::rng);
  ++masks_;
  if (random_ >= 0) return random_ == place || walk_.fail("two random masks are multiplied with the probabilities");
  if (node->mode != GPUDNN_RNG_DISTRIBUTION_BERNOULLI || !has_dims(walk_.tensor(place), dims_))
    return walk_.fail("'" + text(*node) + "' does not draw 0 or 1 for each score");
  walk_.take(node);
  random_ = place;
  m_.problem.has_dropout = 1;
  m_.problem.dropout = 1 - node->probability;
  m_.at.seed = node->at(Port::seed);
  m_.at.offset = node->at(Port::offset);
  m_.seed_value = node->value;
  int bits = 0;
  for (const int number : {m_.at.seed, m_.at.offset}) {
    if (number < 0 || walk_.tensor(number).by_value) continue;
    const DataType type = walk_.tensor(number).geometry.type;
    const int of_this = type == GPUDNN_DATA_INT64 ? 64 : type == GPUDNN_DATA_INT32 ? 32 : 0;
    if (of_this == 0 || (bits != 0 && bits != of_this))
      return walk_.fail("seed and offset of dropout must both be INT32 or both INT64");
    bits = of_this;
  }
  if (bits != 0) m_.problem.seed_bits = bits;
  if (!walk_.tensor(place).is_virtual) {
    if (m_.problem.backward != 0) return walk_.fail("backward does not write the dropout mask");
    m_.at.dropout_mask = place;
    walk_.allow(place);
  }
  return true;
}

// Numbers that a tensor is multiplied with.
bool Composite::take_factors(int* place, std::vector<int>* factors) {
  while (const Node* node = made_by(*place, GPUDNN_POINTWISE_MUL)) {
    const int x = node->at(Port::x);
    const int b = node->at(Port::b);
    if (!walk_.is_number(x) && !walk_.is_number(b)) return true;
    walk_.take(node);
    factors->push_back(walk_.is_number(b) ? b : x);
    *place = walk_.is_number(b) ? x : b;
  }
  return true;
}

// The random mask and numbers that a tensor is multiplied with, in any order.
bool Composite::take_dropout(int* place, std::vector<int>* factors) {
  for (bool found = true; found;) {
    found = false;
    if (!take_factors(place, factors)) return false;
    const Node* node = made_by(*place, GPUDNN_POINTWISE_MUL);
    if (node == nullptr) return true;
    for (const Port port : {Port::x, Port::b}) {
      const int other = node->at(port == Port::x ? Port::b : Port::x);
      if (found || walk_.maker(other, Op::rng) == nullptr) continue;
      walk_.take(node);
      if (!take_random(other)) return false;
      *place = node->at(port);
      found = true;
    }
  }
  return true;
}

// --- 8-bit floats ---------------------------------------------------------------------------------------------------

const Node* Composite::reader(int place, Op op, int mode) const {
  for (const Node& node : walk_.graph().nodes)
    if ((node.at(Port::x) == place || node.at(Port::b) == place) && walk_.maker(node.at(Port::y), op, mode) == &node)
      return &node;
  return nullptr;
}

// The greatest magnitude of a tensor, where it is wanted.
void Composite::take_amax(int place, int* amax) {
  const Node* node = reader(place, Op::reduction, GPUDNN_REDUCE_TENSOR_AMAX);
  const Tensor* y = node == nullptr ? nullptr : &walk_.tensor(node->at(Port::y));
  // What has been rounded already has another one.
  if (walk_.tensor(place).geometry.type != GPUDNN_DATA_FLOAT) return;
  if (y == nullptr || *amax >= 0 || element_count(y->geometry) != 1 || y->geometry.type != GPUDNN_DATA_FLOAT ||
      y->is_virtual)
    return;
  walk_.take(node);
  *amax = node->at(Port::y);
  walk_.allow(*amax);
}

// Numbers in memory that a tensor is multiplied with.
void Composite::take_scalars(int* place, std::vector<int>* scalars) {
  for (int rest; (rest = walk_.take_scalar(made_by(*place, GPUDNN_POINTWISE_MUL), scalars)) >= 0;) *place = rest;
}

// The transposed copy of what was rounded to `type` holds the same numbers.
bool Composite::same_rounding(int transposed, DataType type) {
  if (!m_.is_8_bit) return true;
  if (walk_.tensor(transposed).geometry.type != type)
    return walk_.fail("a transposed tensor has another type than what it is made of");
  rounded_.push_back(transposed);
  return true;
}

// From what a product multiplies to what was rounded: the scale is taken, and the greatest magnitude before it.
bool Composite::take_rounding(int* place, int* scale, int* amax) {
  if (is_float8(walk_.tensor(*place).geometry.type)) rounded_.push_back(*place);
  std::vector<int> scales;
  if (const int scaled = walk_.take_scalar(made_by(*place, GPUDNN_POINTWISE_MUL), &scales); scaled >= 0) {
    *scale = scales[0];
    *place = scaled;
  }
  if (amax != nullptr) take_amax(*place, amax);
  return true;
}

// What becomes of a matrix product: summed over the heads of a group, multiplied with up to two numbers, and, behind
// its greatest magnitude, with one more.
bool Composite::take_scaled_result(const Node& product, std::vector<int>* factors, int* scale, int* amax, int* result) {
  walk_.take(&product);
  int place = product.at(Port::y);
  if (const Node* sum = reader(place, Op::reduction, GPUDNN_REDUCE_TENSOR_ADD)) {
    walk_.take(sum);
    place = sum->at(Port::y);
  }
  std::vector<int> numbers;
  std::size_t before_amax = 0;
  for (;;) {
    if (*amax < 0) {
      take_amax(place, amax);
      before_amax = numbers.size();
    }
    const Node* node = reader(place, Op::pointwise, GPUDNN_POINTWISE_MUL);
    if (node == nullptr || walk_.take_scalar(node, &numbers) != place) break;
    place = node->at(Port::y);
  }
  // Without a greatest magnitude, it does not matter which number is which.
  if (*amax < 0) before_amax = std::min<std::size_t>(numbers.size(), 2);
  if (before_amax > 2 || numbers.size() > before_amax + 1)
    return walk_.fail("'" + text(product) + "' is multiplied with more numbers than attention has for it");
  factors->assign(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(before_amax));
  if (numbers.size() > before_amax) *scale = numbers.back();
  *result = place;
  walk_.allow(place);
  return true;
}

bool Composite::take_gradient(const Node& product, std::vector<int>* factors, int* scale, int* amax, int* result) {
  if (m_.is_8_bit) return take_scaled_result(product, factors, scale, amax, result);
  *result = result_of(product);
  return true;
}

// Between operations nothing but p and dS may be rounded, and each number must have its place.
bool Composite::check_8_bits() {
  if (!m_.is_8_bit) return true;
  const AttentionPlaces& at = m_.at;
  const int known[] = {at.q, at.k, at.v, at.o, at.d_o, at.dq, at.dk, at.dv};
  for (std::size_t t = 0; t < walk_.graph().tensors.size(); ++t) {
    const Tensor& tensor = walk_.graph().tensors[t];
    const int place = static_cast<int>(t);
    const DataType type = tensor.geometry.type;
    if (!is_float8(type) && type != GPUDNN_DATA_HALF && type != GPUDNN_DATA_BFLOAT16) continue;
    const bool is_operand = std::find(std::begin(known), std::end(known), place) != std::end(known);
    const bool is_input = walk_.maker(place) == nullptr;
    if (!is_operand && !is_input && std::find(rounded_.begin(), rounded_.end(), place) == rounded_.end())
      return walk_.fail("tensor " + std::to_string(tensor.uid) + " is " + data_type_name(type) +
                        ", but 8-bit attention rounds p, dS and its results alone");
  }
  const Float8Places& f = m_.float8;
  for (const std::vector<int>* list : {&f.scores, &f.output, &f.delta, &f.dp, &f.dq, &f.dk, &f.dv})
    if (list->size() > 2) return walk_.fail("a product is multiplied with more than two numbers in memory");
  return true;
}

// --- forward --------------------------------------------------------------------------------------------------------

bool Composite::take_pages(int* place, int* table, bool turned) {
  const Node* load = walk_.maker(*place, Op::paged_load);
  if (load == nullptr) return true;
  walk_.take(load);
  const int lengths = load->at(Port::seq_len);
  if (lengths != m_.at.length_kv)
    return walk_.fail("'" + text(*load) + "' has lengths that the padding mask does not have");
  const TensorGeometry& y = walk_.tensor(*place).geometry;
  if (y.dims[2] != 1 && y.dims[3] != 1 && (y.strides[2] < y.strides[3]) != turned)
    return walk_.fail("'" + text(*load) + "' does not give k transposed, or v as it is");
  rounded_.push_back(*place);  // a copy
  *place = load->at(Port::x);
  *table = load->at(Port::page_table);
  return true;
}

// max(row maximum, sink) in place of the row maximum, and exp(sink - maximum) more in the sum.
bool Composite::take_sink(const Node& most, int row_max, int total) {
  const bool sink_first = walk_.maker(most.at(Port::x)) == nullptr;
  const int sink = most.at(sink_first ? Port::x : Port::b);
  const Tensor& t = walk_.tensor(sink);
  const std::int64_t dims[4] = {1, dims_[1], 1, 1};
  const Node* sum = made_by(total, GPUDNN_POINTWISE_ADD);
  if (!has_dims(t, dims) || t.geometry.type != GPUDNN_DATA_FLOAT || t.by_value || walk_.maker(sink) != nullptr ||
      (dims_[1] > 1 && t.geometry.strides[1] != 1) || sum == nullptr)
    return walk_.fail("'" + text(most) + "' is not the larger of a row's maximum and its head's sink");
  const bool sum_first = walk_.maker(sum->at(Port::x), Op::reduction) != nullptr;
  const Node* exp = made_by(sum->at(sum_first ? Port::b : Port::x), GPUDNN_POINTWISE_EXP);
  const Node* difference = exp == nullptr ? nullptr : made_by(exp->at(Port::x), GPUDNN_POINTWISE_SUB);
  if (difference == nullptr || difference->at(Port::x) != sink || difference->at(Port::b) != row_max)
    return walk_.fail("'" + text(*sum) + "' does not add exp(sink - maximum)");
  for (const Node* node : {&most, sum, exp, difference}) walk_.take(node);
  m_.at.sink = sink;
  m_.problem.has_sink = 1;
  return true;
}

// stats = maximum + log(sum), where they are wanted.
void Composite::take_statistics(int row_max, int total) {
  for (const Node& node : walk_.graph().nodes) {
    const int x = node.at(Port::x);
    const int b = node.at(Port::b);
    if (x < 0 || b < 0 || (x != row_max && b != row_max)) continue;
    const Node* log = made_by(x == row_max ? b : x, GPUDNN_POINTWISE_LOG);
    const int y = node.at(Port::y);
    if (made_by(y, GPUDNN_POINTWISE_ADD) == nullptr || log == nullptr || log->at(Port::x) != total) continue;
    walk_.take(&node);
    walk_.take(log);
    walk_.allow(y);
    m_.at.stats = y;
  }
}

bool Composite::take_softmax(int place) {
  const Node* quotient = made_by(place, GPUDNN_POINTWISE_DIV);
  const int e = quotient == nullptr ? -1 : quotient->at(Port::x);
  const Node* exp = made_by(e, GPUDNN_POINTWISE_EXP);
  const Node* difference = exp == nullptr ? nullptr : made_by(exp->at(Port::x), GPUDNN_POINTWISE_SUB);
  if (difference == nullptr)
    return walk_.fail("what the second matrix product reads is not exp(scores - maximum) / sum");
  for (const Node* node : {quotient, exp, difference}) walk_.take(node);
  const int scores = difference->at(Port::x);
  const int row_max = difference->at(Port::b);
  const int total = quotient->at(Port::b);
  const std::int64_t rows[4] = {dims_[0], dims_[1], dims_[2], 1};
  if (!has_dims(walk_.tensor(row_max), rows) || !has_dims(walk_.tensor(total), rows) ||
      !has_dims(walk_.tensor(e), dims_))
    return walk_.fail("maximum and sum of the softmax must be those of the rows");
  int max = row_max;
  int sum = total;
  if (const Node* most = made_by(row_max, GPUDNN_POINTWISE_MAX)) {
    if (!take_sink(*most, row_max, total)) return false;
    max = most->at(most->at(Port::x) == m_.at.sink ? Port::b : Port::x);
    const Node* add = walk_.maker(total);
    sum = add->at(walk_.maker(add->at(Port::x), Op::reduction) != nullptr ? Port::x : Port::b);
  }
  const Node* reduction = walk_.maker(max, Op::reduction, GPUDNN_REDUCE_TENSOR_MAX);
  // With a sink, the frontend declares the row's maximum with the scores' dimensions.
  const bool whole = m_.at.sink >= 0 && has_dims(walk_.tensor(max), dims_);
  if (reduction == nullptr || reduction->at(Port::x) != scores || (!whole && !has_dims(walk_.tensor(max), rows)) ||
      row_sum(sum) != e)
    return walk_.fail(
        "the softmax subtracts something else than its rows' maximum, or divides by something else than "
        "their sum");
  walk_.take(reduction);
  take_statistics(row_max, total);
  if (!walk_.tensor(row_max).is_virtual) m_.at.max = row_max;
  if (!walk_.tensor(total).is_virtual) m_.at.sum_exp = total;
  walk_.allow(row_max);
  walk_.allow(total);
  Scores masked(&walk_, &m_, dims_);
  const Node* product = nullptr;
  if (!masked.take_all(scores, &product) || !masked.settle()) return false;
  m_.at.q = product->at(Port::x);
  m_.at.k = product->at(Port::b);
  return masked.check_cut(*product, Port::m_override, Port::n_override);
}

bool Composite::forward(const Node& last) {
  walk_.take(&last);
  m_.at.o = last.at(Port::y);
  m_.at.v = last.at(Port::b);
  Float8Places& f = m_.float8;
  if (m_.is_8_bit && !take_scaled_result(last, &f.output, &f.scale_o, &f.amax_o, &m_.at.o)) return false;
  walk_.allow(m_.at.o);
  int place = last.at(Port::x);
  if (!find_scores(place)) return false;
  if (m_.is_8_bit) {
    m_.problem.p_type = walk_.tensor(place).geometry.type;
    if (!take_rounding(&place, &f.scale_s, &f.amax_s)) return false;
  }
  std::vector<int> factors;
  if (!take_dropout(&place, &factors)) return false;
  if (random_ < 0 && !factors.empty())
    return walk_.fail("the probabilities are multiplied with a number, without dropout");
  if (random_ >= 0) m_.factors.push_back({factors, 1, 0, "the factor of dropout"});
  if (!take_softmax(place)) return false;
  Scores cut(&walk_, &m_, dims_);
  if (!cut.check_cut(last, Port::m_override, Port::k_override) || !take_pages(&m_.at.k, &m_.at.page_table_k, true) ||
      !take_pages(&m_.at.v, &m_.at.page_table_v, false))
    return false;
  if ((m_.at.page_table_k >= 0) != (m_.at.page_table_v >= 0)) return walk_.fail("only one of k and v is paged");
  m_.problem.length_kv = dims_[3];
  return check_factors() && check_8_bits() && walk_.complete();
}

// A factor of dropout or of the scale that the graph does not have at all is not left to the values.
bool Composite::check_factors() {
  for (const AttentionMatch::Factors& factors : m_.factors)
    if (factors.places.empty() &&
        ((factors.keep_power != 0 && random_ >= 0) || (factors.scale_power != 0 && !m_.scales.empty())))
      return walk_.fail(std::string("the graph does not multiply with ") + factors.what);
  return true;
}

// --- backward -------------------------------------------------------------------------------------------------------

// The transposed tensor behind a RESHAPE that exchanges the last two dimensions; -1 if it is none.
int Composite::untransposed(int place) {
  const Node* node = walk_.maker(place, Op::reshape);
  if (node == nullptr) return -1;
  const TensorGeometry& to = walk_.tensor(place).geometry;
  const TensorGeometry from = transposed(reshaped(walk_.tensor(node->at(Port::x)), walk_.tensor(place)));
  if (from.rank != 4 || !same_layout(to, from)) return -1;
  walk_.take(node);
  return node->at(Port::x);
}

// The gradient that a matrix product gives: itself, or summed over the heads of a group, or converted.
int Composite::result_of(const Node& product) {
  walk_.take(&product);
  const int y = product.at(Port::y);
  for (const Node& node : walk_.graph().nodes) {
    if (node.at(Port::x) != y) continue;
    const bool sum = node.op == Op::reduction && node.mode == GPUDNN_REDUCE_TENSOR_ADD;
    if (!sum && walk_.maker(node.at(Port::y), Op::pointwise, GPUDNN_POINTWISE_IDENTITY) == nullptr) continue;
    walk_.take(&node);
    walk_.allow(y);  // scratch of the client
    walk_.allow(node.at(Port::y));
    return node.at(Port::y);
  }
  walk_.allow(y);
  return y;
}

// exp(sink - stats) * delta, summed over batch and rows. Clients leave the minus sign of the gradient out, and NVIDIA's
// library gives the gradient for it; so do the engines of attention.
bool Composite::take_dsink(int delta) {
  for (const Node& node : walk_.graph().nodes) {
    if (node.op != Op::reduction || node.mode != GPUDNN_REDUCE_TENSOR_ADD) continue;
    const Node* product = made_by(node.at(Port::x), GPUDNN_POINTWISE_MUL);
    if (product == nullptr) continue;
    const bool delta_first = product->at(Port::x) == delta;
    if (!delta_first && product->at(Port::b) != delta) continue;
    const Node* exp = made_by(product->at(delta_first ? Port::b : Port::x), GPUDNN_POINTWISE_EXP);
    const Node* difference = exp == nullptr ? nullptr : made_by(exp->at(Port::x), GPUDNN_POINTWISE_SUB);
    if (difference == nullptr || difference->at(Port::b) != stats_) continue;
    const int sink = difference->at(Port::x);
    const int y = node.at(Port::y);
    const std::int64_t dims[4] = {1, dims_[1], 1, 1};
    for (const int place : {sink, y}) {
      const Tensor& t = walk_.tensor(place);
      if (!has_dims(t, dims) || t.geometry.type != GPUDNN_DATA_FLOAT || t.by_value ||
          (dims_[1] > 1 && t.geometry.strides[1] != 1))
        return walk_.fail("sink and dSink must be floats of each head");
    }
    for (const Node* one : {&node, product, exp, difference}) walk_.take(one);
    walk_.allow(y);
    m_.at.sink = sink;
    m_.at.dsink = y;
    m_.problem.has_sink = m_.problem.has_dsink = 1;
    return true;
  }
  return true;
}

// The rows' sums of dO * O, times 1 - p.
bool Composite::take_delta(int place) {
  std::vector<int> factors;
  walk_.allow(place);
  if (!take_factors(&place, &factors)) return false;
  m_.factors.push_back({factors, -1, 0, "the factor of the row sums of dO * O"});
  delta_ = place;
  if (m_.is_8_bit) take_scalars(&place, &m_.float8.delta);
  const Node* product = made_by(row_sum(place), GPUDNN_POINTWISE_MUL);
  if (product == nullptr) return walk_.fail("what is subtracted from dO V' is not the row sums of dO * O");
  walk_.take(product);
  const bool first = product->at(Port::x) == m_.at.d_o;
  if (!first && product->at(Port::b) != m_.at.d_o) return walk_.fail("'" + text(*product) + "' is not dO * O");
  m_.at.o = product->at(first ? Port::b : Port::x);
  return take_dsink(delta_);
}

// dS = P * (dropout(dO V') - delta) * factors.
bool Composite::take_dscores(int place) {
  dscores_ = place;
  if (m_.is_8_bit) {
    m_.problem.ds_type = walk_.tensor(place).geometry.type;
    if (!take_rounding(&place, &m_.float8.scale_ds, &m_.float8.amax_ds)) return false;
  }
  std::vector<int> factors;
  std::vector<int> chain = {place};
  while (const Node* node = made_by(place, GPUDNN_POINTWISE_MUL)) {
    const int x = node->at(Port::x);
    const int b = node->at(Port::b);
    walk_.take(node);
    if (walk_.is_number(x) || walk_.is_number(b)) {
      factors.push_back(walk_.is_number(b) ? b : x);
      place = walk_.is_number(b) ? x : b;
      chain.push_back(place);
      continue;
    }
    const bool first = x == probabilities_;
    const Node* difference = made_by(first ? b : x, GPUDNN_POINTWISE_SUB);
    if ((!first && b != probabilities_) || difference == nullptr)
      return walk_.fail("'" + text(*node) + "' is not P * (dO V' - delta)");
    walk_.take(difference);
    m_.factors.push_back({factors, 1, 1, "the product of the factors of dS"});
    dscore_tensors_ = chain;
    dscore_factors_ = factors;
    int product = difference->at(Port::x);
    std::vector<int> inner;
    if (m_.is_8_bit) take_scalars(&product, &m_.float8.dp);
    if (!take_dropout(&product, &inner)) return false;
    if (m_.is_8_bit) take_scalars(&product, &m_.float8.dp);
    const Node* matmul = walk_.maker(product, Op::matmul);
    if (!inner.empty() || matmul == nullptr)
      return walk_.fail("'" + text(*difference) + "' does not subtract from dO V'");
    walk_.take(matmul);
    if (matmul->at(Port::x) != m_.at.d_o) return walk_.fail("'" + text(*matmul) + "' is not dO V'");
    m_.at.v = matmul->at(Port::b);
    return Scores(&walk_, &m_, dims_).check_cut(*matmul, Port::m_override, Port::n_override) &&
           take_delta(difference->at(Port::b));
  }
  return walk_.fail("the gradient of the scores is not P * (dO V' - delta)");
}

// The sum of dS before the scale; with dropout, behind its factor.
bool Composite::take_dbias() {
  for (const Node& node : walk_.graph().nodes) {
    const auto at = std::find(dscore_tensors_.begin(), dscore_tensors_.end(), node.at(Port::x));
    if (node.op != Op::reduction || node.mode != GPUDNN_REDUCE_TENSOR_ADD || at == dscore_tensors_.end()) continue;
    if (m_.at.dbias >= 0) return walk_.fail("two gradients of the bias are asked for");
    const auto outer = at - dscore_tensors_.begin();
    m_.factors.push_back(
        {{dscore_factors_.begin() + outer, dscore_factors_.end()}, 1, 0, "the product of the factors of dBias"});
    walk_.take(&node);
    m_.at.dbias = node.at(Port::y);
    walk_.allow(m_.at.dbias);
  }
  return true;
}

// dV = dropout(P)' dO, dK = dS' Q, dQ = dS K.
bool Composite::take_products() {
  Scores cut(&walk_, &m_, dims_);
  Float8Places& f = m_.float8;
  for (const Node& node : walk_.graph().nodes) {
    if (node.op != Op::matmul) continue;
    const int x = node.at(Port::x);
    const int b = node.at(Port::b);
    if (x == dscores_) {
      if (untransposed(b) != m_.at.k) return walk_.fail("'" + text(node) + "' is not dS K");
      if (!take_gradient(node, &f.dq, &f.scale_dq, &f.amax_dq, &m_.at.dq)) return false;
      if (m_.is_8_bit) rounded_.push_back(b);  // k, which it holds exactly
      if (!cut.check_cut(node, Port::m_override, Port::k_override)) return false;
    } else if (b == m_.at.q && walk_.maker(x, Op::reshape) != nullptr) {
      if (untransposed(x) != dscores_) return walk_.fail("'" + text(node) + "' is not dS' Q");
      if (!take_gradient(node, &f.dk, &f.scale_dk, &f.amax_dk, &m_.at.dk) || !same_rounding(x, m_.problem.ds_type))
        return false;
      if (!cut.check_cut(node, Port::k_override, Port::m_override)) return false;
    } else if (b == m_.at.d_o && walk_.maker(x, Op::reshape) != nullptr) {
      int place = untransposed(x);
      if (m_.is_8_bit && place >= 0) {
        m_.problem.p_type = walk_.tensor(place).geometry.type;
        if (!same_rounding(x, m_.problem.p_type) || !take_rounding(&place, &f.scale_s, nullptr)) return false;
      }
      std::vector<int> factors;
      const bool dropped = masks_ > 0;
      const int before = masks_;
      if (place < 0 || !take_dropout(&place, &factors) || place != probabilities_ || (masks_ > before) != dropped)
        return walk_.fail("'" + text(node) + "' is not dropout(P)' dO with the dropout of dO V'");
      m_.factors.push_back({factors, 1, 0, "the factor of dropout"});
      if (!take_gradient(node, &f.dv, &f.scale_dv, &f.amax_dv, &m_.at.dv)) return false;
      if (!cut.check_cut(node, Port::k_override, Port::m_override)) return false;
    }
  }
  return true;
}

bool Composite::backward() {
  m_.problem.backward = 1;
  // P = exp(masked(scores - stats)); the sink's exponential subtracts from a tensor of the program.
  const Node* difference = nullptr;
  for (const Node& node : walk_.graph().nodes) {
    if (made_by(node.at(Port::y), GPUDNN_POINTWISE_EXP) == nullptr) continue;
    int place = node.at(Port::x);
    while (const Node* select = made_by(place, GPUDNN_POINTWISE_BINARY_SELECT))
      place = select->at(walk_.is_number(select->at(Port::x)) ? Port::b : Port::x);
    difference = made_by(place, GPUDNN_POINTWISE_SUB);
    if (difference == nullptr || walk_.maker(difference->at(Port::x)) == nullptr ||
        walk_.maker(difference->at(Port::b)) != nullptr)
      continue;
    probabilities_ = node.at(Port::y);
    break;
  }
  if (probabilities_ < 0) return walk_.fail("no operation makes exp(scores - stats)");
  if (!find_scores(probabilities_)) return false;
  stats_ = m_.at.stats = difference->at(Port::b);
  const std::int64_t rows[4] = {dims_[0], dims_[1], dims_[2], 1};
  if (!has_dims(walk_.tensor(stats_), rows)) return walk_.fail("the statistics must be those of the rows");
  Scores scores(&walk_, &m_, dims_);
  int place = walk_.maker(probabilities_)->at(Port::x);
  walk_.take(walk_.maker(probabilities_));
  walk_.take(difference);
  const Node* product = nullptr;
  if (!scores.take_masks(&place) || !scores.take_all(difference->at(Port::x), &product) || !scores.settle() ||
      !scores.check_cut(*product, Port::m_override, Port::n_override))
    return false;
  m_.at.q = product->at(Port::x);
  m_.at.k = product->at(Port::b);
  // dS is what is multiplied with K, or, transposed, with Q; dO V' is the other product of two of the program's
  // tensors.
  int dscores = -1;
  for (const Node& node : walk_.graph().nodes) {
    if (node.op != Op::matmul || &node == product) continue;
    const int x = node.at(Port::x);
    const Node* reshape = walk_.maker(x, Op::reshape);
    if (walk_.maker(x) == nullptr && walk_.maker(node.at(Port::b)) == nullptr) m_.at.d_o = x;
    if (reshape == nullptr && walk_.maker(x) != nullptr) dscores = x;
    if (reshape != nullptr && node.at(Port::b) == m_.at.q) dscores = reshape->at(Port::x);
  }
  if (m_.at.d_o < 0 || dscores < 0) return walk_.fail("no product dO V', or none of the scores' gradient");
  return take_dscores(dscores) && take_dbias() && take_products() && check_factors() && check_8_bits() &&
         walk_.complete();
}

// Whether the numbers between operations are those that attention's engines keep: none narrower than half, but 8-bit
// floats where a walk finds their role.
bool check_types(const Graph& graph, bool* is_8_bit, std::string* why) {
  for (const Tensor& t : graph.tensors) {
    const DataType type = t.geometry.type;
    if (is_float8(type)) {
      *is_8_bit = true;
      continue;
    }
    const bool wide = type == GPUDNN_DATA_FLOAT || type == GPUDNN_DATA_DOUBLE || type == GPUDNN_DATA_HALF ||
                      type == GPUDNN_DATA_BFLOAT16 || type == GPUDNN_DATA_INT32 || type == GPUDNN_DATA_INT64 ||
                      type == GPUDNN_DATA_BOOLEAN;
    if (!wide)
      return no_match(why, "tensor " + std::to_string(t.uid) + " is " + data_type_name(type) +
                               "; composite attention is built for f16, bf16, f32, f64 and 8-bit floats");
  }
  for (const Node& node : graph.nodes)
    if (node.compute == GPUDNN_DATA_HALF || node.compute == GPUDNN_DATA_BFLOAT16)
      return no_match(why, "'" + to_text(node, graph) + "' computes in half precision; attention does in float");
  return true;
}

}  // namespace

bool match_attention(const Graph& graph, AttentionMatch* match, std::string* why) {
  if (graph.nodes.size() == 1 && (graph.nodes[0].op == Op::sdpa_fwd || graph.nodes[0].op == Op::sdpa_bwd))
    return match_operation(graph, graph.nodes[0], match, why);
  const Node* last = nullptr;
  std::ptrdiff_t products = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::matmul) continue;
    ++products;
    last = &node;
  }
  if (products < 2) return no_match(why, "the graph is neither one sdpa operation nor their composite");
  match->composite = true;
  if (!check_types(graph, &match->is_8_bit, why)) return false;
  Composite composite(graph, match, why);
  return (products == 2 ? composite.forward(*last) : composite.backward()) && finish(graph, match, why);
}

}  // namespace gpudnn::graph
