// A query asks no more engines than it must: its choice against the first of the whole ranking, the bounds that it goes
// by against the models that they bound, and the sizes that models take against the plans that have them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/conv/direct/direct_sm90_params.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm80_params.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"
#include "ops/conv/select/heuristics.hpp"
#include "ops/conv/small_c/small_c_dgrad_sm90_params.hpp"
#include "ops/conv/small_c/small_c_fwd_sm90_params.hpp"
#include "ops/conv/small_c/small_c_sm80_params.hpp"
#include "ops/conv/small_c/small_c_wgrad_sm90_params.hpp"
#include "ops/conv/small_c/smem_im2col_wgrad_sm90_params.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/transpose/nhwc_transpose_packing.hpp"
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

int asked_for_lean = 0;
void pretended_lean_candidates(const Problem&, const Device&, std::vector<Candidate>* candidates) {
  ++asked_for_lean;
  candidates->push_back({{0, 1}, 30e-6, 0});
}

// The third can be no better than 15 us, so the first leaves nothing for it.
constexpr ConvEngine kEngines[] = {
    {.name = "first", .alignment = 16, .supports = &takes_all, .candidates = &pretended_candidates<0>},
    {.name = "second", .supports = &takes_all, .least_seconds = &bound_of<9>, .candidates = &pretended_candidates<1>},
    {.name = "third",
     .supports = &takes_all,
     .least_seconds = &bound_of<15>,
     .candidates = &pretended_candidates<2>,
     .lean_candidates = &pretended_lean_candidates},
};

constexpr Limits kNone = {kNoLimit, 16};

Choice best(const std::vector<Choice>& measured, const Limits& limits, const Problem& problem = {}) {
  std::fill(std::begin(asked), std::end(asked), 0);
  asked_for_lean = 0;
  return best_within(std::span(kEngines), measured, problem, host_device(), limits);
}

void endless_candidates(const Problem&, const Device&, std::vector<Candidate>* candidates) {
  candidates->push_back({{3, 2}, std::numeric_limits<double>::infinity(), 0});
}

TEST(ConvReach, WithoutAlternativeEvenAnEndlessCandidateIsChosenAsItIsOffered) {
  constexpr ConvEngine kEndless[] = {{.name = "endless", .supports = &takes_all, .candidates = &endless_candidates}};
  const Choice choice = best_within(kEndless, {}, {}, host_device(), kNone);
  ASSERT_EQ(choice.engine, kEndless);
  EXPECT_EQ(choice.config, (Config{3, 2}));
}

TEST(ConvReach, AnEngineThatCannotWinIsNotAsked) {
  const Choice choice = best({}, kNone);
  EXPECT_STREQ(choice.engine->name, "first");
  EXPECT_DOUBLE_EQ(choice.seconds, 5e-6);
  EXPECT_EQ(choice.workspace, 1024u);
  EXPECT_EQ(asked[0], 1);
  EXPECT_EQ(asked[1] + asked[2], 0) << "their bounds are above what the first takes";
}

TEST(ConvReach, TheBestWithinLimits) {
  Choice choice = best({}, {1023, 16});
  EXPECT_STREQ(choice.engine->name, "first") << "of equals the one that stands first";
  EXPECT_DOUBLE_EQ(choice.seconds, 10e-6);
  EXPECT_EQ(choice.workspace, 0u);
  EXPECT_EQ(asked[1], 1) << "its bound is below what the first takes without a workspace";
  EXPECT_EQ(asked[2], 0);

  choice = best({}, {kNoLimit, 8});
  EXPECT_STREQ(choice.engine->name, "second");
  EXPECT_EQ(choice.workspace, 2048u);
  EXPECT_EQ(asked[0] + asked[2], 0);

  choice = best({}, {0, 8});
  EXPECT_DOUBLE_EQ(choice.seconds, 20e-6);
  EXPECT_EQ(asked[2], 0) << "of an engine that has a list of those without a workspace, that one is asked for";
  EXPECT_EQ(asked_for_lean, 1);
}

TEST(ConvReach, WithoutAnEngineThereIsNoChoice) {
  EXPECT_EQ(best_within({}, {}, {}, host_device(), kNone).engine, nullptr);
}

