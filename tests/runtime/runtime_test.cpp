// Handles, threads, descriptors over time, and repeatability.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/every_operation.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

std::string verdict(const PreparedCall& call) {
  Outcome outcome;
  outcome.values = call.output->values();
  outcome.damage = call.output->damage_outside_elements();
  return judge(call.output->geometry(), outcome, call.expected);
}

TEST(Runtime, EveryOperationIsRight) {
  const Backend& backend = Backend::at_hand();
  for (const PreparedCall& call : every_operation(backend)) {
    ASSERT_EQ(call.call(backend.handle()), GPUDNN_STATUS_SUCCESS) << call.name << ": " << take_error_text();
    EXPECT_EQ(verdict(call), "") << call.name;
  }
}

TEST(Runtime, TwentyRunsGiveTheSameBits) {
  const Backend& backend = Backend::at_hand();
  for (const PreparedCall& call : every_operation(backend)) {
    std::vector<unsigned char> first;
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(call.call(backend.handle()), GPUDNN_STATUS_SUCCESS) << call.name << ": " << take_error_text();
      const std::vector<unsigned char> image = call.output->image();
      if (i == 0) first = image;
      ASSERT_EQ(image, first) << call.name << ": run " << i << " differs from the first";
    }
  }
}

TEST(Runtime, TwoHandlesGiveTheSameBits) {
  const Backend& backend = Backend::at_hand();
  const Backend second;
  for (const PreparedCall& call : every_operation(backend)) {
    ASSERT_EQ(call.call(backend.handle()), GPUDNN_STATUS_SUCCESS) << take_error_text();
    const std::vector<unsigned char> first = call.output->image();
    ASSERT_EQ(call.call(second.handle()), GPUDNN_STATUS_SUCCESS) << take_error_text();
    std::byte unused{};
    GPUDNN_TEST_REQUIRE(gpudnnMemcpy(second.handle(), &unused, call.output->data(), 1, GPUDNN_MEMCPY_DEVICE_TO_HOST));
    EXPECT_EQ(call.output->image(), first) << call.name;
  }
}

// Threads on one handle: each all operations, on memory of its own, in an order of its own.
TEST(Runtime, ManyThreadsShareOneHandle) {
  // Under ThreadSanitizer the oracle of one thread's calls takes the better part of a minute. It finds a race by the
  // locks that two threads hold, not by repetition.
  constexpr std::size_t kThreads = kUnderThreadSanitizer ? 3 : 8;
  constexpr std::size_t kRounds = kUnderThreadSanitizer ? 1 : 3;
  const Backend backend;  // fresh: the plans are made by the threads
  std::vector<std::vector<PreparedCall>> calls;
  for (std::size_t t = 0; t < kThreads; ++t) calls.push_back(every_operation(backend));
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < kRounds * calls[t].size(); ++i) {
        const PreparedCall& call = calls[t][(i + 3 * t) % calls[t].size()];
        if (call.call(backend.handle()) != GPUDNN_STATUS_SUCCESS) ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 0);
  for (const auto& list : calls) {
    for (const PreparedCall& call : list) EXPECT_EQ(verdict(call), "") << call.name;
  }
}

