// Attention: the problem's text, the reference by hand, and every engine against the reference in double.
// Longer than most files: one judgement of every engine serves all of its cases.
// SPDX-License-Identifier: Apache-2.0
#include "support/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/handle.hpp"
#include "host/attention.hpp"
#include "ops/attention/params.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

using attention::AttentionEngine;
using attention::Problem;

// GPUDNN_TEST_ENGINE=name keeps to one engine, where a new one is tried out; names of other operations' engines are
// theirs.
const char* only_engine() {
  static const char* const only = [] {
    const char* const name = std::getenv("GPUDNN_TEST_ENGINE");
    const bool is_ours =
        name != nullptr && std::ranges::any_of(attention::engines(), [&](const AttentionEngine& engine) {
          return std::strcmp(engine.name, name) == 0;
        });
    return is_ours ? name : nullptr;
  }();
  return only;
}

// Every engine of the backend at hand that takes the problem. The first thing that is wrong; `runs` counts.
std::string check_engines(const AttentionCase& c, int* runs, int more_runs = 0) {
  const Backend& backend = Backend::at_hand();
  std::shared_ptr<const PreparedAttention> prepared;
  for (const AttentionEngine& engine : attention::engines()) {
    if (engine.backend != backend.kind()) continue;
    if (only_engine() != nullptr && std::strcmp(engine.name, only_engine()) != 0) continue;
    if (!engine.supports(c.problem, *backend.handle()->device)) continue;
    ++*runs;
    if (prepared == nullptr) prepared = prepare(c);
    const std::string wrong = verdict_or_error([&] {
      const std::string found = check(backend, engine, *prepared, {.more_runs = more_runs});
      if (!found.empty() || engine.alignment > 2 || !backend.is_cuda()) return found;
      return check(backend, engine, *prepared, {.misaligned = true});
    });
    if (!wrong.empty()) return std::string(engine.name) + ": " + wrong;
  }
  return {};
}

// Every engine is right, and one at least takes the problem.
void expect_correct(const AttentionCase& c, int more_runs = 0) {
  int runs = 0;
  EXPECT_EQ(check_engines(c, &runs, more_runs), "") << describe(c);
  if (only_engine() == nullptr) {
    EXPECT_GT(runs, 0) << describe(c);
  }
}
void expect_correct(const std::string& line, std::uint64_t seed = 1, double magnitude = 1, int zero_lengths = 0,
                    int more_runs = 0) {
  AttentionCase c;
  c.problem = attention_problem(line);
  c.seed = seed;
  c.magnitude = magnitude;
  c.zero_lengths = zero_lengths;
  expect_correct(c, more_runs);
}

TEST(Attention, TextRoundTrip) {
  for (int i = 0; i < 300; ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const Problem problem = random_attention(random).problem;
    std::string why;
    const auto again = attention::from_text(to_text(problem), &why);
    ASSERT_TRUE(again.has_value()) << to_text(problem) << ": " << why;
    EXPECT_EQ(to_text(problem), to_text(*again));
    // Strides of extents of 1 say nothing and are not told.
    if (problem.length_q() > 1 && problem.length_kv > 1 && problem.heads_k() > 1 && problem.heads_v() > 1) {
      EXPECT_EQ(hash(problem), hash(*again)) << to_text(problem);
    }
  }
}

TEST(Attention, RefusesWithAReason) {
  const auto refusal = [](const char* line) {
    (void)validate(attention_problem(line));
    return take_error_text();
  };
  EXPECT_NE(refusal("attention fwd f16 b1h5/2/2s4d8").find("must divide"), std::string::npos);
  EXPECT_NE(refusal("attention fwd f16 b1h2s4d8 q:offsets=i32").find("no sequence lengths"), std::string::npos);
  EXPECT_NE(refusal("attention fwd f16 b1h2s4d8 softcap=0").find("must be positive"), std::string::npos);
  EXPECT_NE(refusal("attention fwd f16 b1h2s4d8 pages=4/2").find("no lengths"), std::string::npos);
  EXPECT_NE(refusal("attention fwd f16 b1h2s4d8 bias=f16:1x2x3x4").find("the scores"), std::string::npos);
  EXPECT_NE(refusal("attention fwd f8e4m3 b1h2s4d8 k:type=f16").find("must be of 8 bits too"), std::string::npos);
  EXPECT_NE(refusal("attention fwd f8e4m3 b1h2s4d8 o:type=f64").find("f16, bf16 or f32"), std::string::npos);
  EXPECT_NE(refusal("attention fwd f16 b1h2s4d8 p=f8e4m3").find("beside q in 8 bits"), std::string::npos);
}