TEST(ConvReach, WhatIsMeasuredIsTakenUnasked) {
  const std::vector<Choice> measured = {{&kEngines[2], {0, 2}, 3072, 1.5e-6, Source::table},
                                        {&kEngines[1], {0, 1}, 0, 2.5e-6, Source::table}};
  Choice choice = best(measured, kNone);
  EXPECT_STREQ(choice.engine->name, "third");
  EXPECT_EQ(choice.config, (Config{0, 2}));
  EXPECT_EQ(choice.workspace, 3072u);
  EXPECT_DOUBLE_EQ(choice.seconds, 1.5e-6);
  EXPECT_EQ(choice.source, Source::table);
  EXPECT_EQ(asked[0] + asked[1] + asked[2], 0);

  choice = best(measured, {3071, 16});
  EXPECT_STREQ(choice.engine->name, "second") << "the first of them needs more workspace";
  EXPECT_EQ(asked[0] + asked[1] + asked[2], 0);
}

// A measurement is of the plain product.
TEST(ConvReach, AnEngineIsAskedWhetherItHasAnEpilogueToo) {
  Problem problem;
  problem.has_bias = 1;
  Choice choice = best({{&kEngines[2], {0, 2}, 3072, 1.5e-6, Source::table}}, kNone, problem);
  EXPECT_STREQ(choice.engine->name, "third");
  EXPECT_EQ(choice.source, Source::table);
  EXPECT_EQ(asked[2], 1);

  choice = best({{&kEngines[2], {7, 1}, 0, 1.5e-6, Source::table}}, kNone, problem);
  EXPECT_STREQ(choice.engine->name, "first") << "the engine has no such config for it";
  EXPECT_EQ(choice.source, Source::model);
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

std::string compare_forms(const Problem& problem) {
  constexpr double kRounded = 1 + 1e-9;
  const LeastForm least = least_form(problem);
  for (const bool padded : {false, true}) {
    NhwcOutline form;
    if (outline_nhwc_form(problem, padded, &form) != nullptr) continue;
    if (form.seconds < least.seconds) return "the copies take less than their bound";
    if (bytes_of_tensors(form.inner) * kRounded < least.bytes) return "the packed tensors have less bytes";
    if (flops(form.inner) * kRounded < flops(problem) * least.wider) return "the packed problem has less products";
  }
  return {};
}

TEST(ConvReach, NoModelFallsBelowItsBound) {
  for_random_problems([](const Problem& problem) -> std::string {
    if (simt_index_unsupported_reason(problem) != nullptr) return {};
    std::vector<Candidate> candidates;
    simt_candidates(problem, kMultiprocessors, true, &candidates);
    std::string wrong = compare(simt_least_seconds(problem, kMultiprocessors), candidates);
    if (!wrong.empty()) return "simt: " + wrong;
    if (tensor_math_unsupported_reason(problem) != nullptr || sm80_index_unsupported_reason(problem) != nullptr)
      return {};
    candidates.clear();
    sm80_candidates(problem, kMultiprocessors, true, &candidates);
    wrong = compare(sm80_least_seconds(problem, kMultiprocessors), candidates);
    if (!wrong.empty()) return "sm80: " + wrong;
    wrong = compare(sm80_closer_seconds(problem, kMultiprocessors), candidates);
    if (!wrong.empty()) return "sm80, the closer bound: " + wrong;
    if (sm90_unsupported_reason(problem) == nullptr) {
      candidates.clear();
      sm90_candidates(problem, kMultiprocessors, &candidates);
      wrong = compare(sm90_closer_seconds(problem, kMultiprocessors), candidates);
      if (!wrong.empty()) return "sm90: " + wrong;
      wrong = compare(sm90_least_seconds(problem, kMultiprocessors), candidates);
      if (!wrong.empty()) return "sm90, of few channels: " + wrong;
    }
    return compare_forms(problem);
  });
}

// Of images with few channels, packed channels-last or not.
Problem random_image_layer(test::Random& random) {
  Problem problem;
  const auto pick = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + random.between(0, static_cast<std::int64_t>(values.size()) - 1));
  };
  problem.direction = static_cast<Direction>(random.between(0, 2));
  problem.spatial = static_cast<int>(random.between(1, 2));
  problem.math = GPUDNN_TENSOR_OP_MATH;
  const auto type = static_cast<gpudnnDataType_t>(pick({GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_FLOAT}));
  const auto layout = random.between(0, 2) != 0 ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW;
  for (TensorGeometry* t : {&problem.x, &problem.w, &problem.y}) {
    t->type = type;
    t->rank = 2 + problem.spatial;
  }
  problem.x.dims[0] = problem.y.dims[0] = pick({1, 2, 8, 32, 64, 256});
  problem.x.dims[1] = problem.w.dims[1] = random.between(1, 8);
  problem.w.dims[0] = problem.y.dims[1] = random.between(0, 1) != 0 ? random.between(1, 130) : pick({32, 64, 96, 512});
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t taps = random.between(1, 12);
    problem.w.dims[2 + i] = taps;
    problem.x.dims[2 + i] = taps + random.between(0, 300);
    problem.pad[i] = random.between(0, taps - 1);
    problem.stride[i] = pick({1, 1, 2, 4, taps});
    problem.dilation[i] = 1;
    problem.y.dims[2 + i] = output_extent(problem, i);
  }
  for (TensorGeometry* t : {&problem.x, &problem.w, &problem.y}) set_packed_strides(t, layout);
  return problem;
}

