// The composite attention operations of the host interpreter: O = softmax(scale * Q K^T, masked) V, and its gradients.
// A row without any key has O = 0, statistics of -inf and no gradient.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/interpret/state.hpp"

namespace gpudnn::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Attention {
  const Node& node;
  State& state;
  std::int64_t batches, heads, rows, keys, depth, width, key_heads, value_heads;
  double scale;

  Attention(const Node& n, State* s) : node(n), state(*s) {
    const Array& q = *s->in(n, Port::q);
    const Array& k = *s->in(n, Port::k);
    const Array& v = *s->in(n, Port::v);
    batches = q.dims[0], heads = q.dims[1], rows = q.dims[2], depth = q.dims[3];
    key_heads = k.dims[1], value_heads = v.dims[1], width = v.dims[3];
    keys = k.dims[2];
    if (const Array* table = s->in(n, Port::page_table_k)) keys = table->dims[2] * k.dims[2];
    scale = s->number(n, Port::scale, 1);
  }

  [[nodiscard]] std::int64_t length(Port port, Port tensor, std::int64_t b, std::int64_t whole) const {
    std::int64_t n = whole;
    if (const Array* of = state.in(node, port))
      n = std::clamp<std::int64_t>(static_cast<std::int64_t>(of->at(b)), 0, whole);
    const Tensor* t = state.graph().tensor(node, tensor);
    return t->ragged == Tensor::kNone ? n : std::min(n, state.rows_of(*t, b));
  }
  [[nodiscard]] std::int64_t query_rows(std::int64_t b) const { return length(Port::seq_len_q, Port::q, b, rows); }
  [[nodiscard]] std::int64_t key_rows(std::int64_t b) const { return length(Port::seq_len_kv, Port::k, b, keys); }

  // A row of K or V, through the page table where there is one; null where the table points nowhere.
  [[nodiscard]] const double* row_of(Port port, Port table_port, std::int64_t b, std::int64_t h, std::int64_t r) const {
    const Array& a = *state.in(node, port);
    const Array* table = state.in(node, table_port);
    std::int64_t first = b;
    if (table != nullptr) {
      first = static_cast<std::int64_t>(table->at(b * table->dims[1] * table->dims[2] + r / a.dims[2]));
      r %= a.dims[2];
      if (first < 0 || first >= a.dims[0]) return nullptr;
    }
    const std::int64_t head = h / (heads / a.dims[1]);
    return &a.v[static_cast<std::size_t>(((first * a.dims[1] + head) * a.dims[2] + r) * a.dims[3])];
  }

  [[nodiscard]] bool kept(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const Array* mask = state.in(node, Port::block_mask);
    if (mask == nullptr) return true;
    const std::int64_t column = j / 128;
    const std::int64_t batch = mask->dims[0] == 1 ? 0 : b;
    const std::int64_t head = mask->dims[1] == 1 ? 0 : h;
    const auto bits = static_cast<unsigned>(
        mask->at(((batch * mask->dims[1] + head) * mask->dims[2] + i / 128) * mask->dims[3] + column / 8));
    return (bits >> (column % 8) & 1) != 0;
  }

  // Scores of a query row over `count` keys; -inf where masked.
  void scores(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t count, std::vector<double>* s) const {
    const Array& q = *state.in(node, Port::q);
    const double* row = &q.v[static_cast<std::size_t>(((b * heads + h) * rows + i) * depth)];
    s->assign(static_cast<std::size_t>(count), -kInfinity);
    for (std::int64_t j = 0; j < count; ++j) {
      const double* key = row_of(Port::k, Port::page_table_k, b, h, j);
      if (key == nullptr || !kept(b, h, i, j)) continue;
      double sum = 0;
      for (std::int64_t d = 0; d < depth; ++d) sum += row[d] * key[d];
      (*s)[static_cast<std::size_t>(j)] = scale * sum;
    }
  }
};

