// Causal attention and transposed inputs of the graph builder, against plain loops in double.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "gpudnn/gpudnn.hpp"

namespace {

using gpudnn::Extents;
using gpudnn::Graph;
using gpudnn::Tensor;
using Values = std::vector<float>;

constexpr int kBatch = 2, kHeads = 3, kLength = 7, kSize = 4, kWidth = kHeads * kSize;
constexpr double kScale = 0.5;  // 1 / sqrt(kSize)
// Heads side by side in a row of each step; q, k and v side by side too.
const Extents kDims = {kBatch, kHeads, kLength, kSize};
const Extents kPacked = {kLength * kWidth, kSize, kWidth, 1};
const Extents kInOneRow = {kLength * 3 * kWidth, kSize, 3 * kWidth, 1};

Values random_values(std::size_t count) {
  std::random_device device;
  const unsigned seed = device();
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Values values(count);
  for (float& value : values) value = uniform(random);
  return values;
}
Values nothing(std::size_t count) { return Values(count, std::nanf("")); }

std::size_t at(const Extents& strides, int b, int h, int t, int d) {
  return static_cast<std::size_t>(b * strides[0] + h * strides[1] + t * strides[2] + d * strides[3]);
}

// One head, by the definition.
struct Head {
  double p[kLength][kLength] = {};
  double stats[kLength] = {};
  double o[kLength][kSize] = {};

  Head(const Values& qkv, int b, int h) {
    for (int r = 0; r < kLength; ++r) {
      double total = 0;
      for (int c = 0; c <= r; ++c) {
        double sum = 0;
        for (int d = 0; d < kSize; ++d)
          sum += double{qkv[at(kInOneRow, b, h, r, d)]} * double{qkv[at(kInOneRow, b, h, c, d) + kWidth]};
        total += p[r][c] = std::exp(kScale * sum);
      }
      stats[r] = std::log(total);
      for (int c = 0; c <= r; ++c) {
        p[r][c] /= total;
        for (int d = 0; d < kSize; ++d) o[r][d] += p[r][c] * double{qkv[at(kInOneRow, b, h, c, d) + 2 * kWidth]};
      }
    }
  }
};

// By the engine that the heuristic ranks first, and by `segments`, of whose parts each has an engine on a GPU too.
class Causal : public ::testing::TestWithParam<std::int64_t> {
 protected:
  gpudnn::Handle handle;
  Values qkv = random_values(kBatch * kLength * 3 * kWidth);
  gpudnn::Buffer memory = gpudnn::Buffer(handle, qkv);
  gpudnn::Buffer o = gpudnn::Buffer(handle, nothing(kBatch* kLength* kWidth));
  gpudnn::Buffer stats = gpudnn::Buffer(handle, nothing(kBatch* kHeads* kLength));

  static gpudnn::BuildOptions by_engine() {
    gpudnn::BuildOptions options;
    options.engine = GetParam();
    return options;
  }
  const float* part(int which) const { return static_cast<const float*>(memory.get()) + which * kWidth; }

