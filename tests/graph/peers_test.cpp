// Batch normalization whose statistics are shared: several parts of a batch, each with a handle of its own, give what
// the interpreter makes of the whole batch. On the host the handles run in threads, on a GPU in streams, and where
// there are two GPUs on both.
// SPDX-License-Identifier: Apache-2.0
#ifdef GPUDNN_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#include <bit>
#include <cmath>
#include <thread>

#include "client.hpp"
#include "support/backend.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kInterpreter = 100;
constexpr std::int64_t kBatchNorm = 131;
constexpr std::int64_t kFirstPeer = 21;
constexpr int kRounds = 3;  // with the same buffers

struct Shape {
  std::int64_t images, channels, side;
  bool channels_last;
  const char* type;
  bool backward, relu;
};

std::string extents(std::int64_t n, std::int64_t c, std::int64_t side) {
  return std::to_string(n) + 'x' + std::to_string(c) + 'x' + std::to_string(side) + 'x' + std::to_string(side);
}

std::string graph_text(const Shape& s, std::int64_t images, int peers) {
  const std::string vector = "f32 " + extents(1, s.channels, 1) + '\n';
  std::string image = std::string(s.type) + ' ' + extents(images, s.channels, s.side);
  if (s.channels_last) {
    const std::int64_t line = s.side * s.channels;
    image +=
        " strides=" + std::to_string(line * s.side) + ",1," + std::to_string(line) + ',' + std::to_string(s.channels);
  }
  std::string text, items;
  int uid = 0;
  const auto tensor = [&](const std::string& words) {
    text += "tensor " + std::to_string(++uid) + ' ' + words + (words.back() == '\n' ? "" : "\n");
  };
  for (int i = 0; i < peers; ++i) items += " item=" + std::to_string(kFirstPeer + i);
  std::string operations;
  if (s.backward) {
    tensor(image), tensor(image);
    for (int i = 0; i < 5; ++i) tensor(vector);
    tensor(image);
    operations = "norm_bwd batch x=1 dy=2 mean=3 inverse=4 scale=5 dscale=6 dbias=7" + items + " dx=8\n";
  } else {
    tensor(image);
    for (int i = 0; i < 4; ++i) tensor(vector);
    for (int i = 0; i < 2; ++i) tensor("f32 1x1x1x1 by_value");
    for (int i = 0; i < 4; ++i) tensor(vector);
    tensor(image + (s.relu ? " virtual" : ""));
    if (s.relu) tensor(image);
    operations =
        "norm_fwd batch x=1 scale=2 bias=3 mean=4 inverse=5 epsilon=6 factor=7 running_mean_in=8 "
        "running_var_in=9 running_mean_out=10 running_var_out=11" +
        items + " y=12 phase=1\n";
    if (s.relu) operations += "pointwise relu_fwd x=12 y=13 compute=f32\n";
  }
  uid = kFirstPeer - 1;
  for (int i = 0; i < peers; ++i) tensor("f32 " + extents(peers, 4 * s.channels, 1));
  return text + operations;
}

// One that stands for a GPU: a handle, its plan, and its buffer of statistics.
struct Rank {
  gpudnnHandle_t handle = nullptr;
  ClientGraph client;
  BackendDescriptor plan;
  void* buffer = nullptr;
};

// Runs all of them at once.
using RunAll = void (*)(std::vector<std::unique_ptr<Execution>>& executions);

void run_in_threads(std::vector<std::unique_ptr<Execution>>& executions) {
  std::vector<std::thread> threads;
  for (const auto& execution : executions)
    threads.emplace_back([&] { EXPECT_EQ(execution->start(), GPUDNN_STATUS_SUCCESS) << last_error(); });
  for (std::thread& thread : threads) thread.join();
}
[[maybe_unused]] void run_in_streams(std::vector<std::unique_ptr<Execution>>& executions) {
  for (const auto& execution : executions) EXPECT_EQ(execution->start(), GPUDNN_STATUS_SUCCESS) << last_error();
}

bool is_image(const graph::Tensor& t) { return t.geometry.dims[0] != 1 || t.geometry.dims[2] != 1; }

