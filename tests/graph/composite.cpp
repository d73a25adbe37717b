// Random composite attention graphs.
// SPDX-License-Identifier: Apache-2.0
#include "composite.hpp"

#include <cmath>
#include <limits>

namespace gpudnn::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Writer {
 public:
  Writer(Random& random, bool narrow, bool bytes = false) : random_(random), narrow_(narrow), bytes_(bytes) {}
  Composite write();

 private:
  using Dims = std::vector<std::int64_t>;
  static std::string joined(const Dims& dims, char with) {
    std::string text;
    for (const std::int64_t dim : dims) text += (text.empty() ? "" : std::string(1, with)) + std::to_string(dim);
    return text;
  }
  std::string tensor(const std::string& type, const Dims& dims, const std::string& rest = "",
                     const Dims& strides = {}) {
    const std::string uid = std::to_string(next_++);
    tensors_ += "tensor " + uid + ' ' + type + ' ' + joined(dims, 'x') +
                (strides.empty() ? "" : " strides=" + joined(strides, ',')) + (rest.empty() ? "" : " " + rest) + '\n';
    return uid;
  }
  std::string number(double value, const std::string& type = "f32") {
    const std::string uid = tensor(type, {1, 1, 1, 1}, "by_value");
    values_.emplace_back(std::stoll(uid), std::vector<double>{value});
    return uid;
  }
  std::string operation(const std::string& words, const std::string& y) {
    operations_ += words + " y=" + y + '\n';
    return y;
  }
  std::string node(const std::string& mode, const std::string& x, const std::string& b, const std::string& y,
                   const std::string& rest = "") {
    return operation("pointwise " + mode + " x=" + x + (b.empty() ? "" : " b=" + b) + rest + " compute=f32", y);
  }
  // Operands in either order.
  std::string either(const std::string& mode, const std::string& x, const std::string& b, const std::string& y) {
    return random_.chance(0.5) ? node(mode, x, b, y) : node(mode, b, x, y);
  }
  std::string scores(const std::string& type = "f32") { return tensor(type, {b_, h_, q_, k_}, "virtual"); }
  std::string row() { return tensor("f32", {b_, h_, q_, 1}, "virtual"); }
  std::string index(int axis, const std::string& of) {
    return node("gen_index", of, "", scores("i32"), " axis=" + std::to_string(axis));
  }
  std::string select(const std::string& x, const std::string& condition) {
    const std::string hidden = number(-kInfinity);
    if (random_.chance(0.2)) {  // what is hidden is selected by the opposite
      const std::string turned = node("logical_not", condition, "", scores("bool"));
      return node("binary_select", hidden, x, scores(), " t=" + turned);
    }
    return node("binary_select", x, hidden, scores(), " t=" + condition);
  }
  std::string cut(const char* q_port, const char* kv_port) const {
    return padded_ && cut_ ? std::string(" ") + q_port + '=' + length_q_ + ' ' + kv_port + '=' + length_kv_ : "";
  }

  // Of 8-bit floats: a product with a number in memory, up to two of them, the greatest magnitude.
  std::string times(const std::string& x, double value, const std::string& y) {
    const std::string uid = tensor("f32", {1, 1, 1, 1});
    values_.emplace_back(std::stoll(uid), std::vector<double>{value});
    return either("mul", x, uid, y);
  }
  std::string descaled(std::string x, const Dims& dims) {
    for (int i = 0; bytes_ && i < 2; ++i)
      if (random_.chance(0.7)) x = times(x, 0.9, tensor("f32", dims, "virtual"));
    return x;
  }
  void amax(const std::string& x) {
    if (bytes_ && random_.chance(0.6)) operation("reduction amax x=" + x + " compute=f32", tensor("f32", {1, 1, 1, 1}));
  }
  std::string rounded(const std::string& x, double scale) {
    if (!bytes_) return x;
    amax(x);
    return times(x, scale, scores(type_));
  }
  // A product that is one of the graph's results: of all heads, then of the groups of them.
  std::string result(const std::string& words, const Dims& full, const Dims& dims, const Dims& strides = {}) {
    if (!bytes_)
      return reduced(operation(words, full == dims ? tensor(type_, dims, "", strides) : tensor(type_, full, "virtual")),
                     full, dims);
    std::string x = operation(words, tensor("f32", full, "virtual"));
    if (full != dims) x = operation("reduction add x=" + x + " compute=f32", tensor("f32", dims, "virtual"));
    x = descaled(x, dims);
    amax(x);
    return times(x, 1.1, tensor(random_.chance(0.6) ? type_ : random_.pick({"bf16", "f32"}), dims, "", strides));
  }
  // The sum over the heads of a group, where there are groups.
  std::string reduced(const std::string& x, const Dims& full, const Dims& dims) {
    return full == dims ? x : operation("reduction add x=" + x + " compute=f32", tensor(type_, dims));
  }

