// Every convolution engine in every configuration that it claims to have, against the oracle, with a workspace of
// exactly the size that it asks for.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "ops/conv/engine.hpp"
#include "support/child.hpp"
#include "support/conv_emulation.hpp"
#include "support/conv_engine_run.hpp"
#include "support/naive.hpp"
#include "support/sweep.hpp"
#include "support/transform_slack.hpp"

namespace gpudnn::test {
namespace {

// How often each engine ran, to see that the sweep reaches them all.
using Counts = std::map<std::string, int>;

// GPUDNN_TEST_ENGINE=name keeps to one engine, where a new one is tried out.
bool is_left_out(const conv::ConvEngine& engine) {
  static const char* const only = std::getenv("GPUDNN_TEST_ENGINE");
  return only != nullptr && std::string(only) != engine.name;
}

// A problem for which `suits` holds. Where none in many does, the last one.
template <class Suits>
ConvCase random_case_that(ConvCase (*make)(Random&), Random& random, Suits suits) {
  constexpr int kTries = 2000;
  ConvCase c = make(random);
  for (int i = 1; i < kTries && !suits(c.problem); ++i) c = make(random);
  return c;
}

bool takes(const conv::ConvEngine& engine, const conv::Problem& problem) {
  const Backend& backend = Backend::at_hand();
  return engine.backend == backend.kind() && engine.supports(problem, *backend.handle()->device);
}

// A problem that an engine takes which is not left out: with GPUDNN_TEST_ENGINE all are that engine's.
template <ConvCase (*kMake)(Random&)>
ConvCase random_case(Random& random) {
  return random_case_that(kMake, random, [](const conv::Problem& problem) {
    return std::ranges::any_of(conv::engines(),
                               [&](const auto& engine) { return !is_left_out(engine) && takes(engine, problem); });
  });
}

// The sums by channel against those of the values as they were stored. Sums of a tile are the tensor cores', the others
// float's: some 30 roundings of the sum of magnitudes at the most.
std::string judge_sums(const conv::Problem& p, const EngineRun& run, const std::vector<double>& stored) {
  constexpr double kBound = 0x1p-18;
  const std::vector<double> sums = run.sums(), squares = run.squares();
  const auto channels = static_cast<std::size_t>(p.y.dims[1]);
  const std::size_t pixels = stored.size() / channels / static_cast<std::size_t>(p.y.dims[0]);
  for (std::size_t k = 0; k < channels; ++k) {
    double sum = 0, magnitude = 0, square = 0;
    for (std::size_t n = 0; n < static_cast<std::size_t>(p.y.dims[0]); ++n) {
      for (std::size_t i = 0; i < pixels; ++i) {
        const double y = stored[(n * channels + k) * pixels + i];
        sum += y, magnitude += std::fabs(y), square += y * y;
      }
    }
    if (std::fabs(sums[k] - sum) <= kBound * magnitude && std::fabs(squares[k] - square) <= kBound * square) continue;
    if (!std::isfinite(square)) continue;
    return "sums of channel " + std::to_string(k) + ": " + std::to_string(sums[k]) + " and " +
           std::to_string(squares[k]) + " instead of " + std::to_string(sum) + " and " + std::to_string(square);
  }
  return {};
}

// The config once more, with the sums by channel, if it has them.
std::string check_sums(const conv::ConvEngine& engine, const conv::Candidate& candidate, const ConvCase& c,
                       const Inputs& inputs, const Values& values, const Expected& allowed, Counts* counts) {
  if (c.beta != 0 || EngineRun::sums_workspace(candidate, c) == 0) return {};
  EngineRun run(Backend::at_hand(), engine, candidate, c, inputs, Placement::aligned, true);
  Outcome outcome = run.launch();
  outcome.damage = run.damage();
  ++(*counts)[std::string(engine.name) + " with sums"];
  const std::string wrong = judge(output_of(c.problem), outcome, allowed);
  return wrong.empty() ? judge_sums(c.problem, run, outcome.values) : wrong;
}

std::string check_engines(const ConvCase& c, Placement place, Counts* counts) {
  const Backend& backend = Backend::at_hand();
  const Device& device = *backend.handle()->device;
  const Values values = make_values(c);
  const Expected expected = naive(c, values);
  const Inputs inputs(backend, c, values, place);
  bool taken = false;
  bool zero_workspace = false;
  // What the narrowest bounds, those of sums of products, have found right: the same bytes again are right again.
  std::vector<unsigned char> right;
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.backend != backend.kind() || !engine.supports(c.problem, device)) continue;
    if (place == Placement::one_element_off && engine.alignment > 1) continue;
    if (is_left_out(engine)) {
      taken = zero_workspace = true;
      continue;
    }
    Expected allowed = expected;
    widen_for_family(c, values, engine.family, &allowed);
    std::vector<conv::Candidate> candidates;
    engine.candidates(c.problem, device, &candidates);
    for (const conv::Candidate& candidate : candidates) {
      zero_workspace = zero_workspace || candidate.workspace == 0;
      ++(*counts)[engine.name];
      const std::string wrong = verdict_or_error([&] {
        EngineRun run(backend, engine, candidate, c, inputs, place);
        Outcome outcome = run.launch(false);
        outcome.damage = run.damage();
        std::vector<unsigned char> bytes = run.output_bytes();
        if (bytes != right) outcome.values = run.values_of(bytes);
        std::string found = bytes == right ? failure_of(outcome) : judge(output_of(c.problem), outcome, allowed);
        if (found.empty() && engine.family == conv::Family::direct) right = std::move(bytes);
        if (found.empty() && place == Placement::aligned)
          found = check_sums(engine, candidate, c, inputs, values, allowed, counts);
        return found;
      });
      if (!wrong.empty()) {
        return choice_text(engine, candidate.config) + said_of(place) + wrong;
      }
    }
    taken = true;
  }
  if (!taken) return "no engine takes the problem";
  return zero_workspace ? "" : "no engine has a configuration without a workspace";
}

