// Graphs that the soak builds anew each time, by the C++ face.
// SPDX-License-Identifier: Apache-2.0
#include "soak/graphs.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <gpudnn/gpudnn.hpp>
#include <new>

namespace gpudnn::test {
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

std::size_t product(const Extents& dims) {
  std::size_t count = 1;
  for (const std::int64_t extent : dims) count *= static_cast<std::size_t>(extent);
  return count;
}

Values values_of(gpudnnHandle_t handle, int which) {
  Graph graph;
  std::vector<std::pair<Tensor, Extents>> inputs;
  const auto in = [&](const Extents& dims) {
    TensorOptions options;
    options.dims = dims;
    inputs.emplace_back(graph.tensor(options), dims);
    return inputs.back().first;
  };
  Tensor out;
  if (which == 0) {
    const Tensor x = in({2, 8, 12, 12}), w = in({16, 8, 3, 3}), bias = in({1, 16, 1, 1});
    out = graph.relu(graph.add(graph.conv(x, w, {{1, 1}}), bias));
  } else if (which == 1) {
    const Tensor a = in({1, 32, 40}), b = in({1, 40, 24});
    out = graph.gelu(graph.matmul(a, b));
  } else if (which == 2) {
    const Tensor x = in({6, 48, 1, 1}), scale = in({1, 48, 1, 1}), bias = in({1, 48, 1, 1});
    out = graph.layer_norm(x, scale, bias);
  } else if (which == 3) {
    const Tensor q = in({2, 2, 24, 16}), k = in({2, 2, 24, 16}), v = in({2, 2, 24, 16});
    out = graph.attention(q, k, v);
  } else {
    const Tensor a = in({4, 6, 7, 5}), b = in({4, 6, 7, 5});
    out = graph.reduce_sum(graph.mul(a, b), {2, 3});
  }
  graph.build(handle);
  std::vector<Buffer> memory;
  std::vector<Binding> bindings;
  for (const auto& [tensor, dims] : inputs) {
    memory.emplace_back(handle, numbers(product(dims), static_cast<unsigned>(memory.size() + 1)));
    bindings.emplace_back(tensor, memory.back());
  }
  const Buffer output(handle, Values(product(out.dims()), std::nanf("")));
  bindings.emplace_back(out, output);
  graph.execute(handle, bindings, Buffer(handle, graph.workspace_size()));
  return output.download<float>();
}

}  // namespace

bool agree(const std::vector<float>& first, const std::vector<float>& second) {
  return first.size() == second.size() && std::memcmp(first.data(), second.data(), first.size() * sizeof(float)) == 0;
}

gpudnnStatus_t run_graph(gpudnnHandle_t handle, int which, std::vector<float>* output) {
  try {
    *output = values_of(handle, which);
    return GPUDNN_STATUS_SUCCESS;
  } catch (const Error& error) {  // which has taken the text
    (void)gpudnnReportError(error.code(), error.what());
    return error.code();
  } catch (const std::bad_alloc&) {  // of the C++ face itself
    (void)gpudnnReportError(GPUDNN_STATUS_ALLOC_FAILED, "the C++ face is out of memory");
    return GPUDNN_STATUS_ALLOC_FAILED;
  }
}

}  // namespace gpudnn::test
