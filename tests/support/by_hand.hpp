// Cases whose results stand in the test, worked out by hand: the library and the oracle both have to give them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/api_run.hpp"
#include "support/naive.hpp"

namespace gpudnn::test {

// The problem of a line that must be one; `parse` is from_text of its operation.
template <class Parse>
[[nodiscard]] auto parsed(const char* line, Parse parse) {
  std::string why;
  const auto problem = parse(line, &why);
  if (!problem) throw std::runtime_error(std::string(line) + ": " + why);
  return *problem;
}

// With the usual scalars.
template <class Problem>
[[nodiscard]] Case<Problem> case_of(const Problem& problem) {
  Case<Problem> c{};
  c.problem = problem;
  return c;
}

// Exactly these values.
template <class Problem>
void expect_literal(const Case<Problem>& c, const Values& values, const std::vector<double>& literal) {
  const Outcome outcome = run(Backend::at_hand(), c, values);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.text;
  EXPECT_EQ(outcome.values, literal);
  EXPECT_EQ(outcome.damage, "");
  EXPECT_EQ(naive(c, values).value, literal) << "the oracle is wrong";
}

// Values of curved functions, for literals that are known to 1e-6.
template <class Problem>
void expect_near(const Case<Problem>& c, const Values& values, const std::vector<double>& literal) {
  const Outcome outcome = run(Backend::at_hand(), c, values);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.text;
  const Expected oracle = naive(c, values);
  ASSERT_EQ(outcome.values.size(), literal.size());
  for (std::size_t i = 0; i < literal.size(); ++i) {
    EXPECT_NEAR(outcome.values[i], literal[i], 1e-6) << i;
    EXPECT_NEAR(oracle.value[i], literal[i], 1e-6) << "the oracle is wrong at " << i;
  }
}

}  // namespace gpudnn::test
