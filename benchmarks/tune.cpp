// gpudnn-tune: times the engines and configs of convolution problems and matrix products, tells how good the model's
// first choice is, and writes the table of measured choices that the library is built with, or a tuning cache (both of
// convolutions alone).
//   gpudnn-tune cases/resnet50_fp16.txt
//   gpudnn-tune 'conv fwd f16 nhwc n64c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor'
//   gpudnn-tune --write src/ops/conv/select/tuned_sm90.txt cases/*.txt
//   gpudnn-tune --write-cache ~/.cache/gpudnn-tuning.txt cases/my_network.txt
//   gpudnn-tune --grid cases/vgg.txt      every config, and splits that the model leaves out: what a model is fitted to
//   gpudnn-tune --grid --configs cases/matmul.txt
//
// Times are those of gpudnn-bench: a graph's replay with an empty L2, the configs in turn, the median.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/handle.hpp"
#include "gpudnn/gpudnn.h"
#include "machine.hpp"
#include "ops/conv/plan.hpp"
#include "ops/conv/select/heuristics.hpp"
#include "ops/conv/select/tuning_cache.hpp"
#include "programs.hpp"
#include "tune_matmul.hpp"
#include "tune_parts.hpp"

namespace {

using namespace gpudnn;

constexpr int kBadUsage = 2;  // unreadable problem, file or option, as gpudnn-bench
using bench::kFailed;
using bench::Ratios;

struct Options {
  std::vector<std::string> inputs;  // files, or problems themselves
  std::string filter;
  std::string table;  // --write
  std::string cache;  // --write-cache
  double min_time = 0.1;
  double workspace_mb = 1024;
  int most = 12;
  bool grid = false;
  bool configs = false;
};

struct Task {
  std::string name;
  std::variant<conv::Problem, matmul::Problem> problem;
};

// The inputs, the output and the workspace of all problems in turn. They grow where a problem needs more.
class Memory {
 public:
  Memory(bench::Machine& machine, std::size_t workspace) : machine_(&machine), workspace_(machine, workspace) {}

  conv::Args args(const conv::Problem& problem) {
    conv::Args args;
    args.x = bench::grown(*machine_, &x_, size_in_bytes(problem.x));
    args.w = bench::grown(*machine_, &w_, size_in_bytes(problem.w));
    args.y = bench::grown(*machine_, &y_, size_in_bytes(problem.y));
    // Never an input of the next problem: outputs fed back grow to infinities, and those to NaN.
    args.out = bench::grown(*machine_, &out_, size_in_bytes(conv::output(problem)));
    if (problem.has_z != 0) {
      args.z = bench::grown(*machine_, &z_, size_in_bytes(problem.z));
      args.alpha2 = 1;
    }
    if (problem.has_bias != 0) args.bias = vector_of_channels(problem, &bias_);
    if (problem.has_scale != 0) args.scale = vector_of_channels(problem, &scale_);
    args.activation_coef = 1;  // as gpudnn-bench: with 0, clipped ReLU stores zeros and swish halves
    return args;
  }
  [[nodiscard]] void* workspace() const { return workspace_.get(); }
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  // A value of any type for each output channel.
  void* vector_of_channels(const conv::Problem& problem, bench::Buffer* buffer) {
    const std::int64_t step = std::max<std::int64_t>(problem.bias_stride, 1);
    return bench::grown(*machine_, buffer, static_cast<std::size_t>(problem.y.dims[1] * step) * sizeof(double));
  }

