// The algorithm queries and searches of convolution, and running by algorithm number.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/algorithms.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

const char* const kProblems[] = {
    "conv fwd f32 nchw n2c6h9w9 k8r3s3 p1x1 t1x1 d1x1 g1",
    "conv fwd f16 nhwc n2c16h9w9 k24r3s3 p1x1 t2x2 d1x1 g1 math=tensor",
    "conv dgrad f32 nchw n2c6h9w9 k8r3s3 p1x1 t1x1 d1x1 g2",
    "conv dgrad bf16 nhwc n2c16h9w9 k24r3s3 p1x1 t2x2 d1x1 g1 math=tensor",
    "conv wgrad f64 nchw n2c6h9w9 k8r3s3 p1x1 t1x1 d1x1 g1",
    "conv wgrad f16 nhwc n2c16h9w9 k24r3s3 p1x1 t1x1 d2x2 g1 math=tensor",
    "conv wgrad f16 nhwc n4c32h14w14 k64r3s3 p1x1 t1x1 d1x1 g1 math=tensor",  // best with a workspace
};

class Algorithms : public testing::TestWithParam<const char*> {
 protected:
  Algorithms() {
    std::string why;
    c_.problem = conv::from_text(GetParam(), &why).value();
  }
  [[nodiscard]] int count() const { return algorithm_count_of(c_.problem.direction); }
  const Backend& backend_ = Backend::at_hand();
  ConvCase c_{};
};

INSTANTIATE_TEST_SUITE_P(Problems, Algorithms, testing::ValuesIn(kProblems));

// Usable rows first and by time, each number at most once, failures last with a status.
void expect_consistent(const AlgorithmList& list, int most) {
  ASSERT_EQ(list.status, GPUDNN_STATUS_SUCCESS) << take_error_text();
  ASSERT_GE(list.returned, 1);
  ASSERT_LE(list.returned, most);
  EXPECT_EQ(list.rows.front().status, GPUDNN_STATUS_SUCCESS);
  std::set<int> numbers;
  bool failed = false;
  float time = -1;
  for (const AlgorithmRow& row : list.rows) {
    EXPECT_TRUE(numbers.insert(row.algorithm).second) << "algorithm " << row.algorithm << " twice";
    if (row.status != GPUDNN_STATUS_SUCCESS) {
      failed = true;
      EXPECT_EQ(row.milliseconds, -1);
      continue;
    }
    EXPECT_FALSE(failed) << "a usable algorithm behind a failed one";
    EXPECT_GE(row.milliseconds, time);
    time = row.milliseconds;
    EXPECT_EQ(row.determinism, GPUDNN_DETERMINISTIC);
  }
}

TEST_P(Algorithms, HeuristicListIsConsistent) {
  ASSERT_EQ(max_algorithm_count(backend_, c_.problem.direction), count());
  const AlgorithmList list = list_algorithms(backend_, c_, Search::heuristic, count());
  expect_consistent(list, count());
  for (const AlgorithmRow& row : list.rows) {
    EXPECT_EQ(row.milliseconds, -1) << "the heuristic has measured nothing";
  }
  const auto lean = std::find_if(list.rows.begin(), list.rows.end(), [](const AlgorithmRow& row) {
    return row.algorithm == 0 && row.status == GPUDNN_STATUS_SUCCESS && row.memory == 0;
  });
  EXPECT_NE(lean, list.rows.end()) << "every problem has a number without a workspace";
  // A shorter list is the start of the longer one.
  const AlgorithmList one = list_algorithms(backend_, c_, Search::heuristic, 1);
  ASSERT_EQ(one.returned, 1);
  EXPECT_EQ(one.rows[0].algorithm, list.rows[0].algorithm);
}

