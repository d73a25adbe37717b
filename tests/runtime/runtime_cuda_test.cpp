// What only a GPU can show: capture, streams, no allocation and no waiting in calls, tensors beyond 2^31 elements.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "runtime/every_operation.hpp"
#include "runtime/more_operations.hpp"
#include "support/large_halves.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

#define EXPECT_CUDA(call) EXPECT_EQ((call), cudaSuccess) << #call
#define ASSERT_CUDA(call) ASSERT_EQ((call), cudaSuccess) << #call

class CudaRuntime : public testing::Test {
 protected:
  void SetUp() override {
    GPUDNN_NEEDS_GPU();
    ASSERT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    ASSERT_EQ(gpudnnSetStream(backend_.handle(), stream_), GPUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (stream_ == nullptr) return;
    EXPECT_CUDA(cudaStreamDestroy(stream_));
  }
  static std::string verdict(const PreparedCall& call) {
    Outcome outcome;
    outcome.values = call.output->values();
    outcome.damage = call.output->damage_outside_elements();
    return judge(call.output->geometry(), outcome, call.expected);
  }
  // Poison again, so that only the work under test can have given the result.
  void poison(const PreparedCall& call) {
    const std::size_t bytes = call.output->image().size();
    ASSERT_CUDA(cudaMemset(call.output->data(), 0xff, bytes));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  Backend backend_;
  cudaStream_t stream_ = nullptr;
};

TEST_F(CudaRuntime, EveryOperationIsCapturedAndReplayed) {
  for (const PreparedCall& call : every_operation(Backend::at_hand())) {
    // Loads the kernels; the plans of backend_ are made within the capture.
    ASSERT_EQ(call.call(Backend::at_hand().handle()), GPUDNN_STATUS_SUCCESS) << call.name;
    ASSERT_CUDA(cudaDeviceSynchronize());
    poison(call);
    cudaGraph_t graph = nullptr;
    ASSERT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    EXPECT_EQ(call.call(backend_.handle()), GPUDNN_STATUS_SUCCESS) << call.name << ": " << take_error_text();
    ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph)) << call.name;
    cudaGraphExec_t executable = nullptr;
    ASSERT_CUDA(cudaGraphInstantiate(&executable, graph, 0)) << call.name;
    for (int replay = 0; replay < 2; ++replay) {
      ASSERT_CUDA(cudaGraphLaunch(executable, stream_));
      ASSERT_CUDA(cudaStreamSynchronize(stream_));
      EXPECT_EQ(verdict(call), "") << call.name << ", replay " << replay;
      poison(call);
    }
    EXPECT_CUDA(cudaGraphExecDestroy(executable));
    EXPECT_CUDA(cudaGraphDestroy(graph));
  }
}

// The state advances on the device: each replay draws the mask that the next call would have drawn.
TEST_F(CudaRuntime, AReplayedDropoutDrawsNewMasks) {
  const PreparedCall call =
      dropout_call(Backend::at_hand(), "dropout fwd f32 nchw n2c64h31w33 p=0.5", /*starts_states=*/false);
  ASSERT_CUDA(cudaDeviceSynchronize());
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(call.call(backend_.handle()), GPUDNN_STATUS_SUCCESS) << take_error_text();
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t executable = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  ASSERT_CUDA(cudaGraphLaunch(executable, stream_));
  ASSERT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_EQ(verdict(call), "");
  const std::vector<unsigned char> first = call.output->image();
  ASSERT_CUDA(cudaGraphLaunch(executable, stream_));
  ASSERT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_NE(call.output->image(), first);
  EXPECT_CUDA(cudaGraphExecDestroy(executable));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST_F(CudaRuntime, RepeatedCallsAllocateNothing) {
  const std::vector<PreparedCall> calls = every_operation(backend_);
  for (const PreparedCall& call : calls) ASSERT_EQ(call.call(backend_.handle()), GPUDNN_STATUS_SUCCESS) << call.name;
  ASSERT_CUDA(cudaDeviceSynchronize());
  std::size_t before = 0, after = 0, total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&before, &total));
  for (int i = 0; i < 10; ++i) {
    for (const PreparedCall& call : calls) ASSERT_EQ(call.call(backend_.handle()), GPUDNN_STATUS_SUCCESS) << call.name;
  }
  ASSERT_CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
  ASSERT_CUDA(cudaDeviceSynchronize());
}

