// The graph builder against plain loops, on fresh random data.
//
// Longer than most files: each kind of operation has its plain loop beside its test.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gpudnn/gpudnn.hpp"

namespace {

using gpudnn::Extents;
using gpudnn::Graph;
using gpudnn::Tensor;
using Values = std::vector<float>;

std::mt19937& generator() {
  static std::mt19937 engine([] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    const auto seed = static_cast<unsigned>(now);
    ::testing::Test::RecordProperty("seed", std::to_string(seed));
    std::printf("seed %u\n", seed);
    return seed;
  }());
  return engine;
}

Values random_values(std::int64_t count, float least = -1, float most = 1) {
  std::uniform_real_distribution<float> draw(least, most);
  Values values(static_cast<std::size_t>(count));
  for (float& value : values) value = draw(generator());
  return values;
}

// A graph with its data: runs it and gives an output's values.
class Trial {
 public:
  gpudnn::Handle handle;
  Graph graph;

  Tensor input(const Extents& dims, Values* values, float least = -1, float most = 1) {
    const Tensor t = graph.tensor({dims});
    *values = random_values(t.elements(), least, most);
    buffers_.emplace_back(handle, *values);
    bindings_.emplace_back(t, buffers_.back());
    return t;
  }
  void output(const Tensor& t) {
    // Poisoned: what is not written is NaN.
    buffers_.emplace_back(handle, Values(static_cast<std::size_t>(t.elements()), std::nanf("")));
    bindings_.emplace_back(t, buffers_.back());
  }
  void run() {
    graph.build(handle);
    const gpudnn::Buffer workspace(handle, graph.workspace_size());
    graph.execute(handle, bindings_, workspace);
  }
  Values values(const Tensor& t) const {
    for (std::size_t i = 0; i < bindings_.size(); ++i)
      if (bindings_[i].tensor.uid() == t.uid()) return buffers_[i].download<float>();
    return {};
  }

 private:
  std::vector<gpudnn::Buffer> buffers_;
  std::vector<gpudnn::Binding> bindings_;
};

// `sum` bounds the magnitude of what was added up in float, whose rounding is 2^-24 of it an addition.
void expect_near(const Values& found, const std::vector<double>& wanted, double sum, int additions) {
  ASSERT_EQ(found.size(), wanted.size());
  const double bound = sum * (additions + 8) * std::ldexp(1.0, -23);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], bound) << "element " << i;
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

TEST(CppGraph, ConvolutionBiasRelu) {
  Trial r;
  Values x, w, bias;
  const Tensor tx = r.input({2, 3, 7, 6}, &x);
  const Tensor tw = r.input({4, 3, 3, 3}, &w);
  const Tensor tb = r.input({1, 4, 1, 1}, &bias);
#if __cplusplus >= 202002L
  const Tensor ty = r.graph.relu(r.graph.add(r.graph.conv(tx, tw, {.padding = {1, 1}, .stride = {2, 1}}), tb));
#else
  const Tensor ty = r.graph.relu(r.graph.add(r.graph.conv(tx, tw, {{1, 1}, {2, 1}}), tb));
#endif
  EXPECT_EQ(ty.dims(), (Extents{2, 4, 4, 6}));
  r.output(ty);
  r.run();
  std::vector<double> wanted;
  for (int n = 0; n < 2; ++n)
    for (int k = 0; k < 4; ++k)
      for (int p = 0; p < 4; ++p)
        for (int q = 0; q < 6; ++q) {
          double sum = bias[at(k)];
          for (int c = 0; c < 3; ++c)
            for (int i = 0; i < 3; ++i)
              for (int j = 0; j < 3; ++j) {
                const int h = 2 * p + i - 1;
                const int v = q + j - 1;
                if (h < 0 || h >= 7 || v < 0 || v >= 6) continue;
                sum += double{x[at(((n * 3 + c) * 7 + h) * 6 + v)]} * double{w[at(((k * 3 + c) * 3 + i) * 3 + j)]};
              }
          wanted.push_back(std::max(sum, 0.0));
        }
  expect_near(r.values(ty), wanted, 28, 28);
}

TEST(CppGraph, ChannelsLastResultsFollowTheInput) {
  Graph graph;
  const Tensor x = graph.tensor({{2, 8, 5, 5}, true});
  const Tensor w = graph.tensor({{16, 8, 3, 3}, true});
  const Tensor y = graph.conv(x, w, {{1, 1}});
  EXPECT_EQ(x.strides(), (Extents{200, 1, 40, 8}));
  EXPECT_EQ(y.strides(), (Extents{400, 1, 80, 16}));
}

