// Every engine of the matrix product in every config that it offers, against the oracle, with a workspace of exactly
// the size that it asks for.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>

#include "support/matmul.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

using Counts = std::map<std::string, int>;

// GPUDNN_TEST_ENGINE=name keeps to one engine, where a new one is tried out.
bool is_left_out(const matmul::MatmulEngine& engine) {
  static const char* const only = std::getenv("GPUDNN_TEST_ENGINE");
  return only != nullptr && std::string(only) != engine.name;
}

// Calls visit(choice) for every engine and config that takes the problem; stops at the first text that is not empty.
template <class Visit>
std::string for_each_choice(const matmul::Problem& problem, bool misaligned, Visit visit) {
  const Device& device = *Backend::at_hand().handle()->device;
  for (const matmul::MatmulEngine& engine : matmul::engines()) {
    if (engine.backend != Backend::at_hand().kind() || is_left_out(engine)) continue;
    if (!engine.supports(problem, device)) continue;
    std::vector<matmul::Candidate> candidates;
    engine.candidates(problem, device, &candidates);
    for (const matmul::Candidate& candidate : candidates) {
      const matmul::Choice choice = {&engine, candidate.config, 0};
      if (misaligned && !matmul::takes_addresses(choice, problem, {.a = 1, .b = 1, .d = 1})) continue;
      const std::string wrong = visit(choice);
      if (!wrong.empty()) return std::string(engine.name) + ' ' + candidate.config + ": " + wrong;
    }
  }
  return {};
}

bool is_another_library(const matmul::Choice& choice) { return std::string(choice.engine->name) == "cublaslt"; }

std::string check_engines(const MatmulCase& c, bool misaligned, Counts* counts) {
  const Backend& backend = Backend::at_hand();
  if (matmul::validate(c.problem) != GPUDNN_STATUS_SUCCESS) return "not valid: " + take_error_text();
  const MatmulValues values = make_values(c);
  const MatmulExpected expected = naive(c, values);
  MatmulRun run(backend, c, values, misaligned);
  if (element_count(c.problem.d) == 0) {  // a call ends before any engine is asked
    return run.judge(matmul::run(backend.handle(), c.problem, run.args(), nullptr, 0), expected);
  }
  bool taken = std::getenv("GPUDNN_TEST_ENGINE") != nullptr;
  const std::string wrong = for_each_choice(c.problem, misaligned, [&](const matmul::Choice& choice) -> std::string {
    std::shared_ptr<const matmul::Plan> plan;
    if (matmul::make_plan(choice, c.problem, *backend.handle()->device, &plan) != GPUDNN_STATUS_SUCCESS) {
      if (is_another_library(choice)) return (void)take_error_text(), "";  // only its heuristic knows
      return "a candidate that it does not take: " + take_error_text();
    }
    taken = taken || plan->workspace == 0;
    ++(*counts)[choice.engine->name];
    return verdict_or_error([&] { return check_plan(backend, *plan, &run, expected); });
  });
  if (!wrong.empty()) return wrong + (misaligned ? " (misaligned)" : "");
  return taken ? "" : "no engine takes the problem without a workspace";
}

void report(const Counts& counts) {
  for (const auto& [name, count] : counts) std::printf("  %s: %d launches\n", name.c_str(), count);
}

TEST(MatmulEngines, RandomProblems) {
  Counts counts;
  sweep(Backend::at_hand().is_cuda() ? 500 : 250, random_matmul,
        [&](const MatmulCase& c, int i) { return check_engines(c, i % 4 == 3, &counts); });
  report(counts);
  for (const matmul::MatmulEngine& engine : matmul::engines()) {
    if (engine.backend != Backend::at_hand().kind() || is_left_out(engine) || session_cases(250) < 200) continue;
    if (std::string(engine.name) == "cublaslt") continue;  // where it is installed
    EXPECT_GT(counts[engine.name], 0) << engine.name << " took none of the random problems";
  }
}

// Lines of several rounds of tiles tell nothing of the host's loops.
TEST(MatmulEngines, HandPickedProblems) {
  constexpr double kHostLimit = 3e7;  // operations
  Counts counts;
  for (const std::string& line : case_lines("matmul/edges.txt")) {
    for (const bool integers : {true, false}) {
      const MatmulCase c = matmul_case(line, integers, session_seed());
      if (!Backend::at_hand().is_cuda() && matmul::flops(c.problem) > kHostLimit) continue;
      EXPECT_EQ(check_engines(c, false, &counts), "") << describe(c);
      EXPECT_EQ(check_engines(c, true, &counts), "") << describe(c);
    }
  }
  report(counts);
}

// Through the ranking and the plan cache; a second call finds the plan of the first.
TEST(MatmulEngines, RunsByTheRanking) {
  const Backend& backend = Backend::at_hand();
  sweep(60, random_matmul, [&](const MatmulCase& c, int i) -> std::string {
    const MatmulValues values = make_values(c);
    const MatmulExpected expected = naive(c, values);
    std::size_t bytes = 0;
    if (matmul::workspace_size(backend.handle(), c.problem, &bytes) != GPUDNN_STATUS_SUCCESS) return take_error_text();
    if (i % 2 == 1) bytes = 0;
    for (int call = 0; call < 2; ++call) {
      MatmulRun run(backend, c, values, i % 3 == 2);
      const GuardedBuffer workspace(backend, bytes);
      const gpudnnStatus_t status =
          matmul::run(backend.handle(), c.problem, run.args(), workspace.data(), workspace.bytes());
      std::string wrong = run.judge(status, expected);
      if (wrong.empty()) wrong = workspace.damage();
      if (!wrong.empty()) return wrong;
    }
    std::shared_ptr<const matmul::Plan> first;
    std::shared_ptr<const matmul::Plan> second;
    for (auto* plan : {&first, &second}) {
      if (matmul::find_plan(backend.handle(), c.problem, 0, {}, plan) != GPUDNN_STATUS_SUCCESS)
        return take_error_text();
    }
    return first == second ? "" : "a second query makes another plan";
  });
}