// A name that no engine has would leave out all of them, and pass.
TEST(ConvolutionEngines, TheEngineThatIsAskedForExists) {
  const char* const only = std::getenv("GPUDNN_TEST_ENGINE");
  if (only == nullptr) {
    const auto outcome_of = [](const char* name) {
      return run_in_child("ConvolutionEngines.TheEngineThatIsAskedForExists", {{"GPUDNN_TEST_ENGINE", name}});
    };
    const auto known = std::ranges::find(conv::engines(), Backend::at_hand().kind(), &conv::ConvEngine::backend);
    EXPECT_EQ(outcome_of(known->name), "");
    EXPECT_NE(outcome_of("nosuch").find("which is no convolution engine of this backend"), std::string::npos);
    return;
  }
  const auto has_name = [only](const conv::ConvEngine& engine) {
    return engine.backend == Backend::at_hand().kind() && std::string(engine.name) == only;
  };
  EXPECT_TRUE(std::ranges::any_of(conv::engines(), has_name))
      << "GPUDNN_TEST_ENGINE is '" << only << "', which is no convolution engine of this backend";
}

void report(const Counts& counts) {
  for (const auto& [name, count] : counts) std::printf("  %s: %d launches\n", name.c_str(), count);
}

// On CUDA, an engine that a test is about must have run where the device has it, or the test says nothing.
void expect_launches(Counts& counts, const char* name, int capability) {
  const Backend& backend = Backend::at_hand();
  if (!backend.is_cuda()) {
    EXPECT_FALSE(counts.empty()) << "no engine of the host took a problem";
    return;
  }
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (std::string(name) == engine.name && is_left_out(engine)) return;
  }
  if (backend.handle()->device->compute_capability() < capability) {
    GTEST_SKIP() << name << " needs compute capability " << capability / 10 << '.' << capability % 10;
  }
  EXPECT_GT(counts[name], 0) << name << " took none of the problems";
}