  void forward() {
    Graph graph;
    const Tensor q = graph.tensor({kDims, false, kInOneRow}), k = graph.tensor({kDims, false, kInOneRow}),
                 v = graph.tensor({kDims, false, kInOneRow});
    gpudnn::AttentionOptions options;
    options.causal = true;
    options.statistics = true;
    const gpudnn::AttentionResult made = graph.attention(q, k, v, options);
    EXPECT_EQ(made.o.dims(), kDims);
    EXPECT_EQ(made.o.strides(), kPacked);
    graph.build(handle, by_engine());
    graph.execute(handle, {{q, part(0)}, {k, part(1)}, {v, part(2)}, {made.o, o}, {made.statistics, stats}},
                  gpudnn::Buffer(handle, graph.workspace_size()));
  }
};

TEST_P(Causal, ForwardSeesNoLaterKey) {
  forward();
  const Values found = o.download<float>(), found_stats = stats.download<float>();
  for (int b = 0; b < kBatch; ++b)
    for (int h = 0; h < kHeads; ++h) {
      const Head head(qkv, b, h);
      for (int r = 0; r < kLength; ++r) {
        EXPECT_NEAR(found_stats[static_cast<std::size_t>((b * kHeads + h) * kLength + r)], head.stats[r], 4e-6);
        for (int d = 0; d < kSize; ++d) EXPECT_NEAR(found[at(kPacked, b, h, r, d)], head.o[r][d], 4e-6);
      }
    }
}

TEST_P(Causal, BackwardGivesTheGradients) {
  forward();
  const Values slope = random_values(kBatch * kLength * kWidth);
  const gpudnn::Buffer d_o(handle, slope), gradient(handle, nothing(qkv.size()));
  Graph graph;
  const Tensor q = graph.tensor({kDims, false, kInOneRow}), k = graph.tensor({kDims, false, kInOneRow}),
               v = graph.tensor({kDims, false, kInOneRow}), to = graph.tensor({kDims, false, kPacked}),
               td = graph.tensor({kDims, false, kPacked}), ts = graph.tensor({{kBatch, kHeads, kLength, 1}});
  gpudnn::AttentionOptions options;
  options.causal = true;
  gpudnn::AttentionGradients made = graph.attention_backward(q, k, v, to, td, ts, options);
  for (Tensor* t : {&made.dq, &made.dk, &made.dv}) t->set_strides(kInOneRow);
  graph.build(handle, by_engine());
  const auto to_part = [&](int which) { return static_cast<float*>(gradient.get()) + which * kWidth; };
  graph.execute(handle,
                {{q, part(0)},
                 {k, part(1)},
                 {v, part(2)},
                 {to, o},
                 {td, d_o},
                 {ts, stats},
                 {made.dq, to_part(0)},
                 {made.dk, to_part(1)},
                 {made.dv, to_part(2)}},
                gpudnn::Buffer(handle, graph.workspace_size()));

  std::vector<double> wanted(qkv.size());
  for (int b = 0; b < kBatch; ++b)
    for (int h = 0; h < kHeads; ++h) {
      const Head head(qkv, b, h);
      for (int r = 0; r < kLength; ++r)
        for (int c = 0; c <= r; ++c) {
          const std::size_t row = at(kInOneRow, b, h, r, 0), column = at(kInOneRow, b, h, c, 0);
          double dp = 0, delta = 0;
          for (int d = 0; d < kSize; ++d) {
            const double g = double{slope[at(kPacked, b, h, r, d)]};
            const auto e = static_cast<std::size_t>(d);
            dp += g * double{qkv[column + e + 2 * kWidth]};
            delta += g * head.o[r][d];
            wanted[column + e + 2 * kWidth] += head.p[r][c] * g;
          }
          const double ds = kScale * head.p[r][c] * (dp - delta);
          for (std::size_t e = 0; e < kSize; ++e) {
            wanted[row + e] += ds * double{qkv[column + e + kWidth]};
            wanted[column + e + kWidth] += ds * double{qkv[row + e]};
          }
        }
    }
  const Values found = gradient.download<float>();
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 2e-5) << "element " << i;
}

INSTANTIATE_TEST_SUITE_P(Engines, Causal, ::testing::Values(-1, 101));

TEST(CausalGraph, WhatItDoesNotTakeIsSaid) {
  Graph graph;
  const Tensor q = graph.tensor({{1, 4, 5, 8}}), k = graph.tensor({{1, 2, 5, 8}});
  gpudnn::AttentionOptions options;
  options.causal = true;
  graph.attention(q, k, k, options);
  EXPECT_NE(graph.status().text().find("as many heads as q"), std::string::npos) << graph.status().text();
}

TEST(Transpose, IsTheInputsMemory) {
  const gpudnn::Handle handle;
  const Values va = random_values(6), vb = random_values(8);
  Graph graph;
  const Tensor a = graph.tensor({{1, 3, 2}}), b = graph.tensor({{1, 4, 2}});
  const Tensor y = graph.matmul(a, graph.transpose(b));
  EXPECT_EQ(y.dims(), (Extents{1, 3, 4}));
  graph.build(handle);
  const gpudnn::Buffer pa(handle, va), pb(handle, vb), py(handle, nothing(12));
  graph.execute(handle, {{a, pa}, {b, pb}, {y, py}}, gpudnn::Buffer(handle, graph.workspace_size()));
  const Values found = py.download<float>();
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 4; ++j)
      EXPECT_NEAR(found[i * 4 + j], va[i * 2] * vb[j * 2] + va[i * 2 + 1] * vb[j * 2 + 1], 4e-7);

  Graph other;
  const Tensor x = other.tensor({{1, 3, 2}});
  EXPECT_FALSE(other.transpose(other.relu(x)));
  EXPECT_NE(other.status().text().find("must be an input"), std::string::npos) << other.status().text();
}

}  // namespace
