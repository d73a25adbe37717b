// What the tests of convolution engines that transform their data share: random problems, every config, values that are
// not finite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "support/conv_engine_run.hpp"
#include "support/transform_slack.hpp"

namespace gpudnn::test {

using Counts = std::map<std::string, int>;

inline ConvCase transform_case(const std::string& line) {
  std::string why;
  ConvCase c;
  c.problem = conv::from_text(line, &why).value();
  return c;
}

// A random case but for its sizes: channels_of_group() draws one group's channels, or its filters; sizes(filters) draws
// the line from "h" to the padding. `nchw`: how often the layout is that.
template <class Channels, class Sizes>
ConvCase random_transform_case(Random& random, double nchw, Channels channels_of_group, Sizes sizes) {
  const bool is_forward = random.chance(0.4);
  const std::int64_t groups = random.pick<std::int64_t>({1, 1, 1, 2, 3});
  const auto channels = [&] {
    const std::int64_t of_group = channels_of_group();
    return std::to_string(groups * (groups > 1 ? of_group % 40 + 1 : of_group));
  };
  std::string line = is_forward ? "conv fwd" : random.chance(0.5) ? "conv dgrad" : "conv wgrad";
  line += random.chance(nchw) ? " f32 nchw n" : " f32 nhwc n";
  line += std::to_string(random.between(1, 4)) + "c" + channels();
  line += sizes(channels()) + " t1x1 d1x1 g" + std::to_string(groups);
  line += random.pick({" math=fma", " math=tensor", ""});
  if (random.chance(0.25)) line += " flip";
  const bool has_epilogue = is_forward && random.chance(0.5);
  if (has_epilogue) line += random.pick({" act=relu bias z", " act=tanh bias", " act=identity bias z"});
  ConvCase c = transform_case(line);
  if (random.chance(0.3) && !has_epilogue) {
    set_random_layout(random, &c.problem.x);
    set_random_layout(random, &c.problem.y);
    set_random_layout(random, &c.problem.w);
  }
  c.seed = random.bits();
  c.integers = random.chance(0.5);
  c.alpha = random.pick({1.0, -2.0});
  c.beta = has_epilogue ? 0 : random.pick({0.0, 0.25});
  c.alpha2 = c.problem.has_z != 0 ? 0.5 : 0;
  c.coef = has_epilogue ? 1 : 0;
  return c;
}

// check(engine, outcome, text of the choice) for each config of the engines whose names begin so.
template <class Check>
void for_each_outcome(const char* prefix, const ConvCase& c, const Values& values, Placement place, Counts* counts,
                      Check check) {
  const Backend& backend = Backend::at_hand();
  const Device& device = *backend.handle()->device;
  const Inputs inputs(backend, c, values, place);
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.backend != backend.kind() || !std::string(engine.name).starts_with(prefix)) continue;
    if (!engine.supports(c.problem, device)) continue;
    std::vector<conv::Candidate> candidates;
    engine.candidates(c.problem, device, &candidates);
    for (const conv::Candidate& candidate : candidates) {
      ++(*counts)[engine.name];
      EngineRun run(backend, engine, candidate, c, inputs, place);
      Outcome outcome = run.launch();
      outcome.damage = run.damage();
      check(engine, outcome, choice_text(engine, candidate.config));
    }
  }
}

// Fails where the engine of compute capability 9.0 did not run though it could.
inline void expect_sm90_launches(const char* engine, Counts& counts) {
  for (const auto& [name, count] : counts) std::printf("  %s: %d launches\n", name.c_str(), count);
  const Backend& backend = Backend::at_hand();
  if (!backend.is_cuda() || backend.handle()->device->compute_capability() != 90)
    GTEST_SKIP() << engine << " needs a GPU of compute capability 9.0";
  EXPECT_GT(counts[engine], 0);
}

// Random problems in every config of the family's engines, of which `sm90` must run where it can.
inline void expect_random_problems(const char* prefix, conv::Family family, const char* sm90, int problems,
                                   ConvCase (*random_case)(Random&)) {
  Counts counts;
  sweep(problems, random_case, [&](const ConvCase& c, int i) -> std::string {
    const Values values = make_values(c);
    const Placement place = placement_of(i);
    std::string wrong;
    Expected expected = naive(c, values);
    widen_for_family(c, values, family, &expected);
    for_each_outcome(prefix, c, values, place, &counts,
                     [&](const conv::ConvEngine&, const Outcome& outcome, const std::string& choice) {
                       if (!wrong.empty()) return;
                       wrong = judge(output_of(c.problem), outcome, expected);
                       if (!wrong.empty()) wrong = choice + said_of(place) + wrong;
                     });
    return wrong;
  });
  expect_sm90_launches(sm90, counts);
}

// What the mathematics makes infinite or NaN is not finite.
inline void expect_not_finite_where_due(const char* prefix, const char* sm90, const std::vector<const char*>& lines) {
  Counts counts;
  for (const char* line : lines) {
    for (const bool of_filter : {false, true}) {
      ConvCase c = transform_case(line);
      c.seed = session_seed();
      Values values = make_values(c);
      const bool is_wgrad = c.problem.direction == conv::Direction::wgrad;
      std::vector<double>& image = c.problem.direction == conv::Direction::dgrad ? values.y : values.x;
      std::vector<double>& place = !of_filter ? image : is_wgrad ? values.y : values.w;
      place[place.size() / 3] = std::numeric_limits<double>::infinity();
      place[place.size() / 2] = std::numeric_limits<double>::quiet_NaN();
      const Expected expected = naive(c, values);
      for_each_outcome(prefix, c, values, Placement::aligned, &counts,
                       [&](const conv::ConvEngine&, const Outcome& outcome, const std::string& choice) {
                         std::size_t finite = 0;
                         ASSERT_EQ(outcome.values.size(), expected.value.size()) << outcome.text;
                         for (std::size_t i = 0; i < expected.value.size(); ++i)
                           finite += !std::isfinite(expected.value[i]) && std::isfinite(outcome.values[i]) ? 1 : 0;
                         EXPECT_EQ(finite, 0u) << line << ' ' << choice;
                       });
    }
  }
  expect_sm90_launches(sm90, counts);
}

}  // namespace gpudnn::test