TEST(ConvolutionEngines, RandomProblems) {
  Counts counts;
  sweep(Backend::at_hand().is_cuda() ? 400 : 250, random_case<&random_conv>,
        [&](const ConvCase& c, int i) { return check_engines(c, placement_of(i), &counts); });
  // Every engine of the backend must have work, or this test says nothing about it: those by chance without any, too.
  const Backend& backend = Backend::at_hand();
  for (const conv::ConvEngine& engine : conv::engines()) {
    const bool is_of_integers = std::string(engine.name).starts_with("integer_");  // conv_integer_test.cpp
    if (engine.backend != backend.kind() || is_left_out(engine) || is_of_integers) continue;
    if (counts[engine.name] > 0 || session_cases(250) < 200) continue;
    Random random(session_seed());
    const ConvCase c =
        random_case_that(random_conv, random, [&](const auto& problem) { return takes(engine, problem); });
    EXPECT_EQ(check_engines(c, Placement::aligned, &counts), "") << conv::to_text(c.problem);
    EXPECT_GT(counts[engine.name], 0) << engine.name << " took none of the random problems";
  }
  report(counts);
}

// Padding that differs before and behind, as graphs have it.
TEST(ConvolutionEngines, RandomProblemsOfUnevenPadding) {
  Counts counts;
  sweep(Backend::at_hand().is_cuda() ? 300 : 150, random_case<&random_conv_of_uneven_padding>,
        [&](const ConvCase& c, int) { return check_engines(c, Placement::aligned, &counts); });
  report(counts);
  expect_launches(counts, "implicit_gemm_simt", 0);
  expect_launches(counts, "implicit_gemm_sm80", 80);
  expect_launches(counts, "implicit_gemm_sm90", 90);
  expect_launches(counts, "depthwise_simt", 0);
}

// Every activation, with and without a residual, a scale and a bias of either type, in every config of every engine.
TEST(ConvolutionEngines, RandomEpilogues) {
  Counts counts;
  sweep(Backend::at_hand().is_cuda() ? 500 : 250, random_case<&random_conv_with_epilogue>,
        [&](const ConvCase& c, int) { return check_engines(c, Placement::aligned, &counts); });
  report(counts);
}

// The cases of a file whose number modulo `parts` is `part`: a long file is several tests, which can run side by side.
struct FilePart {
  std::string file;
  std::size_t part;
  std::size_t parts;
};
void PrintTo(const FilePart& of, std::ostream* out) { *out << of.file << ", part " << of.part << " of " << of.parts; }

// Lines of several rounds of tiles tell nothing of the host's loops.
void check_file(const FilePart& of) {
  constexpr double kHostLimit = 1e8;  // operations
  Counts counts;
  std::vector<ConvCase> cases = cases_from_file<conv::Problem>("conv/" + of.file + ".txt", conv::from_text);
  for (std::size_t i = of.part; i < cases.size(); i += of.parts) {
    if (!runs_in_variant(i / kFileVariants, i % kFileVariants, kFileVariants)) continue;
    ConvCase& c = cases[i];
    const Placement place = i % kFileVariants == 2 ? Placement::ends_mapping : Placement::aligned;
    if (!Backend::at_hand().is_cuda() && conv::flops(c.problem) > kHostLimit) continue;
    if (c.problem.has_bias != 0 || c.problem.has_z != 0 || c.problem.activation >= 0) c.beta = 0;
    if (c.problem.has_z != 0) c.alpha2 = 0.5;
    c.coef = c.problem.activation == GPUDNN_ACTIVATION_CLIPPED_RELU ? 6 : c.problem.activation >= 0 ? 1 : 0;
    EXPECT_EQ(verdict_or_error([&] { return check_engines(c, place, &counts); }), "") << describe(c);
  }
  report(counts);
}

