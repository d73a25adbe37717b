// The choice of convolution engines: the model's ranking, what measured rows change in it, and what Find makes of
// measurements. Engines that only pretend stand in for real ones, so that no GPU is needed.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "ops/conv/select/find.hpp"
#include "ops/conv/select/heuristics.hpp"
#include "ops/conv/select/tuning_cache.hpp"
#include "support/backend.hpp"
#include "support/child.hpp"
#include "support/devices.hpp"

namespace gpudnn::conv {

extern const char kTunedSm90[];

namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

Problem problem_of(const char* line) {
  std::string why;
  const auto problem = from_text(line, &why);
  EXPECT_TRUE(problem.has_value()) << line << ": " << why;
  return problem.value_or(Problem{});
}

// --- pretended engines ----------------------------------------------------------------------------------------------

constexpr const char* kTiles[] = {"a", "b", "c"};

// Tile t of "even" takes (t + 1) * 2 us by its model, of "odd" (t + 1) * 2 + 1 us; a split asks for workspace.
template <int Offset>
void pretended_candidates(const Problem&, const Device&, std::vector<Candidate>* candidates) {
  for (int tile = 0; tile < 3; ++tile) {
    const double seconds = 1e-6 * ((tile + 1) * 2 + Offset);
    candidates->push_back({{.tile = tile, .tile_name = kTiles[tile]}, seconds, 0});
    candidates->push_back({{.tile = tile, .split_k = 4, .tile_name = kTiles[tile]}, seconds + 0.25e-6, 4096u << tile});
  }
}
std::shared_ptr<const void> pretended_prepare(const Problem&, const Config& config, const Device&) {
  return std::make_shared<const Config>(config);
}

std::map<std::pair<int, int>, int> launches;  // by tile and split

// The clock of the search: only a pretended launch takes time.
double pretended_now = 0;
double pretended_clock() { return pretended_now; }

// What really is fast: tile 2 with a split, then tile 1 with one, then tile 1 without.
Status pretended_launch(const LaunchSite& site, const void* prepared, const Args&) {
  const Config& config = *static_cast<const Config*>(prepared);
  ++launches[{config.tile, config.split_k}];
  if (config.split_k > 1 && site.workspace_bytes < 4096u << config.tile) return GPUDNN_STATUS_BAD_PARAM;
  pretended_now += config == Config{2, 4}   ? 1e-3
                   : config == Config{1, 4} ? 1.5e-3
                   : config == Config{1, 1} ? 2e-3
                                            : 3e-3;
  return GPUDNN_STATUS_SUCCESS;
}
Status failing_launch(const LaunchSite&, const void*, const Args&) {
  return GPUDNN_REFUSE(GPUDNN_STATUS_EXECUTION_FAILED, "this engine always fails");
}
Support takes_all(const Problem&, const Device&) { return Support::yes(); }
Support takes_1x1(const Problem& problem, const Device&) {
  return problem.w.dims[2] == 1 ? Support::yes() : Support::no("not 1x1");
}

constexpr ConvEngine kEngines[] = {
    {.name = "even",
     .backend = GPUDNN_BACKEND_HOST,
     .supports = &takes_all,
     .candidates = &pretended_candidates<0>,
     .prepare = &pretended_prepare,
     .launch = &pretended_launch},
    {.name = "odd",
     .backend = GPUDNN_BACKEND_HOST,
     .math = GPUDNN_TENSOR_OP_MATH,
     .supports = &takes_1x1,
     .candidates = &pretended_candidates<1>,
     .prepare = &pretended_prepare,
     .launch = &failing_launch},
    {.name = "other_backend",
     .backend = GPUDNN_BACKEND_CUDA,
     .supports = &takes_all,
     .candidates = &pretended_candidates<0>,
     .prepare = &pretended_prepare,
     .launch = &failing_launch},
};

constexpr const char* kPointwise = "conv fwd f16 nhwc n2c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor";
constexpr const char* kThreeByThree = "conv fwd f16 nhwc n2c8h5w5 k8r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor";

std::string text_of(const Choice& choice) { return choice_text(*choice.engine, choice.config); }

std::vector<Choice> ranked(const char* line, std::size_t limit = kNoLimit) {
  return rank_by_model(kEngines, problem_of(line), host_device(), limit);
}

// --- the ranking ----------------------------------------------------------------------------------------------------

TEST(ConvHeuristics, TheModelRanksWhatSupportsTheProblemOnThisBackend) {
  const std::vector<Choice> choices = ranked(kPointwise);
  ASSERT_EQ(choices.size(), 12u);
  EXPECT_EQ(text_of(choices.front()), "even a");
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_EQ(choices[i].source, Source::model);
    EXPECT_STRNE(choices[i].engine->name, "other_backend");
    if (i > 0) {
      EXPECT_GE(choices[i].seconds, choices[i - 1].seconds);
    }
  }
  EXPECT_EQ(ranked(kThreeByThree).size(), 6u) << "one engine takes 1x1 only";
}

