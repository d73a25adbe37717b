// gpudnn.hpp in a program without exceptions: errors are values.
// SPDX-License-Identifier: Apache-2.0
#include "gpudnn/gpudnn.hpp"

gpudnn::Status relu_without_exceptions(const gpudnn::Handle& handle, float* data);

gpudnn::Status relu_without_exceptions(const gpudnn::Handle& handle, float* data) {
  gpudnn::Graph graph;
  const gpudnn::Tensor x = graph.tensor({{4}});
  const gpudnn::Tensor y = graph.relu(x);
  if (gpudnn::Status status = graph.try_build(handle); !status) return status;
  gpudnn::Buffer workspace;
  if (gpudnn::Status status = workspace.try_allocate(handle, graph.workspace_size()); !status) return status;
  return graph.try_execute(handle, {{x, data}, {y, data}}, workspace.get());
}
