// Attention on a GPU alone: captured calls, and tensors whose rows lie beyond 2^32 elements.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/handle.hpp"
#include "support/attention.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

using attention::AttentionEngine;
using attention::Problem;

// A call is captured while lengths, offsets, pages, seeds and the workspace hold garbage; its replay follows what they
// hold then, twice.
TEST(Attention, ACapturedCallFollowsWhatIsOnTheDevice) {
  GPUDNN_NEEDS_GPU();
  const Backend& backend = Backend::at_hand();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(gpudnnSetStream(backend.handle(), stream), GPUDNN_STATUS_SUCCESS);
  const auto captured = [&](const std::function<bool()>& call, const std::function<void()>& change) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    bool done = cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess;
    const bool called = call();
    done = cudaStreamEndCapture(stream, &graph) == cudaSuccess && done && called;
    done = done && cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess;
    change();
    for (int run = 0; run < 2 && done; ++run) done = cudaGraphLaunch(executable, stream) == cudaSuccess;
    done = cudaStreamSynchronize(stream) == cudaSuccess && done;
    if (executable != nullptr) (void)cudaGraphExecDestroy(executable);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    return done;
  };
  for (const std::string& line : case_lines("attention/captured.txt")) {
    for (const std::uint64_t seed : {1, 2}) {
      AttentionCase c;
      c.problem = attention_problem(line);
      c.seed = seed;
      c.zero_lengths = seed == 2 ? 3 : 0;
      const std::shared_ptr<const PreparedAttention> prepared = prepare(c);
      int runs = 0;
      for (const AttentionEngine& engine : attention::engines()) {
        if (engine.backend != backend.kind() || !engine.supports(c.problem, *backend.handle()->device)) continue;
        ++runs;
        EXPECT_EQ(check(backend, engine, *prepared, {.captured = captured}), "") << engine.name << ": " << describe(c);
      }
      EXPECT_GT(runs, 1) << describe(c);
    }
  }
  EXPECT_EQ(gpudnnSetStream(backend.handle(), nullptr), GPUDNN_STATUS_SUCCESS);
  (void)cudaStreamDestroy(stream);
}

// T12: calls beside others. A thread with a handle and a stream of its own runs products of attention of many sizes for
// as long as it lives.
class Competitor {
 public:
  Competitor() : thread_([this] { run(); }) {}
  ~Competitor() {
    stops_ = true;
    thread_.join();
  }
  Competitor(const Competitor&) = delete;
  Competitor& operator=(const Competitor&) = delete;
  [[nodiscard]] int calls() const { return calls_; }

 private:
  void run() {
    gpudnnHandle_t handle = nullptr;
    cudaStream_t stream = nullptr;
    if (gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS) return;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
        gpudnnSetStream(handle, stream) == GPUDNN_STATUS_SUCCESS) {
      repeat(handle, stream);
      (void)cudaStreamDestroy(stream);
    }
    (void)gpudnnDestroy(handle);
  }
  void repeat(gpudnnHandle_t handle, cudaStream_t stream) {
    const std::vector<Problem> problems = {attention_problem("attention fwd bf16 b1h2s300d64 scale=0.1"),
                                           attention_problem("attention fwd bf16 b4h40s260d64 scale=0.1 causal"),
                                           attention_problem("attention fwd bf16 b1h20s1000d64 scale=0.1")};
    constexpr std::size_t kBytes = std::size_t{4} * 40 * 260 * 64 * 2;
    void* memory = nullptr;
    if (cudaMalloc(&memory, 3 * kBytes) != cudaSuccess) return;
    (void)cudaMemsetAsync(memory, 0, 3 * kBytes, stream);
    attention::Args args;
    args.q.data = args.k.data = args.v.data = memory;
    args.o.data = static_cast<char*>(memory) + kBytes;
    for (; !stops_; ++calls_) {
      const Problem& problem = problems[static_cast<std::size_t>(calls_) % problems.size()];
      if (attention::run(handle, problem, args, static_cast<char*>(memory) + 2 * kBytes, kBytes) !=
              GPUDNN_STATUS_SUCCESS ||
          (calls_ % 8 == 7 && cudaStreamSynchronize(stream) != cudaSuccess)) {
        break;
      }
    }
    (void)cudaStreamSynchronize(stream);
    (void)cudaFree(memory);
  }

  std::atomic<bool> stops_ = false;
  std::atomic<int> calls_ = 0;
  std::thread thread_;
};