TEST(Runtime, ThreadsMakeAndEndHandlesAndDescriptors) {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        gpudnnTensorDescriptor_t tensor = nullptr;
        gpudnnConvolutionDescriptor_t convolution = nullptr;
        if (gpudnnCreateTensorDescriptor(&tensor) != GPUDNN_STATUS_SUCCESS) ++failures;
        if (gpudnnCreateConvolutionDescriptor(&convolution) != GPUDNN_STATUS_SUCCESS) ++failures;
        if (gpudnnSetTensor4dDescriptor(tensor, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 2, 3, i + 1) !=
            GPUDNN_STATUS_SUCCESS) {
          ++failures;
        }
        std::size_t bytes = 0;
        if (gpudnnGetTensorSizeInBytes(tensor, &bytes) != GPUDNN_STATUS_SUCCESS ||
            bytes != 24 * static_cast<std::size_t>(i + 1)) {
          ++failures;
        }
        if (gpudnnDestroyTensorDescriptor(tensor) != GPUDNN_STATUS_SUCCESS) ++failures;
        if (gpudnnDestroyConvolutionDescriptor(convolution) != GPUDNN_STATUS_SUCCESS) ++failures;
        if (i % 20 == 0) {
          gpudnnHandle_t handle = nullptr;
          if (gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS) ++failures;
          if (gpudnnDestroy(handle) != GPUDNN_STATUS_SUCCESS) ++failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

// The last-error text belongs to the thread that was refused.
TEST(Runtime, ErrorTextsStayWithTheirThreads) {
  EXPECT_EQ(gpudnnCreateTensorDescriptor(nullptr), GPUDNN_STATUS_BAD_PARAM);
  std::string elsewhere = "untouched";
  std::thread([&] { elsewhere = take_error_text(); }).join();
  EXPECT_EQ(elsewhere, "");
  EXPECT_NE(take_error_text(), "");
}

TEST(Runtime, HandlesEndInAnyOrder) {
  gpudnnHandle_t handles[3];
  for (gpudnnHandle_t& handle : handles) ASSERT_EQ(gpudnnCreate(&handle), GPUDNN_STATUS_SUCCESS);
  for (const int i : {1, 0, 2}) ASSERT_EQ(gpudnnDestroy(handles[i]), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(gpudnnDestroy(handles[1]), GPUDNN_STATUS_BAD_PARAM) << "a handle ended twice";
  EXPECT_NE(take_error_text().find("destroyed"), std::string::npos);
}

// A descriptor may change between calls, and an ended handle leaves descriptors alone.
TEST(Runtime, DescriptorsAreSetAnewAndOutliveHandles) {
  TensorDescriptor desc;
  for (const int width : {3, 17, 1}) {
    const Backend backend;
    ASSERT_EQ(gpudnnSetTensor4dDescriptor(desc, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 1, 1, width),
              GPUDNN_STATUS_SUCCESS);
    TensorGeometry row;
    row.rank = 1;
    row.dims[0] = width;
    row.strides[0] = 1;
    const DeviceTensor y(backend, row, nullptr);
    const float value = 5;
    ASSERT_EQ(gpudnnSetTensor(backend.handle(), desc, y.data(), &value), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(y.values(), std::vector<double>(static_cast<std::size_t>(width), 5));
    EXPECT_EQ(y.damage_outside_elements(), "");
  }
}

TEST(Runtime, ANewHandleHasTheDefaultStream) {
  const Backend backend;
  cudaStream_t stream = reinterpret_cast<cudaStream_t>(1);
  ASSERT_EQ(gpudnnGetStream(backend.handle(), &stream), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(stream, nullptr);
}

TEST(Runtime, TheHostBackendKeepsTheStreamAndDoesNothingWithIt) {
  const Backend backend(true);
  int somewhere = 0;
  const auto stream = reinterpret_cast<cudaStream_t>(&somewhere);
  ASSERT_EQ(gpudnnSetStream(backend.handle(), stream), GPUDNN_STATUS_SUCCESS);
  cudaStream_t read = nullptr;
  ASSERT_EQ(gpudnnGetStream(backend.handle(), &read), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(read, stream);
  for (const PreparedCall& call : every_operation(backend)) {
    ASSERT_EQ(call.call(backend.handle()), GPUDNN_STATUS_SUCCESS) << call.name;
    EXPECT_EQ(verdict(call), "") << call.name;
  }
}

// What the CUDA tests cover must be seen to be missing where there is no GPU.
#ifndef GPUDNN_WITH_CUDA
TEST(CudaRuntime, CaptureStreamsAndLargeTensors) { GPUDNN_NEEDS_GPU(); }
#endif

}  // namespace
}  // namespace gpudnn::test