// Gradients by both definitions: <conv(x, w), dy> = <x, dgrad> = <w, wgrad>.
TEST(CppGraph, ConvolutionGradients) {
  Trial r;
  Values x, w, dy;
  const Tensor tx = r.input({2, 3, 6, 5}, &x);
  const Tensor tw = r.input({4, 3, 3, 2}, &w);
  const Tensor tdy = r.input({2, 4, 6, 4}, &dy);
  const gpudnn::ConvOptions options{{1, 0}};
  const Tensor y = r.graph.conv(tx, tw, options);
  ASSERT_EQ(y.dims(), (Extents{2, 4, 6, 4}));
  const Tensor dx = r.graph.conv_dgrad(tdy, tw, {2, 3, 6, 5}, options);
  const Tensor dw = r.graph.conv_wgrad(tx, tdy, {4, 3, 3, 2}, options);
  for (const Tensor& t : {y, dx, dw}) r.output(t);
  r.run();
  const auto dot = [](const Values& a, const Values& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
    return sum;
  };
  const double forward = dot(r.values(y), dy);
  const double bound = 192.0 * 18 * 40 * std::ldexp(1.0, -23);
  EXPECT_NEAR(dot(r.values(dx), x), forward, bound);
  EXPECT_NEAR(dot(r.values(dw), w), forward, bound);
  EXPECT_NE(forward, 0);
}

TEST(CppGraph, MatmulGelu) {
  Trial r;
  Values a, b;
  const Tensor ta = r.input({3, 4, 8}, &a);
  const Tensor tb = r.input({1, 8, 5}, &b);  // shared by the batch
  const Tensor ty = r.graph.gelu(r.graph.matmul(ta, tb));
  EXPECT_EQ(ty.dims(), (Extents{3, 4, 5}));
  r.output(ty);
  r.run();
  std::vector<double> wanted;
  for (int n = 0; n < 3; ++n)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 5; ++j) {
        double sum = 0;
        for (int k = 0; k < 8; ++k) sum += double{a[at((n * 4 + i) * 8 + k)]} * double{b[at(k * 5 + j)]};
        wanted.push_back(0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0))));
      }
  expect_near(r.values(ty), wanted, 8, 8);
}

TEST(CppGraph, EveryUnaryMode) {
  using Function = double (*)(double);
  struct Row {
    const char* name;
    Tensor (Graph::*operation)(Tensor, const gpudnn::PointwiseOptions&);
    Function wanted;
    float least;
  };
  const Row rows[] = {
      {"abs", &Graph::abs, [](double v) { return std::fabs(v); }, -2},
      {"ceil", &Graph::ceil, [](double v) { return std::ceil(v); }, -2},
      {"cos", &Graph::cos, [](double v) { return std::cos(v); }, -2},
      {"erf", &Graph::erf, [](double v) { return std::erf(v); }, -2},
      {"exp", &Graph::exp, [](double v) { return std::exp(v); }, -2},
      {"floor", &Graph::floor, [](double v) { return std::floor(v); }, -2},
      {"identity", &Graph::identity, [](double v) { return v; }, -2},
      {"log", &Graph::log, [](double v) { return std::log(v); }, 0.5F},
      {"neg", &Graph::neg, [](double v) { return -v; }, -2},
      {"reciprocal", &Graph::reciprocal, [](double v) { return 1 / v; }, 0.5F},
      {"rsqrt", &Graph::rsqrt, [](double v) { return 1 / std::sqrt(v); }, 0.5F},
      {"sin", &Graph::sin, [](double v) { return std::sin(v); }, -2},
      {"sqrt", &Graph::sqrt, [](double v) { return std::sqrt(v); }, 0.5F},
      {"tan", &Graph::tan, [](double v) { return std::tan(v / 2) * 2 / (1 - std::tan(v / 2) * std::tan(v / 2)); }, 0},
      {"relu", &Graph::relu, [](double v) { return std::max(v, 0.0); }, -2},
      {"tanh", &Graph::tanh, [](double v) { return std::tanh(v); }, -2},
      {"sigmoid", &Graph::sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }, -2},
      {"elu", &Graph::elu, [](double v) { return v > 0 ? v : std::expm1(v); }, -2},
      {"gelu", &Graph::gelu, [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }, -2},
      {"softplus", &Graph::softplus, [](double v) { return std::log1p(std::exp(v)); }, -2},
      {"swish", &Graph::swish, [](double v) { return v / (1 + std::exp(-v)); }, -2},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Trial r;
    Values x;
    const Tensor tx = r.input({3, 17}, &x, row.least, row.least == 0 ? 1.2F : 2.F);
    const Tensor ty = (r.graph.*row.operation)(tx, {});
    r.output(ty);
    r.run();
    std::vector<double> wanted;
    for (const float v : x) wanted.push_back(row.wanted(v));
    expect_near(r.values(ty), wanted, 8, 8);
  }
}