  void choose();
  std::string masked_by_lengths(const std::string& s);
  std::string bounded(std::string s);
  std::string added(std::string s);
  std::string scaled(const std::string& s);
  void forward();
  void backward();

  Random& random_;
  const bool narrow_, bytes_;
  std::string tensors_, operations_;
  std::vector<std::pair<std::int64_t, std::vector<double>>> values_;
  std::int64_t next_ = 1;
  std::int64_t b_ = 1, h_ = 1, hk_ = 1, hv_ = 1, q_ = 1, k_ = 1, d_ = 1, w_ = 1;
  std::string type_;
  bool padded_ = false, cut_ = false, has_scale_ = false, backward_ = false;
  std::string length_q_, length_kv_, scale_;
};

void Writer::choose() {
  b_ = random_.between(1, 3);
  hk_ = random_.between(1, 2);
  hv_ = random_.between(1, 2);
  h_ = 2 * random_.between(1, 2);
  q_ = random_.between(1, 20);
  k_ = random_.between(1, 24);
  d_ = random_.between(1, 9);
  w_ = random_.between(1, 9);
  type_ = narrow_ ? random_.pick({"f32", "f16", "bf16"}) : "f32";
  if (bytes_) type_ = random_.pick({"f8e4m3", "f8e5m2"});
  padded_ = random_.chance(0.3);
  cut_ = random_.chance(0.7);
  has_scale_ = random_.chance(0.8);
  backward_ = random_.chance(0.5);
  if (!padded_) return;
  length_q_ = tensor("i32", {b_, 1, 1, 1});
  length_kv_ = tensor("i32", {b_, 1, 1, 1});
  for (const auto& [uid, most] : {std::pair{length_q_, q_}, std::pair{length_kv_, k_}}) {
    std::vector<double> lengths;
    for (std::int64_t i = 0; i < b_; ++i) lengths.push_back(static_cast<double>(random_.between(0, most)));
    values_.emplace_back(std::stoll(uid), lengths);
  }
}

std::string Writer::scaled(const std::string& s) {
  if (!has_scale_) return descaled(s, {b_, h_, q_, k_});
  scale_ = number(0.5);
  return descaled(either("mul", s, scale_, scores()), {b_, h_, q_, k_});
}

std::string Writer::masked_by_lengths(const std::string& s) {
  if (!padded_) return s;
  const std::string row_inside = node("cmp_lt", index(2, s), length_q_, scores("bool"));
  const std::string column_inside = random_.chance(0.5) ? node("cmp_lt", index(3, s), length_kv_, scores("bool"))
                                                        : node("cmp_gt", length_kv_, index(3, s), scores("bool"));
  return select(s, either("logical_and", row_inside, column_inside, scores("bool")));
}