  bench::Machine* machine_;
  bench::Buffer x_, w_, y_, out_, z_, bias_, scale_, workspace_;
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
  int zero_workspace = 0;
  for (const conv::Choice& choice : ranked) {
    const bool early = trials.size() < static_cast<std::size_t>(most);
    const bool of_an_engine = ++of_engine[choice.engine] <= 2;
    const bool among_zero_workspace = choice.workspace == 0 && ++zero_workspace <= 2;
    if (early || of_an_engine || among_zero_workspace || same(choice, taken)) trials.push_back({choice});
  }
  return trials;
}

// The splits that the model leaves out, for each tile that it has without a split.
void add_grid(std::size_t workspace, std::vector<Trial>* trials) {
  const std::vector<Trial> known = *trials;
  for (const Trial& trial : known) {
    if (trial.choice.config.split_k != 1) continue;
    for (const int split : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512}) {
      conv::Choice choice = trial.choice;
      choice.config.split_k = split;
      choice.seconds = -1;
      choice.workspace = workspace;  // all there is: a launch refuses where that is too little
      const bool is_known =
          std::any_of(known.begin(), known.end(), [&](const Trial& t) { return same(t.choice, choice); });
      if (!is_known) trials->push_back({choice});
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
  double best_zero_workspace = kFailed;
  for (const Trial& trial : *trials) {
    best = std::min(best, trial.seconds);
    if (trial.choice.workspace == 0) best_zero_workspace = std::min(best_zero_workspace, trial.seconds);
  }
  std::vector<Trial*> promising;
  for (Trial* const trial : all) {
    const double bar = trial->choice.workspace == 0 ? best_zero_workspace : best;
    if (trial == all.front() || trial->seconds < kHopeless * bar) promising.push_back(trial);
  }
  time_some(promising, {.min_seconds = min_time, .least = 5, .most = 100});
}

struct Verdict {
  const Trial* best = nullptr;
  const Trial* best_zero_workspace = nullptr;
  const Trial* first = nullptr;  // the model's
  const Trial* taken = nullptr;  // by the library, with its table
};

Verdict judge(const std::vector<Trial>& trials, const conv::Choice& taken) {
  Verdict v;
  for (const Trial& trial : trials) {
    const bool ranked = trial.choice.seconds >= 0;  // not of the grid
    const bool zero_workspace = trial.choice.workspace == 0;
    if (ranked && v.first == nullptr) v.first = &trial;
    if (same(trial.choice, taken)) v.taken = &trial;
    if (!ranked) continue;  // the library could not take it
    if (v.best == nullptr || trial.seconds < v.best->seconds) v.best = &trial;
    if (zero_workspace && (v.best_zero_workspace == nullptr || trial.seconds < v.best_zero_workspace->seconds))
      v.best_zero_workspace = &trial;
  }
  return v;
}

conv::TunedRow row_of(const Trial& trial) {
  return {conv::choice_text(*trial.choice.engine, trial.choice.config), 1e6 * trial.seconds};
}

// The winner, and the one without a workspace.
std::vector<conv::TunedRow> rows_of(const Verdict& v) {
  if (std::isinf(v.best->seconds)) return {};
  std::vector<conv::TunedRow> rows = {row_of(*v.best)};
  if (v.best_zero_workspace != nullptr && v.best_zero_workspace != v.best &&
      std::isfinite(v.best_zero_workspace->seconds))
    rows.push_back(row_of(*v.best_zero_workspace));
  return rows;
}

void print(const char* label, const Trial& trial) {
  std::printf("  %-8s %10.2f us  %s workspace=%zu", label, 1e6 * trial.seconds,
              conv::choice_text(*trial.choice.engine, trial.choice.config).c_str(), trial.choice.workspace);
  if (trial.choice.seconds >= 0) std::printf(" expected=%.2f us", 1e6 * trial.choice.seconds);
}

class Tuner {
 public:
  Tuner(bench::Machine& machine, const Device& device, const Options& options)
      : machine_(machine),
        device_(device),
        options_(options),
        memory_(machine, static_cast<std::size_t>(options.workspace_mb * (1 << 20))) {
    if (!options.cache.empty()) cache_.emplace(options.cache);
  }

  // False if nothing ran, or the table could not be written.
  bool tune(const std::string& name, const conv::Problem& problem) {
    const std::vector<conv::Choice> ranked =
        conv::rank_by_model(conv::engines(), problem, device_, memory_.workspace_bytes());
    const std::vector<conv::Choice> with_table = conv::rank(problem, device_);
    if (ranked.empty() || with_table.empty()) return std::fprintf(stderr, "%s: no engine\n", name.c_str()), false;
    const conv::Choice& taken = with_table.front();
    std::vector<Trial> trials = select(ranked, taken, options_.grid ? std::numeric_limits<int>::max() : options_.most);
    if (options_.grid && !machine_.is_host()) add_grid(memory_.workspace_bytes(), &trials);
    time_trials(machine_, device_, problem, &memory_, options_.min_time, &trials);
    const Verdict verdict = judge(trials, taken);
    report(name, problem, trials, verdict);
    if (std::isinf(verdict.best->seconds)) return false;
    if (cache_) cache_->record(problem, device_, rows_of(verdict));
    return options_.table.empty() || write(problem, rows_of(verdict));
  }

  void summarize() const {
    model_.summarize("model's first choice");
    library_.summarize("library's choice, by table and model");
    if (!options_.table.empty()) std::printf("%d problems have rows in %s now\n", written_, options_.table.c_str());
  }

 private:
  void report(const std::string& name, const conv::Problem& problem, const std::vector<Trial>& trials,
              const Verdict& v) {
    std::printf("%s = %s\n", name.c_str(), to_text(problem).c_str());
    if (options_.grid || options_.configs) {
      for (const Trial& trial : trials) print("config", trial), std::printf("\n");
    }
    print("best", *v.best);
    std::printf("\n");
    if (v.best_zero_workspace != nullptr && v.best_zero_workspace != v.best)
      print("no_ws", *v.best_zero_workspace), std::printf("\n");
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
    table.set(conv::table_section(device_), problem, rows);
    if (!rows.empty()) ++written_;
    if (conv::replace_text_file(options_.table, table.text())) return true;
    return std::fprintf(stderr, "cannot write %s\n", options_.table.c_str()), false;
  }

  bench::Machine& machine_;
  const Device& device_;
  const Options& options_;
  Memory memory_;
  std::optional<conv::TuningCache> cache_;
  Ratios model_;
  Ratios library_;
  int written_ = 0;
};

// A line "name = problem" or "problem"; '#' starts a comment. Lines of other operations are passed over.
bool read_line(const Options& options, std::string line, std::vector<Task>* tasks) {
  line = line.substr(0, line.find('#'));
  const bool is_conv = line.find("conv ") != std::string::npos;
  const auto start = line.find(is_conv ? "conv " : "matmul ");
  if (start == std::string::npos || line.find(options.filter) == std::string::npos) return true;
  const auto equals = line.find(" = ");
  const std::string name = equals < start ? line.substr(0, line.find_last_not_of(' ', equals) + 1) : "problem";
  std::string why;
  const auto take = [&](const auto& problem) {
    if (problem) return tasks->push_back({name, *problem}), true;
    return std::fprintf(stderr, "%s: %s\n", line.c_str(), why.c_str()), false;
  };
  const std::string text = line.substr(start);
  return is_conv ? take(conv::from_text(text, &why)) : take(matmul::from_text(text, &why));
}

bool read_tasks(const Options& options, std::vector<Task>* tasks) {
  bool good = true;
  for (const std::string& input : options.inputs) {
    if (input.starts_with("conv ") || input.starts_with("matmul ")) {
      good = read_line(options, input, tasks) && good;
      continue;
    }
    std::ifstream file(input);
    if (!file) {
      return std::fprintf(stderr, "cannot read '%s', which is neither a file nor a problem of conv or matmul\n",
                          input.c_str()),
             false;
    }
    for (std::string line; std::getline(file, line);) good = read_line(options, line, tasks) && good;
  }
  if (good && tasks->empty()) std::fprintf(stderr, "no problem given, or none passes the filter; see --help\n");
  return good && !tasks->empty();
}

int tune_all(const Options& options) {
  std::vector<Task> tasks;
  if (!read_tasks(options, &tasks)) return kBadUsage;
  gpudnnHandle_t handle = nullptr;
  if (gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS) return std::fprintf(stderr, "no handle\n"), kBadUsage;
  const bool on_host = handle->device->backend == GPUDNN_BACKEND_HOST;
  std::string why;
  const auto machine = on_host ? bench::make_host_machine() : bench::make_cuda_machine(&why);
  if (machine == nullptr) return std::fprintf(stderr, "%s\n", why.c_str()), kBadUsage;
  std::printf("%s; %s\n", machine->description().c_str(), conv::table_section(*handle->device).c_str());
  Tuner tuner(*machine, *handle->device, options);
  bench::MatmulTuner matmul_tuner(*machine, *handle->device, {options.min_time, options.configs, options.grid});
  bool good = true;
  for (const auto& [name, problem] : tasks) {
    if (const auto* const product = std::get_if<matmul::Problem>(&problem)) {
      good = matmul_tuner.tune(name, *product) && good;
    } else {
      good = tuner.tune(name, std::get<conv::Problem>(problem)) && good;
    }
  }
  tuner.summarize();
  matmul_tuner.summarize();
  return gpudnnDestroy(handle) == GPUDNN_STATUS_SUCCESS && good ? 0 : 1;
}

}  // namespace

int gpudnn::bench::run_tune(int argc, char** argv) {
  Options options;
  CLI::App app("Times the engines and configs of convolution problems and matrix products");
  app.add_option("cases", options.inputs, "Problems in quotes, or files of them: 'problem' or 'name = problem' a line")
      ->required();
  app.add_option("--filter", options.filter, "Only lines that contain this");
  app.add_option("--write", options.table, "Merge the best choices into this table");
  app.add_option("--write-cache", options.cache,
                 "Keep the best choices of convolutions in this tuning cache; programs that name it go by them")
      ->envname("GPUDNN_TUNING_CACHE");
  app.add_option("--min-time", options.min_time, "Seconds for the repeats of a problem")->capture_default_str();
  app.add_option("--workspace-mb", options.workspace_mb, "Most workspace of a config, in MiB")->capture_default_str();
  app.add_option("--most", options.most, "So many of the model's best, and two of each engine")->capture_default_str();
  app.add_flag("--configs", options.configs, "Print each config that was timed");
  app.add_flag("--grid", options.grid, "Time and print every config, and splits that the model leaves out");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadUsage;
  }
  try {
    return tune_all(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpudnn-tune: %s\n", error.what());
    return 1;
  }
}
