// The stand-in runtime itself: it refuses what a GPU or its driver refuses, and says why.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "standin/operations.hpp"
#include "standin/state.hpp"

// What the compiler's registration of a kernel calls.
extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*,
                                       int*);

namespace gpudnn::standin {
namespace {

const void* kernel() {
  static const char address = 0;
  static const bool registered =
      (__cudaRegisterFunction(nullptr, &address, nullptr, "a_kernel", -1, nullptr, nullptr, nullptr, nullptr, nullptr),
       true);
  return registered ? &address : nullptr;
}

cudaError_t launch(dim3 blocks, dim3 threads, std::size_t shared_bytes = 0, dim3 cluster = {1, 1, 1},
                   cudaStream_t stream = nullptr, bool cooperative = false) {
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = cluster.x;
  attributes[0].val.clusterDim.y = cluster.y;
  attributes[0].val.clusterDim.z = cluster.z;
  attributes[1].id = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative = cooperative ? 1 : 0;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  void* arguments[1] = {};
  return cudaLaunchKernelExC(&config, kernel(), arguments);
}

// That the call gives `error`, and is a violation that says `what`; both are taken away.
void expect_violation(cudaError_t given, cudaError_t error, const std::string& what) {
  EXPECT_EQ(given, error);
  EXPECT_EQ(cudaGetLastError(), error);
  const std::string said = lines_of(take_violations());
  EXPECT_NE(said.find(what), std::string::npos) << said;
}
void expect_fine(cudaError_t given) {
  EXPECT_EQ(given, cudaSuccess);
  EXPECT_EQ(lines_of(take_violations()), "");
}

class StandIn : public testing::Test {
 protected:
  void SetUp() override {
    (void)take_violations();
    (void)take_launches();
    (void)cudaGetLastError();
  }
  void TearDown() override { EXPECT_EQ(lines_of(take_violations()), ""); }
};

TEST_F(StandIn, LaunchesHaveTheHardwaresLimits) {
  expect_fine(launch(2147483647, 1024));
  expect_fine(launch({1, 65535, 65535}, {1, 16, 64}));
  const cudaError_t error = cudaErrorInvalidConfiguration;
  expect_violation(launch(0, 1), error, "a grid of 0x1x1");
  expect_violation(launch(2147483648U, 1), error, "a grid of");
  expect_violation(launch({1, 65536, 1}, 1), error, "a grid of 1x65536x1");
  expect_violation(launch({1, 1, 65536}, 1), error, "a grid of 1x1x65536");
  expect_violation(launch(1, 1025), error, "1025x1x1 threads");
  expect_violation(launch(1, {1, 1, 65}), error, "1x1x65 threads");
  EXPECT_EQ(take_launches().size(), 2U);
}

TEST_F(StandIn, SharedMemoryBeyond48KiBIsAskedFor) {
  expect_fine(launch(1, 32, 48 * 1024));
  expect_violation(launch(1, 32, 48 * 1024 + 1), cudaErrorInvalidConfiguration, "the kernel may have 49152");
  expect_fine(cudaFuncSetAttribute(kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
  expect_fine(launch(1, 32, 100000));
  expect_violation(launch(1, 32, 100001), cudaErrorInvalidConfiguration, "the kernel may have 100000");
  expect_violation(cudaFuncSetAttribute(kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, 232449),
                   cudaErrorInvalidValue, "232449 bytes");
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);  // each device is told
  expect_violation(launch(1, 32, 100000), cudaErrorInvalidConfiguration, "the kernel may have 49152");
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(StandIn, ClustersDivideTheGridAndHaveALargestSize) {
  expect_fine(launch({16, 3, 1}, 32, 0, {8, 1, 1}));
  const cudaError_t error = cudaErrorInvalidConfiguration;
  expect_violation(launch({15, 1, 1}, 32, 0, {8, 1, 1}), error, "do not divide");
  expect_violation(launch({16, 1, 1}, 32, 0, {16, 1, 1}), error, "may have 8");
  expect_fine(cudaFuncSetAttribute(kernel(), cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  expect_fine(launch({16, 1, 1}, 32, 0, {16, 1, 1}));
  expect_violation(launch({32, 1, 1}, 32, 0, {32, 1, 1}), error, "may have 16");
}

TEST_F(StandIn, CooperativeGridsAreResident) {
  expect_fine(launch(kMultiprocessors, 1024, 0, {1, 1, 1}, nullptr, true));
  EXPECT_EQ(launch(2 * kMultiprocessors + 1, 1024, 0, {1, 1, 1}, nullptr, true), cudaErrorCooperativeLaunchTooLarge);
  EXPECT_EQ(cudaGetLastError(), cudaErrorCooperativeLaunchTooLarge);
}

TEST_F(StandIn, ALaunchWantsAStreamOfTheCurrentDevice) {
  cudaStream_t stream = nullptr;
  expect_fine(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  expect_fine(launch(1, 32, 0, {1, 1, 1}, stream));
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  expect_violation(launch(1, 32, 0, {1, 1, 1}, stream), cudaErrorInvalidResourceHandle, "a stream of device 0");
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  expect_fine(cudaStreamDestroy(stream));
  expect_violation(launch(1, 32, 0, {1, 1, 1}, stream), cudaErrorInvalidResourceHandle, "does not exist");
}

// Makes the call in a capture, which it ends.
void expect_harm(cudaStreamCaptureMode mode, unsigned flags, const std::function<cudaError_t(cudaStream_t)>& harm,
                 cudaError_t error, const std::string& what) {
  cudaStream_t stream = nullptr;
  expect_fine(cudaStreamCreateWithFlags(&stream, flags));
  expect_fine(cudaStreamBeginCapture(stream, mode));
  expect_violation(harm(stream), error, what);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  (void)cudaGetLastError();
  expect_fine(cudaStreamDestroy(stream));
}

TEST_F(StandIn, CapturesForbidAllocationAndWaiting) {
  const auto global = cudaStreamCaptureModeGlobal;
  const cudaError_t error = cudaErrorStreamCaptureUnsupported;
  void* memory = nullptr;
  expect_harm(
      global, cudaStreamNonBlocking, [&](cudaStream_t) { return cudaMalloc(&memory, 16); }, error, "cudaMalloc");
  expect_harm(
      cudaStreamCaptureModeThreadLocal, cudaStreamNonBlocking, [&](cudaStream_t) { return cudaFree(nullptr); }, error,
      "cudaFree");
  expect_harm(
      global, cudaStreamNonBlocking, [](cudaStream_t) { return cudaDeviceSynchronize(); }, error,
      "cudaDeviceSynchronize");
  expect_harm(global, cudaStreamNonBlocking, cudaStreamSynchronize, error, "cudaStreamSynchronize");
  expect_harm(global, cudaStreamNonBlocking, cudaStreamQuery, error, "cudaStreamQuery");
  expect_harm(
      global, cudaStreamDefault, [](cudaStream_t) { return launch(1, 32); }, cudaErrorStreamCaptureImplicit,
      "the default stream");
}

TEST_F(StandIn, ARelaxedThreadMayAllocateInACapture) {
  cudaStream_t stream = nullptr;
  expect_fine(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  expect_fine(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  expect_fine(cudaThreadExchangeStreamCaptureMode(&mode));
  void* memory = nullptr;
  expect_fine(cudaMalloc(&memory, 16));
  expect_fine(cudaFree(memory));
  expect_fine(cudaThreadExchangeStreamCaptureMode(&mode));
  expect_fine(launch(1, 32, 0, {1, 1, 1}, stream));
  cudaGraph_t graph = nullptr;
  expect_fine(cudaStreamEndCapture(stream, &graph));
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->nodes.size(), 1U);
  expect_fine(cudaGraphDestroy(graph));
  expect_fine(cudaStreamDestroy(stream));
}

TEST_F(StandIn, WorkStaysWithinAllocations) {
  void* memory = nullptr;
  expect_fine(cudaMalloc(&memory, 100));
  expect_fine(cudaMemsetAsync(memory, 0, 100, nullptr));
  expect_violation(cudaMemsetAsync(memory, 0, 101, nullptr), cudaErrorInvalidValue, "the allocation has 100");
  char host[200] = {};
  expect_violation(cudaMemcpyAsync(host, memory, 101, cudaMemcpyDefault, nullptr), cudaErrorInvalidValue,
                   "the allocation has 100");
  expect_fine(cudaFree(memory));
  expect_violation(cudaFree(memory), cudaErrorInvalidValue, "which cudaMalloc did not give");
}

// A map of 64x32 halves that the driver takes, and what a test changes in it.
struct TiledMap {
  alignas(64) CUtensorMap map = {};
  cuuint32_t rank = 2;
  std::uintptr_t address = 1 << 20;
  cuuint64_t dims[2] = {64, 32};
  cuuint64_t strides[1] = {128};
  cuuint32_t box[2] = {64, 8};
  cuuint32_t steps[2] = {1, 1};
  CUresult encode() {
    const auto function =
        reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(driver_function("cuTensorMapEncodeTiled"));
    return function(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, reinterpret_cast<void*>(address), dims, strides, box,
                    steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
};

TEST_F(StandIn, TensorMapsHaveTheDriversLimits) {
  expect_fine(cudaFree(nullptr));  // makes the context
  TiledMap good;
  EXPECT_EQ(good.encode(), CUDA_SUCCESS);
  const auto refused = [](void (*spoil)(TiledMap*), const std::string& what) {
    TiledMap map;
    spoil(&map);
    EXPECT_EQ(map.encode(), CUDA_ERROR_INVALID_VALUE);
    const std::string said = lines_of(take_violations());
    EXPECT_NE(said.find(what), std::string::npos) << said;
  };
  refused([](TiledMap* m) { m->address += 8; }, "the address is not aligned");
  refused([](TiledMap* m) { m->rank = 6; }, "the rank is 6");
  refused([](TiledMap* m) { m->dims[1] = 0; }, "dimension 1 is 0");
  refused([](TiledMap* m) { m->dims[1] = (cuuint64_t{1} << 32) + 1; }, "dimension 1 is");
  refused([](TiledMap* m) { m->strides[0] = 136; }, "the stride of dimension 1 is 136");
  refused([](TiledMap* m) { m->strides[0] = cuuint64_t{1} << 40; }, "the stride of dimension 1");
  refused([](TiledMap* m) { m->box[1] = 257; }, "the box's dimension 1 is 257");
  refused([](TiledMap* m) { m->box[1] = 0; }, "the box's dimension 1 is 0");
  refused([](TiledMap* m) { m->box[0] = 4; }, "a box's rows have 8 bytes");
  refused([](TiledMap* m) { m->box[0] = 128; }, "more than the swizzle");
  refused([](TiledMap* m) { m->steps[1] = 9; }, "the element stride of dimension 1 is 9");
}

TEST_F(StandIn, ATensorMapReadsAnAllocation) {
  const auto replace =
      reinterpret_cast<decltype(&cuTensorMapReplaceAddress)>(driver_function("cuTensorMapReplaceAddress"));
  void* memory = nullptr;
  constexpr std::size_t kBytes = 64 * 32 * 2;
  expect_fine(cudaMalloc(&memory, kBytes));
  TiledMap map;
  EXPECT_EQ(map.encode(), CUDA_SUCCESS);
  EXPECT_EQ(replace(&map.map, memory), CUDA_SUCCESS);
  EXPECT_EQ(replace(&map.map, static_cast<char*>(memory) + 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(lines_of(take_violations()).find("the allocation has 4080"), std::string::npos);
  EXPECT_EQ(replace(&map.map, static_cast<char*>(memory) + 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(lines_of(take_violations()).find("not aligned"), std::string::npos);
  TiledMap never;
  EXPECT_EQ(replace(&never.map, memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(lines_of(take_violations()).find("never encoded"), std::string::npos);
  expect_fine(cudaFree(memory));
}

TEST_F(StandIn, AFaultComesOnceOrForGood) {
  int device = 0;
  plant_fault(1, false);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaErrorInitializationError);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(remove_fault().function, "cudaGetDevice");
  EXPECT_EQ(cudaGetLastError(), cudaErrorInitializationError);  // stays until it is asked for
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  plant_fault(0, true);
  EXPECT_NE(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_NE(cudaGetDevice(&device), cudaSuccess);
  (void)remove_fault();
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  (void)cudaGetLastError();
}

}  // namespace
}  // namespace gpudnn::standin
