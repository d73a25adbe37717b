// Calls of several kernels, which the library launches as one graph: with other pointers and scalars, behind one
// another, from several threads and streams, while streams are captured, and with handles and streams that end in
// between.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "runtime/every_operation.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

#define EXPECT_CUDA(call) EXPECT_EQ((call), cudaSuccess) << #call
#define ASSERT_CUDA(call) ASSERT_EQ((call), cudaSuccess) << #call
#define EXPECT_OK(call) EXPECT_EQ((call), GPUDNN_STATUS_SUCCESS) << #call << ": " << take_error_text()
#define ASSERT_OK(call) ASSERT_EQ((call), GPUDNN_STATUS_SUCCESS) << #call << ": " << take_error_text()

// The log's lines about graphs while it lives.
class GraphLog {
 public:
  GraphLog() { (void)gpudnnSetCallback(GPUDNN_SEV_INFO_EN, this, &GraphLog::take); }
  ~GraphLog() { (void)gpudnnSetCallback(0, nullptr, nullptr); }
  GraphLog(const GraphLog&) = delete;
  GraphLog& operator=(const GraphLog&) = delete;
  [[nodiscard]] int made() const { return made_; }

 private:
  static void take(gpudnnSeverity_t, void* self, const gpudnnDebug_t*, const char* text) {
    if (std::strstr(text, "made a launch graph") != nullptr) ++static_cast<GraphLog*>(self)->made_;
  }
  std::atomic<int> made_{0};
};

struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) { EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, flags)); }
  ~Stream() { EXPECT_CUDA(cudaStreamDestroy(stream)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t stream = nullptr;
};

// A handle of its own on a stream.
struct Handle {
  explicit Handle(cudaStream_t stream, bool graphs = true) {
    if (!graphs) setenv("GPUDNN_LAUNCH_GRAPHS", "0", 1);
    EXPECT_OK(gpudnnCreate(&handle));
    if (!graphs) unsetenv("GPUDNN_LAUNCH_GRAPHS");
    EXPECT_OK(gpudnnSetStream(handle, stream));
  }
  ~Handle() {
    if (handle == nullptr) return;
    EXPECT_OK(gpudnnDestroy(handle));
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  gpudnnHandle_t handle = nullptr;
};

// Holds a stream up until it is told to go on; gives up after ten seconds.
struct Gate {
  std::atomic<bool> open{false};
  static void CUDART_CB wait(void* self) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!static_cast<Gate*>(self)->open && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }
};

// Copies to channels-last, the product, the copy back. Of small integers, so that results are exact.
constexpr const char* kForward = "conv fwd f16 nchw n4c64h28w28 k64r3s3 p1x1 t1x1 d1x1 g1 math=tensor";
// Partial sums and their sum as well.
constexpr const char* kFilterGradient = "conv wgrad f16 nchw n8c64h28w28 k64r3s3 p1x1 t1x1 d1x1 g1 math=tensor";

// A convolution with several sets of tensors and a workspace for each.
class Convolution {
 public:
  Convolution(const char* line, int sets) : problem_(parse(line)), x_desc_(problem_.x), y_desc_(problem_.y) {
    const Backend& backend = Backend::at_hand();
    GPUDNN_TEST_REQUIRE(workspace_size(backend, problem_, 1, &bytes_));
    w_desc_ = std::make_unique<FilterDescriptor>(problem_.w);
    convolution_ = std::make_unique<ConvolutionDescriptor>(problem_);
    for (int i = 0; i < sets; ++i) {
      Set set;
      set.x = tensor(problem_.x, i, 1);
      set.w = tensor(problem_.w, i, 2);
      set.y = tensor(problem_.y, i, 3);
      set.workspace = std::make_unique<GuardedBuffer>(backend, bytes_);
      sets_.push_back(std::move(set));
    }
    EXPECT_CUDA(cudaDeviceSynchronize());
  }
  gpudnnStatus_t run(gpudnnHandle_t handle, int set, double alpha = 1, double beta = 0) const {
    const Set& s = sets_[static_cast<std::size_t>(set)];
    const Scalar a(alpha, problem_.x.type);
    const Scalar b(beta, problem_.x.type);
    if (problem_.direction == conv::Direction::forward) {
      return gpudnnConvolutionForward(handle, a, x_desc_, s.x->data(), *w_desc_, s.w->data(), *convolution_,
                                      GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, s.workspace->data(), bytes_, b,
                                      y_desc_, s.y->data());
    }
    return gpudnnConvolutionBackwardFilter(handle, a, x_desc_, s.x->data(), y_desc_, s.y->data(), *convolution_,
                                           GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, s.workspace->data(), bytes_, b,
                                           *w_desc_, s.w->data());
  }
  [[nodiscard]] DeviceTensor& output(int set) const {
    const Set& s = sets_[static_cast<std::size_t>(set)];
    return problem_.direction == conv::Direction::forward ? *s.y : *s.w;
  }
  void poison(int set) const {
    ASSERT_CUDA(cudaMemset(output(set).data(), 0xff, output(set).image().size()));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }
  // What the kernels launched one by one make of the set; the output is left poisoned.
  [[nodiscard]] std::vector<unsigned char> expected(int set, double alpha = 1) const {
    const Handle plain(nullptr, /*graphs=*/false);
    poison(set);
    EXPECT_OK(run(plain.handle, set, alpha));
    EXPECT_CUDA(cudaDeviceSynchronize());
    std::vector<unsigned char> image = output(set).image();
    poison(set);
    return image;
  }

 private:
  struct Set {
    std::unique_ptr<DeviceTensor> x, w, y;
    std::unique_ptr<GuardedBuffer> workspace;
  };
  static conv::Problem parse(const char* line) {
    std::string why;
    const auto problem = conv::from_text(line, &why);
    if (!problem) throw std::runtime_error(why);
    return *problem;
  }
  static std::unique_ptr<DeviceTensor> tensor(const TensorGeometry& geometry, int set, int which) {
    std::vector<double> values(static_cast<std::size_t>(element_count(geometry)));
    unsigned state = static_cast<unsigned>(100 * set + which);
    for (double& value : values) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<double>(state >> 30) - 1;
    }
    return std::make_unique<DeviceTensor>(Backend::at_hand(), geometry, &values);
  }

  conv::Problem problem_;
  TensorDescriptor x_desc_, y_desc_;
  std::unique_ptr<FilterDescriptor> w_desc_;
  std::unique_ptr<ConvolutionDescriptor> convolution_;
  std::size_t bytes_ = 0;
  std::vector<Set> sets_;
};