void run_forward(const Attention& a, Array* o, Array* stats) {
  for_each_index(3, {a.batches, a.heads, a.rows}, a.keys * (a.depth + a.width), [&](std::int64_t flat, const Dims& at) {
    if (stats != nullptr) stats->at(flat) = -kInfinity;
    if (at[2] >= a.query_rows(at[0])) return;
    std::vector<double> s;
    a.scores(at[0], at[1], at[2], a.key_rows(at[0]), &s);
    double most = -kInfinity;
    for (const double value : s) most = std::isnan(value) || value > most ? value : most;
    if (most == -kInfinity) return;
    double sum = 0;
    for (double& value : s) sum += value = std::exp(value - most);
    double* to = &o->v[static_cast<std::size_t>(flat * a.width)];
    for (std::size_t j = 0; j < s.size(); ++j) {
      if (s[j] == 0) continue;
      const double* value = a.row_of(Port::v, Port::page_table_v, at[0], at[1], static_cast<std::int64_t>(j));
      for (std::int64_t d = 0; value != nullptr && d < a.width; ++d) to[d] += s[j] / sum * value[d];
    }
    if (stats != nullptr) stats->at(flat) = most + std::log(sum);
  });
}

// dV = P^T dO; dS = P (dO V^T - rowsum(dO O)); dQ = scale dS K; dK = scale dS^T Q.
void run_backward(const Attention& a, State* state) {
  const Node& node = a.node;
  Array* dq = state->out(node, Port::dq);
  Array* dk = state->out(node, Port::dk);
  Array* dv = state->out(node, Port::dv);
  const Array& q = *state->in(node, Port::q);
  const Array& o = *state->in(node, Port::o);
  const Array& d_o = *state->in(node, Port::d_o);
  const Array& stats = *state->in(node, Port::stats);
  std::vector<double> s;
  for (std::int64_t b = 0; b < a.batches; ++b)
    for (std::int64_t h = 0; h < a.heads; ++h)
      for (std::int64_t i = 0; i < a.query_rows(b); ++i) {
        const std::int64_t row = (b * a.heads + h) * a.rows + i;
        if (stats.at(row) == -kInfinity) continue;
        a.scores(b, h, i, a.key_rows(b), &s);
        double product = 0;
        for (std::int64_t d = 0; d < a.width; ++d) product += o.at(row * a.width + d) * d_o.at(row * a.width + d);
        for (std::size_t j = 0; j < s.size(); ++j) {
          if (s[j] == -kInfinity) continue;
          const auto key = static_cast<std::int64_t>(j);
          const double p = std::exp(s[j] - stats.at(row));
          const double* value = a.row_of(Port::v, Port::page_table_v, b, h, key);
          const double* k = a.row_of(Port::k, Port::page_table_k, b, h, key);
          double dp = 0;
          const std::int64_t v_row = ((b * a.value_heads + h / (a.heads / a.value_heads)) * a.keys + key) * a.width;
          for (std::int64_t d = 0; d < a.width; ++d) {
            dp += d_o.at(row * a.width + d) * value[d];
            dv->at(v_row + d) += p * d_o.at(row * a.width + d);
          }
          const double ds = a.scale * p * (dp - product);
          const std::int64_t k_row = ((b * a.key_heads + h / (a.heads / a.key_heads)) * a.keys + key) * a.depth;
          for (std::int64_t d = 0; d < a.depth; ++d) {
            dq->at(row * a.depth + d) += ds * k[d];
            dk->at(k_row + d) += ds * q.at(row * a.depth + d);
          }
        }
      }
}

}  // namespace

Status interpret_attention(const Node& node, State* state) {
  const Attention attention(node, state);
  if (node.op == Op::sdpa_bwd) {
    run_backward(attention, state);
  } else {
    Array* o = state->out(node, Port::o);
    run_forward(attention, o, state->out(node, Port::stats));
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
