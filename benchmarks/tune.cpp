// gpudnn-tune: times the engines and configs of convolution problems, tells how good the model's first choice is, and
// writes the table of measured choices that the library is built with.
//   gpudnn-tune cases/resnet50_fp16.txt
//   gpudnn-tune --write src/ops/conv/select/tuned_sm90.txt cases/*.txt
//   gpudnn-tune --grid cases/vgg.txt      every config, and splits that the model leaves out: what a model is fitted to
//
// Times are those of gpudnn-bench: a graph's replay with an empty L2, the configs in turn, the median.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/handle.hpp"
#include "gpudnn/gpudnn.h"
#include "machine.hpp"
#include "ops/conv/plan.hpp"
#include "ops/conv/select/heuristics.hpp"

namespace {

using namespace gpudnn;

constexpr double kFailed = std::numeric_limits<double>::infinity();
constexpr double kGoodEnough = 1.15;

struct Options {
  std::vector<std::string> files;
  std::string filter;
  std::string table;  // --write
  double min_time = 0.1;
  double workspace_mb = 1024;
  int most = 12;
  bool grid = false;
  bool configs = false;
};

struct Task {
  std::string name;
  conv::Problem problem;
};

// The inputs, the output and the workspace of all problems in turn. They grow where a problem needs more.
class Memory {
 public:
  Memory(bench::Machine& machine, std::size_t workspace) : machine_(&machine), workspace_(machine, workspace) {}

  conv::Args args(const conv::Problem& problem) {
    conv::Args args;
    args.x = grown(&x_, size_in_bytes(problem.x));
    args.w = grown(&w_, size_in_bytes(problem.w));
    args.y = grown(&y_, size_in_bytes(problem.y));
    // Never an input of the next problem: outputs fed back grow to infinities, and those to NaN.
    args.out = grown(&out_, size_in_bytes(conv::output(problem)));
    return args;
  }
  [[nodiscard]] void* workspace() const { return workspace_.get(); }
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  // Random signs and mantissas under a small exponent, whatever the type: a device draws less power on equal numbers,
  // and is then faster than it will be.
  void* grown(bench::Buffer* buffer, std::size_t bytes) {
    if (buffer->bytes() >= bytes) return buffer->get();
    *buffer = {};
    *buffer = bench::Buffer(*machine_, bytes);
    static const std::vector<std::uint16_t> pattern = [] {
      std::vector<std::uint16_t> words(std::size_t{8} << 20);
      std::mt19937 random(1);
      for (std::uint16_t& word : words) word = static_cast<std::uint16_t>(0x3c00u | (random() & 0x83ffu));
      return words;
    }();
    const std::size_t chunk = pattern.size() * sizeof pattern[0];
    for (std::size_t at = 0; at < bytes; at += chunk) {
      machine_->upload(static_cast<char*>(buffer->get()) + at, pattern.data(), std::min(chunk, bytes - at));
    }
    return buffer->get();
  }

  bench::Machine* machine_;
  bench::Buffer x_, w_, y_, out_, workspace_;
};

// A choice with its place in the model's ranking and what it took.
struct Trial {
  conv::Choice choice;
  double seconds = kFailed;
};

bool same(const conv::Choice& a, const conv::Choice& b) { return a.engine == b.engine && a.config == b.config; }

// The model's best, the best two of each engine and the best two without workspace, in the model's order; and what the
// library would take, which may come from the table.
std::vector<Trial> select(const std::vector<conv::Choice>& ranked, const conv::Choice& taken, int most) {
  std::vector<Trial> trials;
  std::map<const conv::ConvEngine*, int> of_engine;
  int lean = 0;
  for (const conv::Choice& choice : ranked) {
    const bool early = trials.size() < static_cast<std::size_t>(most);
    const bool of_an_engine = ++of_engine[choice.engine] <= 2;
    const bool among_lean = choice.workspace == 0 && ++lean <= 2;
    if (early || of_an_engine || among_lean || same(choice, taken)) trials.push_back({choice});
  }
  return trials;
}

// The splits that the model leaves out, for each tile that it has without a split.
void add_grid(const conv::Problem& problem, std::size_t most_workspace, std::vector<Trial>* trials) {
  const std::vector<Trial> known = *trials;
  for (const Trial& trial : known) {
    if (trial.choice.config.split_k != 1) continue;
    for (const int split : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512}) {
      conv::Choice choice = trial.choice;
      choice.config.split_k = split;
      choice.seconds = -1;
      choice.workspace = choice.engine->workspace(problem, choice.config);
      const bool is_known =
          std::any_of(known.begin(), known.end(), [&](const Trial& t) { return same(t.choice, choice); });
      if (!is_known && choice.workspace <= most_workspace) trials->push_back({choice});
    }
  }
}