// Every file of the folder, so that a new one needs no line here; large.txt is of the public interface's test.
std::vector<FilePart> conv_case_files() {
  constexpr std::size_t kCasesOfATest = 25;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(case_folder() + "/conv")) {
    if (entry.path().extension() == ".txt" && entry.path().stem() != "large") files.push_back(entry.path().stem());
  }
  std::ranges::sort(files);
  std::vector<FilePart> tests;
  for (const std::string& file : files) {
    const std::size_t parts = (case_lines("conv/" + file + ".txt").size() + kCasesOfATest - 1) / kCasesOfATest;
    for (std::size_t part = 0; part < parts; ++part) tests.push_back({file, part, parts});
  }
  return tests;
}
class ConvolutionCaseFile : public testing::TestWithParam<FilePart> {};
TEST_P(ConvolutionCaseFile, RunsOnEveryEngine) { check_file(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Folder, ConvolutionCaseFile, testing::ValuesIn(conv_case_files()), [](const auto& test) {
  const FilePart& of = test.param;
  return of.parts == 1 ? of.file : of.file + "_" + std::to_string(of.part);
});

// Runs every config of the engines that takes(name) wants. verdict(outcome, expected) is empty or what is wrong.
template <class Takes, class Verdict>
void check_configs(const ConvCase& c, const Values& values, Counts* counts, Takes takes, Verdict verdict) {
  const Backend& backend = Backend::at_hand();
  const Device& device = *backend.handle()->device;
  const Expected expected = naive(c, values);
  const Inputs inputs(backend, c, values);
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.backend != backend.kind() || is_left_out(engine)) continue;
    if ((backend.is_cuda() && !takes(std::string(engine.name))) || !engine.supports(c.problem, device)) continue;
    std::vector<conv::Candidate> candidates;
    engine.candidates(c.problem, device, &candidates);
    for (const conv::Candidate& candidate : candidates) {
      EngineRun run(backend, engine, candidate, c, inputs);
      Outcome outcome = run.launch();
      outcome.damage = run.damage();
      ++(*counts)[engine.name];
      EXPECT_EQ(verdict(&outcome, expected), "") << choice_text(engine, candidate.config) << ": " << to_text(c.problem);
    }
  }
}

// The engines for few channels multiply taps that a pixel does not have by zero. An infinity or a NaN in dy must show
// in the pixels that see it, and in no other.
TEST(ConvolutionEngines, NonFiniteGradientsStayWhereTheyAreSeen) {
  Counts counts;
  for (const char* line : {
           "dgrad f16 nhwc n2c3h30w32 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=tensor",
           "dgrad f32 nhwc n2c3h19w21 k40r5s5 p2x2 t2x2 d1x1 g1 acc=f32 math=tensor",
           "dgrad bf16 nhwc n1c4h12w10 k16r3s3 p0x1 t4x2 d1x1 g1 acc=f32 math=tensor",
       }) {
    ConvCase c = conv_case(line);
    c.seed = session_seed();
    Values values = make_values(c);
    for (double& w : values.w) w = w == 0 ? 1 : w;
    for (double& dy : values.y) dy = std::abs(dy);
    values.y[values.y.size() / 7] = std::numeric_limits<double>::infinity();
    values.y[values.y.size() / 3] = -std::numeric_limits<double>::infinity();
    values.y[values.y.size() / 2] = std::numeric_limits<double>::quiet_NaN();
    check_configs(
        c, values, &counts, [](const std::string& name) { return name.starts_with("small_c"); },
        [&](Outcome* outcome, const Expected& expected) { return judge(output_of(c.problem), *outcome, expected); });
  }
  report(counts);
  expect_launches(counts, "small_c_sm80", 80);
  expect_launches(counts, "small_c_dgrad_sm90", 90);
}