TEST(ConvHeuristics, TheWorkspaceLimitHoldsForTheModel) {
  for (const std::size_t limit : {std::size_t{0}, std::size_t{4095}, std::size_t{4096}, std::size_t{8192}}) {
    for (const Choice& choice : ranked(kPointwise, limit)) EXPECT_LE(choice.workspace, limit) << text_of(choice);
  }
  EXPECT_EQ(ranked(kPointwise, 0).size(), 6u);
  EXPECT_EQ(ranked(kPointwise, 4096).size(), 8u);
}

TEST(ConvHeuristics, MeasuredRowsComeFirstAndTheRestKeepsItsOrder) {
  std::vector<Choice> choices = ranked(kPointwise);
  const std::vector<TunedRow> rows = {{"odd c split=4", 1.5}, {"even b", 1.75}};
  put_measured_first(rows, Source::table, &choices);
  ASSERT_EQ(choices.size(), 12u);
  EXPECT_EQ(text_of(choices[0]), "odd c split=4");
  EXPECT_DOUBLE_EQ(choices[0].seconds, 1.5e-6);
  EXPECT_EQ(choices[0].source, Source::table);
  EXPECT_EQ(choices[0].workspace, 16384u);
  EXPECT_EQ(text_of(choices[1]), "even b");
  EXPECT_EQ(text_of(choices[2]), "even a");
  for (std::size_t i = 3; i < choices.size(); ++i) {
    EXPECT_EQ(choices[i].source, Source::model);
    EXPECT_GE(choices[i].seconds, choices[i - 1].seconds);
  }
}

TEST(ConvHeuristics, ARowThatIsNotLegalIsPassedOver) {
  const std::vector<TunedRow> rows = {
      {"odd a", 0.1},            // does not support 3x3
      {"unheard_of a", 0.2},     // no such engine
      {"even h", 0.3},           // no such tile
      {"even a split=3", 0.4},   // not a split that the engine offers
      {"other_backend a", 0.5},  // not on this device
      {"even c", 0.6},
  };
  std::vector<Choice> choices = ranked(kThreeByThree);
  put_measured_first(rows, Source::table, &choices);
  EXPECT_EQ(text_of(choices[0]), "even c");
  EXPECT_EQ(text_of(choices[1]), "even a");
  EXPECT_EQ(choices.size(), 6u);
}

TEST(ConvHeuristics, ARowAboveTheWorkspaceLimitIsPassedOver) {
  const std::vector<TunedRow> rows = {{"even c split=4", 0.5}, {"even b split=4", 0.75}};
  std::vector<Choice> choices = ranked(kThreeByThree, 8192);
  put_measured_first(rows, Source::table, &choices);
  EXPECT_EQ(text_of(choices[0]), "even b split=4") << "tile 2 needs 16384 bytes";
  EXPECT_EQ(choices[0].source, Source::table);
  EXPECT_EQ(choices[1].source, Source::model);
}

