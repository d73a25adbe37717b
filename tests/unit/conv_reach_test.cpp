// A query asks no more engines than it must: the short ranking against the whole one, and the bounds that it goes by
// against the models that they bound.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ops/conv/heuristics.hpp"
#include "ops/conv/implicit_gemm_sm80_params.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/via_nhwc_packing.hpp"
#include "support/sweep.hpp"

namespace gpudnn::conv {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr int kMultiprocessors = 132;

// --- pretended engines ----------------------------------------------------------------------------------------------

int asked[3];  // how often each was asked for candidates

// Engine i takes 10 * (i + 1) us without a workspace, and half of it with 1 KB a place in the list.
template <int I>
void pretended_candidates(const Problem&, const Device&, std::vector<Candidate>* candidates) {
  ++asked[I];
  candidates->push_back({{0, 1}, 10e-6 * (I + 1), 0});
  candidates->push_back({{0, 2}, 5e-6 * (I + 1), std::size_t{1024} * (I + 1)});
}
template <int Microseconds>
double bound_of(const Problem&, const Device&) {
  return 1e-6 * Microseconds;
}
Support takes_all(const Problem&, const Device&) { return Support::yes(); }

// What of the third matters beside another that is faster with a workspace.
int asked_for_lean = 0;
void pretended_lean_candidates(const Problem&, const Device&, std::vector<Candidate>* candidates) {
  ++asked_for_lean;
  candidates->push_back({{0, 1}, 30e-6, 0});
}
void needy_candidates(const Problem&, const Device&, std::vector<Candidate>* candidates) {
  candidates->push_back({{0, 2}, 12e-6, 512});
}

// The third can be no better than 15 us, so the first leaves nothing for it.
constexpr ConvEngine kEngines[] = {
    {"first", GPUDNN_BACKEND_HOST, true, 16, GPUDNN_FMA_MATH, &takes_all, &pretended_candidates<0>, nullptr, nullptr,
     nullptr},
    {"second", GPUDNN_BACKEND_HOST, true, 1, GPUDNN_FMA_MATH, &takes_all, &pretended_candidates<1>, nullptr, nullptr,
     nullptr, &bound_of<9>},
    {"third", GPUDNN_BACKEND_HOST, true, 1, GPUDNN_FMA_MATH, &takes_all, &pretended_candidates<2>, nullptr, nullptr,
     nullptr, &bound_of<15>},
};

std::vector<Choice> short_ranking(const std::vector<TunedRow>& measured) {
  std::fill(std::begin(asked), std::end(asked), 0);
  return rank_within_reach(kEngines, measured, {}, host_device(), kNoLimit);
}

TEST(ConvReach, AnEngineThatCannotWinIsNotAsked) {
  const std::vector<Choice> choices = short_ranking({});
  EXPECT_EQ(asked[0], 1);
  EXPECT_EQ(asked[1], 1) << "its bound is below what the first takes without a workspace";
  EXPECT_EQ(asked[2], 0);
  ASSERT_EQ(choices.size(), 2u) << "the best, and the best without a workspace";
  EXPECT_DOUBLE_EQ(choices[0].seconds, 5e-6);
  EXPECT_DOUBLE_EQ(choices[1].seconds, 10e-6);
  EXPECT_STREQ(choices[1].engine->name, "first") << "of equals the one that stands first";
}

// The best needs a workspace. For the best without one, the third need not look at its splits.
TEST(ConvReach, AnEngineThatCannotBeTheBestIsAskedForItsLeanOnes) {
  const ConvEngine engines[] = {
      {"needy", GPUDNN_BACKEND_HOST, true, 1, GPUDNN_FMA_MATH, &takes_all, &needy_candidates, nullptr, nullptr,
       nullptr},
      {"third", GPUDNN_BACKEND_HOST, true, 1, GPUDNN_FMA_MATH, &takes_all, &pretended_candidates<2>, nullptr, nullptr,
       nullptr, &bound_of<15>, &pretended_lean_candidates},
  };
  std::fill(std::begin(asked), std::end(asked), 0);
  asked_for_lean = 0;
  const std::vector<Choice> choices = rank_within_reach(engines, {}, {}, host_device(), kNoLimit);
  EXPECT_EQ(asked[2], 0);
  EXPECT_EQ(asked_for_lean, 1);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].workspace, 512u);
  EXPECT_EQ(choices[1].workspace, 0u);
}

TEST(ConvReach, WhatAMeasurementNamesIsAsked) {
  short_ranking({{"third", {0, 2}, 1.0}});
  EXPECT_EQ(asked[2], 1);
  EXPECT_EQ(asked[0] + asked[1], 2) << "the measured one needs a workspace, so others may be taken";
  short_ranking({{"third", {0, 1}, 1.0}});
  EXPECT_EQ(asked[2], 1);
  EXPECT_EQ(asked[0] + asked[1], 0) << "the measured one fits any call";
  short_ranking({{"third", {7, 1}, 1.0}});
  EXPECT_EQ(asked[0] + asked[1], 2) << "the engine has no such config";
}

// --- the bounds -----------------------------------------------------------------------------------------------------

