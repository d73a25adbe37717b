// The CTC loss through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "support/naive_misc.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

struct CtcDescriptor
    : Descriptor<gpudnnCTCLossDescriptor_t, gpudnnCreateCTCLossDescriptor, gpudnnDestroyCTCLossDescriptor> {
  CtcDescriptor() = default;
  explicit CtcDescriptor(const ctc::Problem& problem) {
    GPUDNN_TEST_REQUIRE(gpudnnSetCTCLossDescriptor_v9(
        *this, problem.x.type, problem.softmax ? GPUDNN_LOSS_NORMALIZATION_SOFTMAX : GPUDNN_LOSS_NORMALIZATION_NONE,
        problem.skip_impossible ? GPUDNN_CTC_SKIP_OOB_GRADIENTS : GPUDNN_CTC_ZERO_OOB_GRADIENTS,
        static_cast<int>(problem.max_labels)));
  }
};

struct CtcOutcome {
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  std::vector<double> costs;
  std::vector<double> gradients;
  std::string damage;
};

GuardedBuffer upload(const Backend& backend, const std::vector<int>& values) {
  GuardedBuffer buffer(backend, std::max<std::size_t>(values.size(), 1) * sizeof(int));
  if (!values.empty()) buffer.write(values.data(), values.size() * sizeof(int));
  return buffer;
}

// The gradients start as NaN. The workspace is exactly what the query says, and poisoned.
CtcOutcome run_ctc(const Backend& backend, const ctc::Problem& problem, const std::vector<double>& x,
                   const CtcLabels& given, bool misaligned = false) {
  const gpudnnTensorDescriptor_t none = nullptr;
  const std::int64_t cost_dims[] = {problem.x.dims[1]};
  const CtcDescriptor ctc(problem);
  const TensorDescriptor x_desc(problem.x);
  const TensorDescriptor g_desc(problem.has_gradients ? problem.gradients : problem.x);
  const gpudnnTensorDescriptor_t g = problem.has_gradients ? static_cast<gpudnnTensorDescriptor_t>(g_desc) : none;
  const DeviceTensor x_data(backend, problem.x, &x, misaligned);
  const DeviceTensor costs(backend, packed_tensor(problem.x.type, GPUDNN_TENSOR_NCHW, 1, cost_dims), nullptr,
                           misaligned);
  const DeviceTensor gradients(backend, problem.has_gradients ? problem.gradients : problem.x, nullptr, misaligned);
  void* const gradient_data = problem.has_gradients ? gradients.data() : nullptr;
  CtcOutcome outcome;
  std::size_t bytes = 0;
  if (problem.host_labels) {
    const std::vector<int> labels = given.labels.empty() ? std::vector<int>{0} : given.labels;
    outcome.status =
        gpudnnGetCTCLossWorkspaceSize(backend.handle(), x_desc, g, labels.data(), given.label_lengths.data(),
                                      given.input_lengths.data(), GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC, ctc, &bytes);
    const GuardedBuffer workspace(backend, bytes);
    if (outcome.status != GPUDNN_STATUS_SUCCESS) return outcome;
    outcome.status = gpudnnCTCLoss(backend.handle(), x_desc, x_data.data(), labels.data(), given.label_lengths.data(),
                                   given.input_lengths.data(), costs.data(), g, gradient_data,
                                   GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC, ctc, workspace.data(), bytes);
    outcome.damage = workspace.damage();
  } else {
    const GuardedBuffer labels = upload(backend, given.labels);
    const GuardedBuffer label_lengths = upload(backend, given.label_lengths);
    const GuardedBuffer input_lengths = upload(backend, given.input_lengths);
    outcome.status = gpudnnGetCTCLossWorkspaceSize_v8(backend.handle(), GPUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC, ctc,
                                                      x_desc, g, &bytes);
    const GuardedBuffer workspace(backend, bytes);
    if (outcome.status != GPUDNN_STATUS_SUCCESS) return outcome;
    outcome.status = gpudnnCTCLoss_v8(
        backend.handle(), GPUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC, ctc, x_desc, x_data.data(),
        static_cast<const int*>(labels.data()), static_cast<const int*>(label_lengths.data()),
        static_cast<const int*>(input_lengths.data()), costs.data(), g, gradient_data, bytes, workspace.data());
    outcome.damage = workspace.damage() + labels.damage() + label_lengths.damage() + input_lengths.damage();
  }
  outcome.costs = costs.values();
  outcome.gradients = gradients.values();
  outcome.damage += costs.damage_outside_elements() + gradients.damage_outside_elements() + x_data.damage_anywhere();
  return outcome;
}