// `own_first`: each names its own buffer first, and the others in turn; else all name them in the same order.
void compare(const Shape& shape, std::vector<Rank>& ranks, bool own_first, RunAll run_all, std::uint64_t seed) {
  const int count = static_cast<int>(ranks.size());
  Random random = case_random(session_seed(), seed);
  const graph::Graph whole_graph = read(graph_text(shape, shape.images * count, 0));
  const graph::Graph part_graph = read(graph_text(shape, shape.images, count));
  for (Rank& rank : ranks) {
    build(part_graph, rank.handle, &rank.client);
    rank.plan = make_plan(rank.client.graph_descriptor, kBatchNorm);
  }
  ClientGraph whole_client;
  build(whole_graph, Backend::host().handle(), &whole_client);
  const BackendDescriptor whole_plan = make_plan(whole_client.graph_descriptor, kInterpreter);
  for (int round = 0; round < kRounds; ++round) {
    Memory whole(whole_graph, &random);
    if (shape.backward) {
      whole.set_all(4, 0.8);
    } else {
      whole.set_all(6, 0.01), whole.set_all(7, 0.2), whole.set_all(9, 0.6);
    }
    std::vector<Memory> parts;
    for (int r = 0; r < count; ++r) {
      Memory& part = parts.emplace_back(part_graph, &random);
      for (const graph::Tensor& t : whole_graph.tensors) {
        if (t.is_virtual) continue;
        std::vector<double> values = whole.values(t.uid);
        if (is_image(t)) {
          const std::size_t size = values.size() / static_cast<std::size_t>(count);
          values = {values.begin() + static_cast<std::ptrdiff_t>(size) * r,
                    values.begin() + static_cast<std::ptrdiff_t>(size) * (r + 1)};
        }
        part.set(t.uid, values);
      }
    }
    ASSERT_EQ(execute(Backend::host().handle(), whole_plan, &whole), GPUDNN_STATUS_SUCCESS) << last_error();
    std::vector<std::unique_ptr<Execution>> executions;
    for (int r = 0; r < count; ++r) {
      std::map<std::int64_t, void*> given;
      for (int i = 0; i < count; ++i)
        given[kFirstPeer + i] = ranks[static_cast<std::size_t>(own_first ? (r + i) % count : i)].buffer;
      executions.push_back(std::make_unique<Execution>(ranks[static_cast<std::size_t>(r)].handle,
                                                       ranks[static_cast<std::size_t>(r)].plan,
                                                       &parts[static_cast<std::size_t>(r)], given));
    }
    run_all(executions);
    for (const auto& execution : executions) execution->finish();
    for (const graph::Tensor& t : whole_graph.tensors) {
      if (t.is_virtual) continue;
      const std::vector<double> expected = whole.values(t.uid);
      const bool averaged = shape.backward && (t.uid == 6 || t.uid == 7);
      const std::vector<double> first = parts[0].values(t.uid);
      for (int r = 0; r < count; ++r) {
        const std::vector<double> actual = parts[static_cast<std::size_t>(r)].values(t.uid);
        const std::size_t start = is_image(t) ? actual.size() * static_cast<std::size_t>(r) : 0;
        const double bound = t.geometry.type == GPUDNN_DATA_FLOAT ? 3e-5 : 0.008;
        for (std::size_t k = 0; k < actual.size(); ++k) {
          const double wanted = expected[start + k] / (averaged ? count : 1);
          ASSERT_NEAR(actual[k], wanted, bound * (1 + std::fabs(wanted)))
              << "tensor " << t.uid << ", " << k << ", part " << r;
          if (!is_image(t) && !own_first) {
            ASSERT_EQ(actual[k], first[k]) << "tensor " << t.uid;
          }
        }
      }
    }
  }
}

constexpr Shape kShapes[] = {
    {3, 5, 4, false, "f32", false, false}, {2, 16, 7, true, "f16", false, true}, {2, 64, 9, true, "bf16", false, false},
    {3, 5, 4, false, "f32", true, false},  {2, 16, 7, true, "f16", true, false}, {1, 24, 8, false, "bf16", true, false},
};

TEST(GraphPeers, HostHandlesInThreads) {
  for (const int count : {2, 3}) {
    std::uint64_t seed = 0;
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(graph_text(shape, shape.images, count));
      std::vector<Rank> ranks(static_cast<std::size_t>(count));
      std::vector<std::vector<double>> buffers;
      for (Rank& rank : ranks) {
        rank.handle = Backend::host().handle();
        buffers.emplace_back(2 * static_cast<std::size_t>(count) * static_cast<std::size_t>(shape.channels));
        rank.buffer = buffers.back().data();
      }
      compare(shape, ranks, true, run_in_threads, ++seed);
    }
  }
}

TEST(GraphPeers, ABufferThatIsTooSmallIsRefused) {
  Shape shape = kShapes[0];
  std::string text = graph_text(shape, shape.images, 2);
  const std::string size = extents(2, 4 * shape.channels, 1);
  text.replace(text.find(size), size.size(), extents(2, 4 * shape.channels - 1, 1));
  ClientGraph client;
  build(read(text), Backend::host().handle(), &client);
  EXPECT_TRUE(configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A).empty());
  EXPECT_NE(last_error().find("4 * GPUs * channels"), std::string::npos) << last_error();
}