TEST(CppGraph, BinaryModesBroadcastAndTakeNumbers) {
  Trial r;
  Values a, b;
  const Tensor ta = r.input({2, 3, 4}, &a);
  const Tensor tb = r.input({1, 3, 1}, &b, 0.5F, 1);
  Graph& g = r.graph;
  const Tensor y = g.add(g.div(g.mul(g.sub(ta, tb), 2.5), tb), g.max(ta, 0.25));
  const Tensor masked = g.select(g.less(ta, tb), ta, tb);
  r.output(y);
  r.output(masked);
  r.run();
  std::vector<double> wanted;
  std::vector<double> wanted_masked;
  for (int i = 0; i < 24; ++i) {
    const double x = a[at(i)];
    const double z = b[at(i / 4 % 3)];
    wanted.push_back((x - z) * 2.5 / z + std::max(x, 0.25));
    wanted_masked.push_back(x < z ? x : z);
  }
  expect_near(r.values(y), wanted, 12, 8);
  expect_near(r.values(masked), wanted_masked, 1, 0);
}

TEST(CppGraph, BackwardModesAreSlopes) {
  using Backward = Tensor (Graph::*)(Tensor, Tensor, const gpudnn::PointwiseOptions&);
  struct Row {
    Backward operation;
    double (*function)(double);
  };
  const Row rows[] = {
      {&Graph::tanh_backward, [](double v) { return std::tanh(v); }},
      {&Graph::sigmoid_backward, [](double v) { return 1 / (1 + std::exp(-v)); }},
      {&Graph::relu_backward, [](double v) { return std::max(v, 0.0); }},
      {&Graph::gelu_backward, [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }},
      {&Graph::softplus_backward, [](double v) { return std::log1p(std::exp(v)); }},
      {&Graph::swish_backward, [](double v) { return v / (1 + std::exp(-v)); }},
  };
  for (const Row& row : rows) {
    Trial r;
    Values dy, x;
    const Tensor tdy = r.input({4, 9}, &dy);
    const Tensor tx = r.input({4, 9}, &x, 0.1F, 2);  // away from the kink
    const Tensor dx = (r.graph.*row.operation)(tdy, tx, {});
    r.output(dx);
    r.run();
    const Values found = r.values(dx);
    constexpr double kStep = 1e-5;  // the difference quotient errs by its square, and rounding by 1e-16 / kStep
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double slope = (row.function(x[i] + kStep) - row.function(x[i] - kStep)) / (2 * kStep);
      EXPECT_NEAR(found[i], slope * double{dy[i]}, 1e-5);
    }
  }
}

TEST(CppGraph, Reductions) {
  Trial r;
  Values x;
  const Tensor tx = r.input({2, 3, 5}, &x);
  const Tensor sum = r.graph.reduce_sum(tx, {1, 2});
  const Tensor mean = r.graph.reduce_mean(tx);
  const Tensor most = r.graph.reduce_max(tx, {2});
  const Tensor least = r.graph.reduce_min(tx, {0});
  EXPECT_EQ(sum.dims(), (Extents{2, 1, 1}));
  EXPECT_EQ(mean.dims(), (Extents{1, 1, 1}));
  EXPECT_EQ(most.dims(), (Extents{2, 3, 1}));
  EXPECT_EQ(least.dims(), (Extents{1, 3, 5}));
  for (const Tensor& t : {sum, mean, most, least}) r.output(t);
  r.run();
  std::vector<double> sums(2, 0);
  std::vector<double> means(1, 0);
  std::vector<double> maxima(6, -2);
  std::vector<double> minima(15, 2);
  for (int i = 0; i < 30; ++i) {
    const double v = x[at(i)];
    sums[at(i / 15)] += v;
    means[0] += v / 30;
    maxima[at(i / 5)] = std::max(maxima[at(i / 5)], v);
    minima[at(i % 15)] = std::min(minima[at(i % 15)], v);
  }
  expect_near(r.values(sum), sums, 15, 15);
  expect_near(r.values(mean), means, 1, 30);
  expect_near(r.values(most), maxima, 0, 0);
  expect_near(r.values(least), minima, 0, 0);
}

