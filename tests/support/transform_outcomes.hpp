// Convolution engines that transform their data, run in every config.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>

#include "support/conv_engine_run.hpp"

namespace gpudnn::test {

using Counts = std::map<std::string, int>;

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

}  // namespace gpudnn::test