TEST_P(Algorithms, WorkspaceOfTheListIsThatOfTheQuery) {
  for (const AlgorithmRow& row : list_algorithms(backend_, c_, Search::heuristic, count()).rows) {
    if (row.status != GPUDNN_STATUS_SUCCESS) continue;
    std::size_t bytes = 0;
    ASSERT_EQ(workspace_size(backend_, c_.problem, row.algorithm, &bytes), GPUDNN_STATUS_SUCCESS) << take_error_text();
    EXPECT_EQ(bytes, row.memory) << "algorithm " << row.algorithm;
  }
}

TEST_P(Algorithms, EveryNumberRunsWithItsWorkspace) {
  for (int algorithm = 0; algorithm < count(); ++algorithm) {
    EXPECT_EQ(check(backend_, c_, {.algorithm = algorithm}), "") << "algorithm " << algorithm;
  }
}

TEST_P(Algorithms, NumberZeroNeedsNoWorkspace) {
  std::size_t bytes = 1;
  ASSERT_EQ(workspace_size(backend_, c_.problem, 0, &bytes), GPUDNN_STATUS_SUCCESS) << take_error_text();
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(check(backend_, c_, {.algorithm = 0, .without_workspace = true}), "");
}

TEST_P(Algorithms, FindRanksByMeasurement) {
  const AlgorithmList list = list_algorithms(backend_, c_, Search::find, count());
  expect_consistent(list, count());
  EXPECT_GT(list.rows.front().milliseconds, 0);
}

TEST_P(Algorithms, FindExStaysWithinTheWorkspaceGiven) {
  const AlgorithmList without = list_algorithms(backend_, c_, Search::find_ex, count(), 0);
  expect_consistent(without, count());
  for (const AlgorithmRow& row : without.rows) {
    if (row.status != GPUDNN_STATUS_SUCCESS) continue;
    EXPECT_EQ(row.memory, 0u);
  }
  std::size_t most = 0;
  for (const AlgorithmRow& row : list_algorithms(backend_, c_, Search::heuristic, count()).rows) {
    if (row.status == GPUDNN_STATUS_SUCCESS) most = std::max(most, row.memory);
  }
  const AlgorithmList with = list_algorithms(backend_, c_, Search::find_ex, count(), most);
  expect_consistent(with, count());
  EXPECT_GT(with.rows.front().milliseconds, 0);
}

TEST_P(Algorithms, AListOfNoneIsRefused) {
  for (const Search search : {Search::heuristic, Search::find, Search::find_ex}) {
    EXPECT_EQ(list_algorithms(backend_, c_, search, 0).status, GPUDNN_STATUS_BAD_PARAM);
    EXPECT_NE(take_error_text().find("requestedAlgoCount"), std::string::npos);
  }
}

TEST_P(Algorithms, EveryMathTypeGivesTheSameSumsOfSmallIntegers) {
  for (const gpudnnMathType_t math :
       {GPUDNN_DEFAULT_MATH, GPUDNN_TENSOR_OP_MATH, GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, GPUDNN_FMA_MATH}) {
    ConvCase c = c_;
    c.problem.math = math;
    for (int algorithm = 0; algorithm < 2; ++algorithm) {
      EXPECT_EQ(check(backend_, c, {.algorithm = algorithm}), "") << describe(c);
    }
  }
}