template <class Verdict>
void for_random_image_layers(Verdict verdict) {
  test::sweep(
      2000, [](test::Random& random) { return Drawn{random_image_layer(random)}; },
      [&](const Drawn& drawn, int) { return verdict(drawn.problem); });
}

Device pretended_sm90() {
  Device device;
  device.backend = GPUDNN_BACKEND_CUDA;
  device.ordinal = 0;
  device.major = 9;
  device.multiprocessors = kMultiprocessors;
  device.shared_memory_per_block = 232448;
  device.shared_memory_per_multiprocessor = 233472;
  return device;
}

TEST(ConvReach, NoRowOfSmallCFallsBelowItsBound) {
  const Device device = pretended_sm90();
  int taken = 0;
  for_random_image_layers([&](const Problem& problem) -> std::string {
    const kernels::small_c::Params base = small_c_params(problem);
    const double bound = small_c_least_seconds(problem, kMultiprocessors);
    for (int row = 0; row < kernels::small_c::kTileCount; ++row) {
      const kernels::small_c::TileRow& tile = kernels::small_c::kTiles[row];
      if (tile.kernel != small_c_kernel(problem.direction) || tile.type != small_c_type(problem)) continue;
      for (const int splits : {0, 1}) {
        kernels::small_c::Params params = base;
        if (!set_small_c_tile(row, splits, device, &params)) continue;
        ++taken;
        const double seconds = small_c_seconds(row, params, bytes_of_tensors(problem), kMultiprocessors);
        const double of_row = small_c_least_seconds(problem, kMultiprocessors, {&tile, 1});
        if (seconds < of_row) return "row " + std::to_string(row) + " is faster than its bound";
        if (of_row < bound) return "the bound of row " + std::to_string(row) + " is below that of all";
      }
    }
    return {};
  });
  EXPECT_GT(taken, 0);
}

// Within no bound, a loose one, exactly its own, and one that none is within.
template <class Where>
std::string compare_fastest(const Problem& problem, const Where& where, const std::vector<Candidate>& candidates,
                            bool (*fastest)(const Problem&, Where, double, Candidate*)) {
  const Candidate* first = &candidates.front();
  for (const Candidate& c : candidates) {
    if (c.seconds < first->seconds) first = &c;
  }
  for (const double bound : {std::numeric_limits<double>::infinity(), 2 * first->seconds, first->seconds}) {
    Candidate found;
    if (!fastest(problem, where, bound, &found)) return "none is found";
    if (found.config != first->config) return "another is found";
    if (found.seconds != first->seconds || found.workspace != first->workspace) return "with other numbers";
  }
  Candidate found;
  return fastest(problem, where, 0.999 * first->seconds, &found) ? "one is found that is too slow" : "";
}

TEST(ConvReach, TheFastestIsThatOfTheCandidates) {
  for_random_problems([](const Problem& problem) -> std::string {
    std::vector<Candidate> candidates;
    if (simt_index_unsupported_reason(problem) == nullptr) {
      simt_candidates(problem, kMultiprocessors, true, &candidates);
      const std::string wrong = compare_fastest(problem, kMultiprocessors, candidates, &simt_fastest);
      if (!wrong.empty()) return "simt: " + wrong;
    }
    candidates.clear();
    if (tensor_math_unsupported_reason(problem) == nullptr && sm80_index_unsupported_reason(problem) == nullptr) {
      sm80_candidates(problem, kMultiprocessors, true, &candidates);
      const std::string wrong = compare_fastest(problem, kMultiprocessors, candidates, &sm80_fastest);
      if (!wrong.empty()) return "sm80: " + wrong;
    }
    if (direct_unsupported_reason(problem) == nullptr) {
      candidates.clear();
      direct_candidates(problem, kMultiprocessors, &candidates);
      const std::string wrong = compare_fastest(problem, kMultiprocessors, candidates, &direct_fastest);
      if (!wrong.empty()) return "direct: " + wrong;
    }
    return {};
  });
}