// Soft cap, bias and ALiBi.
std::string Writer::added(std::string s) {
  if (!backward_ && random_.chance(0.2)) {
    const std::string quotient = node("div", s, number(2), scores());
    s = either("mul", node("tanh_fwd", quotient, "", scores()), number(2), scores());
  }
  if (random_.chance(0.3)) {
    const std::string bias =
        tensor(bytes_ ? "f16" : type_, {random_.chance(0.5) ? b_ : 1, random_.chance(0.5) ? h_ : 1, q_, k_});
    s = either("add", s, bias, scores());
  }
  if (random_.chance(0.2)) {
    const std::string distance = node("sub", index(3, s), index(2, s), scores("i32"));
    const std::string slopes = tensor("f32", {1, h_, 1, 1});
    values_.emplace_back(std::stoll(slopes), std::vector<double>{0.125, -0.0625, 0.25});
    s = either("add", s, either("mul", distance, slopes, scores()), scores());
  }
  return s;
}

std::string Writer::bounded(std::string s) {
  const bool from_last = padded_ && random_.chance(0.5);
  if (random_.chance(0.6)) {
    std::string r = index(2, s);
    if (from_last) {
      r = node("add", r, length_kv_, scores("i32"));
      r = node("sub", r, length_q_, scores("i32"));
    }
    if (random_.chance(0.5))
      r = node("add", r, number(static_cast<double>(random_.between(-3, 5)), "i32"), scores("i32"));
    const std::string c = index(3, s);
    const std::string mode = random_.pick({"cmp_ge", "cmp_gt"});
    s = select(s, random_.chance(0.5) ? node(mode, r, c, scores("bool"))
                                      : node(mode == "cmp_ge" ? "cmp_le" : "cmp_lt", c, r, scores("bool")));
  }
  if (random_.chance(0.4)) {
    const std::string r = index(2, s);
    std::string c = node("add", index(3, s),
                         number(static_cast<double>(random_.between(-2, 8)) + (from_last ? 0 : 0.5)), scores("f32"));
    if (from_last) {
      c = node("sub", c, length_kv_, scores("f32"));
      c = node("add", c, length_q_, scores("f32"));
    }
    s = select(s, node(random_.pick({"cmp_gt", "cmp_ge"}), c, r, scores("bool")));
  }
  return s;
}

void Writer::forward() {
  const std::string q = tensor(type_, {b_, h_, q_, d_}, "", {q_ * h_ * d_, d_, h_ * d_, 1});
  std::string k, v;
  if (padded_ && random_.chance(0.3)) {  // pages of 4
    // The interpreter tells a transposed load by its extents.
    while ((k_ + 3) / 4 * 4 == d_ || (k_ + 3) / 4 * 4 == w_ || k_ == d_ || k_ == w_) ++k_;
    const std::int64_t pages = (k_ + 3) / 4;
    const auto load = [&](std::int64_t heads, std::int64_t width, bool turned) {
      const std::string container = tensor(type_, {b_ * pages, heads, 4, width});
      const std::string table = tensor("i32", {b_, 1, pages, 1});
      std::vector<double> places;
      for (std::int64_t i = 0; i < b_ * pages; ++i) places.push_back(static_cast<double>(b_ * pages - 1 - i));
      values_.emplace_back(std::stoll(table), places);
      const std::string y =
          turned ? tensor(type_, {b_, heads, width, k_}, "virtual", {heads * width * k_, width * k_, 1, width})
                 : tensor(type_, {b_, heads, k_, width}, "virtual");
      return operation("paged_load x=" + container + " seq_len=" + length_kv_ + " page_table=" + table, y);
    };
    k = load(hk_, d_, true);
    v = load(hv_, w_, false);
  } else {
    k = tensor(type_, {b_, hk_, d_, k_}, "", {hk_ * d_ * k_, d_ * k_, 1, d_});
    v = tensor(type_, {b_, hv_, k_, w_}, "", {hv_ * k_ * w_, w_, hv_ * w_, 1});
  }
  std::string s = operation("matmul x=" + q + " b=" + k + cut("m_override", "n_override") + " compute=f32", scores());
  s = bounded(masked_by_lengths(added(scaled(s))));
  // Rows beyond a length have statistics of -inf from attention, and the sink from the operations.
  const bool sink = !padded_ && random_.chance(0.2);
  const bool parts = !sink && random_.chance(0.2);
  std::string most = operation("reduction max x=" + s + " compute=f32", parts ? tensor("f32", {b_, h_, q_, 1}) : row());
  const std::string sinks = sink ? tensor("f32", {1, h_, 1, 1}) : "";
  if (sink) most = either("max", most, sinks, row());
  const std::string e = node("exp", node("sub", s, most, scores()), "", scores());
  std::string sum = operation("reduction add x=" + e + " compute=f32", parts ? tensor("f32", {b_, h_, q_, 1}) : row());
  if (sink) sum = either("add", sum, node("exp", node("sub", sinks, most, row()), "", row()), row());
  if (!parts && random_.chance(0.7))
    either("add", most, node("log", sum, "", row()), random_.chance(0.7) ? tensor("f32", {b_, h_, q_, 1}) : row());
  const bool dropout = random_.chance(0.3);
  const std::string unrounded = bytes_ ? "f32" : type_;
  std::string p = node("div", e, sum, scores(dropout ? "f32" : unrounded));
  if (dropout) {
    const std::string integer = random_.pick({"i32", "i64"});
    const std::string mask =
        operation("rng bernoulli seed=" + tensor(integer, {1, 1, 1, 1}, random_.chance(0.3) ? "by_value" : "") +
                      " offset=" + tensor(integer, {1, 1, 1, 1}) + " probability=0.75",
                  random_.chance(0.3) ? tensor("f32", {b_, h_, q_, k_}) : scores());
    p = either("mul", either("mul", p, mask, scores()), number(1 / 0.75), scores(unrounded));
  }
  p = rounded(p, 64);
  const Dims of_rows = {b_, h_, q_, w_};
  result("matmul x=" + p + " b=" + v + cut("m_override", "k_override") + " compute=f32", of_rows, of_rows,
         {q_ * h_ * w_, w_, h_ * w_, 1});
}

