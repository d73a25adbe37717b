// Attention on a GPU alone: captured calls, and tensors whose rows lie beyond 2^32 elements.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
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