class LaunchGraphs : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { GPUDNN_NEEDS_GPU(); }
};
INSTANTIATE_TEST_SUITE_P(Convolutions, LaunchGraphs, testing::Values(kForward, kFilterGradient), [](const auto& which) {
  return std::string(which.index == 0 ? "forward" : "filter_gradient");
});

TEST_P(LaunchGraphs, AreMadeOnceAndTakeOtherPointersAndScalars) {
  const Convolution work(GetParam(), 3);
  const Stream stream;
  const Handle handle(stream.stream);
  const GraphLog log;
  for (const double alpha : {1.0, 2.0, 1.0}) {
    for (int set = 0; set < 3; ++set) {
      const auto expected = work.expected(set, alpha);
      EXPECT_OK(work.run(handle.handle, set, alpha));
      EXPECT_CUDA(cudaStreamSynchronize(stream.stream));
      EXPECT_EQ(work.output(set).image(), expected) << "set " << set << ", alpha " << alpha;
      EXPECT_EQ(log.made(), 1);
    }
  }
}

// beta != 0 reads the output, which may take other kernels.
TEST_P(LaunchGraphs, AddToTheOutput) {
  const Convolution work(GetParam(), 1);
  const Stream stream;
  const Handle handle(stream.stream);
  const Handle plain(stream.stream, /*graphs=*/false);
  std::vector<unsigned char> images[2];
  for (int i = 0; i < 2; ++i) {
    const gpudnnHandle_t h = i == 0 ? handle.handle : plain.handle;
    work.poison(0);
    EXPECT_OK(work.run(h, 0));
    EXPECT_OK(work.run(h, 0, 1, 1));
    EXPECT_OK(work.run(h, 0, 2, -1));
    EXPECT_CUDA(cudaStreamSynchronize(stream.stream));
    images[i] = work.output(0).image();
  }
  EXPECT_EQ(images[0], images[1]);
}

