// Plans as nodes of CUDA graphs: what a filled graph computes, and what it computes after an update, is what executing
// the plan gives, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <cstring>

#include "client.hpp"
#include "composite.hpp"
#include "support/backend.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

class CudaGraph {
 public:
  CudaGraph() { EXPECT_EQ(cudaGraphCreate(&graph_, 0), cudaSuccess); }
  ~CudaGraph() { EXPECT_EQ(cudaGraphDestroy(graph_), cudaSuccess); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  [[nodiscard]] cudaGraph_t get() const { return graph_; }

  void launch() const {
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph_, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  }

 private:
  cudaGraph_t graph_ = nullptr;
};

void expect_same_bits(Memory* actual, Memory* expected) {
  EXPECT_TRUE(actual->guards_intact());
  for (const graph::Tensor& tensor : actual->graph().tensors) {
    if (tensor.is_virtual) continue;
    const std::size_t bytes = actual->bytes(tensor.uid);
    ASSERT_EQ(bytes, expected->bytes(tensor.uid));
    EXPECT_EQ(std::memcmp(actual->pointer(tensor.uid), expected->pointer(tensor.uid), bytes), 0)
        << "tensor " << tensor.uid;
  }
}

// `values`, computed by execution into a copy of it.
Memory executed(gpudnnHandle_t handle, const BackendDescriptor& plan, const Memory& values) {
  Memory memory = values;
  EXPECT_EQ(execute(handle, plan, &memory), GPUDNN_STATUS_SUCCESS) << last_error();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return memory;
}

void populate_and_update(gpudnnHandle_t handle, const std::string& file, const GraphCase& one, int* ran) {
  std::string why;
  const auto graph = graph::from_text(one.text, &why);
  ASSERT_TRUE(graph.has_value()) << why;
  ClientGraph client;
  build(*graph, handle, &client);
  const std::vector<BackendDescriptor> configs = configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A);
  if (configs.empty()) return;  // left to the host backend
  const BackendDescriptor plan = make_plan(configs.front());
  Random random = case_random(session_seed(), one.text.size());
  const CudaGraph target;
  for (const bool updates : {false, true}) {
    SCOPED_TRACE(updates ? "updated" : "filled");
    Memory values = recorded_inputs(file, one, *graph, &random);
    Memory expected = executed(handle, plan, values);
    Execution execution(handle, plan, &values);  // other buffers than those of the plan's last use
    ASSERT_EQ((updates ? gpudnnBackendUpdateCudaGraph : gpudnnBackendPopulateCudaGraph)(
                  handle, plan.get(), execution.pack().get(), target.get()),
              GPUDNN_STATUS_SUCCESS)
        << last_error();
    target.launch();
    execution.finish();
    expect_same_bits(&values, &expected);
  }
  ++*ran;
}

TEST(GraphCuda, FilledAndUpdatedGraphsComputeWhatExecutionDoes) {
  GPUDNN_NEEDS_GPU();
  const Backend& backend = Backend::at_hand();
  int ran = 0;
  for (const char* file : {"operations.txt", "further_operations.txt", "attention.txt", "attention_windows.txt",
                           "float8_convolution.txt"}) {
    for (const GraphCase& one : graph_cases(file)) {
      SCOPED_TRACE(std::string(file) + ": " + one.name);
      populate_and_update(backend.handle(), file, one, &ran);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(ran, 50);
}

TEST(GraphCuda, AGraphOfAnotherPlanIsRefused) {
  GPUDNN_NEEDS_GPU();
  const Backend& backend = Backend::at_hand();
  std::string why;
  const auto graph =
      graph::from_text("tensor 1 f32 4x8; tensor 2 f32 4x8\npointwise relu_fwd x=1 y=2 compute=f32", &why);
  ASSERT_TRUE(graph.has_value());
  ClientGraph client;
  build(*graph, backend.handle(), &client);
  const BackendDescriptor plan = make_plan(configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A).front());
  Random random = case_random(session_seed(), 1);
  Memory values(*graph, &random);
  const Execution execution(backend.handle(), plan, &values);
  const CudaGraph empty;
  EXPECT_EQ(gpudnnBackendUpdateCudaGraph(backend.handle(), plan.get(), execution.pack().get(), empty.get()),
            GPUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  EXPECT_NE(last_error().find("0 nodes"), std::string::npos) << last_error();
}

}  // namespace
}  // namespace gpudnn::test