// Nothing finite gives a NaN, an infinity or a NaN shows in its row or column and nowhere else, and beta 0 reads no c.
TEST(MatmulEngines, NonFiniteElementsStayInTheirRows) {
  Counts counts;
  for (const char* line : {"matmul f32 f32->f32 b2m70n72k33 ta=n tb=n acc=f32 math=default",
                           "matmul bf16 bf16->bf16 m72n136k40 ta=n tb=t acc=f32 math=default",
                           "matmul f16 f16->f16 m129n64k72 ta=t tb=n acc=f32 epi=c,swish math=default"}) {
    MatmulCase c = matmul_case(line, true, session_seed());
    c.beta = 0;
    MatmulValues values = make_values(c);
    for (double& b : values.b) b = std::abs(b) + 1;
    const std::size_t k = static_cast<std::size_t>(matmul::depth(c.problem));
    values.a[3 * k + 1] = std::numeric_limits<double>::infinity();
    values.a[5 * k + 2] = std::numeric_limits<double>::quiet_NaN();
    values.c.assign(values.c.size(), std::numeric_limits<double>::quiet_NaN());
    const MatmulExpected expected = naive(c, values);
    MatmulRun run(Backend::at_hand(), c, values);
    EXPECT_EQ(for_each_choice(c.problem, false,
                              [&](const matmul::Choice& choice) -> std::string {
                                std::shared_ptr<const matmul::Plan> plan;
                                if (matmul::make_plan(choice, c.problem, *Backend::at_hand().handle()->device, &plan) !=
                                    GPUDNN_STATUS_SUCCESS) {
                                  if (is_another_library(choice)) return (void)take_error_text(), "";
                                  return take_error_text();
                                }
                                ++counts[choice.engine->name];
                                return check_plan(Backend::at_hand(), *plan, &run, expected);
                              }),
              "")
        << line;
  }
  report(counts);
  EXPECT_FALSE(counts.empty());
}

TEST(MatmulEngines, TwentyRunsGiveTheSameBits) {
  constexpr int kRuns = 20;
  const Backend& backend = Backend::at_hand();
  Counts counts;
  for (const char* line :
       {"matmul f32 f32->f32 m64n96k2000 ta=n tb=t acc=f32 math=fma",
        "matmul bf16 bf16->bf16 m256n384k4096 ta=n tb=t acc=f32 epi=bias,gelu math=default",
        "matmul f32 f32->f32 m512n256k1024 ta=n tb=n acc=f32 math=tensor",
        "matmul f8e4m3 f8e4m3->bf16 m128n256k2048 ta=n tb=t acc=f32 epi=descale_a,amax math=default"}) {
    if (!backend.is_cuda() && !counts.empty()) break;
    MatmulCase c = matmul_case(line, false, session_seed());
    const MatmulValues values = make_values(c);
    const std::string wrong = for_each_choice(c.problem, false, [&](const matmul::Choice& choice) -> std::string {
      std::shared_ptr<const matmul::Plan> plan;
      if (matmul::make_plan(choice, c.problem, *backend.handle()->device, &plan) != GPUDNN_STATUS_SUCCESS) {
        if (is_another_library(choice)) return (void)take_error_text(), "";
        return take_error_text();
      }
      MatmulRun run(backend, c, values);
      const GuardedBuffer workspace(backend, plan->workspace);
      std::vector<unsigned char> first;
      for (int i = 0; i < kRuns; ++i) {
        const LaunchSite site = launch_site(backend.handle(), workspace.data(), workspace.bytes());
        if (matmul::launch_plan(site, *plan, run.args()) != GPUDNN_STATUS_SUCCESS) return take_error_text();
        if (i == 0) first = run.output_bytes();
        if (run.output_bytes() != first) return "run " + std::to_string(i) + " gives other bits";
      }
      ++counts[choice.engine->name];
      return {};
    });
    EXPECT_EQ(wrong, "") << line;
  }
  report(counts);
}

TEST(MatmulEngines, NamesAreUnique) {
  std::set<std::string> names;
  for (const matmul::MatmulEngine& engine : matmul::engines())
    EXPECT_TRUE(names.insert(engine.name).second) << engine.name;
}

TEST(MatmulEngines, RankingIsSortedAndPure) {
  const Device& device = *Backend::at_hand().handle()->device;
  sweep(50, random_matmul, [&](const MatmulCase& c, int) -> std::string {
    const std::vector<matmul::Choice> first = matmul::rank(c.problem, device);
    const std::vector<matmul::Choice> second = matmul::rank(c.problem, device);
    if (first.empty()) return "no choice";
    if (first.size() != second.size()) return "the second ranking has another length";
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (first[i].engine != second[i].engine || first[i].config != second[i].config) return "two rankings differ";
      if (!(first[i].seconds > 0)) return "an expected time is not positive";
      if (i > 0 && first[i].seconds < first[i - 1].seconds) return "the ranking is not sorted";
    }
    return {};
  });
}

}  // namespace
}  // namespace gpudnn::test