void Writer::backward() {
  const std::string q = tensor(type_, {b_, h_, q_, d_});
  const Dims kt_strides = {hk_ * d_ * k_, d_ * k_, 1, d_};
  const std::string k = tensor(type_, {b_, hk_, d_, k_}, "", kt_strides);
  const std::string v = tensor(type_, {b_, hv_, w_, k_}, "", {hv_ * w_ * k_, w_ * k_, 1, w_});
  const std::string o = tensor(type_, {b_, h_, q_, w_});
  const std::string d_o = tensor(type_, {b_, h_, q_, w_}, "", {q_ * h_ * w_, w_, h_ * w_, 1});
  const std::string stats = tensor("f32", {b_, h_, q_, 1});
  std::vector<double> rows;  // so large that no probability is beyond 1 by much
  for (std::int64_t i = 0; i < b_ * h_ * q_; ++i) rows.push_back(8 + random_.normal());
  values_.emplace_back(std::stoll(stats), rows);
  const bool dropout = random_.chance(0.3);
  std::string mask, factor;
  if (dropout) {
    mask = operation("rng bernoulli seed=" + tensor("i64", {1, 1, 1, 1}) + " offset=" + tensor("i64", {1, 1, 1, 1}) +
                         " probability=0.75",
                     scores());
    factor = number(1 / 0.75);
  }
  const std::string delta = descaled(
      operation("reduction add x=" + either("mul", d_o, o, tensor("f32", {b_, h_, q_, w_}, "virtual")) + " compute=f32",
                row()),
      {b_, h_, q_, 1});
  if (!padded_ && random_.chance(0.2)) {
    const std::string sink = node("exp", node("sub", tensor("f32", {1, h_, 1, 1}), stats, row()), "", row());
    operation("reduction add x=" + either("mul", sink, delta, row()) + " compute=f32", tensor("f32", {1, h_, 1, 1}));
  }
  const std::string row_sum =
      either("mul", delta, number(dropout ? 0.75 : 1), random_.chance(0.5) ? row() : tensor("f32", {b_, h_, q_, 1}));
  std::string s = operation("matmul x=" + q + " b=" + k + cut("m_override", "n_override") + " compute=f32", scores());
  s = masked_by_lengths(added(scaled(s)));
  s = bounded(node("sub", s, stats, scores()));
  // Clients take the strides of a virtual tensor from whatever has its extents, as a bias that is broadcast.
  Dims odd = {0, q_ * k_, k_, 1};
  if (random_.chance(0.5)) odd = {h_ * q_ * k_, 1, k_ * h_, h_};
  if (random_.chance(0.6)) odd.clear();
  const std::string p = node("exp", s, "", tensor("f32", {b_, h_, q_, k_}, "virtual", odd));
  std::string kept = p;
  if (dropout) kept = either("mul", either("mul", p, mask, scores()), factor, scores());
  const Dims turned = {h_ * q_ * k_, q_ * k_, 1, k_};
  if (bytes_) kept = times(kept, 4096, scores(type_));
  const std::string pt = operation("reshape x=" + kept, tensor(type_, {b_, h_, k_, q_}, "virtual", turned));
  result("matmul x=" + pt + " b=" + d_o + cut("k_override", "m_override") + " compute=f32", {b_, h_, k_, w_},
         {b_, hv_, k_, w_});
  std::string dp =
      descaled(operation("matmul x=" + d_o + " b=" + v + cut("m_override", "n_override") + " compute=f32", scores()),
               {b_, h_, q_, k_});
  if (dropout) dp = either("mul", dp, mask, scores());
  std::string ds =
      either("mul", node("sub", dp, row_sum, scores()), p, tensor("f32", {b_, h_, q_, k_}, "virtual", odd));
  if (dropout) ds = either("mul", ds, factor, scores());
  if (!bytes_ && random_.chance(0.3))
    operation("reduction add x=" + ds + " compute=f32", tensor(type_, {1, random_.chance(0.5) ? h_ : 1, q_, k_}));
  if (has_scale_) ds = either("mul", ds, scale_, scores());
  ds = rounded(ds, 1024);
  const std::string dst = operation("reshape x=" + ds, tensor(type_, {b_, h_, k_, q_}, "virtual", turned));
  result("matmul x=" + dst + " b=" + q + cut("k_override", "m_override") + " compute=f32", {b_, h_, k_, d_},
         {b_, hk_, k_, d_});
  const std::string straight = operation("reshape x=" + k, tensor("f32", {b_, hk_, k_, d_}, "virtual"));
  const std::string dq_words = "matmul x=" + ds + " b=" + straight + cut("m_override", "k_override") + " compute=f32";
  const Dims dq_dims = {b_, h_, q_, d_};
  if (bytes_) {
    result(dq_words, dq_dims, dq_dims);
    return;
  }
  const std::string dq = tensor(type_, dq_dims);
  const bool accumulated = random_.chance(0.5);
  const std::string first = accumulated ? tensor("f32", {b_, h_, q_, d_}) : dq;
  operation(dq_words, first);
  if (accumulated) node("identity", first, "", dq);
}