// Several groups share a product, with zeros between them. An infinity or a NaN must show in its own group alone.
TEST(ConvolutionEngines, NonFiniteImagesStayInTheirGroup) {
  Counts counts;
  for (const char* line : {
           "fwd f16 nhwc n2c16h9w13 k16r3s3 p1x1 t1x1 d1x1 g16 acc=f32 math=tensor",
           "fwd bf16 nhwc n2c32h9w9 k32r5s5 p2x2 t2x2 d1x1 g8 acc=f32 math=tensor",
           "dgrad f16 nhwc n2c16h18w9 k16r3s3 p1x1 t1x1 d1x1 g8 acc=f32 math=tensor",
           "dgrad bf16 nhwc n1c8h9w9 k8r7s7 p3x3 t1x1 d1x1 g8 acc=f32 math=tensor",
           "fwd bf16 nhwc n2c40h20w25 k40r5s5 p2x2 t1x1 d1x1 g40 acc=f32 math=tensor",
           "fwd f16 nhwc n1c8h14w40 k8r3s3 p1x1 t1x1 d1x1 g8 acc=f32 math=tensor",
           "dgrad f16 nhwc n1c16h14w14 k16r21s21 p10x10 t1x1 d1x1 g16 acc=f32 math=tensor",
           "fwd f16 nhwc n2c16w100 k16s31 p15 t1 d1 g16 acc=f32 math=tensor",
           "dgrad f16 nhwc n2c16h18w9 k16r3s3 p1x1 t2x2 d1x1 g8 acc=f32 math=tensor",
           "fwd f32 nhwc n2c16h9w13 k16r3s3 p1x1 t1x1 d1x1 g4 acc=f32 math=tensor",
       }) {
    ConvCase c = conv_case(line);
    c.seed = session_seed();
    Values values = make_values(c);
    for (double& w : values.w) w = std::abs(w) + 1;
    std::vector<double>& image = c.problem.direction == conv::Direction::forward ? values.x : values.y;
    for (double& x : image) x = std::abs(x);
    image[image.size() / 7] = std::numeric_limits<double>::infinity();
    image[image.size() / 2] = std::numeric_limits<double>::quiet_NaN();
    check_configs(
        c, values, &counts,
        [](const std::string& name) { return name == "small_group_sm80" || name.starts_with("depthwise_"); },
        [&](Outcome* outcome, const Expected& expected) { return judge(output_of(c.problem), *outcome, expected); });
  }
  report(counts);
  expect_launches(counts, "small_group_sm80", 80);
  expect_launches(counts, "depthwise_toeplitz_sm90", 90);
}

