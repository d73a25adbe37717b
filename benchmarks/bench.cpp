// gpudnn-bench: times problems on libgpudnn, alone or side by side with another library of the cudnn interface.
//   gpudnn-bench 'conv fwd f16 nhwc n64c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1 math=tensor'
//   gpudnn-bench --cases cases/resnet50.txt --against /usr/local/cuda/lib64/libcudnn.so.9 --csv run.csv
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>

#include "graphs.hpp"
#include "module_cost.hpp"
#include "problem_help.hpp"
#include "programs.hpp"
#include "replay.hpp"
#include "report.hpp"
#include "verify_cost.hpp"

namespace {

using namespace gpudnn::bench;

// Exit codes.
constexpr int kSuccess = 0;
constexpr int kFailed = 1;    // a problem failed on our library, or the results disagree
constexpr int kBadUsage = 2;  // unreadable problem, file or option, or a library that cannot be loaded

struct Options {
  std::vector<std::string> problems;
  std::vector<std::string> files;
  std::string replay;
  std::string graphs;
  std::string help;  // the operation that --help is asked of
  std::string filter;
  std::string library = "libgpudnn.so";
  std::string against;
  bool against_cublaslt = false;
  std::string csv;
  double min_time = -1;  // below 0: 0.2 s, on the host 0.05 s
  double workspace_mb = 2048;
  ScalarOptions scalars;
  Ceilings ceilings;
  bool measure_copy = false;
  bool verify_cost = false;
  bool module_cost = false;
  bool startup = false;
  bool once = false;
  bool no_check = false;
  MeasureOptions measure;
};

void declare(CLI::App* app, Options* o) {
  app->add_option("problem", o->problems, "Problems, each one line of the problem language in quotes");
  app->add_option("--cases", o->files,
                  "Files of problems: 'problem' or 'name = problem' a line, '#' for comments, or the lines of a log "
                  "(GPUDNN_LOGLEVEL=3), each problem of it once");
  app->add_option("--replay", o->replay,
                  "Run the calls of this log (GPUDNN_LOGLEVEL=3) again, in its order, each with its time then and now");
  app->add_option(
      "--graphs", o->graphs,
      "File of graphs, each a line '== name' and the graph's text: the time on the device, of making the plan, "
      "and of an execution's calls");
  app->add_option("--filter", o->filter, "Only problems whose name or text contains this");
  app->add_option("--lib", o->library, "The library under test")->capture_default_str();
  app->add_option("--against", o->against, "A second library with the cudnn (or gpudnn) interface, by path");
  app->add_flag("--against-cublaslt", o->against_cublaslt,
                "Matrix products: the best of the 8 algorithms of cuBLASLt's heuristic, in this process");
  app->add_option("--csv", o->csv, "Write all columns to this file");
  app->add_option("--min-time", o->min_time, "Seconds to spend on a problem's repeats (default 0.2; host 0.05)");
  app->add_option("--alpha", o->scalars.alpha, "alpha of every call (default 1; tensor scale -1)");
  app->add_option("--beta", o->scalars.beta, "beta of every call (default 0; tensor add 1)");
  app->add_option("--workspace-mb", o->workspace_mb, "Most workspace for an algorithm, in MiB")->capture_default_str();
  app->add_flag("--find", o->measure.find, "Time what Find chooses too, not the heuristic's first choice alone");
  app->add_flag("--first-call", o->measure.first_call, "Measure the first query and call on a new handle");
  app->add_flag("--query", o->measure.query, "Measure the heuristic query");
  app->add_flag("--startup", o->startup, "Print the time of loading each library and making its first handle");
  app->add_flag("--once", o->once, "Run each problem exactly once, untimed: for sanitizers");
  app->add_flag(
      "--no-check", o->no_check,
      "Do not look at the outputs. Otherwise NaN is looked for in all of them, and those of problems of up to 1 "
      "GFLOP and 30 MB are compared with the host's reference");
  app->add_flag("--errors", o->measure.errors,
                "With --against: the errors of both, of convolutions of f32, next to a reference in double");
  app->add_flag("--verify-cost", o->verify_cost,
                "Measure alone what GPUDNN_VERIFY and GPUDNN_CHECK_NAN cost a call while they are off");
  app->add_flag("--module-cost", o->module_cost,
                "Measure alone what the calls cost that PyTorch makes for a recurrent module before RNNForward");
  app->add_flag("--measure-copy", o->measure_copy, "Measure the device's copy rate and use it for the floor");
  Ceilings& c = o->ceilings;
  app->add_option("--copy-gbps", c.copy_gbps, "Copy rate for the floor, bytes read + written")->capture_default_str();
  app->add_option("--tflops-fp64", c.tflops_f64, "Rate for the floor (this default is not measured)")
      ->capture_default_str();
  app->add_option("--tflops-fp32", c.tflops_f32, "Rate for the floor, without tensor cores")->capture_default_str();
  app->add_option("--tflops-tf32", c.tflops_tf32, "Rate for the floor")->capture_default_str();
  app->add_option("--tflops-fp16", c.tflops_f16, "Rate for the floor")->capture_default_str();
  app->add_option("--tflops-bf16", c.tflops_bf16, "Rate for the floor")->capture_default_str();
  app->add_option("--tflops-fp8", c.tflops_f8, "Rate for the floor")->capture_default_str();
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// A line "name = problem" or "problem"; false if it cannot be read, and then stderr says why.
bool add_task(const std::string& line, const std::string& where, const Options& options, std::vector<Task>* tasks) {
  const auto equals = line.find(" = ");
  const std::string text = equals == std::string::npos ? line : trimmed(line.substr(equals + 3));
  std::string why;
  std::optional<Task> task = parse_task(text, options.scalars, &why);
  if (!task) {
    std::fprintf(stderr, "%s: %s\n  in: %s\n", where.c_str(), why.c_str(), text.c_str());
    return false;
  }
  if (equals != std::string::npos) task->name = trimmed(line.substr(0, equals));
  const bool wanted = options.filter.empty() || task->name.find(options.filter) != std::string::npos ||
                      task->text.find(options.filter) != std::string::npos;
  if (wanted) tasks->push_back(std::move(*task));
  return true;
}

// Five bad lines and it is some other file.
bool read_file(std::ifstream& stream, const std::string& file, const Options& options, std::vector<Task>* tasks) {
  constexpr int kMaxBadLines = 5;
  int bad = 0;
  std::set<std::string> logged;
  std::string line;
  for (int number = 1; std::getline(stream, line) && bad < kMaxBadLines; ++number) {
    if (is_log_line(line)) {
      const std::optional<LoggedCall> call = logged_call(line);
      if (!call || !logged.insert(call->problem).second) continue;
      // A program's log holds calls that are not timed here: told, and passed over.
      (void)add_task(call->problem, file + ':' + std::to_string(number) + ": passed over", options, tasks);
      continue;
    }
    line = trimmed(line.substr(0, line.find('#')));
    if (!line.empty() && !add_task(line, file + ':' + std::to_string(number), options, tasks)) ++bad;
  }
  if (bad == kMaxBadLines) std::fprintf(stderr, "%s: the rest is not read\n", file.c_str());
  return bad == 0;
}

bool read_tasks(const Options& options, std::vector<Task>* tasks) {
  bool good = true;
  for (const std::string& problem : options.problems) good &= add_task(problem, "gpudnn-bench", options, tasks);
  for (const std::string& file : options.files) {
    std::ifstream stream(file);
    if (!stream) {
      std::fprintf(stderr, "gpudnn-bench: cannot read %s\n", file.c_str());
      return false;
    }
    if (!read_file(stream, file, options, tasks)) return false;
  }
  if (good && tasks->empty()) {
    std::fprintf(stderr, "gpudnn-bench: no problem given (or none passes the filter); see --help\n");
    return false;
  }
  return good;
}

std::unique_ptr<Machine> first_machine() {
  // The same variable as the library reads: with GPUDNN_BACKEND=host no CUDA context is made.
  const char* backend = std::getenv("GPUDNN_BACKEND");
  if (backend != nullptr && std::string(backend) == "host") return make_host_machine();
  std::string why;
  auto machine = make_cuda_machine(&why);
  if (machine != nullptr) return machine;
  std::fprintf(stderr, "gpudnn-bench: host backend (%s)\n", why.c_str());
  return make_host_machine();
}

std::unique_ptr<Library> load(const std::string& path) {
  std::string why;
  auto library = open_library(path, &why);
  if (library == nullptr) std::fprintf(stderr, "gpudnn-bench: %s\n", why.c_str());
  return library;
}

std::unique_ptr<Library> load_linked(const char* prefix) {
  std::string why;
  auto library = linked_library(prefix, &why);
  if (library == nullptr) std::fprintf(stderr, "gpudnn-bench: %s\n", why.c_str());
  return library;
}

bool use_stream(const Machine& machine, const Library& library) {
  const gpudnnStatus_t status = library.api.SetStream(library.handle, machine.stream());
  if (status != GPUDNN_STATUS_SUCCESS) {
    std::fprintf(stderr, "gpudnn-bench: %s: %s\n", library.path.c_str(), failure_text(library, status).c_str());
  }
  return status == GPUDNN_STATUS_SUCCESS;
}

// What was measured, on what, against which ceilings: printed first, and the head of the CSV file.
std::string preamble(const Machine& machine, const Library& ours, const Library* theirs, const Options& options,
                     double launch_seconds) {
  char text[512];
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  std::string lines = std::string("# gpudnn-bench, ") + date + "\n# device: " + machine.description() + '\n';
  lines += "# ours: " + version_text(ours) + ", " + ours.path + '\n';
  if (theirs != nullptr) lines += "# theirs: " + version_text(*theirs) + ", " + theirs->path + '\n';
  if (options.startup) {
    for (const Library* library : {&ours, theirs}) {
      if (library == nullptr) continue;
      std::snprintf(text, sizeof text, "# startup of %s: load %.2f ms, first handle %.2f ms\n", library->path.c_str(),
                    1e3 * library->open_seconds, 1e3 * library->create_seconds);
      lines += text;
    }
  }
  if (machine.is_host()) return lines + "# no floor: the ceilings are those of a GPU; times are wall-clock times\n";
  const Ceilings& c = options.ceilings;
  std::snprintf(text, sizeof text,
                "# ceilings: copy %.0f GB/s%s; TFLOP/s fp32 %.4g, tf32 %.4g, fp16 %.4g, bf16 %.4g, fp64 %.4g; unless "
                "given, measured on an H200 (fp64 not measured)\n# empty launch: %.2f us of host time\n",
                c.copy_gbps, options.measure_copy ? " (measured now)" : "", c.tflops_f32, c.tflops_tf32, c.tflops_f16,
                c.tflops_bf16, c.tflops_f64, 1e6 * launch_seconds);
  return lines + text;
}

void show_progress(const std::string& text) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

int run_all_once(Machine& machine, const Library& ours, const Library* theirs, const std::vector<Task>& tasks,
                 const Options& options) {
  int failures = 0;
  for (const Task& task : tasks) {
    for (const Library* library : {&ours, theirs}) {
      if (library == nullptr) continue;
      const std::string why = run_once(machine, *library, task, options.measure);
      std::printf("%-6s %-6s %s%s%s\n", why.empty() ? "ok" : "FAILED", library->prefix.c_str(), task.text.c_str(),
                  why.empty() ? "" : "\n    ", why.c_str());
      std::fflush(stdout);
      if (!why.empty() && library == &ours) ++failures;
    }
  }
  std::printf("%zu problems, %d failed\n", tasks.size(), failures);
  return failures == 0 ? kSuccess : kFailed;
}

int measure_all(Machine& machine, const Library& ours, const Library* theirs, const std::vector<Task>& tasks,
                const Options& options) {
  ReportOptions report;
  report.ceilings = options.ceilings;
  report.has_floor = !machine.is_host();
  report.launch_seconds = machine.empty_launch_seconds();
  report.against = theirs != nullptr;
  report.first_call = options.measure.first_call;
  report.query = options.measure.query;
  for (const Task& task : tasks) report.name_width = std::max(report.name_width, static_cast<int>(task.name.size()));
  std::FILE* csv = options.csv.empty() ? nullptr : std::fopen(options.csv.c_str(), "w");
  if (csv == nullptr && !options.csv.empty()) {
    std::fprintf(stderr, "gpudnn-bench: cannot write %s\n", options.csv.c_str());
    return kBadUsage;
  }
  const std::string head = preamble(machine, ours, theirs, options, report.launch_seconds);
  std::fputs(head.c_str(), stdout);
  print_table_head(report);
  std::vector<Row> rows;
  int result = kSuccess;
  try {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      show_progress('[' + std::to_string(i + 1) + '/' + std::to_string(tasks.size()) + "] " + tasks[i].name);
      rows.push_back(measure(machine, ours, theirs, tasks[i], options.measure));
      show_progress("");
      print_table_row(rows.back(), report);
      if (rows.back().mismatch || !rows.back().ours.ok()) result = kFailed;
    }
  } catch (const std::runtime_error& error) {
    // The device is lost; what was measured before still counts.
    std::fprintf(stderr, "\ngpudnn-bench: stopped: %s\n  in: %s\n", error.what(), tasks[rows.size()].text.c_str());
    result = kFailed;
  }
  print_means(rows, report);
  if (csv != nullptr) {
    write_csv(csv, head, rows, report);
    std::fclose(csv);
  }
  return result;
}

std::size_t workspace_limit(const Options& options) {
  return static_cast<std::size_t>(options.workspace_mb * (1 << 20));
}

int run_graphs(const Options& options) {
  std::vector<NamedGraph> graphs;
  if (!read_graphs(options.graphs, options.filter, &graphs)) return kBadUsage;
  auto machine = first_machine();
  const auto ours = load(options.library);
  const auto theirs = options.against.empty() ? nullptr : load(options.against);
  if (ours == nullptr || (theirs == nullptr && !options.against.empty())) return kBadUsage;
  if (!machine->is_host() && backend(*ours) == GPUDNN_BACKEND_HOST) machine = make_host_machine();
  if (!use_stream(*machine, *ours) || (theirs != nullptr && !use_stream(*machine, *theirs))) return kBadUsage;
  MeasureOptions measure = options.measure;
  if (machine->is_host()) measure.repeats = {.min_seconds = 0.05, .least = 3, .most = 20};
  if (options.min_time >= 0) measure.repeats.min_seconds = options.min_time;
  const double launch = machine->empty_launch_seconds();
  std::fputs(preamble(*machine, *ours, theirs.get(), options, launch).c_str(), stdout);
  return measure_graphs(*machine, *ours, theirs.get(), graphs, measure, options.ceilings, options.csv) ? kSuccess
                                                                                                       : kFailed;
}

int run(Options options) {
  std::string why;
  if (options.module_cost) {
    for (const std::string& path : {options.library, options.against}) {
      if (path.empty()) continue;
      const auto library = load(path);
      if (library == nullptr || !print_module_cost(*library)) return kFailed;
    }
    return kSuccess;
  }
  if (options.verify_cost) return print_verify_cost() ? kSuccess : kFailed;
  if (!options.graphs.empty()) return run_graphs(options);
  const auto reference = options.no_check || options.once ? nullptr : make_reference(&why);
  if (!options.replay.empty()) {
    return replay(*first_machine(), options.library, options.replay, workspace_limit(options));
  }
  std::vector<Task> tasks;
  if (!read_tasks(options, &tasks)) return kBadUsage;
  auto machine = first_machine();
  const auto products = std::count_if(tasks.begin(), tasks.end(), is_linked);
  if (products != 0 && products != static_cast<std::ptrdiff_t>(tasks.size())) {
    std::fprintf(stderr,
                 "gpudnn-bench: matrix products, layer norms and attention cannot be mixed with other operations; use "
                 "--filter\n");
    return kBadUsage;
  }
  const auto ours = products > 0 ? load_linked("gpudnn") : load(options.library);
  if (ours == nullptr) return kBadUsage;
  if (!machine->is_host() && backend(*ours) == GPUDNN_BACKEND_HOST) machine = make_host_machine();
  const bool compares = options.against_cublaslt || !options.against.empty();
  if (compares && options.against_cublaslt != (products > 0)) {
    std::fprintf(stderr, "gpudnn-bench: matrix products are compared by --against-cublaslt, the others by --against\n");
    return kBadUsage;
  }
  const auto theirs = !compares ? nullptr : products > 0 ? load_linked("cublaslt") : load(options.against);
  if (theirs == nullptr && compares) return kBadUsage;
  if (!use_stream(*machine, *ours) || (theirs != nullptr && !use_stream(*machine, *theirs))) return kBadUsage;

  MeasureOptions& measure = options.measure;
  measure.check = !options.no_check;
  measure.reference = reference.get();
  measure.workspace_limit = workspace_limit(options);
  if (machine->is_host()) measure.repeats = {.min_seconds = 0.05, .least = 3, .most = 20};
  if (options.min_time >= 0) measure.repeats.min_seconds = options.min_time;
  if (options.once) return run_all_once(*machine, *ours, theirs.get(), tasks, options);
  if (options.measure_copy && !machine->is_host()) {
    options.ceilings.copy_gbps = machine->copy_bytes_per_second() / 1e9;
  }
  return measure_all(*machine, *ours, theirs.get(), tasks, options);
}

}  // namespace

int gpudnn::bench::run_bench(int argc, char** argv) {
  CLI::App app("Times problems of the problem language on libgpudnn, alone or side by side with another library.");
  Options options;
  declare(&app, &options);
  app.set_help_flag();
  const CLI::Option* const help =
      app.add_option("-h,--help", options.help, "Print this, or the words of one operation, such as conv")
          ->expected(0, 1);
  try {
    app.parse(argc, argv);
    if (help->count() > 0) {
      std::fputs(options.help.empty() ? app.help().c_str() : problem_help(options.help).c_str(), stdout);
      return kSuccess;
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kBadUsage;
  }
  try {
    return run(std::move(options));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpudnn-bench: %s\n", error.what());
    return kFailed;
  }
}