Composite Writer::write() {
  choose();
  backward_ ? backward() : forward();
  Composite composite;
  composite.text = tensors_ + operations_;
  composite.type = type_ == "f32" ? GPUDNN_DATA_FLOAT : type_ == "f16" ? GPUDNN_DATA_HALF : GPUDNN_DATA_BFLOAT16;
  if (bytes_) composite.type = type_ == "f8e4m3" ? GPUDNN_DATA_FP8_E4M3 : GPUDNN_DATA_FP8_E5M2;
  composite.values = std::move(values_);
  return composite;
}

}  // namespace

Composite random_composite(Random& random, bool narrow) { return Writer(random, narrow).write(); }
Composite random_8_bit_composite(Random& random) { return Writer(random, false, true).write(); }

namespace {

// Numbers that scale 8-bit floats: products of about 1 before they are rounded to a result, larger ones for
// probabilities and their gradients.
void set_8_bit_scales(const graph::Graph& graph, Memory* memory, Random& random) {
  const auto is_8_bit = [](const graph::Tensor& t) {
    return t.geometry.type == GPUDNN_DATA_FP8_E4M3 || t.geometry.type == GPUDNN_DATA_FP8_E5M2;
  };
  bool any = false;
  for (const graph::Tensor& t : graph.tensors) any = any || is_8_bit(t);
  if (!any) return;
  for (const graph::Node& node : graph.nodes) {
    if (node.op != graph::Op::pointwise || node.at(graph::Port::b) < 0) continue;
    const graph::Tensor& b = *graph.tensor(node, graph::Port::b);
    const graph::Tensor& y = *graph.tensor(node, graph::Port::y);
    if (b.is_virtual || b.by_value || b.geometry.type != GPUDNN_DATA_FLOAT) continue;
    if (node.mode == GPUDNN_POINTWISE_SUB) memory->set_all(b.uid, 6);  // the statistics
    if (node.mode != GPUDNN_POINTWISE_MUL || element_count(b.geometry) != 1) continue;
    memory->set_all(b.uid, is_8_bit(y) && y.is_virtual ? 128 : 0.5 + 0.01 * static_cast<double>(random.between(0, 49)));
  }
}

}  // namespace