// Filter gradients that fill up rows of dy with zeros: an infinity or a NaN at the image's edge must show in the taps
// that see it, and in no other.
TEST(ConvolutionEngines, NonFiniteImagesShowInTheTapsThatSeeThem) {
  Counts counts;
  for (const char* line : {
           "wgrad f16 nhwc n2c16h8w16 k16r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "wgrad bf16 nhwc n2c16h9w13 k8r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "wgrad f16 nhwc n1c8h7w44 k8r5s5 p2x2 t1x1 d1x1 g1 acc=f32 math=tensor",
           "wgrad f16 nhwc n1c8h11w12 k8r3s3 p2x2 t1x1 d2x2 g1 acc=f32 math=tensor",
           "wgrad f16 nhwc n2c8h9w13 k8r3s3 p1x1 t1x1 d1x1 g8 acc=f32 math=tensor",
           "wgrad bf16 nhwc n2c8h9w10 k8r5s5 p2x2 t2x2 d1x1 g8 acc=f32 math=tensor",
           "wgrad f16 nhwc n3c16h19w10 k16r3s3 p1x1 t1x1 d1x1 g4 acc=f32 math=tensor",
           "wgrad f16 nhwc n2c32h13w12 k32r3s3 p1x1 t1x1 d1x1 g2 acc=f32 math=tensor",
           "wgrad f32 nchw n2c6h9w7 k6r3s3 p1x1 t1x1 d1x1 g6 acc=f32 math=tensor",
           "wgrad f16 nhwc n1c8h9w13 k8r9s9 p4x4 t1x1 d1x1 g8 acc=f32 math=tensor",
           "wgrad bf16 nhwc n1c8h20w27 k8r3s3 p1x1 t1x1 d1x1 g8 acc=f32 math=tensor",
           "wgrad bf16 nhwc n1c8h20w27 k8r11s11 p5x5 t1x1 d1x1 g8 acc=f32 math=tensor",
           "wgrad f16 nhwc n1c8h20w40 k8r5s5 p2x2 t1x1 d1x1 g8 acc=f32 math=tensor",
       }) {
    ConvCase c = conv_case(line);
    c.seed = session_seed();
    Values values = make_values(c);
    for (double& dy : values.y) dy = std::abs(dy) + 1;
    const std::int64_t h = c.problem.x.dims[2];
    const std::int64_t w = c.problem.x.dims[3];
    const auto pixel = [&](std::int64_t channel, std::int64_t row, std::int64_t column) -> double& {
      return values.x[static_cast<std::size_t>((channel * h + row) * w + column)];
    };
    pixel(0, h - 1, w - 1) = std::numeric_limits<double>::infinity();
    pixel(1, h - 2, w - 1) = -std::numeric_limits<double>::infinity();
    pixel(2, 0, 0) = std::numeric_limits<double>::infinity();
    pixel(3, h - 1, 0) = std::numeric_limits<double>::quiet_NaN();
    check_configs(
        c, values, &counts,
        [](const std::string& name) {
          return name == "direct_wgrad_sm90" || name.starts_with("depthwise_") || name == "small_group_sm80";
        },
        [&](Outcome* outcome, const Expected& expected) { return judge(output_of(c.problem), *outcome, expected); });
  }
  report(counts);
  expect_launches(counts, "direct_wgrad_sm90", 90);
  expect_launches(counts, "depthwise_simt", 75);
  expect_launches(counts, "depthwise_toeplitz_wgrad_sm90", 90);
}

// Kernels that load more of a row of x than a window has must keep it out of the sums, where zeros would not do.
constexpr const char* kFirstLayers[] = {
    "fwd f16 nhwc n1c3h24w24 k64r7s7 p3x3 t2x2 d1x1 g1",
    "fwd f32 nhwc n1c3h24w24 k64r7s7 p3x3 t2x2 d1x1 g1 math=tensor",
    "fwd bf16 nhwc n1c3h16w16 k32r3s3 p1x1 t1x1 d1x1 g1",
    "fwd f16 nhwc n1c1h16w32 k32r5s5 p2x2 t1x1 d1x1 g1",
    "fwd f32 nhwc n1c3h16w16 k32r4s5 p1x1 t1x1 d1x1 g1 math=tensor",
    "fwd bf16 nhwc n1c3h24w24 k96r4s4 p1x1 t4x4 d1x1 g1",
};

// Where the exact result is no number, the engine's must not be one either; both become zero.
std::string compare_finiteness(Expected* expected, Outcome* outcome) {
  for (std::size_t i = 0; i < expected->value.size(); ++i) {
    if (std::isfinite(expected->value[i])) continue;
    if (std::isfinite(outcome->values.at(i))) return "element " + std::to_string(i) + " is finite and should not be";
    expected->value[i] = expected->slack[i] = outcome->values[i] = 0;
  }
  return {};
}

// Engines that transform their data spread it over the tiles that hold it (docs/numerics.md).
TEST(ConvolutionEngines, InfinityStaysInItsWindows) {
  const auto sums_directly = [](const std::string& engine) {
    return !engine.starts_with("fft") && !engine.starts_with("winograd");
  };
  Counts counts;
  for (const char* line : kFirstLayers) {
    const ConvCase c = conv_case(line);
    Values values = make_values(c);
    for (std::size_t i = 7; i < values.x.size(); i += 151) values.x[i] = std::numeric_limits<double>::infinity();
    check_configs(c, values, &counts, sums_directly, [&](Outcome* outcome, Expected expected) {
      const std::string wrong = compare_finiteness(&expected, outcome);
      return wrong.empty() ? judge(output_of(c.problem), *outcome, expected) : wrong;
    });
  }
  report(counts);
}