// One impression of each, then the repeats of those that may still win. The model's first stays in, as its ratio is
// asked.
void time_trials(bench::Machine& machine, const Device& device, const conv::Problem& problem, Memory* memory,
                 double min_time, std::vector<Trial>* trials) {
  constexpr double kHopeless = 2;
  const conv::Args args = memory->args(problem);
  const auto call_of = [&](const conv::Choice& choice) -> bench::Call {
    return [&, bytes = choice.workspace, plan = conv::prepare_plan(choice, problem, device)] {
      return conv::launch_plan({device, machine.stream(), memory->workspace(), bytes}, *plan, args);
    };
  };
  const auto time_some = [&](const std::vector<Trial*>& some, const bench::Repeats& repeats) {
    std::vector<bench::Call> calls;
    for (const Trial* const trial : some) calls.push_back(call_of(trial->choice));
    const std::vector<bench::Timing> timings = machine.time_interleaved(calls, repeats);
    for (std::size_t i = 0; i < some.size(); ++i)
      some[i]->seconds = timings[i].repeats > 0 ? timings[i].seconds : kFailed;
  };
  std::vector<Trial*> all;
  for (Trial& trial : *trials) all.push_back(&trial);
  time_some(all, {.min_seconds = 0, .least = 1, .most = 1});
  double best = kFailed;
  double best_lean = kFailed;
  for (const Trial& trial : *trials) {
    best = std::min(best, trial.seconds);
    if (trial.choice.workspace == 0) best_lean = std::min(best_lean, trial.seconds);
  }
  std::vector<Trial*> promising;
  for (Trial* const trial : all) {
    const double bar = trial->choice.workspace == 0 ? best_lean : best;
    if (trial == all.front() || trial->seconds < kHopeless * bar) promising.push_back(trial);
  }
  time_some(promising, {.min_seconds = min_time, .least = 5, .most = 100});
}

struct Verdict {
  const Trial* best = nullptr;
  const Trial* best_lean = nullptr;
  const Trial* first = nullptr;  // the model's
  const Trial* taken = nullptr;  // by the library, with its table
};

Verdict judge(const std::vector<Trial>& trials, const conv::Choice& taken) {
  Verdict v;
  for (const Trial& trial : trials) {
    const bool ranked = trial.choice.seconds >= 0;  // not of the grid
    const bool lean = trial.choice.workspace == 0;
    if (ranked && v.first == nullptr) v.first = &trial;
    if (same(trial.choice, taken)) v.taken = &trial;
    if (!ranked) continue;  // the library could not take it
    if (v.best == nullptr || trial.seconds < v.best->seconds) v.best = &trial;
    if (lean && (v.best_lean == nullptr || trial.seconds < v.best_lean->seconds)) v.best_lean = &trial;
  }
  return v;
}

conv::TunedRow row_of(const Trial& trial) {
  return {trial.choice.engine->name, trial.choice.config, 1e6 * trial.seconds};
}

// The winner, and the one without a workspace.
std::vector<conv::TunedRow> rows_of(const Verdict& v) {
  if (std::isinf(v.best->seconds)) return {};
  std::vector<conv::TunedRow> rows = {row_of(*v.best)};
  if (v.best_lean != nullptr && v.best_lean != v.best && std::isfinite(v.best_lean->seconds))
    rows.push_back(row_of(*v.best_lean));
  return rows;
}

void print(const char* label, const Trial& trial) {
  std::printf("  %-8s %10.2f us  %s tile=%d split_k=%d workspace=%zu expected=%.2f us", label, 1e6 * trial.seconds,
              trial.choice.engine->name, trial.choice.config.tile, trial.choice.config.split_k, trial.choice.workspace,
              1e6 * trial.choice.seconds);
}

// The ratios of one kind of first choice to the best, over all problems.
struct Ratios {
  std::vector<double> values;

  void summarize(const char* label) const {
    if (values.empty()) return;
    double logs = 0;
    for (const double value : values) logs += std::log(value);
    const auto good = std::count_if(values.begin(), values.end(), [](double value) { return value <= kGoodEnough; });
    std::printf("%s: %td of %zu problems within %.2fx of the best (%.1f %%), geometric mean %.3f, worst %.2f\n", label,
                good, values.size(), kGoodEnough,
                100.0 * static_cast<double>(good) / static_cast<double>(values.size()),
                std::exp(logs / static_cast<double>(values.size())), *std::max_element(values.begin(), values.end()));
  }
};

class Tuner {
 public:
  Tuner(bench::Machine& machine, const Device& device, const Options& options)
      : machine_(machine),
        device_(device),
        options_(options),
        memory_(machine, static_cast<std::size_t>(options.workspace_mb * (1 << 20))) {}

  // False if nothing ran, or the table could not be written.
  bool tune(const Task& task) {
    const std::vector<conv::Choice> ranked =
        conv::rank_by_model(conv::engines(), task.problem, device_, memory_.workspace_bytes());
    const std::vector<conv::Choice> with_table = conv::rank(task.problem, device_);
    if (ranked.empty() || with_table.empty()) return std::fprintf(stderr, "%s: no engine\n", task.name.c_str()), false;
    const conv::Choice& taken = with_table.front();
    std::vector<Trial> trials = select(ranked, taken, options_.grid ? std::numeric_limits<int>::max() : options_.most);
    if (options_.grid) add_grid(task.problem, memory_.workspace_bytes() / 4, &trials);
    time_trials(machine_, device_, task.problem, &memory_, options_.min_time, &trials);
    const Verdict verdict = judge(trials, taken);
    report(task, trials, verdict);
    if (std::isinf(verdict.best->seconds)) return false;
    return options_.table.empty() || write(task.problem, rows_of(verdict));
  }