void set_recorded_values(const graph::Graph& graph, Memory* memory, Random& random) {
  set_places(graph, memory);
  set_8_bit_scales(graph, memory, random);
  double keep = 1;
  for (const graph::Node& node : graph.nodes)
    if (node.op == graph::Op::rng) keep = node.probability;
  for (const graph::Node& node : graph.nodes) {
    if (node.op != graph::Op::pointwise || node.at(graph::Port::x) < 0 || node.at(graph::Port::b) < 0) continue;
    const graph::Tensor& x = *graph.tensor(node, graph::Port::x);
    const graph::Tensor& b = *graph.tensor(node, graph::Port::b);
    if (b.geometry.type == GPUDNN_DATA_INT32 && !b.is_virtual && !b.by_value && b.geometry.rank == 4 &&
        b.geometry.dims[1] == 1) {
      std::vector<double> lengths;
      for (std::int64_t i = 0; i < b.geometry.dims[0]; ++i)
        lengths.push_back(static_cast<double>(random.between(0, 128)));
      memory->set(b.uid, lengths);
    }
    if (x.geometry.type == GPUDNN_DATA_INT32 && node.mode == GPUDNN_POINTWISE_MUL)
      memory->set_all(b.uid, 0.05);  // ALiBi
    if (!b.by_value) continue;
    const std::int64_t columns = x.geometry.dims[x.geometry.rank - 1];
    if (node.mode == GPUDNN_POINTWISE_BINARY_SELECT) memory->set_all(b.uid, -kInfinity);
    if (node.mode == GPUDNN_POINTWISE_ADD || node.mode == GPUDNN_POINTWISE_SUB)
      memory->set_all(b.uid, static_cast<double>(random.between(1, 40)));
    if (node.mode != GPUDNN_POINTWISE_MUL) continue;
    memory->set_all(b.uid, columns == 1 ? keep : 0.125);  // the row sums' factor, or the scale
  }
  // What products with the random mask are multiplied with, here or further on.
  for (const graph::Node& node : graph.nodes) {
    const graph::Tensor* b = graph.tensor(node, graph::Port::b);
    if (node.op != graph::Op::pointwise || node.mode != GPUDNN_POINTWISE_MUL || !b->by_value) continue;
    for (const graph::Node& product : graph.nodes)
      for (const graph::Node& rng : graph.nodes)
        if (rng.op == graph::Op::rng && product.at(graph::Port::y) == node.at(graph::Port::x) &&
            product.at(graph::Port::b) == rng.at(graph::Port::y))
          memory->set_all(b->uid, 1 / keep);
  }
}

Memory recorded_inputs(const std::string& file, const GraphCase& one, const graph::Graph& graph, Random* random) {
  Memory memory(graph, random);
  if (file.starts_with("attention") || one.name.starts_with("sdpa")) {
    set_recorded_values(graph, &memory, *random);
  } else {
    set_places(graph, &memory);
  }
  return memory;
}

}  // namespace gpudnn::test