// Enough blocks to fill a device and sums long enough to be split, so that blocks finish in another order each time.
constexpr const char* kBusyProblems[] = {
    "wgrad f32 nchw n2c8h9w9 k8r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma",  // the only one that the host runs
    "fwd f16 nhwc n8c256h14w14 k256r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
    "dgrad bf16 nhwc n8c256h14w14 k256r3s3 p1x1 t2x2 d1x1 g1 acc=f32 math=tensor",
    "wgrad f16 nhwc n8c128h28w28 k128r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
    "fwd f32 nhwc n4c512h7w7 k512r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
    "dgrad f32 nhwc n4c256h14w14 k64r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
    "wgrad f32 nhwc n8c128h28w28 k128r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
    "fwd f16 nchw n4c128h14w14 k256r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
    "wgrad f32 nchw n4c64h28w28 k96r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma",
    "fwd f16 nhwc n8c3h56w56 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=tensor",
    "fwd f32 nhwc n4c3h64w64 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
    "wgrad f16 nhwc n8c3h56w56 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=tensor",
    "wgrad bf16 nhwc n16c3h64w64 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
    "dgrad bf16 nhwc n8c3h56w56 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=tensor",
    "wgrad f16 nchw n16c128h28w28 k96r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
    "dgrad f32 nchw n8c128h14w14 k256r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
    "fwd bf16 nchw n16c256h7w7 k512r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
    "fwd f16 nhwc n4c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
    "dgrad f16 nhwc n2c32d8h32w32 k64t3r3s3 p1x1x1 t1x1x1 d1x1x1 g1 acc=f32 math=tensor",
    "dgrad f32 nhwc n4c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
    "fwd bf16 nhwc n8c512h7w7 k512r3s3 p1x1 t1x1 d1x1 g16 acc=f32 math=tensor",
    "fwd f16 nhwc n4c24h56w56 k144r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
    "fwd f32 nchw n4c64h28w28 k96r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma",
    "dgrad f32 nhwc n4c64h28w28 k96r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma",
    "fwd f32 nchw n4c32h27w27 k48r5s5 p2x2 t1x1 d1x1 g1 acc=f32 math=fma",
    "dgrad f32 nchw n4c32h27w27 k48r5s5 p2x2 t1x1 d1x1 g1 acc=f32 math=fma",
    "wgrad f32 nchw n4c32h27w27 k48r5s5 p2x2 t1x1 d1x1 g1 acc=f32 math=fma",
    "fwd f16 nhwc n8c256h28w28 k256r3s3 p1x1 t1x1 d1x1 g256 acc=f32 math=tensor",
    "dgrad bf16 nhwc n8c256h28w28 k256r5s5 p2x2 t2x2 d1x1 g256 acc=f32 math=tensor",
    "wgrad f16 nhwc n8c256h28w28 k256r7s7 p3x3 t1x1 d1x1 g256 acc=f32 math=tensor",
    "wgrad f32 nchw n8c96h28w28 k96r3s3 p1x1 t1x1 d1x1 g96 acc=f32 math=fma",
    "wgrad f16 nhwc n8c128h28w28 k128r3s3 p1x1 t1x1 d1x1 g32 acc=f32 math=tensor",
    "fwd bf16 nchw n4c512w2051 k512s4 p3 t1 d1 g512 acc=f32 math=tensor",
    "wgrad bf16 nchw n4c512w2051 k512s4 p3 t1 d1 g512 acc=f32 math=tensor",
    "dgrad f16 nhwc n8c256h56w56 k256r3s3 p1x1 t2x2 d1x1 g32 acc=f32 math=tensor",
    "wgrad f16 nhwc n8c512h14w14 k512r3s3 p1x1 t1x1 d1x1 g32 acc=f32 math=tensor",
    "wgrad f16 nhwc n8c128h14w14 k128r3s3 p1x1 t1x1 d1x1 g4 acc=f32 math=tensor",
    "fwd bf16 nhwc n8c128h56w56 k128r3s3 p1x1 t2x2 d1x1 g8 acc=f32 math=tensor",
    "dgrad f16 nhwc n8c128h56w56 k128r3s3 p1x1 t2x2 d1x1 g8 acc=f32 math=tensor",
    "fwd f16 nhwc n1c1024h14w14 k256r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
    "fwd bf16 nhwc n1c116h28w28 k116r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
    "fwd f32 nchw n1c64h14w14 k384r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=fma",
    "dgrad f32 nchw n2c1h64w64 k32r9s9 p4x4 t1x1 d1x1 g1 acc=f32 math=fma",
};