// GPUDNN_TEST_CASES says how many times each runs.
TEST(Attention, SameBitsBesideAnotherStream) {
  GPUDNN_NEEDS_GPU();
  const Backend& backend = Backend::at_hand();
  const Competitor competitor;
  for (const std::string& line : case_lines("attention/same_bits.txt")) {
    AttentionCase c;
    c.problem = attention_problem(line);
    c.seed = 4;
    const std::shared_ptr<const PreparedAttention> prepared = prepare(c);
    const int before = competitor.calls();
    const AttentionEngine* const engine = attention::choose(*backend.handle()->device, c.problem, 256);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(check(backend, *engine, *prepared, {.more_runs = session_cases(20)}), "")
        << engine->name << ": " << describe(c);
    EXPECT_GT(competitor.calls(), before) << "nothing ran beside " << describe(c);
  }
}

// T12: a sequence gives the same bits alone and in a batch, where its tiles have as many splits.
TEST(Attention, ASequenceAloneHasTheBitsOfTheBatch) {
  GPUDNN_NEEDS_GPU();
  const Backend& backend = Backend::at_hand();
  constexpr int kBatch = 5;
  Random random(12);
  std::set<std::string> ran;
  const auto drawn = [&](std::size_t elements) {
    // bf16 of magnitudes from 1/8 to 1/2, of both signs.
    std::vector<std::uint16_t> values(elements);
    for (auto& value : values) value = static_cast<std::uint16_t>((random.bits() & 0x80ffU) | 0x3e00U);
    return values;
  };
  const struct {
    const char* shape;  // of one sequence
    std::size_t q, k, v, o;
    std::size_t rows;
  } cases[] = {{"h8s200/330d64 scale=0.125 causal", 8 * 200 * 64, 8 * 330 * 64, 8 * 330 * 64, 8 * 200 * 64, 1600},
               {"h4s197d128 scale=0.09", 4 * 197 * 128, 4 * 197 * 128, 4 * 197 * 128, 4 * 197 * 128, 788},
               {"h2s300d256 scale=0.06 causal", 2 * 300 * 256, 2 * 300 * 256, 2 * 300 * 256, 2 * 300 * 256, 600},
               {"h3s150d192/128 scale=0.07", 3 * 150 * 192, 3 * 150 * 192, 3 * 150 * 128, 3 * 150 * 128, 450},
               {"h8/2s1/64d128 scale=0.09", 8 * 128, 2 * 64 * 128, 2 * 64 * 128, 8 * 128, 8}};
  for (const auto& its : cases) {
    const std::vector<std::uint16_t> q = drawn(kBatch * its.q), k = drawn(kBatch * its.k), v = drawn(kBatch * its.v),
                                     d_o = drawn(kBatch * its.o);
    const auto buffer_of = [&](const std::vector<std::uint16_t>& values) {
      GuardedBuffer buffer(backend, 2 * values.size());
      buffer.write(values.data(), 2 * values.size());
      return buffer;
    };
    GuardedBuffer on_q = buffer_of(q), on_k = buffer_of(k), on_v = buffer_of(v), on_d_o = buffer_of(d_o);
    GuardedBuffer o(backend, 2 * kBatch * its.o), stats(backend, 4 * kBatch * its.rows);
    GuardedBuffer dq(backend, 2 * kBatch * its.q), dk(backend, 2 * kBatch * its.k), dv(backend, 2 * kBatch * its.v);
    // The tensors of one pass, from sequence `at` on.
    const auto args_at = [&](std::size_t at) {
      const auto move = [&](const GuardedBuffer& buffer, std::size_t bytes) {
        return static_cast<void*>(static_cast<char*>(buffer.data()) + at * bytes);
      };
      attention::Args args;
      args.q.data = move(on_q, 2 * its.q), args.k.data = move(on_k, 2 * its.k), args.v.data = move(on_v, 2 * its.v);
      args.d_o.data = move(on_d_o, 2 * its.o), args.o.data = move(o, 2 * its.o);
      args.stats.data = move(stats, 4 * its.rows), args.dq.data = move(dq, 2 * its.q);
      args.dk.data = move(dk, 2 * its.k), args.dv.data = move(dv, 2 * its.v);
      return args;
    };
    const auto bits_of = [](const GuardedBuffer& buffer, std::size_t bytes) {
      std::vector<unsigned char> bits(bytes);
      buffer.read(bits.data(), bytes);
      return bits;
    };
    for (const bool backward : {false, true}) {
      const auto line = [&](int batch) {
        return std::string("attention ") + (backward ? "bwd" : "fwd") + " bf16 b" + std::to_string(batch) + its.shape +
               (backward ? "" : " stats");
      };
      const Problem whole = attention_problem(line(kBatch)), alone = attention_problem(line(1));
      const auto results = [&] {
        std::vector<std::vector<unsigned char>> bits;
        if (backward) {
          bits = {bits_of(dq, 2 * kBatch * its.q), bits_of(dk, 2 * kBatch * its.k), bits_of(dv, 2 * kBatch * its.v)};
        } else {
          bits = {bits_of(o, 2 * kBatch * its.o), bits_of(stats, 4 * kBatch * its.rows)};
        }
        return bits;
      };
      const auto run = [&](const AttentionEngine& engine, const Problem& problem, std::size_t at) {
        const std::size_t needed = engine.workspace(problem, *backend.handle()->device);
        GuardedBuffer workspace(backend, needed);
        return run_engine(engine, backend.handle(), problem, args_at(at), workspace.data(), needed) ==
                   GPUDNN_STATUS_SUCCESS &&
               cudaDeviceSynchronize() == cudaSuccess;
      };
      for (const AttentionEngine& engine : attention::engines()) {
        const Device& device = *backend.handle()->device;
        if (engine.backend != backend.kind() || !engine.supports(whole, device) || !engine.supports(alone, device)) {
          continue;
        }
        // Splits are partial sums in the workspace; backward, blocks share the heads of a group alone.
        const std::size_t of_whole = engine.workspace(whole, device), of_alone = engine.workspace(alone, device);
        const bool may_differ = !backward || whole.heads_q() != whole.heads_k();
        if (may_differ && of_whole != of_alone && of_whole != kBatch * of_alone) continue;
        ran.insert(engine.name);
        ASSERT_TRUE(run(engine, whole, 0)) << engine.name << ": " << take_error_text();
        const auto together = results();
        for (std::size_t i = 0; i < kBatch; ++i) {
          ASSERT_TRUE(run(engine, alone, i)) << engine.name << ": " << take_error_text();
        }
        EXPECT_TRUE(results() == together) << engine.name << ": " << line(kBatch);
      }
    }
  }
  EXPECT_TRUE(ran.contains("attention_simt"));
  if (backend.handle()->device->compute_capability() != 90) return;
  for (const char* name : {"flash_sm80", "flash_forward_sm90", "decode_sm90", "flash_gather_sm90",
                           "flash_fused_backward_sm90", "flash_wide_backward_sm90", "flash_gather_backward_sm90"}) {
    EXPECT_TRUE(ran.contains(name)) << name;
  }
}