// Holds a stream up until it is told to go on; gives up after ten seconds, so that a waiting call fails and does not
// hang.
struct Gate {
  std::atomic<bool> open{false};
  static void CUDART_CB wait(void* self) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!static_cast<Gate*>(self)->open && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }
};

TEST_F(CudaRuntime, CallsAreQueuedOnTheHandlesStreamAndDoNotWait) {
  for (const PreparedCall& call : every_operation(Backend::at_hand())) {
    ASSERT_EQ(call.call(backend_.handle()), GPUDNN_STATUS_SUCCESS) << call.name;
    ASSERT_CUDA(cudaDeviceSynchronize());
    poison(call);
    Gate gate;
    ASSERT_CUDA(cudaLaunchHostFunc(stream_, &Gate::wait, &gate));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(call.call(backend_.handle()), GPUDNN_STATUS_SUCCESS) << call.name;
    const bool returned_at_once = std::chrono::steady_clock::now() - start < std::chrono::seconds(5);
    const cudaError_t state = cudaStreamQuery(stream_);
    (void)cudaGetLastError();
    // Work on any other stream would be done by now.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gate.open = true;
    EXPECT_TRUE(returned_at_once) << call.name << " waited for the stream";
    EXPECT_EQ(state, cudaErrorNotReady) << call.name;
    ASSERT_CUDA(cudaStreamSynchronize(stream_));
    EXPECT_EQ(verdict(call), "") << call.name;
  }
}

TEST_F(CudaRuntime, AThreadThatNeverTouchedCudaMayCall) {
  for (const PreparedCall& call : every_operation(Backend::at_hand())) {
    gpudnnStatus_t status = GPUDNN_STATUS_INTERNAL_ERROR;
    std::thread([&] { status = call.call(backend_.handle()); }).join();
    ASSERT_EQ(status, GPUDNN_STATUS_SUCCESS) << call.name;
    ASSERT_CUDA(cudaStreamSynchronize(stream_));
    EXPECT_EQ(verdict(call), "") << call.name;
  }
}

// --- more than 2^31 elements -----------------------------------------------------------------------------------------

constexpr int kChannels = 8;
constexpr int kSide = 16385;
constexpr std::int64_t kPlane = std::int64_t{kSide} * kSide;
constexpr std::int64_t kCount = kChannels * kPlane;
static_assert(kCount > (std::int64_t{1} << 31));

struct LargeTensor : LargeHalves {
  explicit LargeTensor(const Backend& backend) : LargeHalves(backend, kCount) {}
};

constexpr std::int64_t kSamples[] = {
    0, 1, (std::int64_t{1} << 31) - 1, std::int64_t{1} << 31, (std::int64_t{1} << 31) + 1, kCount - 2, kCount - 1};

class LargeTensors : public CudaRuntime {
 protected:
  void SetUp() override {
    CudaRuntime::SetUp();
    if (IsSkipped()) return;
    std::size_t free_bytes = 0, total = 0;
    ASSERT_CUDA(cudaMemGetInfo(&free_bytes, &total));
    if (free_bytes < 10 * static_cast<std::size_t>(kCount) / 2 + (std::size_t{1} << 30)) {
      GTEST_SKIP() << "needs a GPU with 12 GB of free memory";
    }
  }
};

TEST_F(LargeTensors, SetScaleAndAdd) {
  LargeTensor y(backend_);
  ASSERT_NE(y.data(), nullptr);
  const TensorDescriptor desc(GPUDNN_DATA_HALF, 1, kChannels, kSide, kSide);
  ASSERT_EQ(gpudnnSetTensor(backend_.handle(), desc, y.data(), Scalar(3, GPUDNN_DATA_HALF)), GPUDNN_STATUS_SUCCESS);
  for (const std::int64_t at : kSamples) EXPECT_EQ(y.read(at), 3) << at;
  ASSERT_EQ(gpudnnScaleTensor(backend_.handle(), desc, y.data(), Scalar(0.5, GPUDNN_DATA_HALF)), GPUDNN_STATUS_SUCCESS);
  for (const std::int64_t at : kSamples) EXPECT_EQ(y.read(at), 1.5) << at;
  const TensorDescriptor bias_desc(GPUDNN_DATA_HALF, 1, kChannels, 1, 1);
  TensorGeometry row;
  row.type = GPUDNN_DATA_HALF;
  row.rank = 1;
  row.dims[0] = kChannels;
  row.strides[0] = 1;
  const std::vector<double> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const DeviceTensor bias(backend_, row, &values);
  const Scalar one(1, GPUDNN_DATA_HALF);
  ASSERT_EQ(gpudnnAddTensor(backend_.handle(), one, bias_desc, bias.data(), one, desc, y.data()),
            GPUDNN_STATUS_SUCCESS);
  for (const std::int64_t at : kSamples) EXPECT_EQ(y.read(at), 1.5 + 1 + static_cast<double>(at / kPlane)) << at;
}