TEST(ConvHeuristics, TheTuningCacheComesBeforeTheTable) {
  std::vector<Choice> choices = ranked(kPointwise);
  put_measured_first(std::vector<TunedRow>{{"even c", 1}, {"odd b", 2}}, Source::table, &choices);
  put_measured_first(std::vector<TunedRow>{{"odd b", 3}}, Source::tuning_cache, &choices);
  EXPECT_EQ(text_of(choices[0]), "odd b");
  EXPECT_EQ(choices[0].source, Source::tuning_cache);
  EXPECT_DOUBLE_EQ(choices[0].seconds, 3e-6);
  EXPECT_EQ(text_of(choices[1]), "even c");
}

// --- the built-in table ---------------------------------------------------------------------------------------------

// Every row of the built-in table: the problem as text, and the row.
std::vector<std::pair<std::string, TunedRow>> rows_of_the_table() {
  std::vector<std::pair<std::string, TunedRow>> all;
  std::istringstream lines{std::string(kTunedSm90)};
  for (std::string line; std::getline(lines, line);) {
    const auto arrow = line.find(" -> ");
    if (line.starts_with('#') || arrow == std::string::npos) continue;
    all.emplace_back(line.substr(0, arrow), TunedRow{});
    EXPECT_TRUE(parse_row(line.substr(arrow + 4), &all.back().second)) << line;
  }
  return all;
}

TEST(ConvHeuristics, TheBuiltInTableIsOfItsDeviceOnly) {
  EXPECT_EQ(table_section(test::h200()), "sm_90 132 NVIDIA H200");
  const auto [text, row] = rows_of_the_table().front();
  const Problem problem = problem_of(text.c_str());
  ASSERT_FALSE(measured_rows(problem, test::h200()).empty());
  EXPECT_EQ(measured_rows(problem, test::h200()).front(), row);
  EXPECT_TRUE(measured_rows(problem, host_device()).empty());
  EXPECT_TRUE(measured_rows(problem, test::h200(114)).empty());
  Device other = test::h200();  // the same multiprocessors, another memory
  other.name = "NVIDIA H100 80GB HBM3";
  EXPECT_TRUE(measured_rows(problem, other).empty());
  Device older = test::h200();
  older.major = 8;
  EXPECT_TRUE(measured_rows(problem, older).empty());
}

// The text is searched by bisection.
TEST(ConvHeuristics, EveryRowOfTheBuiltInTableIsFound) {
  std::map<std::string, std::vector<TunedRow>> rows;
  for (const auto& [text, row] : rows_of_the_table()) rows[text].push_back(row);
  for (const auto& [text, expected] : rows) {
    EXPECT_EQ(measured_rows(problem_of(text.c_str()), test::h200()), expected) << text;
  }
  EXPECT_TRUE(measured_rows(problem_of(kPointwise), test::h200()).empty());
}

TEST(ConvHeuristics, RowsAreFoundInSmallTables) {
  const Device device = test::h200();
  const std::string head = "# x\ndevice sm_90 132 NVIDIA H200\n";
  const std::string line = to_text(tuning_key(problem_of(kPointwise))) + " -> even a us=1.00\n";
  const std::string other = to_text(tuning_key(problem_of(kThreeByThree))) + " -> odd a us=2.00\n";
  const auto rows = [&](const std::string& table) { return rows_in(table, problem_of(kPointwise), device).size(); };
  EXPECT_EQ(rows(""), 0u);
  EXPECT_EQ(rows(head), 0u);
  EXPECT_EQ(rows(head + line), 1u);
  EXPECT_EQ(rows(head + line + line + other), 2u);
  EXPECT_EQ(rows(head + other), 0u);
  EXPECT_EQ(rows(head + "device sm_90 132 Another\n" + line), 0u);
  EXPECT_EQ(rows("# x\ndevice a\n" + other + head.substr(4) + line + "device z\n" + other), 1u);
}