std::vector<double> random_input(Random& random, const ctc::Problem& problem) {
  const auto alphabet = static_cast<std::size_t>(problem.x.dims[2]);
  std::vector<double> x(static_cast<std::size_t>(element_count(problem.x)));
  for (double& value : x) value = problem.softmax ? 2 * random.normal() : 0.05 + random.uniform();
  for (std::size_t row = 0; !problem.softmax && row < x.size(); row += alphabet) {
    const double sum = std::accumulate(&x[row], &x[row] + alphabet, 0.0);
    for (std::size_t k = 0; k < alphabet; ++k) x[row + k] /= sum;
  }
  for (double& value : x) value = round_to_type(value, problem.x.type);
  return x;
}

// Lengths and labels that are mostly possible; sequences of none, and full ones, among them.
CtcLabels random_labels(Random& random, const ctc::Problem& problem) {
  CtcLabels given;
  for (std::int64_t n = 0; n < problem.x.dims[1]; ++n) {
    const std::int64_t length = problem.x.dims[2] > 1 ? random.between(0, problem.max_labels) : 0;
    given.label_lengths.push_back(static_cast<int>(length));
    given.input_lengths.push_back(
        static_cast<int>(random.chance(0.5) ? problem.x.dims[0] : random.between(0, problem.x.dims[0])));
    for (std::int64_t i = 0; i < length; ++i) {
      given.labels.push_back(static_cast<int>(random.between(1, problem.x.dims[2] - 1)));
    }
  }
  return given;
}

std::string check_ctc(const ctc::Problem& problem, std::uint64_t seed, bool misaligned) {
  Random random(seed);
  const std::vector<double> x = random_input(random, problem);
  const CtcLabels labels = random_labels(random, problem);
  const CtcOutcome outcome = run_ctc(Backend::at_hand(), problem, x, labels, misaligned);
  if (outcome.status != GPUDNN_STATUS_SUCCESS) return take_error_text();
  CtcExpected expected = naive_ctc(problem, x, labels);
  const std::int64_t cost_dims[] = {problem.x.dims[1]};
  std::string wrong =
      mismatch(packed_tensor(problem.x.type, GPUDNN_TENSOR_NCHW, 1, cost_dims), outcome.costs, expected.costs);
  if (!wrong.empty()) return "costs: " + wrong;
  if (!problem.has_gradients) return outcome.damage;
  const auto sequences = static_cast<std::size_t>(problem.x.dims[1]);
  const auto alphabet = static_cast<std::size_t>(problem.x.dims[2]);
  for (std::size_t i = 0; i < expected.gradients.value.size(); ++i) {
    // Skipped gradients keep what was there: a NaN.
    if (problem.skip_impossible && expected.is_impossible[i / alphabet % sequences]) {
      expected.gradients.value[i] = std::nan("");
    }
  }
  wrong = mismatch(problem.gradients, outcome.gradients, expected.gradients);
  return wrong.empty() ? outcome.damage : "gradients: " + wrong;
}

ctc::Problem random_problem(Random& random) {
  ctc::Problem p;
  p.x.type = random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, GPUDNN_DATA_DOUBLE});
  p.x.rank = 3;
  p.x.dims[0] = random.between(1, 6);
  p.x.dims[1] = random.between(1, 5);
  p.x.dims[2] = random.between(1, p.x.dims[0] < 5 ? 5 : 3);  // few enough paths to enumerate
  p.max_labels = random.between(0, 4);
  p.softmax = random.chance(0.6);
  p.has_gradients = random.chance(0.8);
  p.skip_impossible = random.chance(0.4);
  p.host_labels = random.chance(0.5);
  set_random_layout(random, &p.x);
  if (p.has_gradients) {
    p.gradients = p.x;
    set_random_layout(random, &p.gradients);
  }
  return p;
}

TEST(CtcLoss, RandomProblemsAgreeWithEveryPathCounted) {
  const auto make = [](Random& random) {
    const ctc::Problem problem = random_problem(random);
    return Seeded<ctc::Problem>{problem, random.bits()};
  };
  sweep(400, make, [](const Seeded<ctc::Problem>& c, int i) { return check_ctc(c.problem, c.seed, i % 5 == 4); });
}