TEST(CppGraph, LayerNormForwardAndBackward) {
  Trial r;
  Values x, scale, bias, dy;
  const Tensor tx = r.input({6, 32}, &x);
  const Tensor ts = r.input({1, 32}, &scale);
  const Tensor tb = r.input({1, 32}, &bias);
  gpudnn::NormOptions options;
  options.statistics = true;
  const gpudnn::NormResult norm = r.graph.layer_norm(tx, ts, tb, options);
  EXPECT_EQ(norm.mean.dims(), (Extents{6, 1}));
  for (const Tensor& t : {norm.y, norm.mean, norm.inv_variance}) r.output(t);
  r.run();
  std::vector<double> means, inverses, wanted;
  for (int n = 0; n < 6; ++n) {
    double mean = 0;
    double square = 0;
    for (int c = 0; c < 32; ++c) mean += x[at(n * 32 + c)] / 32.0;
    for (int c = 0; c < 32; ++c) square += (x[at(n * 32 + c)] - mean) * (x[at(n * 32 + c)] - mean) / 32.0;
    means.push_back(mean);
    inverses.push_back(1 / std::sqrt(square + 1e-5));
    for (int c = 0; c < 32; ++c)
      wanted.push_back((x[at(n * 32 + c)] - mean) * inverses.back() * double{scale[at(c)]} + double{bias[at(c)]});
  }
  expect_near(r.values(norm.y), wanted, 6, 64);
  expect_near(r.values(norm.mean), means, 1, 32);
  expect_near(r.values(norm.inv_variance), inverses, 8, 64);

  // Backward of the same data, in a graph of its own.
  Trial b;
  Values unused;
  const Tensor bx = b.graph.tensor({{6, 32}});
  const Tensor bs = b.graph.tensor({{1, 32}});
  const Tensor bm = b.graph.tensor({{6, 1}});
  const Tensor bi = b.graph.tensor({{6, 1}});
  const Tensor bdy = b.graph.tensor({{6, 32}});
  dy = random_values(192);
  const gpudnn::NormGradients gradients = b.graph.norm_backward(GPUDNN_LAYER_NORM, bdy, bx, bs, bm, bi);
  b.graph.build(b.handle);
  const gpudnn::Buffer px(b.handle, x), ps(b.handle, scale), pm(b.handle, r.values(norm.mean)),
      pi(b.handle, r.values(norm.inv_variance)), pdy(b.handle, dy), pdx(b.handle, 192 * 4), pds(b.handle, 32 * 4),
      pdb(b.handle, 32 * 4), workspace(b.handle, b.graph.workspace_size());
  b.graph.execute(b.handle,
                  {{bx, px},
                   {bs, ps},
                   {bm, pm},
                   {bi, pi},
                   {bdy, pdy},
                   {gradients.dx, pdx},
                   {gradients.dscale, pds},
                   {gradients.dbias, pdb}},
                  workspace);
  std::vector<double> dscale(32, 0);
  std::vector<double> dbias(32, 0);
  for (int i = 0; i < 192; ++i) {
    const auto n = at(i / 32);
    dbias[at(i % 32)] += dy[at(i)];
    dscale[at(i % 32)] += double{dy[at(i)]} * (x[at(i)] - means[n]) * inverses[n];
  }
  expect_near(pds.download<float>(), dscale, 24, 64);
  expect_near(pdb.download<float>(), dbias, 6, 8);
}

TEST(CppGraph, RmsNorm) {
  Trial r;
  Values x, scale;
  const Tensor tx = r.input({5, 24}, &x);
  const Tensor ts = r.input({1, 24}, &scale);
  const Tensor ty = r.graph.rms_norm(tx, ts);
  r.output(ty);
  r.run();
  std::vector<double> wanted;
  for (int n = 0; n < 5; ++n) {
    double square = 0;
    for (int c = 0; c < 24; ++c) square += double{x[at(n * 24 + c)]} * double{x[at(n * 24 + c)]} / 24.0;
    for (int c = 0; c < 24; ++c)
      wanted.push_back(double{x[at(n * 24 + c)]} / std::sqrt(square + 1e-5) * double{scale[at(c)]});
  }
  expect_near(r.values(ty), wanted, 6, 48);
}

