// What tests share that emulate a filter gradient's addressing on the host: an engine's plans for a problem, and where
// the blocks' sums go.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/conv/wgrad_taps.hpp"
#include "ops/conv/engine.hpp"
#include "support/conv_emulation.hpp"

namespace gpudnn::test {

// An engine's way from problems to plans.
template <class Plan>
struct Planner {
  void (*candidates)(const conv::Problem&, int multiprocessors, std::vector<conv::Candidate>*);
  std::optional<Plan> (*plan)(const conv::Problem&, const conv::Config&, int multiprocessors);
  std::size_t (*workspace)(const conv::Problem&, const conv::Config&);
};

// Calls check(values, plan) for each candidate, until one fails. Returns how many candidates there are.
template <class Plan, class Check>
int check_plans(const Planner<Plan>& planner, const ConvCase& c, int multiprocessors, Check check) {
  SCOPED_TRACE(to_text(c.problem));
  std::vector<conv::Candidate> candidates;
  planner.candidates(c.problem, multiprocessors, &candidates);
  EXPECT_FALSE(candidates.empty());
  const Values values = make_values(c);
  for (const conv::Candidate& candidate : candidates) {
    SCOPED_TRACE("tile " + std::to_string(candidate.config.tile) + ", splits " +
                 std::to_string(candidate.config.split_k));
    EXPECT_EQ(candidate.workspace, planner.workspace(c.problem, candidate.config));
    const auto plan = planner.plan(c.problem, candidate.config, multiprocessors);
    EXPECT_TRUE(plan);
    if (!plan) break;
    EXPECT_EQ(plan->seconds, candidate.seconds);
    EXPECT_EQ(plan->workspace, candidate.workspace);
    check(values, *plan);
    if (testing::Test::HasFailure()) break;
  }
  return static_cast<int>(candidates.size());
}

// The sums of all blocks, where dw has them.
class FilterSums {
 public:
  FilterSums(const ConvCase& c, const Values& values)
      : case_(c), values_(values), old_(in_memory(c.problem.w, values.out)), sums_(old_.size()), writes_(old_.size()) {}

  void add(std::int64_t at, double sum) {
    sums_.at(static_cast<std::size_t>(at)) += sum;
    ++writes_.at(static_cast<std::size_t>(at));
  }
  // A sum of a tap of octet number `octet` of a filter, where they exist.
  void add(const kernels::FilterTaps& taps, std::uint32_t octet, std::uint32_t tap, std::uint32_t filter, double sum) {
    std::uint32_t row_octet = 0;
    std::uint32_t r = taps.row_octets.divmod(octet, &row_octet);
    tap += row_octet * 8;
    if (r >= taps.height || tap >= taps.row_taps || filter >= taps.filters) return;
    std::uint32_t channel = 0;
    std::uint32_t s = taps.channels.divmod(tap, &channel);
    if (taps.mirrored) {
      r = taps.height - 1 - r;
      s = taps.width - 1 - s;
    }
    add(filter * taps.step_k + channel * taps.step_c + r * taps.step_r + s * taps.step_s, sum);
  }

  // Each element has a sum of each split.
  void expect_convolution(std::uint32_t splits) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] = case_.alpha * sums_[i] + (case_.beta != 0 ? case_.beta * old_[i] : 0);
      EXPECT_EQ(writes_[i] % static_cast<int>(splits), 0);
      writes_[i] /= static_cast<int>(splits);
    }
    test::expect_convolution(case_, values_, sums_, writes_);
  }

 private:
  const ConvCase& case_;
  const Values& values_;
  Memory old_, sums_;
  std::vector<int> writes_;
};

}  // namespace gpudnn::test