// What an engine for few channels tells of a problem, which may be nothing.
struct SmallC {
  const char* name;
  const char* (*reason)(const Problem&);
  void (*candidates)(const Problem&, int, std::vector<Candidate>*);
  bool (*fastest)(const Problem&, int, double, Candidate*);
  double (*least_seconds)(const Problem&, int);
};
constexpr SmallC kSmallC[] = {
    {"forward", &small_c_fwd_unsupported_reason, &small_c_fwd_candidates, &small_c_fwd_fastest,
     &small_c_fwd_least_seconds},
    {"data", &small_c_dgrad_unsupported_reason, &small_c_dgrad_candidates, &small_c_dgrad_fastest, nullptr},
    {"filter", &small_c_wgrad_unsupported_reason, &small_c_wgrad_candidates, &small_c_wgrad_fastest,
     &small_c_wgrad_least_seconds},
    {"smem_im2col", &smem_im2col_wgrad_unsupported_reason, &smem_im2col_wgrad_candidates, &smem_im2col_wgrad_fastest,
     &smem_im2col_wgrad_least_seconds},
};

TEST(ConvReach, TheFastestOfSmallCIsThatOfTheCandidatesAndWithinTheBound) {
  int taken[std::size(kSmallC)] = {};
  for_random_image_layers([&](const Problem& problem) -> std::string {
    for (std::size_t i = 0; i < std::size(kSmallC); ++i) {
      const SmallC& few = kSmallC[i];
      std::vector<Candidate> candidates;
      if (few.reason(problem) == nullptr) {
        ++taken[i];
        few.candidates(problem, kMultiprocessors, &candidates);
        std::string wrong = compare_fastest(problem, kMultiprocessors, candidates, few.fastest);
        if (wrong.empty() && few.least_seconds != nullptr)
          wrong = compare(few.least_seconds(problem, kMultiprocessors), candidates);
        if (!wrong.empty()) return few.name + (": " + wrong);
        continue;
      }
      Candidate found;
      if (few.fastest(problem, kMultiprocessors, std::numeric_limits<double>::infinity(), &found))
        return few.name + std::string(": one is found of a problem that is refused");
    }
    return {};
  });
  for (const int count : taken) EXPECT_GT(count, 0);
}

// The quick answer for small problems, against the mapping itself.
TEST(ConvReach, ASmallProblemIsNarrow) {
  int narrow = 0;
  for_random_problems([&](const Problem& problem) -> std::string {
    bool wide = false;
    if (simt_index_unsupported_reason(problem, &wide) != nullptr) return {};
    narrow += wide ? 0 : 1;
    return simt_params(problem).wide == wide ? "" : wide ? "said to be wide" : "said to be narrow";
  });
  EXPECT_GT(narrow, 0);
}

// --- the sizes ------------------------------------------------------------------------------------------------------

std::string compare_simt(const Problem& problem) {
  if (simt_index_unsupported_reason(problem) != nullptr) return {};
  const kernels::simt::Params params = simt_params(problem);
  const int vectors[] = {problem.x.type == GPUDNN_DATA_DOUBLE ? 16 : 4 * tile::element_bytes(tile_type(problem))};
  SimtLoadModes modes;
  const SimtShape shape = simt_shape(problem, vectors, &modes);
  if (modes.a != params.operand_a.mode || modes.b != params.operand_b.mode) return "other load modes";
  if (shape.wide != params.wide) return shape.wide ? "said to be wide" : "said to be narrow";
  if (shape.phases != params.phases || shape.groups != params.groups) return "other phases or groups";
  if (shape.m != static_cast<double>(params.whole.m_count) || shape.n != static_cast<double>(params.n_count) ||
      shape.k != static_cast<double>(params.whole.k_count)) {
    return "other extents";
  }
  double k = 0;
  for (std::uint32_t i = 0; i < params.phases; ++i) {
    kernels::simt::Geometry geometry = params.whole;
    kernels::simt::set_geometry(params, i, &geometry);
    k += static_cast<double>(geometry.k_count) / params.phases;
  }
  return std::abs(k - shape.useful_k) <= 1e-9 * k ? "" : "another share of k";
}