// A problem with a curve or z has rows of its own, or those of the plain convolution.
TEST(ConvHeuristics, RowsOfTheEpilogueComeBeforeThoseWithout) {
  const std::string head = "# x\ndevice sm_90 132 NVIDIA H200\n";
  const std::string plain = to_text(tuning_key(problem_of(kPointwise)));
  const Problem curved = problem_of((plain + " act=gelu bias").c_str());
  const std::string line = plain + " -> even a us=1.00\n";
  const std::string own = to_text(tuning_key(curved)) + " -> odd a us=2.00\n";
  const auto first = [&](const std::string& table, const Problem& problem) {
    const std::vector<TunedRow> rows = rows_in(table, problem, test::h200());
    return rows.size() == 1 ? rows.front().choice : "";
  };
  EXPECT_EQ(first(head + line, curved), "even a");
  EXPECT_EQ(first(head + line + own, curved), "odd a");
  EXPECT_EQ(first(head + line + own, problem_of((plain + " act=relu bias").c_str())), "even a");
  EXPECT_EQ(first(head + line + own, problem_of((plain + " act=relu bias z").c_str())), "even a");
}

// Half precision that allows no tensor cores: its own rows, else the best of those where they are allowed.
TEST(ConvHeuristics, CallsWithoutTensorCoresTakeTheBestRow) {
  const std::string head = "# x\ndevice sm_90 132 NVIDIA H200\n";
  const std::string text = "conv fwd f16 nhwc n2c32h14w14 k32r3s3 p1x1 t1x1 d1x1 g32 acc=f32 math=";
  const Problem fma = problem_of((text + "fma").c_str());
  ASSERT_EQ(tuning_key(fma).math, GPUDNN_FMA_MATH);
  const auto key = [&](const char* math) { return to_text(tuning_key(problem_of((text + math).c_str()))); };
  const std::string best = key("tensor") + " -> even a us=1.00\n";
  const std::string without_workspace = key("tensor") + " -> odd a us=2.00\n";
  const auto choices = [&](const std::string& table, const Problem& problem) {
    std::string all;
    for (const TunedRow& row : rows_in(table, problem, test::h200())) all += row.choice + ",";
    return all;
  };
  EXPECT_EQ(choices(head + best + without_workspace, fma), "even a,");
  EXPECT_EQ(choices(head + key("fma") + " -> own a us=3.00\n" + best, fma), "own a,");
  std::string floats = text;
  floats.replace(floats.find("f16"), 3, "f32");
  const Problem tf32 = problem_of((floats + "tensor").c_str());
  const std::string row = to_text(tuning_key(tf32)) + " -> even a us=1.00\n";
  EXPECT_EQ(choices(head + row, tf32), "even a,");
  EXPECT_EQ(choices(head + row, problem_of((floats + "fma").c_str())), "");
}

// A row that names no candidate would never be taken.
TEST(ConvHeuristics, EveryRowOfTheBuiltInTableNamesACandidate) {
  const TunedFile file{std::string_view(kTunedSm90)};
  EXPECT_EQ(TunedFile(file.text()).text(), file.text());
  EXPECT_EQ(file.text(), kTunedSm90) << "not in the order that the search needs";
  const auto rows = rows_of_the_table();
  for (const auto& [text, row] : rows) {
    const Problem problem = problem_of(text.c_str());
    EXPECT_EQ(to_text(tuning_key(problem)), text) << "not in the form that gpudnn-tune writes";
#ifdef GPUDNN_WITH_CUDA
    const std::vector<Choice> choices = rank_by_model(engines(), problem, test::h200(), kNoLimit);
    // What a machine cannot run (an engine may ask the driver) is looked at where it can be.
    const auto is_missing = [&](std::string_view name) {
      return row.choice.find(name) != std::string::npos &&
             std::none_of(choices.begin(), choices.end(),
                          [&](const Choice& c) { return text_of(c).find(name) != std::string::npos; });
    };
    if (is_missing("sm90") || is_missing("implicit_gemm_sm80")) continue;
    EXPECT_TRUE(std::any_of(choices.begin(), choices.end(), [&](const Choice& c) { return names(row, c); }))
        << text << " -> " << row_text(row);
#endif
  }
  std::printf("  %zu rows\n", rows.size());
}

