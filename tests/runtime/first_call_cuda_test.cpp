// The first call of every operation in a process, inside a stream capture: nothing may have been loaded, asked for or
// planned before it. A program of its own, because kernels that any other test has run are loaded.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "runtime/every_operation.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

std::string verdict(const PreparedCall& call) {
  Outcome outcome;
  outcome.values = call.output->values();
  outcome.damage = call.output->damage_outside_elements();
  return judge(call.output->geometry(), outcome, call.expected);
}

void expect_captured(const PreparedCall& call) {
  const Backend fresh;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(gpudnnSetStream(fresh.handle(), stream), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  const gpudnnStatus_t status = call.call(fresh.handle());
  const std::string text = take_error_text();
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  EXPECT_EQ(status, GPUDNN_STATUS_SUCCESS) << text;
  ASSERT_EQ(ended, cudaSuccess) << cudaGetErrorString(ended);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(verdict(call), "");  // the output began as poison
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(FirstCall, OfEveryOperationIsCaptured) {
  GPUDNN_NEEDS_GPU();
  const std::vector<PreparedCall> calls = every_operation(Backend::at_hand());
  ASSERT_FALSE(calls.empty());
  for (const PreparedCall& call : calls) {
    SCOPED_TRACE(call.name);
    expect_captured(call);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace gpudnn::test