std::string compare_sm90(const Problem& problem, int* taken) {
  if (sm90_unsupported_reason(problem) != nullptr) return {};
  ++*taken;
  const bool by_taps = problem.direction == Direction::wgrad;
  const Sm90Sizes sizes = sm90_sizes(problem);
  const Sm90Plan plan = sm90_plan(problem, {0, 1});
  const kernels::sm90::Params& p = plan.params;
  if (static_cast<std::uint32_t>(sizes.phases) != p.phases) return "other phases";
  if (sizes.columns != (by_taps ? p.n_chunks : p.n_count)) return "other columns";
  if (sizes.workspace != plan.workspace) return "another workspace";
  const double block = 128.0 / tile::element_bytes(tile_type(problem));  // of the first shape
  for (std::uint32_t i = 0; i < p.phases; ++i) {
    if (sizes.rows[i] != (by_taps ? p.m_count : p.problem[i].pixels)) return "other rows";
    if (sizes.taps[i] * std::ceil(sizes.summed / block) != p.problem[i].k_blocks) return "other k tiles";
  }
  return {};
}

TEST(ConvReach, SizesAreThoseOfThePlans) {
  int taken = 0;
  for_random_problems([&](const Problem& problem) {
    const std::string wrong = compare_simt(problem);
    return wrong.empty() ? compare_sm90(problem, &taken) : wrong;
  });
  EXPECT_GT(taken, 0);
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
// A query offers the number without a workspace by what the last engine of the backend takes.
TEST(ConvReach, TheLastEngineOfTheBackendTakesEverything) {
  const Device device = pretended_sm90();
  const ConvEngine* last = nullptr;
  for (const ConvEngine& engine : engines()) {
    if (engine.backend == device.backend) last = &engine;
  }
  ASSERT_NE(last, nullptr);
  for_random_problems([&](const Problem& problem) -> std::string {
    if (simt_index_unsupported_reason(problem) != nullptr || last->supports(problem, device)) return {};
    return std::string(last->name) + " refuses it";
  });
}

// What an engine says of itself without being asked, against what it takes and offers.
std::string compare_engine(const ConvEngine& engine, const Problem& problem, const Device& device, int* offered) {
  if (!engine.supports(problem, device)) return {};
  if (!may_take(engine.reach, problem)) return "it takes what is beyond its reach";
  std::vector<Candidate> candidates;
  engine.candidates(problem, device, &candidates);
  *offered += static_cast<int>(candidates.size());
  for (const auto bound : {engine.least_seconds, engine.closer_seconds}) {
    if (bound == nullptr) continue;
    const std::string wrong = compare(bound(problem, device), candidates);
    if (!wrong.empty()) return wrong;
  }
  return engine.fastest == nullptr ? "" : compare_fastest<const Device&>(problem, device, candidates, engine.fastest);
}

TEST(ConvReach, EnginesKeepToTheirReachAndBounds) {
  const Device device = pretended_sm90();
  int offered = 0;
  const auto verdict = [&](const Problem& problem) -> std::string {
    for (const ConvEngine& engine : engines()) {
      if (engine.backend != device.backend) continue;
      const std::string wrong = compare_engine(engine, problem, device, &offered);
      if (!wrong.empty()) return std::string(engine.name) + ": " + wrong;
    }
    return {};
  };
  for_random_problems(verdict);
  for_random_image_layers(verdict);
  EXPECT_GT(offered, 0);
}

// The engines themselves, as far as they run without their device. Where it is there, all of them.
TEST(ConvReach, TheBestIsTheFirstOfTheRanking) {
  const Device device = pretended_sm90();
  for_random_problems([&](const Problem& problem) -> std::string {
    const std::vector<Choice> all = rank_by_model(engines(), problem, device, kNoLimit);
    for (const std::size_t workspace : {std::size_t{0}, std::size_t{1} << 20, kNoLimit}) {
      for (const std::size_t alignment : {std::size_t{1}, std::size_t{16}}) {
        const auto wanted = std::find_if(all.begin(), all.end(), [&](const Choice& c) {
          return c.workspace <= workspace && c.engine->alignment <= alignment;
        });
        const Choice choice = best_within(engines(), {}, problem, device, {workspace, alignment});
        if (wanted == all.end() ? choice.engine != nullptr
                                : choice.engine != wanted->engine || choice.config != wanted->config)
          return "another choice within " + std::to_string(workspace) + " bytes";
      }
    }
    return {};
  });
}
#endif

}  // namespace
}  // namespace gpudnn::conv