#ifdef GPUDNN_WITH_CUDA
// No two configs of a problem may have one text: a table could not tell them apart.
TEST(ConvHeuristics, ConfigsHaveTextsOfTheirOwn) {
  std::string last;
  for (const auto& [text, row] : rows_of_the_table()) {
    if (text == last) continue;
    last = text;
    std::set<std::string> seen;
    for (const Choice& choice : rank_by_model(engines(), problem_of(text.c_str()), test::h200(), kNoLimit)) {
      EXPECT_TRUE(seen.insert(text_of(choice)).second) << text << ": " << text_of(choice);
    }
  }
}
#endif

#ifdef GPUDNN_WITH_CUDA
// A problem's measured choices end the search for others, so one that only serves calls without a workspace, at many
// times the best, must not be all that is left of them.
TEST(ConvHeuristics, TheBuiltInTableKeepsTheBestOfEachProblem) {
  std::string last;
  int count = 0;
  for (const auto& [text, row] : rows_of_the_table()) {
    if (text == last) continue;  // the fastest of each problem stands first
    last = text;
    const std::vector<Choice> choices = rank_by_model(engines(), problem_of(text.c_str()), test::h200(), kNoLimit);
    ASSERT_FALSE(choices.empty()) << text;
    ++count;
    EXPECT_LT(1e-6 * row.microseconds, 5 * choices.front().seconds) << text;
  }
  EXPECT_GT(count, 100);
}

// The table is read where tensor maps can be made, so on a device that it is of.
TEST(ConvHeuristics, AQueryTakesTheFirstRow) {
  if (!test::Backend::at_hand().is_cuda()) GTEST_SKIP() << "the rows are of a device";
  const gpudnnHandle_t handle = test::Backend::at_hand().handle();
  if (table_section(*handle->device) != "sm_90 132 NVIDIA H200") GTEST_SKIP() << "the rows are of another device";
  std::string last;
  for (const auto& [text, row] : rows_of_the_table()) {
    if (text == last) continue;
    last = text;
    const Problem problem = problem_of(text.c_str());
    // A call asks for a family by its algorithm's number.
    const std::string_view name = std::string_view(row.choice).substr(0, row.choice.find_first_of(" ("));
    const auto named = std::ranges::find_if(engines(), [&](const ConvEngine& engine) { return engine.name == name; });
    ASSERT_NE(named, engines().end()) << row.choice;
    const Choice choice = choose(handle, problem, {kNoLimit, kMaxAlignment, named->family});
    ASSERT_NE(choice.engine, nullptr) << text;
    EXPECT_EQ(text_of(choice), row.choice) << text;
    EXPECT_EQ(choice.source, Source::table) << text;
    const std::vector<Choice> all = rank(problem, *handle->device);
    ASSERT_FALSE(all.empty()) << text;
    EXPECT_EQ(all.front().engine, choice.engine) << text;
    EXPECT_EQ(all.front().config, choice.config) << text;
    EXPECT_EQ(all.front().workspace, choice.workspace) << text;
  }
}
#endif

// --- the library-wide limit ------------------------------------------------------------------------------------------

// The variable is read once a process.
constexpr std::size_t kChildLimit = 1024;
constexpr const char* kSplitWorthy = "conv wgrad f32 nchw n64c64h28w28 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma";

TEST(ConvHeuristicsChild, DISABLED_StaysBelowTheLimit) {
  const Problem problem = problem_of(kSplitWorthy);
  for (const Choice& choice : rank(problem, test::h200())) EXPECT_LE(choice.workspace, kChildLimit);
  if (!test::Backend::at_hand().is_cuda()) return;
  const gpudnnHandle_t handle = test::Backend::at_hand().handle();
  std::vector<Performance> rows;
  ASSERT_EQ(measure_algorithms_on_own_memory(handle, problem, &rows), GPUDNN_STATUS_SUCCESS);
  for (const Performance& row : rows) EXPECT_LE(row.memory, kChildLimit);
}

