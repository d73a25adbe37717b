// Running many problems: random ones, and those of the case files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "support/api_run.hpp"
#include "support/random_problems.hpp"
#include "support/session.hpp"

namespace gpudnn::test {

// A random case of an operation whose tests make its data themselves, from the seed.
template <class Problem>
struct Seeded {
  Problem problem;
  std::uint64_t seed;
};
template <class Problem>
[[nodiscard]] std::string describe(const Seeded<Problem>& c) {
  return to_text(c.problem) + " | seed=" + std::to_string(c.seed);
}

// What verdict() says, or the text of what it throws: an error of the GPU is then told with the problem it came up in.
template <class Verdict>
[[nodiscard]] std::string verdict_or_error(Verdict verdict) {
  try {
    return verdict();
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Judges `usual` random cases. A failure prints the problem and how to see it again; the fifth ends the sweep.
// make(Random&) gives a case; verdict(case, index) gives an empty text or what was wrong.
template <class Make, class Verdict>
void sweep(int usual, Make make, Verdict verdict) {
  const int count = session_cases(usual);
  int failures = 0;
  for (int i = 0; i < count && failures < 5; ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const auto c = make(random);
    const std::string wrong = verdict_or_error([&] { return verdict(c, i); });
    if (wrong.empty()) continue;
    ++failures;
    ADD_FAILURE() << describe(c) << "\n  " << wrong << "\n  again: GPUDNN_TEST_SEED=" << session_seed()
                  << " GPUDNN_TEST_CASES=" << i + 1;
  }
}

// tests/cases, wherever it lies now.
[[nodiscard]] std::string case_folder();

// The lines of tests/cases/<name> without comments and empty ones. None is a failure of the caller's test.
[[nodiscard]] std::vector<std::string> case_lines(const std::string& name);

// Problems from a case file, each kFileVariants times with the usual scalars and data. `Problem` has from_text in its
// namespace, given as `parse`.
constexpr std::size_t kFileVariants = 3;
template <class Problem, class Parse>
std::vector<Case<Problem>> cases_from_file(const std::string& name, Parse parse) {
  std::vector<Case<Problem>> cases;
  const std::vector<std::string> lines = case_lines(name);
  EXPECT_FALSE(lines.empty()) << "no cases in " << name;
  for (const std::string& line : lines) {
    std::string why;
    const auto problem = parse(line, &why);
    if (!problem) {
      ADD_FAILURE() << name << ": " << line << "\n  " << why;
      continue;
    }
    Case<Problem> c{};
    c.problem = *problem;
    for (int variant = 0; variant < static_cast<int>(kFileVariants); ++variant) {
      c.integers = variant < 2;
      c.alpha = variant == 1 ? -2 : 1;
      c.beta = variant == 1 ? 0.25 : 0;
      c.seed = static_cast<std::uint64_t>(variant) + 1;
      cases.push_back(c);
    }
  }
  return cases;
}

// Whether line number `line` of a case file runs in its `variant` of so many. Most lines stand at edges of tiles, which
// the host's loops do not have: there each line runs in one variant, they all in turn. Random problems know no such
// limit.
[[nodiscard]] inline bool runs_in_variant(std::size_t line, std::size_t variant, std::size_t variants) {
  return Backend::at_hand().is_cuda() || line % variants == variant;
}

// Runs the cases of cases_from_file, each aligned and one element off.
template <class Problem>
void check_all(const std::vector<Case<Problem>>& cases) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<RunOptions> options;
    for (const bool misaligned : {false, true}) {
      const std::size_t variant = i % kFileVariants * 2 + (misaligned ? 1 : 0);
      if (runs_in_variant(i / kFileVariants, variant, 2 * kFileVariants)) options.push_back({.misaligned = misaligned});
    }
    if (options.empty()) continue;
    EXPECT_EQ(verdict_or_error([&] {
                return check_all_options(Backend::at_hand(), cases[i], std::span<const RunOptions>(options));
              }),
              "")
        << describe(cases[i]);
  }
}

}  // namespace gpudnn::test