TEST_F(LargeTensors, Activation) {
  LargeTensor x(backend_), y(backend_);
  ASSERT_TRUE(x.data() != nullptr && y.data() != nullptr);
  const TensorDescriptor desc(GPUDNN_DATA_HALF, 1, kChannels, kSide, kSide);
  x.set_all(-1);
  y.set_all(9);
  double next = 1;
  for (const std::int64_t at : kSamples) x.write(at, next++);
  const ActivationDescriptor relu(GPUDNN_ACTIVATION_RELU, GPUDNN_NOT_PROPAGATE_NAN, 0);
  ASSERT_EQ(gpudnnActivationForward(backend_.handle(), relu, Scalar(1, GPUDNN_DATA_HALF), desc, x.data(),
                                    Scalar(0, GPUDNN_DATA_HALF), desc, y.data()),
            GPUDNN_STATUS_SUCCESS);
  next = 1;
  for (const std::int64_t at : kSamples) EXPECT_EQ(y.read(at), next++) << at;
  EXPECT_EQ(y.read(kCount - 3), 0);
  EXPECT_EQ(y.read(2), 0);
}

TEST_F(LargeTensors, Pooling) {
  LargeTensor x(backend_), y(backend_);
  ASSERT_TRUE(x.data() != nullptr && y.data() != nullptr);
  const int half_side = kSide / 2;
  const TensorDescriptor x_desc(GPUDNN_DATA_HALF, 1, kChannels, kSide, kSide);
  const TensorDescriptor y_desc(GPUDNN_DATA_HALF, 1, kChannels, half_side, half_side);
  PoolingDescriptor pool;
  ASSERT_EQ(gpudnnSetPooling2dDescriptor(pool, GPUDNN_POOLING_MAX, GPUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2),
            GPUDNN_STATUS_SUCCESS);
  x.set_all(1);
  // The last window of the last channel, far beyond 2^31.
  x.write((kChannels - 1) * kPlane + std::int64_t{2 * half_side - 1} * kSide + 2 * half_side - 2, 7);
  x.write(0, 5);
  ASSERT_EQ(gpudnnPoolingForward(backend_.handle(), pool, Scalar(1, GPUDNN_DATA_HALF), x_desc, x.data(),
                                 Scalar(0, GPUDNN_DATA_HALF), y_desc, y.data()),
            GPUDNN_STATUS_SUCCESS);
  const std::int64_t pooled = std::int64_t{kChannels} * half_side * half_side;
  EXPECT_EQ(y.read(0), 5);
  EXPECT_EQ(y.read(1), 1);
  EXPECT_EQ(y.read(pooled - 2), 1);
  EXPECT_EQ(y.read(pooled - 1), 7);
}