// T9: the same rows side by side and 2^26 elements apart, so that most lie beyond 2^32 bytes and the last ones beyond
// 2^32 elements: every engine that takes both layouts gives the same bits.
class FarRows {
 public:
  static constexpr std::int64_t kRows = 70;
  static constexpr std::int64_t kDim = 64;
  static constexpr std::int64_t kApart = std::int64_t{1} << 26;

  FarRows() { failed_ = cudaMalloc(&memory_, ((kRows - 1) * kApart + kDim) * 2) != cudaSuccess; }
  ~FarRows() { (void)cudaFree(memory_); }
  FarRows(const FarRows&) = delete;
  FarRows& operator=(const FarRows&) = delete;

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] void* data() const { return memory_; }
  bool scatter(const void* from) { return copy(memory_, 2 * kApart, from, 2 * kDim); }
  bool gather(void* to) const { return copy(to, 2 * kDim, memory_, 2 * kApart); }
  static void place(attention::Tensor* tensor) {
    std::int64_t* const strides = tensor->geometry.strides;
    strides[0] = strides[1] = kRows * kApart;
    strides[2] = kApart;
  }

 private:
  static bool copy(void* to, std::int64_t to_pitch, const void* from, std::int64_t from_pitch) {
    return cudaMemcpy2D(to, static_cast<std::size_t>(to_pitch), from, static_cast<std::size_t>(from_pitch), 2 * kDim,
                        kRows, cudaMemcpyDeviceToDevice) == cudaSuccess;
  }
  void* memory_ = nullptr;
  bool failed_ = false;
};