  void summarize() const {
    model_.summarize("model's first choice");
    library_.summarize("library's choice, by table and model");
    if (!options_.table.empty()) std::printf("%d problems have rows in %s now\n", written_, options_.table.c_str());
  }

 private:
  void report(const Task& task, const std::vector<Trial>& trials, const Verdict& v) {
    std::printf("%s = %s\n", task.name.c_str(), to_text(task.problem).c_str());
    if (options_.grid || options_.configs) {
      for (const Trial& trial : trials) print("config", trial), std::printf("\n");
    }
    print("best", *v.best);
    std::printf("\n");
    if (v.best_lean != nullptr && v.best_lean != v.best) print("lean", *v.best_lean), std::printf("\n");
    const auto compare = [&](const char* label, const Trial& trial, Ratios* ratios) {
      print(label, trial);
      std::printf(" ratio=%.3f\n", trial.seconds / v.best->seconds);
      if (std::isfinite(trial.seconds)) ratios->values.push_back(trial.seconds / v.best->seconds);
    };
    compare("model", *v.first, &model_);
    if (v.taken != nullptr) compare("library", *v.taken, &library_);
    std::fflush(stdout);
  }

  // After each problem, so that a run that is cut off leaves what it has.
  bool write(const conv::Problem& problem, const std::vector<conv::TunedRow>& rows) {
    std::string text;
    if (!conv::read_text_file(options_.table, &text)) {
      return std::fprintf(stderr, "cannot read %s\n", options_.table.c_str()), false;
    }
    conv::TunedFile table(text);
    table.set(conv::device_class(device_), problem, rows);
    if (!rows.empty()) ++written_;
    if (conv::replace_text_file(options_.table, table.text())) return true;
    return std::fprintf(stderr, "cannot write %s\n", options_.table.c_str()), false;
  }

  bench::Machine& machine_;
  const Device& device_;
  const Options& options_;
  Memory memory_;
  Ratios model_;
  Ratios library_;
  int written_ = 0;
};

// Lines "name = problem" or "problem"; '#' starts a comment. Lines of other operations are passed over.
bool read_tasks(const Options& options, std::vector<Task>* tasks) {
  bool good = true;
  for (const std::string& path : options.files) {
    std::ifstream file(path);
    if (!file) return std::fprintf(stderr, "cannot read %s\n", path.c_str()), false;
    for (std::string line; std::getline(file, line);) {
      line = line.substr(0, line.find('#'));
      const auto start = line.find("conv ");
      if (start == std::string::npos) continue;
      const auto equals = line.find(" = ");
      const std::string name = equals < start ? line.substr(0, line.find_last_not_of(' ', equals) + 1) : "problem";
      std::string why;
      const auto problem = conv::from_text(line.substr(start), &why);
      if (!problem) {
        std::fprintf(stderr, "%s: %s\n", line.c_str(), why.c_str());
        good = false;
      } else if (line.find(options.filter) != std::string::npos) {
        tasks->push_back({name, *problem});
      }
    }
  }
  return good && !tasks->empty();
}

int tune_all(const Options& options) {
  std::vector<Task> tasks;
  if (!read_tasks(options, &tasks)) return 2;
  gpudnnHandle_t handle = nullptr;
  if (gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS) return std::fprintf(stderr, "no handle\n"), 2;
  const bool on_host = handle->device->backend == GPUDNN_BACKEND_HOST;
  std::string why;
  const auto machine = on_host ? bench::make_host_machine() : bench::make_cuda_machine(&why);
  if (machine == nullptr) return std::fprintf(stderr, "%s\n", why.c_str()), 2;
  std::printf("%s; %s\n", machine->description().c_str(), conv::device_class(*handle->device).c_str());
  Tuner tuner(*machine, *handle->device, options);
  bool good = true;
  for (const Task& task : tasks) good = tuner.tune(task) && good;
  tuner.summarize();
  return gpudnnDestroy(handle) == GPUDNN_STATUS_SUCCESS && good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times the engines and configs of convolution problems");
  app.add_option("cases", options.files, "Files of problems: 'problem' or 'name = problem' a line")->required();
  app.add_option("--filter", options.filter, "Only lines that contain this");
  app.add_option("--write", options.table, "Merge the best choices into this table");
  app.add_option("--min-time", options.min_time, "Seconds for the repeats of a problem")->capture_default_str();
  app.add_option("--workspace-mb", options.workspace_mb, "Most workspace of a config, in MiB")->capture_default_str();
  app.add_option("--most", options.most, "So many of the model's best, and two of each engine")->capture_default_str();
  app.add_flag("--configs", options.configs, "Print each config that was timed");
  app.add_flag("--grid", options.grid, "Time and print every config, and splits that the model leaves out");
  CLI11_PARSE(app, argc, argv);
  try {
    return tune_all(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpudnn-tune: %s\n", error.what());
    return 1;
  }
}