TEST(ConvHeuristics, TheLibraryWideWorkspaceLimitHolds) {
#ifndef GPUDNN_WITH_CUDA
  GTEST_SKIP() << "no engine of a build without CUDA asks for workspace";
#endif
  std::size_t most = 0;
  for (const Choice& choice : rank(problem_of(kSplitWorthy), test::h200())) most = std::max(most, choice.workspace);
  ASSERT_GT(most, kChildLimit) << "the problem shows nothing";
  EXPECT_EQ(test::run_in_child("ConvHeuristicsChild.*", {{"GPUDNN_WORKSPACE_LIMIT", "1K"}}), "");
}

// --- the search -----------------------------------------------------------------------------------------------------

TEST(ConvFind, MeasuresEachEngineFirstAndOneWithoutWorkspace) {
  const std::vector<Choice> choices = ranked(kPointwise);
  const std::vector<Choice> order = search_order(choices, kNoLimit);
  ASSERT_EQ(order.size(), choices.size());
  EXPECT_EQ(text_of(order[0]), "even a");
  EXPECT_EQ(text_of(order[1]), "odd a");
  EXPECT_EQ(text_of(order[2]), "even a split=4");
  for (const Choice& choice : search_order(choices, 5000)) EXPECT_LE(choice.workspace, 5000u);

  // A long list whose only choice without workspace comes last.
  std::vector<Choice> many(100, Choice{&kEngines[0], {.split_k = 4}, 4096, 1e-6, Source::model});
  many.push_back({&kEngines[0], {}, 0, 1e-3, Source::model});
  const std::vector<Choice> cut = search_order(many, kNoLimit);
  EXPECT_EQ(cut.size(), 30u);
  EXPECT_EQ(cut.back().workspace, 0u);
}

class ConvFindAmong : public testing::Test {
 protected:
  // Problems of its own, since the cache is the process's.
  explicit ConvFindAmong() : problem_(problem_of(kThreeByThree)) {
    static int serial = 0;
    problem_.x.dims[0] = problem_.y.dims[0] = 1000 + serial++;
    launches.clear();
  }
  [[nodiscard]] std::vector<Choice> all() const { return rank_by_model(kEngines, problem_, host_device(), kNoLimit); }
  std::vector<Performance> find(std::size_t workspace_bytes) {
    std::vector<Performance> rows;
    EXPECT_EQ(measure_algorithms_among(all(), handle_, problem_, {}, workspace_bytes > 0 ? workspace_ : nullptr,
                                       workspace_bytes, &rows, &pretended_clock),
              GPUDNN_STATUS_SUCCESS);
    return rows;
  }
  [[nodiscard]] std::vector<TunedRow> kept() const { return tuning_cache().find(problem_, host_device()); }

  gpudnnHandle_t handle_ = test::Backend::host().handle();
  Problem problem_;
  alignas(16) unsigned char workspace_[16384];
};

TEST_F(ConvFindAmong, ReportsTheBestOfBothNumbersAndKeepsThem) {
  const std::vector<Performance> rows = find(sizeof workspace_);
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(algorithm_count(Direction::forward)));
  EXPECT_EQ(rows[0].algorithm, 1);
  EXPECT_EQ(rows[0].memory, 16384u);
  EXPECT_EQ(rows[1].algorithm, 0);
  EXPECT_EQ(rows[1].memory, 0u);
  EXPECT_GT(rows[0].milliseconds, 0);
  EXPECT_LT(rows[0].milliseconds, rows[1].milliseconds);
  const std::vector<TunedRow> winners = kept();
  ASSERT_EQ(winners.size(), 3u);
  EXPECT_EQ(winners[0].choice, "even c split=4");
  EXPECT_EQ(winners[1].choice, "even b split=4") << "the fastest with less workspace";
  EXPECT_EQ(winners[2].choice, "even b");
  // Later rankings begin with them.
  std::vector<Choice> choices = all();
  put_measured_first(winners, Source::tuning_cache, &choices);
  EXPECT_EQ(text_of(choices[0]), "even c split=4");
  EXPECT_EQ(text_of(choices[1]), "even b split=4");
  EXPECT_EQ(text_of(choices[2]), "even b");
}

