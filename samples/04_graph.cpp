// Three graphs by gpudnn.hpp: what 03_graph.c does by the C functions. Each is run, compared with plain loops, printed.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <gpudnn/gpudnn.hpp>
#include <vector>

namespace {

using Values = std::vector<float>;

// Numbers between -1 and 1, the same at every run.
Values numbers(std::size_t count, unsigned seed) {
  Values values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / (1 << 23) - 1;
  }
  return values;
}

bool report(const char* what, const gpudnn::Graph& graph, const Values& found, const Values& wanted) {
  float worst = 0;
  bool good = true;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const float difference = std::fabs(found[i] - wanted[i]);
    worst = std::fmax(worst, difference);
    good = good && difference < 1e-4f;  // not if it is NaN
  }
  const float* some = found.data() + found.size() / 2;
  std::printf("%-28s engine %lld, some values %8.5f %8.5f %8.5f, greatest difference %.1e: %s\n", what,
              static_cast<long long>(graph.engine()), static_cast<double>(some[0]), static_cast<double>(some[1]),
              static_cast<double>(some[2]), static_cast<double>(worst), good ? "ok" : "WRONG");
  return good;
}

bool convolution_bias_relu(const gpudnn::Handle& handle) {
  constexpr int kN = 2, kC = 8, kK = 16, kSize = 12;
  gpudnn::Graph graph;
  const auto x = graph.tensor({{kN, kC, kSize, kSize}});
  const auto w = graph.tensor({{kK, kC, 3, 3}});
  const auto bias = graph.tensor({{1, kK, 1, 1}});
  const auto y = graph.relu(graph.add(graph.conv(x, w, {{1, 1}}), bias));
  graph.build(handle);

  const Values vx = numbers(kN * kC * kSize * kSize, 1), vw = numbers(kK * kC * 9, 2), vb = numbers(kK, 3);
  const gpudnn::Buffer px(handle, vx), pw(handle, vw), pb(handle, vb), py(handle, kN * kK * kSize * kSize * 4);
  graph.execute(handle, {{x, px}, {w, pw}, {bias, pb}, {y, py}}, gpudnn::Buffer(handle, graph.workspace_size()));

  Values wanted;
  for (int n = 0; n < kN; ++n)
    for (int k = 0; k < kK; ++k)
      for (int p = 0; p < kSize; ++p)
        for (int q = 0; q < kSize; ++q) {
          float sum = vb[k];
          for (int c = 0; c < kC; ++c)
            for (int r = 0; r < 9; ++r) {
              const int h = p + r / 3 - 1, v = q + r % 3 - 1;
              if (h < 0 || h >= kSize || v < 0 || v >= kSize) continue;
              sum += vx[((n * kC + c) * kSize + h) * kSize + v] * vw[(k * kC + c) * 9 + r];
            }
          wanted.push_back(std::fmax(sum, 0.0f));
        }
  return report("convolution + bias + ReLU", graph, py.download<float>(), wanted);
}

bool product_gelu(const gpudnn::Handle& handle) {
  constexpr int kM = 32, kN = 24, kK = 40;
  gpudnn::Graph graph;
  const auto a = graph.tensor({{1, kM, kK}});
  const auto b = graph.tensor({{1, kK, kN}});
  const auto y = graph.gelu(graph.matmul(a, b));
  graph.build(handle);

  const Values va = numbers(kM * kK, 4), vb = numbers(kK * kN, 5);
  const gpudnn::Buffer pa(handle, va), pb(handle, vb), py(handle, kM * kN * 4);
  graph.execute(handle, {{a, pa}, {b, pb}, {y, py}}, gpudnn::Buffer(handle, graph.workspace_size()));

  Values wanted;
  for (int i = 0; i < kM; ++i)
    for (int j = 0; j < kN; ++j) {
      float sum = 0;
      for (int k = 0; k < kK; ++k) sum += va[i * kK + k] * vb[k * kN + j];
      wanted.push_back(0.5f * sum * (1 + std::erf(sum * 0.70710678f)));
    }
  return report("matrix product + GELU", graph, py.download<float>(), wanted);
}

bool layer_norm(const gpudnn::Handle& handle) {
  constexpr int kRows = 16, kSize = 64;
  gpudnn::Graph graph;
  const auto x = graph.tensor({{kRows, kSize, 1, 1}});
  const auto scale = graph.tensor({{1, kSize, 1, 1}});
  const auto bias = graph.tensor({{1, kSize, 1, 1}});
  const gpudnn::Tensor y = graph.layer_norm(x, scale, bias);
  graph.build(handle);

  const Values vx = numbers(kRows * kSize, 6), vs = numbers(kSize, 7), vb = numbers(kSize, 8);
  const gpudnn::Buffer px(handle, vx), ps(handle, vs), pb(handle, vb), py(handle, kRows * kSize * 4);
  graph.execute(handle, {{x, px}, {scale, ps}, {bias, pb}, {y, py}}, gpudnn::Buffer(handle, graph.workspace_size()));

  Values wanted;
  for (int n = 0; n < kRows; ++n) {
    float mean = 0, square = 0;
    for (int i = 0; i < kSize; ++i) mean += vx[n * kSize + i] / kSize;
    for (int i = 0; i < kSize; ++i) square += (vx[n * kSize + i] - mean) * (vx[n * kSize + i] - mean) / kSize;
    for (int i = 0; i < kSize; ++i)
      wanted.push_back((vx[n * kSize + i] - mean) / std::sqrt(square + 1e-5f) * vs[i] + vb[i]);
  }
  return report("layer normalization", graph, py.download<float>(), wanted);
}

}  // namespace

int main() {
  try {
    const gpudnn::Handle handle;
    std::printf("backend: %s\n", handle.is_host() ? "host" : "CUDA");
    bool good = true;
    for (const auto run : {convolution_bias_relu, product_gelu, layer_norm}) good = run(handle) && good;
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