TEST_P(Algorithms, ANumberThatDoesNotExistIsRefused) {
  for (const int algorithm : {-1, count()}) {
    std::size_t bytes = 0;
    EXPECT_EQ(workspace_size(backend_, c_.problem, algorithm, &bytes), GPUDNN_STATUS_BAD_PARAM);
    EXPECT_NE(take_error_text().find("algo"), std::string::npos);
    const Outcome outcome = run(backend_, c_, make_values(c_), {.algorithm = algorithm, .without_workspace = true});
    EXPECT_EQ(outcome.status, GPUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(outcome.damage, "");
  }
}

// Which numbers of transforms a problem has engines for; of the other ones the list says so.
struct Served {
  const char* line;
  std::set<int> numbers;
};
const Served kServed[] = {
    {"conv fwd f32 nchw n2c6h19w17 k8r3s3 p1x1 t1x1 d1x1 g1", {4, 5, 6, 7}},
    {"conv fwd f32 nhwc n2c6h19w17 k8r3s3 p1x1 t1x1 d1x1 g2", {4, 5, 6, 7}},
    {"conv dgrad f32 nchw n2c6h19w17 k8r3s3 p1x1 t1x1 d1x1 g1", {2, 3, 4, 5}},
    {"conv wgrad f32 nchw n2c6h19w17 k8r3s3 p1x1 t1x1 d1x1 g1", {2, 5, 6}},
    {"conv fwd f32 nchw n1c2h19w17 k3r5s5 p2x2 t1x1 d1x1 g1", {4, 5}},
    {"conv fwd f32 nchw n1c1h60w60 k1r33s33 p0x0 t1x1 d1x1 g1", {4}},
    {"conv fwd f32 nchw n1c1h12w300 k1r3s5 p0x0 t1x1 d1x1 g1", {5}},
    {"conv fwd f32 nchw n2c6h19w17 k8r3s3 p1x1 t2x2 d1x1 g1", {}},
    {"conv fwd f32 nchw n2c6h19w17 k8r3s3 p1x1 t1x1 d2x2 g1", {}},
    {"conv fwd f16 nchw n2c6h19w17 k8r3s3 p1x1 t1x1 d1x1 g1", {}},
    {"conv wgrad f64 nchw n2c6h19w17 k8r3s3 p1x1 t1x1 d1x1 g1", {}},
};

TEST(AlgorithmFamilies, TheListServesTheNumbersThatHaveAnEngine) {
  const Backend& backend = Backend::at_hand();
  for (const Served& served : kServed) {
    std::string why;
    ConvCase c{};
    c.problem = conv::from_text(served.line, &why).value();
    std::set<int> numbers;
    for (const AlgorithmRow& row :
         list_algorithms(backend, c, Search::heuristic, algorithm_count_of(c.problem.direction)).rows) {
      const bool names_a_family = conv::family_of(c.problem.direction, row.algorithm) != conv::Family::direct;
      if (names_a_family && row.status == GPUDNN_STATUS_SUCCESS) numbers.insert(row.algorithm);
    }
    EXPECT_EQ(numbers, backend.is_cuda() ? served.numbers : std::set<int>{}) << served.line;
  }
}

// A transform rounds otherwise than a sum of products, so equal bits would show that another engine ran.
TEST(AlgorithmFamilies, ANumberRunsAnEngineOfItsFamilyAndNoOther) {
  const Backend& backend = Backend::at_hand();
  if (!backend.is_cuda()) GTEST_SKIP() << "the host has direct engines alone";
  for (const Served& served : kServed) {
    std::string why;
    ConvCase c{};
    c.problem = conv::from_text(served.line, &why).value();
    c.integers = false;
    c.seed = session_seed();
    const Values values = make_values(c);
    const std::vector<double> direct = run(backend, c, values, {.algorithm = 0}).values;
    for (int algorithm = 1; algorithm < algorithm_count_of(c.problem.direction); ++algorithm) {
      const bool served_number = served.numbers.contains(algorithm);
      const Outcome with = run(backend, c, values, {.algorithm = algorithm});
      ASSERT_EQ(with.status, GPUDNN_STATUS_SUCCESS) << with.text;
      if (served_number) {
        EXPECT_NE(with.values, direct) << served.line << " algorithm " << algorithm;
      }
      EXPECT_EQ(check(backend, c, {.algorithm = algorithm}), "") << served.line << " algorithm " << algorithm;
      // Without room for its transform it is a sum of products.
      EXPECT_EQ(check(backend, c, {.algorithm = algorithm, .without_workspace = true}), "") << served.line;
    }
  }
}

}  // namespace
}  // namespace gpudnn::test
