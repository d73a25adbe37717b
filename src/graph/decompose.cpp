// SPDX-License-Identifier: Apache-2.0
#include "graph/decompose.hpp"

#include <algorithm>
#include <iterator>

#include "core/float8.hpp"

namespace gpudnn::graph {
namespace {

// Writes the operations that stand for one. What computes returns the place of its result: a new virtual tensor.
class Writer {
 public:
  Writer(const Graph& graph, const Node& node)
      : tensors(graph.tensors),
        node_(node),
        type_(node.compute == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT) {
    for (const Tensor& t : graph.tensors) uid_ = std::max(uid_, t.uid);
  }

  std::vector<Tensor> tensors;
  std::vector<Node> nodes;

  [[nodiscard]] int at(Port port) const { return node_.at(port); }
  [[nodiscard]] bool has(Port port) const { return node_.at(port) >= 0; }
  [[nodiscard]] const TensorGeometry& geometry(int place) const {
    return tensors[static_cast<std::size_t>(place)].geometry;
  }

  // A new virtual tensor with the strides of `like`, without gaps.
  int temporary(const TensorGeometry& like) {
    Tensor t;
    t.uid = ++uid_;
    t.is_virtual = true;
    t.geometry = like;
    t.geometry.type = type_;
    if (!is_dense(t.geometry)) set_packed_strides(&t.geometry, GPUDNN_TENSOR_NCHW);
    tensors.push_back(t);
    return static_cast<int>(tensors.size()) - 1;
  }

  // mode(alpha * x, alpha2 * b), with the dims that the two broadcast to.
  int pointwise(gpudnnPointwiseMode_t mode, int x, int b = -1, double alpha = 1, double alpha2 = 1) {
    const int y = temporary(b < 0 ? geometry(x) : broadcast(geometry(x), geometry(b)));
    add_pointwise(mode, x, b, y, alpha, alpha2);
    return y;
  }
  // A reduction of x to the extents of `like`.
  int reduce(gpudnnReduceTensorOp_t mode, int x, const TensorGeometry& like) {
    const int y = temporary(like);
    Node reduction;
    reduction.op = Op::reduction;
    reduction.mode = mode;
    reduction.compute = type_;
    reduction.links = {{Port::x, x}, {Port::y, y}};
    nodes.push_back(std::move(reduction));
    return y;
  }
  void copy(int x, int y) { add_pointwise(GPUDNN_POINTWISE_IDENTITY, x, -1, y, 1, 1); }
  // alpha * x is the operation's output at the port, if it has one.
  void put(Port port, int x, double alpha = 1) {
    if (has(port)) add_pointwise(GPUDNN_POINTWISE_IDENTITY, x, -1, at(port), alpha, 1);
  }

 private:
  static TensorGeometry broadcast(const TensorGeometry& x, const TensorGeometry& b) {
    TensorGeometry wide = x.rank >= b.rank ? x : b;
    const TensorGeometry& other = x.rank >= b.rank ? b : x;
    for (int i = 1; i <= other.rank; ++i)
      wide.dims[wide.rank - i] = std::max(wide.dims[wide.rank - i], other.dims[other.rank - i]);
    return wide;
  }

  void add_pointwise(gpudnnPointwiseMode_t mode, int x, int b, int y, double alpha, double alpha2) {
    Node result;
    result.op = Op::pointwise;
    result.mode = mode;
    result.compute = type_;
    result.alpha = alpha;
    result.alpha2 = alpha2;
    result.links.push_back({Port::x, x});
    if (b >= 0) result.links.push_back({Port::b, b});
    result.links.push_back({Port::y, y});
    nodes.push_back(std::move(result));
  }