TEST_F(ConvFindAmong, StaysWithinTheWorkspace) {
  const std::vector<Performance> rows = find(8192);
  for (const Performance& row : rows) EXPECT_LE(row.memory, 8192u);
  EXPECT_EQ((launches[{2, 4}]), 0);
  EXPECT_GT((launches[{1, 4}]), 0);
  ASSERT_FALSE(kept().empty());
  EXPECT_EQ(kept()[0].choice, "even b split=4");
  // A misaligned workspace is none.
  std::vector<Performance> misaligned;
  launches.clear();
  ASSERT_EQ(measure_algorithms_among(all(), handle_, problem_, {}, workspace_ + 1, 8192, &misaligned, &pretended_clock),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ((launches[{1, 4}]), 0);
}

TEST_F(ConvFindAmong, ASearchWithoutWorkspaceKeepsTheWinnerThatNeedsSome) {
  (void)find(sizeof workspace_);
  (void)find(0);
  ASSERT_EQ(kept().size(), 3u);
  EXPECT_EQ(kept()[0].choice, "even c split=4");
  EXPECT_EQ(kept()[1].choice, "even b split=4");
  EXPECT_EQ(kept()[2].choice, "even b");
}

TEST_F(ConvFindAmong, AnEngineThatFailsIsLeftOut) {
  problem_ = problem_of(kPointwise);  // the failing engine takes it
  const std::vector<Performance> rows = find(0);
  EXPECT_EQ(rows[0].status, GPUDNN_STATUS_SUCCESS);
  for (const TunedRow& row : kept()) EXPECT_TRUE(row.choice.starts_with("even ")) << row.choice;

  std::vector<Choice> failing;
  for (const Choice& choice : all()) {
    if (std::string(choice.engine->name) == "odd") failing.push_back(choice);
  }
  std::vector<Performance> none;
  EXPECT_EQ(measure_algorithms_among(failing, handle_, problem_, {}, nullptr, 0, &none),
            GPUDNN_STATUS_EXECUTION_FAILED);
}

TEST_F(ConvFindAmong, ReplacesThePlansOfThisProblemAndOfNoOther) {
  Problem other = problem_;
  other.x.dims[0] = other.y.dims[0] = problem_.x.dims[0] + 5000;
  std::shared_ptr<const Plan> before;
  std::shared_ptr<const Plan> before_other;
  std::shared_ptr<const Plan> after;
  ASSERT_EQ(find_plan(handle_, problem_, 1, 64, 16, &before), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(find_plan(handle_, other, 1, 64, 16, &before_other), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(find_plan(handle_, problem_, 1, 64, 16, &after), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(before, after) << "a repeated call finds its plan";
  (void)find(0);
  ASSERT_EQ(find_plan(handle_, problem_, 1, 64, 16, &after), GPUDNN_STATUS_SUCCESS);
  EXPECT_NE(before, after);
  ASSERT_EQ(find_plan(handle_, other, 1, 64, 16, &after), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(before_other, after);
}

// One handle: calls go on, right all the time, while searches replace their plan.
TEST(ConvFind, CallsGoOnDuringASearch) {
  const gpudnnHandle_t handle = test::Backend::host().handle();
  const Problem problem = problem_of("conv fwd f32 nchw n1c2h6w5 k3r3s3 p1x1 t1x1 d1x1 g1");
  std::atomic<bool> done{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      const std::vector<float> x(60, 1), w(54, 1);
      while (!done) {
        std::vector<float> y(90, -1);
        Args args;
        args.x = x.data();
        args.w = w.data();
        args.out = y.data();
        ASSERT_EQ(run(handle, problem, 1, nullptr, 0, args), GPUDNN_STATUS_SUCCESS);
        ASSERT_EQ(y[12], 18);  // an inner pixel: 2 channels times 9 taps
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    std::vector<Performance> rows;
    ASSERT_EQ(measure_algorithms_on_own_memory(handle, problem, &rows), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(rows[0].status, GPUDNN_STATUS_SUCCESS);
  }
  done = true;
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace gpudnn::conv