TEST(CtcLoss, HandPickedProblems) {
  for (const std::string& line : case_lines("ctc/edges.txt")) {
    std::string why;
    const auto problem = ctc::from_text(line, &why);
    ASSERT_TRUE(problem) << line << ": " << why;
    EXPECT_EQ(to_text(*problem), line);
    for (std::uint64_t seed = 1; seed < 4; ++seed) EXPECT_EQ(check_ctc(*problem, seed, false), "") << line;
  }
}

ctc::Problem problem_of(const std::string& line) {
  std::string why;
  const auto problem = ctc::from_text(line, &why);
  if (!problem) throw std::runtime_error(line + ": " + why);
  return *problem;
}

// One step, one label: the cost is -log p, and its gradient p - 1 at the label, p elsewhere.
TEST(CtcLoss, ByHand) {
  const ctc::Problem problem = problem_of("ctc f64 nchw n1c1w3 none labels=1");
  const CtcOutcome outcome = run_ctc(Backend::at_hand(), problem, {0.5, 0.25, 0.25}, {{2}, {1}, {1}});
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << take_error_text();
  EXPECT_NEAR(outcome.costs[0], std::log(4), 1e-14);
  EXPECT_NEAR(outcome.gradients[0], 0.5, 1e-14);
  EXPECT_NEAR(outcome.gradients[1], 0.25, 1e-14);
  EXPECT_NEAR(outcome.gradients[2], -0.75, 1e-14);
}

// The gradients are those with respect to the softmax's input: differences of costs.
TEST(CtcLoss, GradientsAreTheSlopesOfTheCosts) {
  const ctc::Problem problem = problem_of("ctc f64 nchw n9c2w5 softmax labels=4");
  Random random(7);
  const std::vector<double> x = random_input(random, problem);
  const CtcLabels labels = {{1, 1, 3, 4, 2}, {3, 2}, {9, 7}};
  const CtcOutcome outcome = run_ctc(Backend::at_hand(), problem, x, labels);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << take_error_text();
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::vector<double> up = x;
    std::vector<double> down = x;
    up[i] += kStep;
    down[i] -= kStep;
    const std::size_t n = i / 5 % 2;
    const double slope = (run_ctc(Backend::at_hand(), problem, up, labels).costs[n] -
                          run_ctc(Backend::at_hand(), problem, down, labels).costs[n]) /
                         (2 * kStep);
    // Third derivatives below 1 leave kStep^2 / 6; a cost below 100 is known to 1e-13, over 2 kStep.
    EXPECT_NEAR(outcome.gradients[i], slope, 2e-8) << i;
  }
}

// As many steps as labels, no two neighbours equal: one path. Long enough for several rounds of states a thread, and
// for rows of states that shared memory does not hold; labels come back after `period`.
void check_single_path(int length, int period, bool host_labels) {
  const std::string shape = "n" + std::to_string(length) + "c2w" + std::to_string(period + 1);
  const ctc::Problem problem = problem_of("ctc f32 nchw " + shape + " softmax labels=" + std::to_string(length) +
                                          (host_labels ? " hostlabels" : ""));
  Random random(5);
  const std::vector<double> x = random_input(random, problem);
  CtcLabels labels;
  for (int n = 0; n < 2; ++n) {
    labels.label_lengths.push_back(length);
    labels.input_lengths.push_back(length);
    for (int i = 0; i < length; ++i) labels.labels.push_back(1 + i % period);
  }
  const CtcOutcome outcome = run_ctc(Backend::at_hand(), problem, x, labels);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << take_error_text();
  EXPECT_EQ(outcome.damage, "");
  const auto alphabet = static_cast<std::size_t>(period + 1);
  double costs[2] = {};
  double worst = 0;
  for (std::size_t t = 0; t < static_cast<std::size_t>(length); ++t) {
    for (std::size_t n = 0; n < 2; ++n) {
      const double* const row = &x[(t * 2 + n) * alphabet];
      double sum = 0;
      for (std::size_t k = 0; k < alphabet; ++k) sum += std::exp(row[k]);
      const std::size_t label = 1 + t % static_cast<std::size_t>(period);
      costs[n] -= row[label] - std::log(sum);
      for (std::size_t k = 0; k < alphabet; ++k) {
        const double expected = std::exp(row[k]) / sum - (k == label ? 1 : 0);
        worst = std::max(worst, std::fabs(outcome.gradients[(t * 2 + n) * alphabet + k] - expected));
      }
    }
  }
  const double slack = 0x1p-24 * (16 * length + 40);
  EXPECT_NEAR(outcome.costs[0], costs[0], slack + 0x1p-24 * costs[0]);
  EXPECT_NEAR(outcome.costs[1], costs[1], slack + 0x1p-24 * costs[1]);
  EXPECT_LE(worst, slack);
}