// Random problems, some of them blown up to sizes that no test could run.
Problem random_large(test::Random& random) {
  Problem problem = test::random_conv(random).problem;
  const std::int64_t images = std::int64_t{1} << random.between(0, 12);
  const std::int64_t wider = std::int64_t{1} << random.between(0, 8);
  const auto pack = [](TensorGeometry* t, bool channels_last) {
    set_packed_strides(t, channels_last ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW);
  };
  const bool channels_last = random.between(0, 1) != 0;
  problem.x.dims[0] = problem.y.dims[0] = problem.x.dims[0] * images;
  problem.w.dims[0] = problem.y.dims[1] = problem.w.dims[0] * wider;
  problem.w.dims[1] *= wider;
  problem.x.dims[1] *= wider;
  if (random.between(0, 3) == 0) {
    const int last = 1 + problem.spatial;
    problem.x.dims[last] *= std::int64_t{1} << random.between(0, 20);
    problem.y.dims[last] = output_extent(problem, problem.spatial - 1);
  }
  for (TensorGeometry* t : {&problem.x, &problem.w, &problem.y}) pack(t, channels_last);
  if (problem.has_z != 0) problem.z = problem.y;
  return problem;
}

struct Drawn {
  Problem problem;
};
std::string describe(const Drawn& drawn) { return to_text(drawn.problem); }

template <class Verdict>
void for_random_problems(Verdict verdict) {
  test::sweep(
      2000, [](test::Random& random) { return Drawn{random_large(random)}; },
      [&](const Drawn& drawn, int) { return verdict(drawn.problem); });
}

std::string compare(double bound, const std::vector<Candidate>& candidates) {
  for (const Candidate& c : candidates) {
    if (c.seconds >= bound) continue;
    return "tile " + std::to_string(c.config.tile) + " split " + std::to_string(c.config.split_k) + " takes " +
           std::to_string(c.seconds * 1e6) + " us, the bound is " + std::to_string(bound * 1e6);
  }
  return {};
}

TEST(ConvReach, NoModelFallsBelowItsBound) {
  for_random_problems([](const Problem& problem) -> std::string {
    if (simt_index_obstacle(problem) != nullptr) return {};
    std::vector<Candidate> candidates;
    simt_candidates(problem, kMultiprocessors, true, &candidates);
    std::string wrong = compare(simt_least_seconds(problem, kMultiprocessors), candidates);
    if (!wrong.empty()) return "simt: " + wrong;
    if (tensor_math_obstacle(problem) != nullptr || sm80_index_obstacle(problem) != nullptr) return {};
    candidates.clear();
    sm80_candidates(problem, kMultiprocessors, true, &candidates);
    wrong = compare(sm80_least_seconds(problem, kMultiprocessors), candidates);
    if (!wrong.empty()) return "sm80: " + wrong;
    for (const bool padded : {false, true}) {
      NhwcOutline form;
      if (outline_nhwc_form(problem, padded, &form) != nullptr) continue;
      if (form.seconds < least_packing_seconds(problem)) return "the copies take less than their bound";
    }
    return {};
  });
}

// The quick answer for small problems, against the mapping itself.
TEST(ConvReach, ASmallProblemIsNarrow) {
  int narrow = 0;
  for_random_problems([&](const Problem& problem) -> std::string {
    bool wide = false;
    if (simt_index_obstacle(problem, &wide) != nullptr) return {};
    narrow += wide ? 0 : 1;
    return simt_params(problem).wide == wide ? "" : wide ? "said to be wide" : "said to be narrow";
  });
  EXPECT_GT(narrow, 0);
}

// The same form with and without the tasks.
TEST(ConvReach, AnOutlineIsTheFormWithoutTasks) {
  for_random_problems([](const Problem& problem) -> std::string {
    for (const bool padded : {false, true}) {
      NhwcForm form;
      NhwcOutline outline;
      const bool made = make_nhwc_form(problem, padded, &form) == nullptr;
      if (made != (outline_nhwc_form(problem, padded, &outline) == nullptr)) return "one is refused";
      if (!made) continue;
      if (!(form.inner == outline.inner) || form.bytes != outline.bytes || form.seconds != outline.seconds)
        return "they differ";
    }
    return {};
  });
}

#ifdef GPUDNN_WITH_CUDA
// The engines themselves, as far as they run without their device. Where it is there, all of them.
TEST(ConvReach, TheShortRankingChoosesAsTheWholeOne) {
  Device device;
  device.backend = GPUDNN_BACKEND_CUDA;
  device.ordinal = 0;
  device.major = 9;
  device.multiprocessors = kMultiprocessors;
  device.shared_memory_per_block = 232448;
  device.shared_memory_per_multiprocessor = 233472;
  for_random_problems([&](const Problem& problem) -> std::string {
    const std::vector<Choice> all = rank_by_model(engines(), problem, device, kNoLimit);
    const std::vector<Choice> few = rank_within_reach(engines(), {}, problem, device, kNoLimit);
    for (const std::size_t limit : {std::size_t{0}, kNoLimit}) {
      const auto best = [&](const std::vector<Choice>& choices) {
        return std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.workspace <= limit; });
      };
      const auto a = best(all);
      const auto b = best(few);
      if (a == all.end() && b == few.end()) continue;
      if (a == all.end() || b == few.end() || a->engine != b->engine || !(a->config == b->config))
        return "another choice within " + std::to_string(limit) + " bytes";
    }
    return {};
  });
}
#endif

}  // namespace
}  // namespace gpudnn::conv
