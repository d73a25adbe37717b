// The way of every operation to the device, on the stand-in runtime: its launches, captures, current device, plans.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "standin/operations.hpp"
#include "standin/state.hpp"

namespace gpudnn::standin {
namespace {

using test::Backend;

std::string current_device_is_wrong() {
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess || device == kCallersDevice) return "";
  return "the caller's device 0 was current, and " + std::to_string(device) + " is now";
}

// The first call of the operation in a process, captured: what is wrong.
std::string capture_first_call(const Operation& operation) {
  const auto backend = make_backend();
  const Holdings before = holdings();
  cudaStream_t stream = nullptr;
  (void)cudaSetDevice(kDevice);
  (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  (void)cudaSetDevice(kCallersDevice);
  test::require(gpudnnSetStream(backend->handle(), stream), "gpudnnSetStream");
  (void)cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  (void)take_launches();
  const gpudnnStatus_t status = operation.call(backend->handle());
  std::string wrong = status == GPUDNN_STATUS_SUCCESS ? "" : "the call: " + test::take_error_text() + "\n";
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) wrong += "the capture is invalid\n";
  wrong += lines_of(take_violations()) + current_device_is_wrong();
  const std::vector<Launch> launches = take_launches();
  if (launches.empty()) wrong += "nothing was launched\n";
  for (const Launch& launch : launches) {
    if (!launch.captured) wrong += "not captured: " + describe(launch) + "\n";
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaStreamDestroy(stream);
  if (cudaPeekAtLastError() != cudaSuccess) wrong += "an error was left with the runtime\n";
  if (holdings() != before) wrong += "memory, streams, events or graphs are left\n";
  return wrong;
}

// What a repeated call may ask of the runtime: where it is, the work itself, and addresses in tensor maps.
bool belongs_to_repeated_call(const std::string& function) {
  static const std::set<std::string> kFunctions = {
      "cudaGetDevice",   "cudaSetDevice",     "cudaLaunchKernelExC",      "cudaMemsetAsync",
      "cudaMemcpyAsync", "cudaMemcpy2DAsync", "cuTensorMapReplaceAddress"};
  return kFunctions.contains(function);
}

// Twice on one handle: what is wrong with the second call.
std::string repeat_call(const Operation& operation) {
  const auto backend = make_backend();
  const auto call = [&] { test::require(operation.call(backend->handle()), "the call"); };
  (void)take_launches();
  call();
  const std::vector<Launch> first = take_launches();
  (void)take_calls();
  call();
  std::string wrong;
  for (const std::string& function : take_calls()) {
    if (!belongs_to_repeated_call(function)) wrong += "the second call calls " + function + "\n";
  }
  const std::vector<Launch> second = take_launches();
  if (first != second) {
    wrong += "the calls launch different kernels\n";
    for (const Launch& launch : first) wrong += "  first: " + describe(launch) + "\n";
    for (const Launch& launch : second) wrong += "  second: " + describe(launch) + "\n";
  }
  for (const Launch& launch : second) {
    if (launch.device != kDevice) wrong += "not on the handle's device: " + describe(launch) + "\n";
  }
  return wrong + lines_of(take_violations()) + current_device_is_wrong();
}

void expect_of_all(const std::vector<Operation>& operations, std::string (*wrong_with)(const Operation&)) {
  EXPECT_FALSE(operations.empty());
  for (const Operation& operation : operations) {
    if (!operation.executes) continue;
    EXPECT_EQ(in_own_process([&] { return wrong_with(operation); }), "") << operation.name;
  }
}

TEST(StandInDispatch, FirstCallsAreCaptured) { expect_of_all(classic_operations(), capture_first_call); }
TEST(StandInDispatch, FirstCallsOfGraphsAreCaptured) { expect_of_all(graph_operations(), capture_first_call); }
TEST(StandInDispatch, RepeatedCallsAskNothingAndLaunchTheSame) { expect_of_all(classic_operations(), repeat_call); }

TEST(StandInDispatch, ServicesWorkAndLeaveNothing) {
  for (const Operation& operation : services()) {
    EXPECT_EQ(in_own_process([&] {
                const auto backend = make_backend();
                const Holdings before = holdings();
                const gpudnnStatus_t status = operation.call(backend->handle());
                std::string wrong = status == GPUDNN_STATUS_SUCCESS ? "" : test::take_error_text();
                if (holdings() != before) wrong += "memory, streams, events or graphs are left\n";
                return wrong + lines_of(take_violations()) + current_device_is_wrong();
              }),
              "")
        << operation.name;
  }
}

TEST(StandInDispatch, CudaGraphsArePopulatedAndUpdated) {
  int seen = 0;
  for (const Operation& operation : graph_operations()) {
    if (operation.executes) continue;
    ++seen;
    EXPECT_EQ(in_own_process([&] {
                const auto backend = make_backend();
                std::string wrong;
                for (int i = 0; i < 2; ++i) {
                  if (operation.call(backend->handle()) != GPUDNN_STATUS_SUCCESS) wrong += test::take_error_text();
                }
                if (take_launches().empty()) wrong += "nothing was launched";
                return wrong + lines_of(take_violations()) + current_device_is_wrong();
              }),
              "")
        << operation.name;
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace gpudnn::standin