TEST_P(LaunchGraphs, DoNotWaitForOneAnotherNorChangeWhatIsQueued) {
  constexpr int kSets = 12;
  const Convolution work(GetParam(), kSets);
  std::vector<std::vector<unsigned char>> expected;
  for (int set = 0; set < kSets; ++set) expected.push_back(work.expected(set));
  const Stream stream;
  const Handle handle(stream.stream);
  EXPECT_OK(work.run(handle.handle, 0));
  EXPECT_CUDA(cudaStreamSynchronize(stream.stream));
  work.poison(0);
  Gate gate;
  ASSERT_CUDA(cudaLaunchHostFunc(stream.stream, &Gate::wait, &gate));
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 5; ++round) {
    for (int set = 0; set < kSets; ++set) EXPECT_OK(work.run(handle.handle, set));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(cudaStreamQuery(stream.stream), cudaErrorNotReady);
  (void)cudaGetLastError();
  gate.open = true;
  ASSERT_CUDA(cudaStreamSynchronize(stream.stream));
  for (int set = 0; set < kSets; ++set) EXPECT_EQ(work.output(set).image(), expected[static_cast<std::size_t>(set)]);
}

// Handles with streams of their own, and one handle that all threads call with the same stream.
TEST_P(LaunchGraphs, RunFromSeveralThreads) {
  constexpr int kThreads = 4;
  const Convolution own(GetParam(), kThreads), shared(GetParam(), kThreads);
  std::vector<std::vector<unsigned char>> expected, expected_shared;
  for (int i = 0; i < kThreads; ++i) {
    expected.push_back(own.expected(i));
    expected_shared.push_back(shared.expected(i));
  }
  const Stream stream;
  const Handle handle(stream.stream);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Stream my_stream;
      const Handle mine(my_stream.stream);
      for (int call = 0; call < 200; ++call) {
        if (own.run(mine.handle, i) != GPUDNN_STATUS_SUCCESS) ++failures;
        if (shared.run(handle.handle, i) != GPUDNN_STATUS_SUCCESS) ++failures;
      }
      if (cudaStreamSynchronize(my_stream.stream) != cudaSuccess) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(failures, 0);
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(own.output(i).image(), expected[static_cast<std::size_t>(i)]) << i;
    EXPECT_EQ(shared.output(i).image(), expected_shared[static_cast<std::size_t>(i)]) << i;
  }
}

TEST_P(LaunchGraphs, GiveWayToACapture) {
  const Convolution work(GetParam(), 2);
  const auto expected = work.expected(1);
  const Stream stream;
  const Handle handle(stream.stream);
  EXPECT_OK(work.run(handle.handle, 0));  // makes the graph
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeGlobal));
  EXPECT_OK(work.run(handle.handle, 1));
  ASSERT_CUDA(cudaStreamEndCapture(stream.stream, &graph));
  std::size_t nodes = 0;
  ASSERT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_GT(nodes, 1u) << "kernels, not a graph within the graph";
  cudaGraphExec_t executable = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  for (int replay = 0; replay < 2; ++replay) {
    work.poison(1);
    EXPECT_OK(work.run(handle.handle, 0));
    ASSERT_CUDA(cudaGraphLaunch(executable, stream.stream));
    EXPECT_OK(work.run(handle.handle, 0));
    ASSERT_CUDA(cudaStreamSynchronize(stream.stream));
    EXPECT_EQ(work.output(1).image(), expected);
  }
  EXPECT_CUDA(cudaGraphExecDestroy(executable));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

// The capture of a stream in the strictest mode: a thread that made a call which it forbids would end it.
TEST_P(LaunchGraphs, AreMadeUsedAndEndedWhileAnotherThreadCaptures) {
  const Convolution work(GetParam(), 1);
  const auto expected = work.expected(0);  // loads the kernels
  const Stream captured, stream;
  const GraphLog log;
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(captured.stream, cudaStreamCaptureModeGlobal));
  std::thread([&] {
    auto handle = std::make_unique<Handle>(stream.stream);
    EXPECT_OK(work.run(handle->handle, 0));
    EXPECT_EQ(log.made(), 1);
    EXPECT_OK(work.run(handle->handle, 0, 2));
    EXPECT_OK(work.run(handle->handle, 0));
    handle.reset();
  }).join();
  EXPECT_CUDA(cudaStreamEndCapture(captured.stream, &graph));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  ASSERT_CUDA(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(work.output(0).image(), expected);
}