TEST_F(LargeTensors, PointwiseConvolution) {
  LargeTensor x(backend_), y(backend_);
  ASSERT_TRUE(x.data() != nullptr && y.data() != nullptr);
  const TensorDescriptor desc(GPUDNN_DATA_HALF, 1, kChannels, kSide, kSide);
  const FilterDescriptor w_desc(GPUDNN_DATA_HALF, kChannels, kChannels, 1, 1);
  const ConvolutionDescriptor convolution(0, 1, 1);
  TensorGeometry flat;
  flat.type = GPUDNN_DATA_HALF;
  flat.rank = 2;
  flat.dims[0] = flat.dims[1] = flat.strides[0] = kChannels;
  flat.strides[1] = 1;
  std::vector<double> weights(kChannels * kChannels, 0);
  for (std::size_t k = 0; k < kChannels; ++k) {
    weights[k * kChannels + 7] = static_cast<double>(k + 1);  // the last input channel, times k + 1
    weights[k * kChannels] = 100;                             // and the first
  }
  const DeviceTensor w(backend_, flat, &weights);
  x.set_all(0);
  y.set_all(9);
  const std::int64_t pixels[] = {0, kPlane / 2, kPlane - 1};
  for (const std::int64_t pixel : pixels) {
    x.write(7 * kPlane + pixel, 2);
    x.write(pixel, 1);
  }
  ASSERT_EQ(gpudnnConvolutionForward(backend_.handle(), Scalar(1, GPUDNN_DATA_HALF), desc, x.data(), w_desc, w.data(),
                                     convolution, GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0,
                                     Scalar(0, GPUDNN_DATA_HALF), desc, y.data()),
            GPUDNN_STATUS_SUCCESS)
      << take_error_text();
  for (std::int64_t k = 0; k < kChannels; ++k) {
    for (const std::int64_t pixel : pixels) {
      EXPECT_EQ(y.read(k * kPlane + pixel), 100 + 2 * static_cast<double>(k + 1)) << k << " " << pixel;
    }
    EXPECT_EQ(y.read(k * kPlane + 1), 0) << k;
  }
}

// Even columns of ones and odd ones of threes: the mean is 2 and the variance nearly 1, because a row has one even
// column more than odd ones.
TEST_F(LargeTensors, BatchNormalization) {
  LargeTensor x(backend_), y(backend_);
  ASSERT_TRUE(x.data() != nullptr && y.data() != nullptr);
  const int dims[] = {1, kChannels, kSide, kSide / 2};
  const int strides[] = {1, static_cast<int>(kPlane), kSide, 2};
  const TensorDescriptor odd_columns;
  ASSERT_EQ(gpudnnSetTensorNdDescriptor(odd_columns, GPUDNN_DATA_HALF, 4, dims, strides), GPUDNN_STATUS_SUCCESS);
  const float three = 3;
  x.set_all(1);
  ASSERT_EQ(gpudnnSetTensor(backend_.handle(), odd_columns, static_cast<char*>(x.data()) + 2, &three),
            GPUDNN_STATUS_SUCCESS);
  y.set_all(9);
  const TensorDescriptor desc(GPUDNN_DATA_HALF, 1, kChannels, kSide, kSide);
  const TensorDescriptor param_desc(GPUDNN_DATA_FLOAT, 1, kChannels, 1, 1);
  TensorGeometry row;
  row.type = GPUDNN_DATA_FLOAT;
  row.rank = 1;
  row.dims[0] = kChannels;
  row.strides[0] = 1;
  const std::vector<double> ones(kChannels, 1), biases = {0, 1, 2, 3, 4, 5, 6, 7};
  const DeviceTensor scale(backend_, row, &ones), bias(backend_, row, &biases);
  const DeviceTensor mean(backend_, row, nullptr), inverse(backend_, row, nullptr);
  ASSERT_EQ(gpudnnBatchNormalizationForwardTraining(backend_.handle(), GPUDNN_BATCHNORM_SPATIAL,
                                                    Scalar(1, GPUDNN_DATA_FLOAT), Scalar(0, GPUDNN_DATA_FLOAT), desc,
                                                    x.data(), desc, y.data(), param_desc, scale.data(), bias.data(), 1,
                                                    nullptr, nullptr, 1e-5, mean.data(), inverse.data()),
            GPUDNN_STATUS_SUCCESS)
      << take_error_text();
  const double expected_mean = 2 - 1.0 / kSide;
  const double expected_inverse = 1 / std::sqrt(1 - 1.0 / kSide / kSide + 1e-5);
  for (const double value : mean.values()) EXPECT_NEAR(value, expected_mean, 1e-5);
  for (const double value : inverse.values()) EXPECT_NEAR(value, expected_inverse, 1e-5);
  for (const std::int64_t at : kSamples) {
    const bool odd = at % kPlane % kSide % 2 != 0;
    const auto channel = static_cast<double>(at / kPlane);
    EXPECT_NEAR(y.read(at), ((odd ? 3 : 1) - expected_mean) * expected_inverse + channel, 4e-3) << at;
  }
}

}  // namespace
}  // namespace gpudnn::test