TEST(CppGraph, BatchNormTrainingAndInference) {
  Trial r;
  Values x, scale, bias, running_mean, running_var;
  const Tensor tx = r.input({4, 3, 2, 5}, &x);
  const Tensor ts = r.input({1, 3, 1, 1}, &scale);
  const Tensor tb = r.input({1, 3, 1, 1}, &bias);
  const Tensor tm = r.input({1, 3, 1, 1}, &running_mean);
  const Tensor tv = r.input({1, 3, 1, 1}, &running_var, 0.5F, 1);
  const gpudnn::NormResult norm = r.graph.batch_norm(tx, ts, tb, tm, tv);
  EXPECT_EQ(norm.mean.dims(), (Extents{1, 3, 1, 1}));
  for (const Tensor& t : {norm.y, norm.mean, norm.inv_variance, norm.next_running_mean, norm.next_running_var})
    r.output(t);
  r.run();
  std::vector<double> means(3, 0);
  std::vector<double> squares(3, 0);
  std::vector<double> wanted;
  std::vector<double> next;
  const auto channel = [](int i) { return at(i / 10 % 3); };
  for (int i = 0; i < 120; ++i) means[channel(i)] += x[at(i)] / 40.0;
  for (int i = 0; i < 120; ++i) squares[channel(i)] += std::pow(x[at(i)] - means[channel(i)], 2) / 40.0;
  for (int i = 0; i < 120; ++i) {
    const auto c = channel(i);
    wanted.push_back((x[at(i)] - means[c]) / std::sqrt(squares[c] + 1e-5) * double{scale[c]} + double{bias[c]});
  }
  for (std::size_t c = 0; c < 3; ++c) next.push_back(0.9 * double{running_mean[c]} + 0.1 * means[c]);
  expect_near(r.values(norm.y), wanted, 6, 80);
  expect_near(r.values(norm.mean), means, 1, 40);
  expect_near(r.values(norm.next_running_mean), next, 2, 40);

  Trial i;
  Values m, inv, s, b;
  const Tensor ix = i.input({4, 3, 2, 5}, &x);
  const Tensor im = i.input({1, 3, 1, 1}, &m);
  const Tensor ii = i.input({1, 3, 1, 1}, &inv, 0.5F, 2);
  const Tensor is = i.input({1, 3, 1, 1}, &s);
  const Tensor ib = i.input({1, 3, 1, 1}, &b);
  const Tensor iy = i.graph.batch_norm_inference(ix, im, ii, is, ib);
  i.output(iy);
  i.run();
  wanted.clear();
  for (int e = 0; e < 120; ++e) {
    const auto c = channel(e);
    wanted.push_back((double{x[at(e)]} - double{m[c]}) * double{inv[c]} * double{s[c]} + double{b[c]});
  }
  expect_near(i.values(iy), wanted, 6, 4);
}