TEST(ConvolutionEngines, TwentyRunsGiveTheSameBits) {
  constexpr int kRuns = 20;
  const Backend& backend = Backend::at_hand();
  const Device& device = *backend.handle()->device;
  Counts counts;
  for (const char* line : kBusyProblems) {
    if (!backend.is_cuda() && !counts.empty()) break;
    ConvCase c = conv_case(line);
    c.integers = false;
    c.seed = session_seed();
    const Values values = make_values(c);
    const Inputs inputs(backend, c, values);
    for (const conv::ConvEngine& engine : conv::engines()) {
      if (engine.backend != backend.kind() || is_left_out(engine) || !engine.supports(c.problem, device)) continue;
      std::vector<conv::Candidate> candidates;
      engine.candidates(c.problem, device, &candidates);
      // The one that the model likes best, and the one that splits its sums most.
      const auto best = std::min_element(candidates.begin(), candidates.end(),
                                         [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
      const auto split = std::max_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return a.config.split_k < b.config.split_k;
      });
      for (const auto& candidate : {best, split}) {
        const bool with_sums = EngineRun::sums_workspace(*candidate, c) > 0;
        EngineRun run(backend, engine, *candidate, c, inputs, Placement::aligned, with_sums);
        std::vector<unsigned char> first;
        std::vector<double> sums, squares;
        for (int i = 0; i < kRuns; ++i) {
          const Outcome outcome = run.launch(false);
          ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.text;
          if (i == 0) first = run.output_bytes();
          ASSERT_TRUE(run.output_bytes() == first) << engine.name << " run " << i << ": " << line;
          if (!with_sums) continue;
          if (i == 0) sums = run.sums(), squares = run.squares();
          ASSERT_TRUE(run.sums() == sums && run.squares() == squares)
              << engine.name << " sums, run " << i << ": " << line;
        }
        ++counts[engine.name];
      }
    }
  }
  report(counts);
}

TEST(ConvolutionEngines, NamesAreUnique) {
  std::set<std::string> names;
  for (const conv::ConvEngine& engine : conv::engines()) EXPECT_TRUE(names.insert(engine.name).second) << engine.name;
}

// The order of the ranking is the model's, and asking twice gives the same.
TEST(ConvolutionEngines, RankingIsSortedAndPure) {
  const Device& device = *Backend::at_hand().handle()->device;
  sweep(50, random_conv, [&](const ConvCase& c, int) -> std::string {
    const std::vector<conv::Choice> first = conv::rank(c.problem, device);
    const std::vector<conv::Choice> second = conv::rank(c.problem, device);
    if (first.empty()) return "no choice";
    if (first.size() != second.size()) return "the second ranking has another length";
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (first[i].engine != second[i].engine || !(first[i].config == second[i].config)) return "two rankings differ";
      if (!(first[i].seconds > 0)) return "an expected time is not positive";
      if (i > 0 && first[i].seconds < first[i - 1].seconds) return "the ranking is not sorted";
    }
    return {};
  });
}

}  // namespace
}  // namespace gpudnn::test