#ifdef GPUDNN_WITH_CUDA

// A handle on a device, with a stream of its own, and zeros for statistics.
class DeviceRank {
 public:
  DeviceRank(int device, std::size_t bytes) : device_(device) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(gpudnnCreate(&rank.handle), GPUDNN_STATUS_SUCCESS) << last_error();
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(gpudnnSetStream(rank.handle, stream_), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaMalloc(&rank.buffer, bytes), cudaSuccess);
    EXPECT_EQ(cudaMemset(rank.buffer, 0, bytes), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  ~DeviceRank() {
    (void)cudaSetDevice(device_);
    (void)gpudnnDestroy(rank.handle);
    (void)cudaFree(rank.buffer);
    (void)cudaStreamDestroy(stream_);
    (void)cudaSetDevice(0);
  }
  DeviceRank(const DeviceRank&) = delete;
  DeviceRank& operator=(const DeviceRank&) = delete;
  Rank rank;

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

void compare_on_devices(const std::vector<int>& devices, bool own_first) {
  std::uint64_t seed = 0;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(graph_text(shape, shape.images, static_cast<int>(devices.size())));
    std::vector<std::unique_ptr<DeviceRank>> owners;
    std::vector<Rank> ranks;
    for (const int device : devices) {
      owners.push_back(
          std::make_unique<DeviceRank>(device, 16 * devices.size() * static_cast<std::size_t>(shape.channels)));
      Rank& rank = ranks.emplace_back();
      rank.handle = owners.back()->rank.handle;
      rank.buffer = owners.back()->rank.buffer;
    }
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    compare(shape, ranks, own_first, run_in_streams, ++seed);
  }
}

// A GPU that is alone finds in its buffer what others would have written, as the frontend's sample has it. It also has
// the kernels loaded, which must not wait for one that waits for another.
TEST(GraphPeers, StatisticsThatAreThereAreTaken) {
  GPUDNN_NEEDS_GPU();
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(graph_text(shape, shape.images, 2));
    const auto channels = static_cast<std::size_t>(shape.channels);
    DeviceRank own(0, 32 * channels);
    DeviceRank other(0, 32 * channels);
    std::vector<float> posted(8 * channels);
    for (std::size_t i = 0; i < posted.size(); i += 2) posted[i] = 0.25F, posted[i + 1] = std::bit_cast<float>(1U);
    ASSERT_EQ(cudaMemcpy(own.rank.buffer, posted.data(), 32 * channels, cudaMemcpyHostToDevice), cudaSuccess);
    const graph::Graph graph = read(graph_text(shape, shape.images, 2));
    build(graph, own.rank.handle, &own.rank.client);
    const BackendDescriptor plan = make_plan(own.rank.client.graph_descriptor, kBatchNorm);
    Random random = case_random(session_seed(), 1);
    Memory memory(graph, &random);
    Execution execution(own.rank.handle, plan, &memory,
                        {{kFirstPeer, own.rank.buffer}, {kFirstPeer + 1, other.rank.buffer}});
    ASSERT_EQ(execution.start(), GPUDNN_STATUS_SUCCESS) << last_error();
    execution.finish();
    std::vector<float> sent(8 * channels), left(8 * channels);
    ASSERT_EQ(cudaMemcpy(sent.data(), other.rank.buffer, 32 * channels, cudaMemcpyDeviceToHost), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(left.data(), own.rank.buffer, 32 * channels, cudaMemcpyDeviceToHost), cudaSuccess);
    for (std::size_t i = 0; i < 4 * channels; i += 2) {  // the row of the other one: 1
      EXPECT_EQ(std::bit_cast<std::uint32_t>(sent[4 * channels + i + 1]), 1U) << i;
      EXPECT_EQ(std::bit_cast<std::uint32_t>(left[4 * channels + i + 1]), 0U) << i;
    }
  }
}

TEST(GraphPeers, TwoStreamsOfAGpu) {
  GPUDNN_NEEDS_GPU();
  compare_on_devices({0, 0}, true);
  compare_on_devices({0, 0, 0}, true);
}

TEST(GraphPeers, TwoGpus) {
  GPUDNN_NEEDS_GPU();
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "needs two GPUs; this machine has " << count;
  for (const int device : {0, 1}) {
    ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
    const cudaError_t error = cudaDeviceEnablePeerAccess(1 - device, 0);
    ASSERT_TRUE(error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled) << cudaGetErrorString(error);
  }
  compare_on_devices({0, 1}, true);
  compare_on_devices({0, 1}, false);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

#endif

}  // namespace
}  // namespace gpudnn::test