double log_add(double a, double b) {
  const double most = std::fmax(a, b);
  return std::isinf(most) ? most : most + std::log1p(std::exp(-std::fabs(a - b)));
}

// The gradients of one sequence by tables of logarithms in double, whose errors are those of 1e-16 times the cost.
std::vector<double> table_gradients(const std::vector<std::vector<double>>& log_y, const std::vector<int>& labels) {
  const auto steps = static_cast<int>(log_y.size());
  const auto states = static_cast<int>(2 * labels.size() + 1);
  const double none = -std::numeric_limits<double>::infinity();
  const auto label = [&](int s) { return s % 2 == 0 ? 0 : labels[static_cast<std::size_t>(s / 2)]; };
  const auto y = [&](int t, int s) { return log_y[static_cast<std::size_t>(t)][static_cast<std::size_t>(label(s))]; };
  using Table = std::vector<std::vector<double>>;
  Table up(static_cast<std::size_t>(steps), std::vector<double>(static_cast<std::size_t>(states), none));
  Table down = up;
  const auto at = [](Table& table, int t, int s) -> double& {
    return table[static_cast<std::size_t>(t)][static_cast<std::size_t>(s)];
  };
  for (int t = 0; t < steps; ++t) {
    for (int s = 0; s < states; ++s) {
      double sum = t == 0 && s < 2 ? 0 : none;
      for (int from = s; t > 0 && from >= 0 && from >= s - 2; --from) {
        if (from == s - 2 && (s % 2 == 0 || label(from) == label(s))) continue;
        sum = log_add(sum, at(up, t - 1, from));
      }
      at(up, t, s) = sum + y(t, s);
    }
  }
  for (int t = steps - 1; t >= 0; --t) {
    for (int s = 0; s < states; ++s) {
      double sum = t == steps - 1 && s >= states - 2 ? 0 : none;
      for (int to = s; t + 1 < steps && to < states && to <= s + 2; ++to) {
        if (to == s + 2 && (s % 2 == 0 || label(to) == label(s))) continue;
        sum = log_add(sum, at(down, t + 1, to) + y(t + 1, to));
      }
      at(down, t, s) = sum;
    }
  }
  const double total = log_add(at(up, steps - 1, states - 1), at(up, steps - 1, states - 2));
  std::vector<double> gradients;
  for (int t = 0; t < steps; ++t) {
    std::vector<double> row;
    for (const double value : log_y[static_cast<std::size_t>(t)]) row.push_back(std::exp(value));
    for (int s = 0; s < states; ++s) {
      row[static_cast<std::size_t>(label(s))] -= std::exp(at(up, t, s) + at(down, t, s) - total);
    }
    gradients.insert(gradients.end(), row.begin(), row.end());
  }
  return gradients;
}