TEST(Attention, RowsBeyond32BitOffsets) {
  GPUDNN_NEEDS_GPU();
  const Backend& backend = Backend::at_hand();
  FarRows far_k, far_v;
  ASSERT_FALSE(far_k.failed() || far_v.failed()) << "this test takes 19 GB of device memory";
  constexpr std::size_t kElements = FarRows::kRows * FarRows::kDim;
  std::vector<std::uint16_t> values(kElements);
  Random random(9);
  const auto drawn = [&] {
    // bf16 of magnitudes from 1/8 to 1/2, of both signs.
    for (auto& value : values) value = static_cast<std::uint16_t>((random.bits() & 0x80ffU) | 0x3e00U);
    GuardedBuffer buffer(backend, 2 * kElements);
    buffer.write(values.data(), 2 * kElements);
    return buffer;
  };
  GuardedBuffer q = drawn(), k = drawn(), v = drawn(), d_o = drawn();
  GuardedBuffer o(backend, 2 * kElements), stats(backend, 4 * FarRows::kRows);
  GuardedBuffer dq(backend, 2 * kElements), dk(backend, 2 * kElements), dv(backend, 2 * kElements);
  attention::Args args;
  args.q.data = q.data(), args.k.data = k.data(), args.v.data = v.data(), args.d_o.data = d_o.data();
  args.o.data = o.data(), args.stats.data = stats.data();
  args.dq.data = dq.data(), args.dk.data = dk.data(), args.dv.data = dv.data();
  const auto bits = [&](const GuardedBuffer& buffer) {
    buffer.read(values.data(), 2 * kElements);
    return values;
  };
  const auto run = [&](const AttentionEngine& engine, const Problem& problem, const attention::Args& its) {
    const std::size_t needed = engine.workspace(problem, *backend.handle()->device);
    GuardedBuffer workspace(backend, needed);
    return run_engine(engine, backend.handle(), problem, its, workspace.data(), needed) == GPUDNN_STATUS_SUCCESS &&
           cudaDeviceSynchronize() == cudaSuccess;
  };
  for (const bool backward : {false, true}) {
    const Problem near = attention_problem(std::string("attention ") + (backward ? "bwd" : "fwd") +
                                           " bf16 b1h1s70d64 scale=0.125 causal" + (backward ? "" : " stats"));
    // Forward k and v lie apart; backward k and dK.
    Problem apart = near;
    FarRows::place(&apart.k);
    FarRows::place(backward ? &apart.dk : &apart.v);
    attention::Args its = args;
    its.k.data = far_k.data();
    if (backward) {
      its.dk.data = far_v.data();
    } else {
      its.v.data = far_v.data();
    }
    int runs = 0;
    for (const AttentionEngine& engine : attention::engines()) {
      if (engine.backend != backend.kind() || !engine.supports(near, *backend.handle()->device)) continue;
      if (!engine.supports(apart, *backend.handle()->device)) continue;
      ++runs;
      ASSERT_TRUE(run(engine, near, args)) << engine.name << ": " << take_error_text();
      const std::vector<std::uint16_t> first = bits(backward ? dq : o);
      const std::vector<std::uint16_t> second = backward ? bits(dk) : first;
      ASSERT_TRUE(far_k.scatter(k.data()) && (backward || far_v.scatter(v.data())));
      ASSERT_TRUE(run(engine, apart, its)) << engine.name << ": " << take_error_text();
      EXPECT_TRUE(bits(backward ? dq : o) == first) << engine.name;
      if (!backward) continue;
      ASSERT_TRUE(far_v.gather(dk.data()));
      EXPECT_TRUE(bits(dk) == second) << engine.name;
    }
    EXPECT_GE(runs, 3);
  }
}

}  // namespace
}  // namespace gpudnn::test