// Two keys with scores 0 and log 3: weights 1/4 and 3/4.
TEST(Attention, ReferenceByHand) {
  const double q[] = {1}, k[] = {0, std::log(3.0)}, v[] = {4, 8};
  double o[1], stats[1];
  attention::Args args;
  args.q = {q};
  args.k = {k};
  args.v = {v};
  args.o = {o};
  args.stats = {stats};
  const Backend& host = Backend::host();
  ASSERT_EQ(run(host.handle(), attention_problem("attention fwd f64 b1h1s1/2d1 stats"), args, nullptr, 0),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_NEAR(o[0], 7, 1e-14);
  EXPECT_NEAR(stats[0], std::log(4.0), 1e-14);
  // A causal row 0 sees column 0 alone; from the bottom right it sees both.
  ASSERT_EQ(run(host.handle(), attention_problem("attention fwd f64 b1h1s1/2d1 stats causal"), args, nullptr, 0),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(o[0], 4);
  ASSERT_EQ(
      run(host.handle(), attention_problem("attention fwd f64 b1h1s1/2d1 stats causal bottom_right"), args, nullptr, 0),
      GPUDNN_STATUS_SUCCESS);
  EXPECT_NEAR(o[0], 7, 1e-14);
  // A window of one column is the row's own; nothing is left where it lies before the first.
  ASSERT_EQ(run(host.handle(), attention_problem("attention fwd f64 b1h1s1/2d1 stats right=-1"), args, nullptr, 0),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(o[0], 0);
  EXPECT_EQ(stats[0], -INFINITY);
}

// The same keys in 8 bits. By scale_s, 32 and 96 are exact in both types; by the greatest p, the other one is a third
// of it, rounded: 11/32 in e4m3, 5/16 in e5m2. A sink of the sum of both halves them.
TEST(Attention, RoundedProbabilitiesByHand) {
  const std::uint8_t q[] = {0x38}, k[] = {0, 0x38}, v[] = {0x48, 0x50};  // 1; 0, 1; 4, 8
  const float scale_s = 128, unscale_s = 0x1p-7F;
  const auto sink = static_cast<float>(std::log(4.0));
  float o[1], amax_s[1];
  attention::Args args;
  args.q = {q};
  args.k = {k};
  args.v = {v};
  args.o = {o};
  args.sink = &sink;
  args.float8.scale_s = &scale_s;
  args.float8.output[1] = &unscale_s;
  args.float8.amax_s = amax_s;
  const std::string line = "attention fwd f8e4m3 b1h1s1/2d1 scale=" + std::to_string(std::log(3.0)) + " o:type=f32 p=";
  for (const auto& [type, share] : {std::pair{"f8e4m3", 11.0 / 32}, {"f8e5m2", 5.0 / 16}, {"f32", 1.0 / 3}}) {
    for (const auto& [options, greatest] : {std::pair{"", 3.0 / 4}, {" sink", 3.0 / 8}}) {
      const Problem problem = attention_problem(line + type + options);
      SCOPED_TRACE(to_text(problem));
      host::attention(problem, args);
      EXPECT_NEAR(o[0], (4.0 / 3 + 8) * greatest, 1e-5);
      EXPECT_NEAR(amax_s[0], greatest, 1e-6);
      host::attention(problem, args, host::ProbabilityScale::by_greatest);
      EXPECT_NEAR(o[0], (share * 4 + 8) * greatest, 1e-5);
      EXPECT_NEAR(amax_s[0], greatest, 1e-6);
    }
  }
}

// dO = 1: dv = p; dp = v; delta = 7; ds = p (v - 7) = {-3/4, 3/4}; dq = sum ds k; dk = ds q.
TEST(Attention, GradientsByHand) {
  const double q[] = {1}, k[] = {0, std::log(3.0)}, v[] = {4, 8}, d_o[] = {1};
  double o[] = {7}, stats[] = {std::log(4.0)}, dq[1], dk[2], dv[2];
  attention::Args args;
  args.q = {q};
  args.k = {k};
  args.v = {v};
  args.o = {o};
  args.stats = {stats};
  args.d_o = {d_o};
  args.dq = {dq};
  args.dk = {dk};
  args.dv = {dv};
  ASSERT_EQ(run(Backend::host().handle(), attention_problem("attention bwd f64 b1h1s1/2d1"), args, nullptr, 0),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_NEAR(dv[0], 0.25, 1e-14);
  EXPECT_NEAR(dv[1], 0.75, 1e-14);
  EXPECT_NEAR(dk[0], -0.75, 1e-14);
  EXPECT_NEAR(dk[1], 0.75, 1e-14);
  EXPECT_NEAR(dq[0], 0.75 * std::log(3.0), 1e-14);
}

// The gradients against differences of the forward pass, with every option that has a derivative.
TEST(Attention, GradientsByDifferences) {
  const std::string shape = " f64 b1h2/1s3/4d2 scale=0.7 softcap=1.5 alibi bias=f64:1x2x3x4 sink right=2";
  const auto draw = [](std::size_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<double> values(count);
    for (double& value : values) value = random.normal();
    return values;
  };
  std::vector<double> q = draw(12, 1), k = draw(8, 2), v = draw(8, 3), bias = draw(24, 4), d_o = draw(12, 5);
  std::vector<double> o(12), stats(6), dq(12), dk(8), dv(8), dbias(24);
  std::vector<float> sink = {0.3F, -0.2F}, slopes = {0.5F, 0.25F}, dsink(2);
  const auto loss = [&] {
    attention::Args args;
    args.q = {q.data()}, args.k = {k.data()}, args.v = {v.data()}, args.o = {o.data()}, args.stats = {stats.data()};
    args.bias = bias.data(), args.sink = sink.data(), args.alibi_slopes = slopes.data();
    EXPECT_EQ(run(Backend::host().handle(), attention_problem("attention fwd" + shape + " stats"), args, nullptr, 0),
              GPUDNN_STATUS_SUCCESS);
    double sum = 0;
    for (std::size_t i = 0; i < o.size(); ++i) sum += o[i] * d_o[i];
    return sum;
  };
  (void)loss();
  attention::Args args;
  args.q = {q.data()}, args.k = {k.data()}, args.v = {v.data()}, args.o = {o.data()}, args.stats = {stats.data()};
  args.bias = bias.data(), args.sink = sink.data(), args.alibi_slopes = slopes.data(), args.d_o = {d_o.data()};
  args.dq = {dq.data()}, args.dk = {dk.data()}, args.dv = {dv.data()}, args.dbias = dbias.data(),
  args.dsink = dsink.data();
  ASSERT_EQ(run(Backend::host().handle(), attention_problem("attention bwd" + shape + " dbias=f64:1x2x3x4 dsink"), args,
                nullptr, 0),
            GPUDNN_STATUS_SUCCESS);
  const auto expect_slope = [&](double* value, double gradient) {
    constexpr double kStep = 1e-5;
    const double before = *value;
    *value = before + kStep;
    const double above = loss();
    *value = before - kStep;
    const double below = loss();
    *value = before;
    EXPECT_NEAR(gradient, (above - below) / (2 * kStep), 1e-8);
  };
  for (std::size_t i = 0; i < 12; ++i) expect_slope(&q[i], dq[i]);
  for (std::size_t i = 0; i < 8; ++i) expect_slope(&k[i], dk[i]);
  for (std::size_t i = 0; i < 8; ++i) expect_slope(&v[i], dv[i]);
  for (std::size_t i = 0; i < 24; ++i) expect_slope(&bias[i], dbias[i]);
  const float before = sink[0];
  sink[0] = before + 0x1p-8F;
  const double above = loss();
  sink[0] = before - 0x1p-8F;
  const double below = loss();
  EXPECT_NEAR(static_cast<double>(dsink[0]), (above - below) / 0x1p-7, 1e-5);
}

// T7: bounds for all pairs of lengths up to 20, against the definition written out.
TEST(Attention, BoundsByDefinition) {
  for (std::int64_t length_q = 1; length_q <= 20; ++length_q) {
    for (std::int64_t length_kv = 1; length_kv <= 20; ++length_kv) {
      for (int variant = 0; variant < 54; ++variant) {
        kernels::AttentionParams p;
        p.length_q = length_q, p.length_kv = length_kv;
        p.has_left = variant % 3 != 0, p.left = variant % 3 * 2 - 1;
        p.has_right = variant / 3 % 3 != 0, p.right = variant / 3 % 3 * 2 - 2;
        p.bottom_right = variant / 9 % 2 != 0;
        const kernels::SequenceLengths lengths{length_q - (variant / 18 == 1 && length_q > 1 ? 1 : 0),
                                               length_kv - (variant / 18 == 2 && length_kv > 1 ? 1 : 0)};
        const std::int64_t shift = p.bottom_right ? lengths.kv - lengths.q : 0;
        const kernels::ColumnRange seers = rows_that_see(p, lengths, 2, 5);
        const kernels::ColumnRange all = visible_columns_of_rows(p, lengths, 0, length_q);
        for (std::int64_t r = 0; r < lengths.q; ++r) {
          const kernels::ColumnRange range = visible_columns(p, lengths, r);
          for (std::int64_t c = 0; c < length_kv; ++c) {
            const bool visible =
                c < lengths.kv && (!p.has_right || c <= r + shift + p.right) && (!p.has_left || c > r + shift - p.left);
            EXPECT_EQ(visible, c >= range.first && c < range.end);
            EXPECT_TRUE(!visible || (c >= all.first && c < all.end));
            EXPECT_TRUE(!visible || c < 2 || c >= 5 || (r >= seers.first && r < seers.end));
          }
        }
      }
    }
  }
}

// T9: offsets of rows beyond 2^32 elements; tensors with such rows are in attention_cuda_test.cpp.
TEST(Attention, OffsetsBeyond32Bits) {
  kernels::AttentionTensor tensor;
  tensor.strides[0] = std::int64_t{3} << 32;
  tensor.strides[1] = (std::int64_t{1} << 31) + 8;
  tensor.strides[2] = (std::int64_t{1} << 31) - 8;
  EXPECT_EQ(kernels::row_offset(tensor, 2, 3, 5), (std::int64_t{6} << 32) + (std::int64_t{8} << 31) - 16);
  const std::int32_t offsets[] = {0, 0x7fffffff};
  tensor.offset_bits = 32, tensor.offset_scale = 8, tensor.offsets = offsets;
  EXPECT_EQ(kernels::row_offset(tensor, 1, 0, 1), 8 * std::int64_t{0x7fffffff} + (std::int64_t{1} << 31) - 8);
}

TEST(Attention, DropoutRateAndDependence) {
  kernels::AttentionDropout dropout;
  dropout.seed_value = 7;
  dropout.offset_value = 11;
  const kernels::DropoutKey key = dropout_key(dropout);
  int kept = 0, equal = 0;
  constexpr int kCount = 64 * 1024;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const bool a = is_score_kept(key, 16384, 3, i / 256, i % 256);
    kept += a ? 1 : 0;
    equal += a == is_score_kept(key, 16384, 4, i / 256, i % 256) ? 1 : 0;
  }
  EXPECT_NEAR(kept / double{kCount}, 0.75, 0.01);
  EXPECT_NEAR(equal / double{kCount}, 0.625, 0.012);
}

#ifdef GPUDNN_WITH_CUDA
// A GPU that need not be there.
Device described(const char* name, int major, int minor, int multiprocessors, int l2_mb) {
  Device device;
  device.backend = GPUDNN_BACKEND_CUDA;
  device.major = major;
  device.minor = minor;
  device.multiprocessors = multiprocessors;
  device.l2_bytes = l2_mb << 20;
  device.rates = device_rates({name, major, minor, multiprocessors});
  return device;
}

// Below Hopper mma.sync takes what it can, whatever the layout; nothing but the general engine is left for the rest.
TEST(Attention, ChosenBelowHopper) {
  Device device = described("", 8, 6, 84, 6);
  const auto chosen = [&](const char* line, int alignment) -> std::string {
    const AttentionEngine* const engine = choose(device, attention_problem(line), alignment);
    return engine == nullptr ? "none" : engine->name;
  };
  EXPECT_EQ(chosen("attention fwd f16 b1h4/2s300d128 causal stats", 16), "flash_sm80");
  EXPECT_EQ(chosen("attention fwd bf16 b1h4s300d17 dropout=0.1 bias=f32:1x1x1x300", 2), "flash_sm80");
  EXPECT_EQ(chosen("attention fwd bf16 b4h8/1s1/4096d128 length_kv pages=1024/16", 16), "flash_sm80");
  EXPECT_EQ(chosen("attention bwd bf16 b1h4/2s300d200 dbias=bf16:1x4x300x300", 16), "flash_sm80");
  EXPECT_EQ(chosen("attention fwd f32 b1h4s300d64", 16), "attention_simt");
  EXPECT_EQ(chosen("attention fwd f16 b1h4s300d64 block_mask=u8:1x4x3x1", 16), "attention_simt");
  device.major = 7;
  device.minor = 5;
  EXPECT_EQ(chosen("attention fwd f16 b1h4s300d64", 16), "attention_simt");
}

// An engine that wants more workspace than the caller has is passed over: here one that splits the keys of a window.
TEST(Attention, AnEngineThatWantsMoreWorkspaceIsPassedOver) {
  const Device device = described("NVIDIA H200", 9, 0, 132, 50);
  const attention::Problem problem = attention_problem("attention fwd bf16 b7h2s302/548d152/32 left=166 right=180");
  const AttentionEngine* const first = choose(device, problem, 16);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(std::string(first->name), "decode_sm90");
  const std::size_t less = first->workspace(problem, device) - 1;
  const AttentionEngine* const taken = choose(device, problem, 16, less);
  ASSERT_NE(taken, nullptr);
  EXPECT_LE(taken->workspace(problem, device), less);
  EXPECT_NE(std::string(taken->name), "attention_simt");
}

// T8: for each row of q and each key, floats for the head dimension at its greatest and a few more; never for a score.
TEST(Attention, WorkspaceIsLinearInTheLengths) {
  const Device device = described("NVIDIA H200", 9, 0, 132, 50);
  for (const char* const options :
       {"attention fwd bf16 b2h16/2s%sd128 stats causal", "attention fwd bf16 b1h8s%sd64 stats left=128 right=0",
        "attention fwd f8e4m3 b1h8s%sd128 stats", "attention bwd f16 b2h16s%sd64 causal",
        "attention bwd bf16 b1h71/1s%sd64", "attention bwd bf16 b1h8/1s%sd256 causal",
        "attention bwd f16 b1h16s%sd192/128", "attention bwd bf16 b2h4s%sd128 dropout=0.1",
        "attention bwd bf16 b2h4s%sd128 bias=bf16:1x4x1x%s dbias=bf16:1x4x1x%s",
        "attention bwd f8e4m3 b1h8s%sd128 causal", "attention bwd f32 b1h4s%sd80"}) {
    for (const int length : {1, 100, 1000, 8192, 65536, 1 << 20}) {
      std::string line = options;
      for (std::size_t at; (at = line.find("%s")) != std::string::npos;) line.replace(at, 2, std::to_string(length));
      const Problem problem = attention_problem(line);
      const std::int64_t rows = problem.batch() * problem.heads_q() * (problem.length_q() + 128);
      const std::int64_t keys = problem.batch() * problem.heads_q() * (problem.length_kv + 128);
      // Sums of splits are of few rows only: 128 of them at most.
      const std::int64_t most = 4 * (rows + keys) * (256 + 256 + 16) + (std::int64_t{64} << 20);
      EXPECT_LE(workspace_bytes(device, problem), static_cast<std::size_t>(most)) << line;
    }
  }
}

// A graph's plan asks for the workspace before it knows the bounds of a window that come with the data, as for the
// widest.
TEST(Attention, WorkspaceOfTheWidestWindowIsEnoughForAnyOther) {
  const Device device = described("NVIDIA H200", 9, 0, 132, 50);
  int narrower = 0;
  for (int i = 0; i < session_cases(300); ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const auto text = [&](const char* key, std::int64_t value) { return std::string(key) + std::to_string(value); };
    const std::string line = "attention fwd bf16 b" + text("", random.between(1, 8)) +
                             text("h", random.between(1, 16)) + text("s", random.between(1, 700)) +
                             text("/", random.between(1, 9000)) + text("d", 8 * random.between(1, 32));
    SCOPED_TRACE(line);
    const auto with = [&](std::int64_t left, std::int64_t right) {
      return attention_problem(line + text(" left=", left) + text(" right=", right));
    };
    constexpr std::int64_t kWidest = std::int64_t{1} << 40;
    const std::size_t planned = workspace_bytes(device, with(kWidest, kWidest));
    for (int width = 0; width < 20; ++width) {
      const std::int64_t most = std::int64_t{1} << random.between(0, 14);
      const Problem problem = with(random.between(-5, most), random.between(-5, most));
      const AttentionEngine* const engine = choose(device, problem, 16);
      ASSERT_NE(engine, nullptr);
      EXPECT_LE(engine->workspace(problem, device), planned) << to_text(problem);
      narrower += engine->workspace(problem, device) < planned ? 1 : 0;
    }
  }
  EXPECT_GT(narrower, 0);
}
#endif

// T1: scores so low that exp(-stats) overflows, which shows where a tile's rows or keys beyond the last count as 0. The
// kernels without and with options, of lengths around tiles.
TEST(Attention, ScoresFarBelowZero) {
  for (const std::int64_t length : {1, 63, 64, 65, 127, 129, 200}) {
    const std::string rows = std::to_string(length), columns = std::to_string(1 + length * 7 % 190);
    for (const std::string& shape : std::vector<std::string>{
             " bf16 b1h2s" + rows + "d64 scale=8", " f16 b1h2/1s" + rows + "/" + columns + "d128 scale=4 causal",
             " bf16 b1h2s" + columns + "/" + rows + "d64 scale=8 causal bottom_right",
             " bf16 b1h1s" + rows + "/" + columns + "d256 scale=2", " f16 b2h1s" + rows + "d64 scale=8 dropout=0.1",
             " bf16 b2h2s" + rows + "d64 scale=8 bias=bf16:2x1x1x" + rows}) {
      for (const std::string& line : {"attention fwd" + shape + " stats", "attention bwd" + shape}) {
        AttentionCase c;
        c.problem = attention_problem(line);
        c.low_scores = true;  // of mean -326
        expect_correct(c);
      }
    }
  }
}

// T1: each length of queries, and keys as many or 258 less it, plain and with two options in turn; backward with scores
// from far below to far above 0 too. In eight parts, which can run side by side; GPUDNN_TEST_CASES=257 takes all
// lengths; else one in four is, on the host one in 16.
class AttentionLengths : public testing::TestWithParam<int> {};
TEST_P(AttentionLengths, ForwardAndBackward) {
  const std::string ragged = " bshd length_q length_kv q:offsets=i32 k:offsets=i32 v:offsets=i32 o:offsets=i32";
  const std::string gradients = " dO:offsets=i32 dQ:offsets=i32 dK:offsets=i32 dV:offsets=i32";
  const std::size_t some = session_cases(0) >= 257 ? 1 : Backend::at_hand().is_cuda() ? 4 : 16;
  for (int length = 1; length <= 257; ++length) {
    const auto number = static_cast<std::size_t>(length);
    if (length % 8 != GetParam() || (number + 1) / 8 % some != 0) continue;  // 63, 64, 65, 127, ... among one in four
    const std::string rows = std::to_string(length);
    const std::string columns = std::to_string(258 - length);
    const std::string lengths = rows + "/" + columns;
    const std::string pages = " pages=" + std::to_string(2 * ((258 - length + 15) / 16) + 2) + "/16";
    const std::string of_rows = " bias=bf16:1x2x" + rows + "x" + columns;
    const std::string of_keys = " bias=bf16:2x1x1x" + columns;
    const std::string forward[] = {" alibi",
                                   " softcap=5",
                                   " dropout=0.1",
                                   of_rows,
                                   of_keys,
                                   " length_q length_kv",
                                   " length_kv" + pages,
                                   " length_kv bottom_right causal" + pages,
                                   " causal left=40",
                                   " left=30 right=20 bottom_right",
                                   " sink",
                                   ragged,
                                   ragged + " causal",
                                   " dropout=0.5 causal alibi"};
    const std::string backward[] = {
        " alibi",
        " softcap=5",
        " dropout=0.1",
        of_rows,
        of_keys,
        of_rows + " dbias=bf16:1x2x" + rows + "x" + columns,
        " bias=bf16:2x2x" + rows + "x" + columns + " dbias=bf16:2x2x" + rows + "x" + columns,
        " length_q length_kv",
        " causal left=40",
        " left=30 right=20 bottom_right",
        " sink dsink",
        ragged + gradients,
        ragged + gradients + " causal",
        of_keys + " dropout=0.1"};
    expect_correct("attention fwd bf16 b2h2s" + rows + "d64 scale=0.125 stats", 5);
    expect_correct("attention fwd f16 b1h2/1s" + rows + "d128 scale=0.088 stats causal", 6);
    expect_correct("attention fwd bf16 b1h2s" + lengths + "d128 scale=0.088 stats", 7);
    expect_correct("attention bwd bf16 b1h1s" + rows + "d64 scale=8 bias=f32:1x1x1x1", 5);
    expect_correct("attention bwd bf16 b1h2s" + rows + "d64 scale=8", 5);
    expect_correct("attention bwd f16 b1h2/1s" + lengths + "d32 causal", 6);
    expect_correct("attention bwd bf16 b1h2s" + lengths + "d128 scale=0.088", 7);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string shape = "b2h2s" + lengths + ((number + i) % 2 == 0 ? "d64" : "d128") + " scale=0.1";
      expect_correct("attention fwd bf16 " + shape + " stats" + forward[(2 * number + i) % std::size(forward)], 8);
      expect_correct("attention bwd bf16 " + shape + backward[(2 * number + i) % std::size(backward)], 9);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Part, AttentionLengths, testing::Range(0, 8));

// T6, T8: head dimensions by 8 and odd ones, and groups of heads of many sizes.
TEST(Attention, HeadDimensionsAndGroups) {
  for (int dim = 8; dim <= 256; dim += 8) {
    const std::string d = "d" + std::to_string(dim);
    expect_correct("attention fwd bf16 b1h2s70/150" + d + " scale=0.1 stats causal", 3);
    expect_correct("attention bwd bf16 b1h2s70/150" + d + " scale=0.1 causal bottom_right", 3);
  }
  for (const int dim : {1, 3, 7, 15, 33, 65, 77, 129, 200, 255}) {
    const std::string d = "d" + std::to_string(dim) + "/" + std::to_string(256 - dim);
    expect_correct("attention fwd f16 b1h2s33/70" + d + " scale=0.1 stats", 4);
    expect_correct("attention bwd f16 b1h2s33/70" + d + " scale=0.1", 4);
  }
  for (const int group : {1, 2, 5, 7, 8, 16, 71}) {
    const std::string heads = "h" + std::to_string(2 * group) + "/2";
    expect_correct("attention fwd bf16 b2" + heads + "s1/200d64 scale=0.125 stats causal bottom_right length_kv", 5);
    expect_correct("attention fwd bf16 b1" + heads + "s65/130d128 scale=0.09 stats causal", 5);
    expect_correct("attention bwd bf16 b1" + heads + "s65/130d64 scale=0.125 causal", 5);
  }
}

// On the host the engine is the reference itself, so one set of data will do.
// A file at a time, so that they can run side by side: the reference takes a minute for all.
class AttentionCaseFile : public testing::TestWithParam<const char*> {};
TEST_P(AttentionCaseFile, RunsOnEveryEngine) {
  for (const std::string& line : case_lines("attention/" + std::string(GetParam()) + ".txt")) {
    expect_correct(line, 1);
    if (Backend::at_hand().is_cuda()) expect_correct(line, 2, 3, 2);
  }
}
INSTANTIATE_TEST_SUITE_P(Folder, AttentionCaseFile,
                         testing::Values("edges", "options", "options_backward", "fused_backward", "wide_backward",
                                         "decode", "short", "any_layout", "float8", "float8_backward"),
                         [](const auto& test) { return std::string(test.param); });

// Blocks that add up in a fixed order give the same bits whenever they come.
TEST(Attention, MoreTilesThanMultiprocessors) {
  GPUDNN_NEEDS_GPU();
  for (const std::string& line : case_lines("attention/many_tiles.txt")) expect_correct(line, 1, 1, 0, 5);
}

// T2: a bias of bf16's least number (what masks of PyTorch hold) or greatest, at scales below and above 1. A row of it
// alone is the mean of v; backward it has no share, as its statistics hold no sum.
TEST(Attention, BiasAtTheEndsOfFloat) {
  const std::vector<std::string> shapes = {" bf16 b4h2s130/144d64 scale=0.125 bias=bf16:4x1x1x144",
                                           " bf16 b4h2s130/300d128 scale=0.0884 bias=bf16:4x2x1x300 causal",
                                           " bf16 b2h2s40/144d64 scale=4 bias=bf16:2x2x1x144 alibi",
                                           " bf16 b1h4/2s130/144d64 scale=0.125 bias=bf16:1x4x130x144",
                                           " f16 b1h4s70/72d128 scale=0.0884 bias=f32:1x1x70x72 causal",
                                           " bf16 b2h4s49d32 scale=0.1768 bias=bf16:1x4x49x49",
                                           " bf16 b1h2s5/2000d64 scale=0.125 bias=bf16:1x2x5x2000",
                                           " bf16 b1h2s100d200 scale=0.07 bias=bf16:1x2x100x100",
                                           " f32 b1h2s33/40d24 scale=0.2 bias=f32:1x2x33x40",
                                           " f64 b1h2s33/40d24 scale=0.2 bias=f32:1x2x33x40",
                                           " f8e4m3 b2h4s130/300d64 scale=0.125 bias=bf16:1x4x130x300 p=f8e4m3"};
  for (const double value : {-0x1.fep127, 0x1.fep127, -0x1.94p99}) {
    for (const std::string& shape : shapes) {
      for (const std::string& line : {"attention fwd" + shape + " stats max sum_exp",
                                      "attention fwd" + shape + " stats", "attention bwd" + shape}) {
        AttentionCase c;
        c.problem = attention_problem(line);
        c.hidden_rows = true;
        c.hidden_by = value;
        expect_correct(c);
      }
    }
  }
}

// Whole rows of a bias beside which scores keep their differences, multiples of 128, exactly.
TEST(Attention, BiasFarFromZero) {
  const std::vector<std::string> shapes = {"bf16 b4h2s130/144d64 scale=0.125 bias=bf16:4x1x1x144",
                                           "bf16 b4h2s130/300d128 scale=0.125 bias=bf16:4x2x1x300 sink",
                                           "bf16 b1h4/2s130/304d64 scale=0.125 bias=bf16:1x4x130x304",
                                           "bf16 b2h2s200/304d128 scale=0.125 bias=bf16:1x2x200x304 causal",
                                           "bf16 b1h2s5/2000d128 scale=0.125 bias=bf16:1x2x5x2000",
                                           "bf16 b1h2s100d200 scale=0.125 bias=bf16:1x2x100x100",
                                           "bf16 b2h4s49d32 scale=0.125 bias=bf16:1x4x49x49",
                                           "f16 b1h4s70/72d128 scale=0.125 bias=f32:1x1x70x72"};
  for (const double value : {-0x1.8p19, -0x1p28, 0x1.8p28, -0x1p29, -0x1p30}) {
    for (const std::string& shape : shapes) {
      AttentionCase c;
      c.problem = attention_problem("attention fwd " + shape + " stats");
      c.hidden_rows = true;
      c.hidden_by = value;
      c.magnitude = 32;
      c.in_units = true;
      expect_correct(c);
    }
  }
}

// A bias of -inf, at scales of which one over the scale in f16's bits leaves next to nothing behind the second part.
TEST(Attention, BiasOfMinusInfinityAtScalesOfFewBits) {
  for (const std::string shape : {"b2h3s1/89d40 scale=0.158114 right=39", "b1h2s130/200d128 scale=0.125",
                                  "b2h2s70/300d64 scale=0.158114", "b1h2s200/150d64 scale=0.3"}) {
    for (const std::string type : {"f16", "bf16"}) {
      const std::string keys =
          shape.substr(shape.find('/') + 1, shape.find('d', shape.find('/')) - shape.find('/') - 1);
      AttentionCase c;
      c.problem = attention_problem("attention fwd " + type + " " + shape + " stats bias=" + type + ":1x1x1x" + keys);
      c.hidden_rows = true;
      c.seed = session_seed();
      expect_correct(c);
    }
  }
}

// Scores far beyond what float tells apart from their neighbours: exact ones, many of which are equal.
TEST(Attention, ScoresFarFromZero) {
  const std::vector<std::string> shapes = {"b2h4/2s130/144d64 scale=0.125 causal",
                                           "b1h2s300/320d64 scale=0.125",
                                           "b1h3s200/300d128 scale=0.125",
                                           "b1h2s130/260d256 scale=0.0625 left=100",
                                           "b1h2s150d192/128 scale=0.0625 causal",
                                           "b2h8/2s1/700d128 scale=0.125",
                                           "b2h2s49d32 scale=0.25",
                                           "b3h2s100/140d64 scale=0.125 length_q length_kv sink",
                                           "b1h2s70/90d40 scale=0.125 softcap=50"};
  const auto expect = [](const std::string& line, double magnitude) {
    AttentionCase c;
    c.problem = attention_problem(line);
    c.magnitude = magnitude;
    c.in_units = true;
    expect_correct(c);
  };
  const std::pair<const char*, double> types[] = {{"f16 ", 0x1p11}, {"bf16 ", 0x1p11}, {"bf16 ", 0x1p13},
                                                  {"f32 ", 0x1p20}, {"f32 ", 0x1p45},  {"f32 ", 0x1p58}};
  for (const std::string& shape : shapes) {
    for (const auto& [type, magnitude] : types) {
      expect("attention fwd " + (type + shape) + " stats max sum_exp", magnitude);
      expect("attention fwd " + (type + shape) + " stats", magnitude);
      expect("attention bwd " + (type + shape), magnitude);
    }
  }
}

// 8-bit scores far from 0, exact as q and k hold few multiples of 2^-9: many keys share a row's greatest score, and
// each of them has the same share wherever it lies.
TEST(Attention, Float8ScoresFarFromZero) {
  for (const std::string shape : {"b2h4/2s130/1500d64", "b1h2s300/900d128", "b1h2s200/500d256"}) {
    for (const std::string scale : {"1e6", "-3e8", "2e10", "6e10"}) {
      AttentionCase c;
      c.problem = attention_problem("attention fwd f8e4m3 " + shape + " scale=" + scale +
                                    " stats causal bottom_right o:type=f32");
      c.magnitude = 0.002;
      expect_correct(c);
    }
  }
}

// Ragged sequences that start inside a row of the tensor, at a multiple of 16 bytes and beside one.
TEST(Attention, RaggedSequencesStartAnywhere) {
  const std::string sequences = " bshd length_q length_kv q:offsets=i32 k:offsets=i32 v:offsets=i32 o:offsets=i32";
  const std::string gradients = " dO:offsets=i32 dQ:offsets=i32 dK:offsets=i32 dV:offsets=i32";
  for (const int first : {8, 3}) {
    for (const std::string& line : {"attention fwd bf16 b3h4/2s130/200d64 scale=0.125 stats causal" + sequences,
                                    "attention bwd f16 b3h4/2s130/200d64 scale=0.125 causal" + sequences + gradients,
                                    "attention bwd bf16 b3h2s100/140d128 scale=0.088" + sequences + gradients}) {
      AttentionCase c;
      c.problem = attention_problem(line);
      c.first_offset = first;
      expect_correct(c);
    }
  }
}

// Tiles that reach beyond the last sequence, where the tensors' memory ends: a read beyond it would fault.
TEST(Attention, RaggedReadsNothingBeyondItsMemory) {
  GPUDNN_NEEDS_GPU();
  const std::string sequences = " bshd length_q length_kv q:offsets=i32 k:offsets=i32 v:offsets=i32 o:offsets=i32";
  const std::string gradients = " dO:offsets=i32 dQ:offsets=i32 dK:offsets=i32 dV:offsets=i32";
  for (const std::string& line : {"attention fwd bf16 b3h4/2s130/200d64 scale=0.125 stats causal" + sequences,
                                  "attention bwd f16 b3h4/2s130/200d64 scale=0.125 causal" + sequences + gradients,
                                  "attention bwd bf16 b5h2s100/140d128 scale=0.088" + sequences + gradients}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      AttentionCase c;
      c.problem = attention_problem(line);
      c.seed = seed;
      c.zero_lengths = seed % 2 == 0 ? 2 : 0;
      const std::shared_ptr<const PreparedAttention> prepared = prepare(c);
      for (const AttentionEngine& engine : attention::engines()) {
        if (engine.backend != GPUDNN_BACKEND_CUDA) continue;
        if (!engine.supports(c.problem, *Backend::at_hand().handle()->device)) continue;
        EXPECT_EQ(
            verdict_or_error([&] { return check(Backend::at_hand(), engine, *prepared, {.ends_mapping = true}); }), "")
            << engine.name << ": " << describe(c);
      }
    }
  }
}

#ifdef GPUDNN_WITH_CUDA
// The files' lines reach each engine of Hopper: a line that none takes would judge nothing.
TEST(Attention, EveryEngineOfHopperHasCases) {
  Device device;
  device.backend = GPUDNN_BACKEND_CUDA;
  device.major = 9;
  device.multiprocessors = 132;
  device.l2_bytes = 50 << 20;
  device.rates = device_rates({"", 9, 0, 132});
  std::vector<Problem> problems;
  for (const char* file : {"edges", "options", "options_backward", "fused_backward", "decode", "short", "any_layout",
                           "float8", "float8_backward"}) {
    for (const std::string& line : case_lines("attention/" + std::string(file) + ".txt")) {
      problems.push_back(attention_problem(line));
    }
  }
  for (const AttentionEngine& engine : attention::engines()) {
    if (engine.backend != GPUDNN_BACKEND_CUDA) continue;
    const auto taken = std::ranges::count_if(
        problems, [&](const Problem& problem) { return static_cast<bool>(engine.supports(problem, device)); });
    EXPECT_GE(taken, 5) << engine.name;
  }
}
#endif

// GPUDNN_TEST_CASES says how many times each runs.
TEST(Attention, SameBitsEveryTime) {
  GPUDNN_NEEDS_GPU();
  for (const std::string& line : case_lines("attention/same_bits.txt")) {
    expect_correct(line, 3, 1, 0, session_cases(5));
  }
}

TEST(Attention, RandomProblems) {
  int runs = 0;
  sweep(
      Backend::at_hand().is_cuda() ? 150 : 30, [](Random& random) { return random_attention(random); },
      [&](const AttentionCase& c, int) { return check_engines(c, &runs); });
  EXPECT_GT(runs, 0);
}
TEST(Attention, RandomProblemsIn8Bits) {
  int runs = 0;
  sweep(
      Backend::at_hand().is_cuda() ? 100 : 30, [](Random& random) { return random_attention(random, true); },
      [&](const AttentionCase& c, int) { return check_engines(c, &runs); });
  EXPECT_GT(runs, 0);
}

}  // namespace
}  // namespace gpudnn::test