TEST_P(LaunchGraphs, EndWithTheirHandleWhileTheyRun) {
  const Convolution work(GetParam(), 1);
  const auto expected = work.expected(0);
  const Stream stream;
  auto handle = std::make_unique<Handle>(stream.stream);
  EXPECT_OK(work.run(handle->handle, 0));
  ASSERT_CUDA(cudaStreamSynchronize(stream.stream));
  work.poison(0);
  Gate gate;
  ASSERT_CUDA(cudaLaunchHostFunc(stream.stream, &Gate::wait, &gate));
  EXPECT_OK(work.run(handle->handle, 0));
  const auto start = std::chrono::steady_clock::now();
  handle.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  gate.open = true;
  ASSERT_CUDA(cudaStreamSynchronize(stream.stream));
  EXPECT_EQ(work.output(0).image(), expected);
}

TEST_P(LaunchGraphs, OutliveStreamsAndMeetNewOnes) {
  const Convolution work(GetParam(), 1);
  const auto expected = work.expected(0);
  const Handle handle(nullptr);
  for (int i = 0; i < 8; ++i) {
    const Stream stream;
    EXPECT_OK(gpudnnSetStream(handle.handle, stream.stream));
    for (int call = 0; call < 2; ++call) {
      work.poison(0);
      EXPECT_OK(work.run(handle.handle, 0));
      ASSERT_CUDA(cudaStreamSynchronize(stream.stream));
      EXPECT_EQ(work.output(0).image(), expected) << i;
    }
  }
}

// Every one of them serializes as it should: a copy in the legacy stream after the call sees its result.
TEST_P(LaunchGraphs, RunInTheDefaultStreams) {
  const Convolution work(GetParam(), 2);
  for (const cudaStream_t stream : {cudaStream_t{nullptr}, cudaStreamLegacy, cudaStreamPerThread}) {
    const Handle handle(stream);
    for (const int set : {0, 1, 0}) {
      const auto expected = work.expected(set);
      EXPECT_OK(work.run(handle.handle, set));
      EXPECT_CUDA(cudaStreamSynchronize(stream));
      EXPECT_EQ(work.output(set).image(), expected);
    }
  }
}

TEST_P(LaunchGraphs, OrderThemselvesAmongBlockingStreams) {
  const Convolution work(GetParam(), 1);
  const auto expected = work.expected(0);
  const Stream blocking(cudaStreamDefault);
  const Handle handle(blocking.stream);
  std::vector<unsigned char> image(work.output(0).image().size());
  for (int call = 0; call < 3; ++call) {
    work.poison(0);
    EXPECT_OK(work.run(handle.handle, 0));
    // The legacy stream waits for blocking ones.
    ASSERT_CUDA(cudaMemcpy(image.data(), work.output(0).data(), image.size(), cudaMemcpyDeviceToHost));
    EXPECT_EQ(image, expected);
  }
}

TEST(LaunchGraphsOfEveryOperation, GiveTheSameBitsAsLaunchesOneByOne) {
  GPUDNN_NEEDS_GPU();
  const Stream stream;
  const Handle handle(stream.stream), plain(stream.stream, /*graphs=*/false);
  const GraphLog log;
  for (const PreparedCall& call : every_operation(Backend::at_hand())) {
    ASSERT_OK(call.call(plain.handle));
    ASSERT_CUDA(cudaStreamSynchronize(stream.stream));
    for (int i = 0; i < 3; ++i) {
      ASSERT_CUDA(cudaMemset(call.output->data(), 0xff, call.output->image().size()));
      ASSERT_CUDA(cudaDeviceSynchronize());
      ASSERT_OK(call.call(handle.handle));
      ASSERT_CUDA(cudaStreamSynchronize(stream.stream));
      Outcome outcome;
      outcome.values = call.output->values();
      outcome.damage = call.output->damage_outside_elements();
      EXPECT_EQ(judge(call.output->geometry(), outcome, call.expected), "") << call.name << ", call " << i;
    }
  }
  EXPECT_GE(log.made(), 3);
}

}  // namespace
}  // namespace gpudnn::test