// Hundreds of steps: a probability of e^-1500, whose gradients must nevertheless have the digits of a float.
TEST(CtcLoss, LongSequencesKeepTheirDigits) {
  constexpr int kSteps = 600;
  constexpr std::size_t kAlphabet = 30;
  const ctc::Problem problem = problem_of("ctc f32 nchw n600c1w30 softmax labels=90");
  Random random(11);
  const std::vector<double> x = random_input(random, problem);
  CtcLabels labels;
  labels.label_lengths = {90};
  labels.input_lengths = {kSteps};
  for (int i = 0; i < 90; ++i) labels.labels.push_back(static_cast<int>(random.between(1, 29)));
  const CtcOutcome outcome = run_ctc(Backend::at_hand(), problem, x, labels);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << take_error_text();
  std::vector<std::vector<double>> log_y(kSteps, std::vector<double>(kAlphabet));
  for (std::size_t t = 0; t < kSteps; ++t) {
    double sum = 0;
    for (std::size_t k = 0; k < kAlphabet; ++k) sum += std::exp(x[t * kAlphabet + k]);
    for (std::size_t k = 0; k < kAlphabet; ++k) log_y[t][k] = x[t * kAlphabet + k] - std::log(sum);
  }
  const std::vector<double> expected = table_gradients(log_y, labels.labels);
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (outcome.gradients[i] - expected[i]) * (outcome.gradients[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  // 16 roundings a step, of random sign: 4 sqrt(16 T) of them.
  EXPECT_LE(std::sqrt(error / size), 0x1p-24 * (16 + 16 * std::sqrt(kSteps)));
}

TEST(CtcLoss, LongLabels) {
  check_single_path(300, 50, true);
  check_single_path(300, 300, false);
  check_single_path(1200, 7, true);
  check_single_path(1200, 300, true);
}

TEST(CtcLoss, WhatCannotBeAlignedCostsInfinityAndWhatIsOutOfRangeNaN) {
  ctc::Problem problem = problem_of("ctc f32 nchw n3c3w4 softmax labels=3");
  const std::vector<double> x(36, 0.5);
  // Three labels of which two are equal neighbours need four steps; label 4 does not exist; the third is fine.
  const CtcLabels labels = {{1, 1, 2, 4, 3}, {3, 1, 1}, {3, 3, 3}};
  CtcOutcome outcome = run_ctc(Backend::at_hand(), problem, x, labels);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << take_error_text();
  EXPECT_EQ(outcome.costs[0], std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(outcome.costs[1]));
  EXPECT_TRUE(std::isfinite(outcome.costs[2]));
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t k = 0; k < 8; ++k) EXPECT_EQ(outcome.gradients[t * 12 + k], 0);
    for (std::size_t k = 8; k < 12; ++k) EXPECT_TRUE(std::isfinite(outcome.gradients[t * 12 + k]));
  }
  problem.skip_impossible = true;
  outcome = run_ctc(Backend::at_hand(), problem, x, labels);
  for (std::size_t k = 0; k < 8; ++k) EXPECT_TRUE(std::isnan(outcome.gradients[k]));
  problem.host_labels = true;
  outcome = run_ctc(Backend::at_hand(), problem, x, labels);
  EXPECT_EQ(outcome.status, GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("label 0 of sequence 1 is 4"), std::string::npos);
}

TEST(CtcLoss, DescriptorsKeepWhatWasSet) {
  const CtcDescriptor ctc;
  gpudnnDataType_t type;
  gpudnnLossNormalizationMode_t normalization;
  gpudnnNanPropagation_t nan;
  gpudnnCTCGradMode_t gradients;
  int length = 0;
  EXPECT_EQ(gpudnnGetCTCLossDescriptor(ctc, &type), GPUDNN_STATUS_BAD_PARAM);
  GPUDNN_TEST_REQUIRE(gpudnnSetCTCLossDescriptor(ctc, GPUDNN_DATA_FLOAT));
  GPUDNN_TEST_REQUIRE(gpudnnGetCTCLossDescriptorEx(ctc, &type, &normalization, &nan));
  EXPECT_EQ(normalization, GPUDNN_LOSS_NORMALIZATION_NONE);
  EXPECT_EQ(nan, GPUDNN_NOT_PROPAGATE_NAN);
  GPUDNN_TEST_REQUIRE(gpudnnSetCTCLossDescriptor_v8(ctc, GPUDNN_DATA_FLOAT, GPUDNN_LOSS_NORMALIZATION_SOFTMAX,
                                                    GPUDNN_PROPAGATE_NAN, 300));
  GPUDNN_TEST_REQUIRE(gpudnnGetCTCLossDescriptor_v9(ctc, &type, &normalization, &gradients, &length));
  EXPECT_EQ(type, GPUDNN_DATA_FLOAT);
  EXPECT_EQ(normalization, GPUDNN_LOSS_NORMALIZATION_SOFTMAX);
  EXPECT_EQ(gradients, GPUDNN_CTC_SKIP_OOB_GRADIENTS);
  EXPECT_EQ(length, 300);
  EXPECT_EQ(gpudnnSetCTCLossDescriptor(ctc, GPUDNN_DATA_HALF), GPUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(gpudnnSetCTCLossDescriptor_v9(ctc, GPUDNN_DATA_FLOAT, GPUDNN_LOSS_NORMALIZATION_SOFTMAX,
                                          GPUDNN_CTC_ZERO_OOB_GRADIENTS, -1),
            GPUDNN_STATUS_BAD_PARAM);
  (void)take_error_text();
}

}  // namespace
}  // namespace gpudnn::test