  const Node& node_;
  DataType type_;
  std::int64_t uid_ = 0;
};

// The geometry of one number a channel.
TensorGeometry by_channel(const TensorGeometry& x) {
  TensorGeometry result = x;
  for (int i = 0; i < result.rank; ++i)
    if (i != 1) result.dims[i] = 1;
  return result;
}

double elements_per(const TensorGeometry& x, const TensorGeometry& statistics) {
  return static_cast<double>(element_count(x)) / static_cast<double>(element_count(statistics));
}

// 1 / sqrt(variance + epsilon).
int inverse_deviation(Writer* w, int variance) {
  const int sum = w->has(Port::epsilon) ? w->pointwise(GPUDNN_POINTWISE_ADD, variance, w->at(Port::epsilon)) : variance;
  return w->pointwise(GPUDNN_POINTWISE_RSQRT, sum);
}

// (x - mean) * inverse
int normalized(Writer* w, int x, int mean, int inverse) {
  const int distance = mean < 0 ? x : w->pointwise(GPUDNN_POINTWISE_SUB, x, mean);
  return w->pointwise(GPUDNN_POINTWISE_MUL, distance, inverse);
}

// out = before + factor * (now - before); now alone where there is no before or no factor.
void put_running(Writer* w, Port before, Port out, int now) {
  if (!w->has(out)) return;
  if (!w->has(Port::factor)) return w->put(out, now);
  if (!w->has(before)) return w->put(out, w->pointwise(GPUDNN_POINTWISE_MUL, now, w->at(Port::factor)));
  const int step = w->pointwise(GPUDNN_POINTWISE_SUB, now, w->at(before));
  const int part = w->pointwise(GPUDNN_POINTWISE_MUL, step, w->at(Port::factor));
  w->put(out, w->pointwise(GPUDNN_POINTWISE_ADD, w->at(before), part));
}

struct Statistics {
  int mean = -1;
  int inverse = -1;
};

// Of x; and the running statistics and those saved.
Statistics measured(Writer* w, const TensorGeometry& like, bool training) {
  const int x = w->at(Port::x);
  Statistics s;
  s.mean = w->reduce(GPUDNN_REDUCE_TENSOR_AVG, x, like);
  const int distance = w->pointwise(GPUDNN_POINTWISE_SUB, x, s.mean);
  const int square = w->pointwise(GPUDNN_POINTWISE_MUL, distance, distance);
  const int variance = w->reduce(GPUDNN_REDUCE_TENSOR_AVG, square, like);
  s.inverse = inverse_deviation(w, variance);
  if (!training) return s;
  const double n = elements_per(w->geometry(x), like);
  const int unbiased = w->pointwise(GPUDNN_POINTWISE_IDENTITY, variance, -1, n > 1 ? n / (n - 1) : 1);
  put_running(w, Port::running_mean_in, Port::running_mean_out, s.mean);
  put_running(w, Port::running_var_in, Port::running_var_out, unbiased);
  w->put(Port::mean, s.mean);
  w->put(Port::inverse, s.inverse);
  return s;
}

bool write_norm_forward(Writer* w, const Node& node) {
  const bool given = node.at(Port::inverse) >= 0 && !is_output(node, Port::inverse);
  if (!given && node.mode != GPUDNN_BATCH_NORM) return false;
  const TensorGeometry x = w->geometry(w->at(Port::x));
  Statistics s{w->at(Port::mean), w->at(Port::inverse)};
  if (!given) {
    const Port saved = w->has(Port::inverse) ? Port::inverse : Port::mean;
    const TensorGeometry like = w->has(saved) ? w->geometry(w->at(saved)) : by_channel(x);
    if (like.rank != x.rank) return false;
    s = measured(w, like, node.phase == GPUDNN_NORM_FWD_TRAINING);
  }
  int y = normalized(w, w->at(Port::x), s.mean, s.inverse);
  if (w->has(Port::scale)) y = w->pointwise(GPUDNN_POINTWISE_MUL, y, w->at(Port::scale));
  if (w->has(Port::bias)) y = w->pointwise(GPUDNN_POINTWISE_ADD, y, w->at(Port::bias));
  w->put(Port::y, y);
  return true;
}

// The sums over each channel of dy * xhat and of dy; xhat is (x - mean) * inverse.
struct Sums {
  int weighted = -1;
  int plain = -1;
};
Sums gradient_sums(Writer* w, const TensorGeometry& like) {
  const int xhat = normalized(w, w->at(Port::x), w->at(Port::mean), w->at(Port::inverse));
  const int weighted = w->pointwise(GPUDNN_POINTWISE_MUL, w->at(Port::dy), xhat);
  Sums sums;
  sums.weighted = w->reduce(GPUDNN_REDUCE_TENSOR_ADD, weighted, like);
  sums.plain = w->reduce(GPUDNN_REDUCE_TENSOR_ADD, w->at(Port::dy), like);
  return sums;
}

// dx = scale * inverse * (dy - sum(dy) / n - xhat * sum(dy * xhat) / n)
bool write_norm_backward(Writer* w, const Node& node) {
  if (node.mode != GPUDNN_BATCH_NORM || !w->has(Port::mean) || !w->has(Port::inverse) || !w->has(Port::scale))
    return false;
  const TensorGeometry x = w->geometry(w->at(Port::x));
  const TensorGeometry like = w->geometry(w->at(Port::inverse));
  const TensorGeometry& scale = w->geometry(w->at(Port::scale));
  if (like.rank != x.rank || scale.rank != x.rank || !std::equal(scale.dims, scale.dims + scale.rank, like.dims))
    return false;
  const double share = 1 / elements_per(x, like);
  const Sums sums = gradient_sums(w, like);
  // Once more in the second pass over the tensors, instead of kept in between.
  const int xhat = normalized(w, w->at(Port::x), w->at(Port::mean), w->at(Port::inverse));
  const int along = w->pointwise(GPUDNN_POINTWISE_MUL, xhat, sums.weighted, 1, share);
  const int rest = w->pointwise(GPUDNN_POINTWISE_SUB, w->at(Port::dy), sums.plain, 1, share);
  const int gradient = w->pointwise(GPUDNN_POINTWISE_SUB, rest, along);
  const int factor = w->pointwise(GPUDNN_POINTWISE_MUL, w->at(Port::scale), w->at(Port::inverse));
  w->put(Port::dx, w->pointwise(GPUDNN_POINTWISE_MUL, gradient, factor));
  w->put(Port::dscale, sums.weighted);
  w->put(Port::dbias, sums.plain);
  return true;
}

bool write_statistics(Writer* w) {
  const int x = w->at(Port::x);
  const int square = w->pointwise(GPUDNN_POINTWISE_MUL, x, x);
  const TensorGeometry like = w->geometry(w->has(Port::sum) ? w->at(Port::sum) : w->at(Port::sqsum));
  const int sum = w->reduce(GPUDNN_REDUCE_TENSOR_ADD, x, like);
  const int squares = w->reduce(GPUDNN_REDUCE_TENSOR_ADD, square, like);
  w->put(Port::sum, sum);
  w->put(Port::sqsum, squares);
  return true;
}

bool write_finalize(Writer* w, const Node& node) {
  int mean = w->at(Port::running_mean_in);
  int variance = w->at(Port::running_var_in);
  if (node.mode == GPUDNN_BN_FINALIZE_STATISTICS_TRAINING) {
    if (!w->has(Port::count)) return false;
    const int n = w->at(Port::count);
    mean = w->pointwise(GPUDNN_POINTWISE_DIV, w->at(Port::sum), n);
    const int squares = w->pointwise(GPUDNN_POINTWISE_DIV, w->at(Port::sqsum), n);
    const int difference = w->pointwise(GPUDNN_POINTWISE_SUB, squares, w->pointwise(GPUDNN_POINTWISE_MUL, mean, mean));
    variance = w->pointwise(GPUDNN_POINTWISE_RELU_FWD, difference);
    // n / max(n - 1, 1)
    const int one = w->pointwise(GPUDNN_POINTWISE_DIV, n, n);
    const int others = w->pointwise(GPUDNN_POINTWISE_MAX, w->pointwise(GPUDNN_POINTWISE_SUB, n, one), one);
    const int unbiased = w->pointwise(GPUDNN_POINTWISE_MUL, variance, w->pointwise(GPUDNN_POINTWISE_DIV, n, others));
    put_running(w, Port::running_mean_in, Port::running_mean_out, mean);
    put_running(w, Port::running_var_in, Port::running_var_out, unbiased);
  }
  const int inverse = inverse_deviation(w, variance);
  const int scale = w->pointwise(GPUDNN_POINTWISE_MUL, w->at(Port::scale), inverse);
  const int shift = w->pointwise(GPUDNN_POINTWISE_MUL, mean, scale);
  w->put(Port::mean, mean);
  w->put(Port::inverse, inverse);
  w->put(Port::eq_scale, scale);
  w->put(Port::eq_bias, w->pointwise(GPUDNN_POINTWISE_SUB, w->at(Port::bias), shift));
  return true;
}

// dx = a * dy + c * x + e of batch normalization, with a = scale * inverse, c = -a * inverse * dscale / n and
// e = -a * dbias / n - c * mean.
bool write_weights(Writer* w) {
  const TensorGeometry like = w->geometry(w->at(Port::mean));
  const double share = 1 / elements_per(w->geometry(w->at(Port::x)), like);
  const Sums sums = gradient_sums(w, like);
  const int a = w->pointwise(GPUDNN_POINTWISE_MUL, w->at(Port::scale), w->at(Port::inverse));
  const int slope = w->pointwise(GPUDNN_POINTWISE_MUL, w->at(Port::inverse), sums.weighted, -1, share);
  const int c = w->pointwise(GPUDNN_POINTWISE_MUL, a, slope);
  const int from_dy = w->pointwise(GPUDNN_POINTWISE_MUL, a, sums.plain, -1, share);
  const int from_x = w->pointwise(GPUDNN_POINTWISE_MUL, c, w->at(Port::mean));
  w->put(Port::dscale, sums.weighted);
  w->put(Port::dbias, sums.plain);
  w->put(Port::eq_dy_scale, a);
  w->put(Port::eq_x_scale, c);
  w->put(Port::eq_bias, w->pointwise(GPUDNN_POINTWISE_SUB, from_dy, from_x));
  return true;
}

// A product of tensors of 8 and 16 bits and float ones, or of narrow ones with a float result: its operands become
// float, and its result is rounded from float.
bool write_product(Writer* w, const Node& node) {
  Node product = node;
  bool differs = false;
  int rounded = -1;
  for (Link& link : product.links) {
    const TensorGeometry& g = w->geometry(link.tensor);
    if (link.port == Port::m_override || link.port == Port::n_override || link.port == Port::k_override) return false;
    if (g.type == GPUDNN_DATA_FLOAT) continue;
    if (g.type != GPUDNN_DATA_HALF && g.type != GPUDNN_DATA_BFLOAT16 && !is_float8(g.type)) return false;
    differs = true;
    if (is_output(node, link.port)) {
      rounded = link.tensor;
      link.tensor = w->temporary(g);
    } else {
      link.tensor = w->pointwise(GPUDNN_POINTWISE_IDENTITY, link.tensor);
    }
  }
  if (!differs || product.beta != 0 || node.compute == GPUDNN_DATA_DOUBLE) return false;
  product.compute = GPUDNN_DATA_FLOAT;
  const int result = std::find_if(product.links.begin(), product.links.end(), [&](const Link& link) {
                       return is_output(node, link.port);
                     })->tensor;
  w->nodes.push_back(std::move(product));
  if (rounded >= 0) w->copy(result, rounded);
  return true;
}

bool write(Writer* w, const Node& node) {
  if (node.at(Port::item) >= 0) return false;  // statistics of peers
  switch (node.op) {
    case Op::norm_fwd:
      return write_norm_forward(w, node);
    case Op::norm_bwd:
      return write_norm_backward(w, node);
    case Op::gen_stats:
      return write_statistics(w);
    case Op::bn_finalize:
      return write_finalize(w, node);
    case Op::bn_weights:
      return write_weights(w);
    case Op::matmul:
    case Op::conv_fwd:
    case Op::conv_dgrad:
    case Op::conv_wgrad:
      return write_product(w, node);
    default:
      return false;
  }
}

// Drops operations whose results are new tensors that no later one reads.
void drop_unread(std::vector<Node>* nodes, std::size_t known) {
  std::vector<Node> kept;
  std::vector<std::int32_t> read;
  for (auto node = nodes->rbegin(); node != nodes->rend(); ++node) {
    bool is_read = false;
    for (const Link& link : node->links) {
      const bool is_new = static_cast<std::size_t>(link.tensor) >= known;
      if (is_output(*node, link.port))
        is_read = is_read || !is_new || std::find(read.begin(), read.end(), link.tensor) != read.end();
    }
    if (!is_read) continue;
    for (const Link& link : node->links)
      if (!is_output(*node, link.port)) read.push_back(link.tensor);
    kept.push_back(std::move(*node));
  }
  nodes->assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

}  // namespace

std::optional<Graph> decomposed(const Graph& graph, std::size_t node) {
  Writer writer(graph, graph.nodes[node]);
  if (!write(&writer, graph.nodes[node])) return std::nullopt;
  drop_unread(&writer.nodes, graph.tensors.size());
  Graph result;
  result.dynamic_shapes = graph.dynamic_shapes;
  result.tensors = std::move(writer.tensors);
  result.nodes.assign(graph.nodes.begin(), graph.nodes.begin() + static_cast<std::ptrdiff_t>(node));
  result.nodes.insert(result.nodes.end(), writer.nodes.begin(), writer.nodes.end());
  result.nodes.insert(result.nodes.end(), graph.nodes.begin() + static_cast<std::ptrdiff_t>(node) + 1,
                      graph.nodes.end());
  return result;
}

}  // namespace gpudnn::graph