TEST(CppGraph, AttentionForwardAndBackwardRun) {
  Trial r;
  Values q, k, v;
  const Tensor tq = r.input({2, 4, 6, 8}, &q);
  const Tensor tk = r.input({2, 2, 5, 8}, &k);  // two heads share one of k and v
  const Tensor tv = r.input({2, 2, 5, 8}, &v);
  gpudnn::AttentionOptions options;
  options.statistics = true;
  const gpudnn::AttentionResult attention = r.graph.attention(tq, tk, tv, options);
  EXPECT_EQ(attention.o.dims(), (Extents{2, 4, 6, 8}));
  r.output(attention.o);
  r.output(attention.statistics);
  r.run();
  std::vector<double> wanted;
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 4; ++h)
      for (int i = 0; i < 6; ++i) {
        std::vector<double> weight;
        double total = 0;
        for (int j = 0; j < 5; ++j) {
          double score = 0;
          for (int d = 0; d < 8; ++d)
            score += double{q[at(((b * 4 + h) * 6 + i) * 8 + d)]} * double{k[at(((b * 2 + h / 2) * 5 + j) * 8 + d)]};
          weight.push_back(std::exp(score / std::sqrt(8.0)));
          total += weight.back();
        }
        for (int d = 0; d < 8; ++d) {
          double sum = 0;
          for (int j = 0; j < 5; ++j) sum += weight[at(j)] / total * double{v[at(((b * 2 + h / 2) * 5 + j) * 8 + d)]};
          wanted.push_back(sum);
        }
      }
  expect_near(r.values(attention.o), wanted, 4, 32);

  // The gradient by v of sum(o) is the sum of the probabilities: over all keys, the number of rows.
  Trial g;
  const Tensor gq = g.graph.tensor({{2, 4, 6, 8}});
  const Tensor gk = g.graph.tensor({{2, 2, 5, 8}});
  const Tensor gv = g.graph.tensor({{2, 2, 5, 8}});
  const Tensor go = g.graph.tensor({{2, 4, 6, 8}});
  const Tensor gd = g.graph.tensor({{2, 4, 6, 8}});
  const Tensor gs = g.graph.tensor({{2, 4, 6, 1}});
  const gpudnn::AttentionGradients gradients = g.graph.attention_backward(gq, gk, gv, go, gd, gs);
  g.graph.build(g.handle);
  const gpudnn::Buffer pq(g.handle, q), pk(g.handle, k), pv(g.handle, v), po(g.handle, r.values(attention.o)),
      pd(g.handle, Values(384, 1)), ps(g.handle, r.values(attention.statistics)), pdq(g.handle, 384 * 4),
      pdk(g.handle, 160 * 4), pdv(g.handle, 160 * 4), workspace(g.handle, g.graph.workspace_size());
  g.graph.execute(g.handle,
                  {{gq, pq},
                   {gk, pk},
                   {gv, pv},
                   {go, po},
                   {gd, pd},
                   {gs, ps},
                   {gradients.dq, pdq},
                   {gradients.dk, pdk},
                   {gradients.dv, pdv}},
                  workspace);
  const Values dv = pdv.download<float>();
  for (int group = 0; group < 4; ++group)
    for (int d = 0; d < 8; ++d) {
      double sum = 0;
      for (int j = 0; j < 5; ++j) sum += dv[at((group * 5 + j) * 8 + d)];
      EXPECT_NEAR(sum, 12, 12 * 64 * std::ldexp(1.0, -23));  // 6 rows of 2 heads
    }
}

TEST(CppGraph, PoolingForwardAndBackward) {
  Trial r;
  Values x, dy;
  const Tensor tx = r.input({1, 2, 6, 6}, &x);
  const Tensor most = r.graph.max_pool(tx, {2, 2});
  const Tensor mean = r.graph.avg_pool(tx, {3, 3}, {}, {3, 3});
  const Tensor tdy = r.input({1, 2, 3, 3}, &dy);
  gpudnn::ResampleOptions options;
  options.window = {2, 2};
  const Tensor dx = r.graph.resample_backward(tdy, tx, {}, options);
  EXPECT_EQ(most.dims(), (Extents{1, 2, 3, 3}));
  EXPECT_EQ(mean.dims(), (Extents{1, 2, 2, 2}));
  for (const Tensor& t : {most, mean, dx}) r.output(t);
  r.run();
  std::vector<double> maxima, means;
  std::vector<double> gradients(72, 0);
  for (int c = 0; c < 2; ++c) {
    for (int p = 0; p < 9; ++p) {
      int best = -1;
      for (int i = 0; i < 4; ++i) {
        const int place = c * 36 + (p / 3 * 2 + i / 2) * 6 + p % 3 * 2 + i % 2;
        if (best < 0 || x[at(place)] > x[at(best)]) best = place;
      }
      maxima.push_back(x[at(best)]);
      gradients[at(best)] += dy[at(c * 9 + p)];
    }
    for (int p = 0; p < 4; ++p) {
      double sum = 0;
      for (int i = 0; i < 9; ++i) sum += x[at(c * 36 + (p / 2 * 3 + i / 3) * 6 + p % 2 * 3 + i % 3)];
      means.push_back(sum / 9);
    }
  }
  expect_near(r.values(most), maxima, 0, 0);
  expect_near(r.values(mean), means, 1, 9);
  expect_near(r.values(dx), gradients, 0, 0);
}

TEST(CppGraph, ReshapeConcatAndIndices) {
  Trial r;
  Values a, b;
  const Tensor ta = r.input({2, 6}, &a);
  const Tensor tb = r.input({2, 2, 3}, &b);
  const Tensor y = r.graph.concat({r.graph.reshape(ta, {2, 2, 3}).set_output(false), tb}, 1);
  EXPECT_EQ(y.dims(), (Extents{2, 4, 3}));
  const Tensor masked = r.graph.select(r.graph.greater(r.graph.gen_index(tb, 2), 0.5), tb, r.graph.scalar(-7, 3));
  r.output(y);
  r.output(masked);
  r.run();
  std::vector<double> wanted, wanted_masked;
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 6; ++i) wanted.push_back(a[at(n * 6 + i)]);
    for (int i = 0; i < 6; ++i) wanted.push_back(b[at(n * 6 + i)]);
  }
  for (int i = 0; i < 12; ++i) wanted_masked.push_back(i % 3 > 0 ? double{b[at(i)]} : -7.0);
  expect_near(r.values(y), wanted, 0, 0);
  expect_near(r.values(masked), wanted_masked, 0, 0);
}

// --- what goes wrong ------------------------------------------------------------------------------------------------

TEST(CppGraph, MistakesAreKeptAndToldByBuild) {
  const gpudnn::Handle handle;
  Graph graph;
  const Tensor a = graph.tensor({{2, 3}});
  const Tensor b = graph.tensor({{4, 5}});
  const Tensor nothing = graph.matmul(a, b);
  EXPECT_FALSE(nothing);
  (void)graph.relu(nothing);  // no crash, and the first mistake stands
  const gpudnn::Status status = graph.try_build(handle);
  EXPECT_EQ(status.code(), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(status.text().find("2x3 times 4x5"), std::string::npos) << status.text();
  EXPECT_THROW(graph.build(handle), gpudnn::Error);
  EXPECT_FALSE(graph.try_execute(handle, {}));
}

TEST(CppGraph, OperandsOfAnotherGraphAreRefused) {
  const gpudnn::Handle handle;
  Graph one;
  Graph other;
  const Tensor x = one.tensor({{4}});
  (void)other.relu(x);
  EXPECT_NE(other.try_build(handle).text().find("another graph"), std::string::npos);
  const Tensor y = one.relu(x);
  one.build(handle);
  float data[4] = {};
  Graph third;
  const Tensor z = third.tensor({{4}});
  EXPECT_NE(one.try_execute(handle, {{z, data}}).text().find("another graph"), std::string::npos);
  const gpudnn::Status missing = one.try_execute(handle, {{x, data}});
  EXPECT_FALSE(missing);
  EXPECT_NE(missing.text().find("unique id 2"), std::string::npos) << missing.text();
  EXPECT_TRUE(one.try_execute(handle, {{x, data}, {y, data}}));
}

TEST(CppGraph, AnEmptyGraphIsRefused) {
  const gpudnn::Handle handle;
  Graph graph;
  EXPECT_EQ(graph.try_build(handle).code(), GPUDNN_STATUS_BAD_PARAM);
}

TEST(CppGraph, EngineAndWorkspaceMayBeAskedFor) {
  const gpudnn::Handle handle;
  Graph graph;
  const Tensor x = graph.tensor({{8}});
  const Tensor y = graph.relu(graph.exp(x));
  gpudnn::BuildOptions options;
  options.engine = 100;  // the interpreter
  graph.build(handle, options);
  EXPECT_EQ(graph.engine(), 100);
  EXPECT_NE(graph.json().find("100"), std::string::npos);
  options.engine = 99;
  EXPECT_FALSE(graph.try_build(handle, options));
  options.engine = -1;
  options.max_workspace = 0;
  graph.build(handle, options);
  EXPECT_EQ(graph.workspace_size(), 0u);
  (void)y;
}

TEST(CppGraph, AMovedGraphKeepsItsTensors) {
  const gpudnn::Handle handle;
  Graph graph;
  const Tensor x = graph.tensor({{3}});
  const Tensor y = graph.neg(x);
  Graph moved = std::move(graph);
  moved.build(handle);
  float in[3] = {1, -2, 3};
  float out[3] = {};
  const gpudnn::Buffer workspace(handle, moved.workspace_size());
  moved.execute(handle, {{x, in}, {y, out}}, workspace);
  EXPECT_EQ(out[0], -1);
  EXPECT_EQ(out[1], 2);
}

}  // namespace
