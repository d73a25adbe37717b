// gpudnn-explain: which engines take a problem, in which order, what each is expected to cost, and why the others do
// not.
//   gpudnn-explain 'conv fwd f16 nhwc n64c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor'
//   gpudnn-explain --device h200 'matmul f16 f16->f16 m4096n4096k4096'     with no GPU at hand
//   gpudnn-explain --measure 'conv fwd f32 nchw n1c64h28w28 k64r3s3 p1x1 t1x1 d1x1 g1'
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "core/described_device.hpp"
#include "core/handle.hpp"
#include "explain_lines.hpp"
#include "measure.hpp"
#include "programs.hpp"

namespace {

using namespace gpudnn;
using namespace gpudnn::bench;

constexpr int kBadUsage = 2;  // as gpudnn-bench

struct Options {
  std::vector<std::string> problems;
  std::string device;
  std::string library = "libgpudnn.so";
  bool measure = false;
  double min_time = 0.05;
  int most = 12;
};

// Operations a second of that arithmetic.
double flops_rate(Arithmetic arithmetic, bool tensor_cores, const DeviceRates& rates) {
  switch (arithmetic) {
    case Arithmetic::f64:
      return rates.fma_flops / 2;
    case Arithmetic::tf32:
      return rates.tf32_flops;
    case Arithmetic::f16:
    case Arithmetic::bf16:
      return tensor_cores ? rates.half_flops : rates.fma_flops;
    case Arithmetic::f8:
    case Arithmetic::integer:
      return 2 * rates.half_flops;
    case Arithmetic::f32:
      break;
  }
  return rates.fma_flops;
}

bool uses_tensor_cores(const Task& task) {
  if (const auto* p = std::get_if<conv::Problem>(&task.problem)) return p->math != GPUDNN_FMA_MATH;
  if (const auto* p = std::get_if<matmul::Problem>(&task.problem)) return p->math != GPUDNN_FMA_MATH;
  return true;
}

// The larger of bytes over the copy rate and operations over their rate; nothing for the host, whose rates are unknown.
std::optional<double> print_floor(const std::optional<Task>& task, const Device& device) {
  if (!task) return std::printf("floor:    not known for this operation\n"), std::nullopt;
  const double megabytes = task->bytes / 1e6;
  const double gigaflops = task->flops / 1e9;
  if (device.backend == GPUDNN_BACKEND_HOST) {
    std::printf("floor:    %.3f MB, %.3f GFLOP; the CPU's rates are not known\n", megabytes, gigaflops);
    return std::nullopt;
  }
  const double rate = flops_rate(task->arithmetic, uses_tensor_cores(*task), device.rates);
  const double memory = task->bytes / device.rates.copy_bytes;
  const double products = task->flops / rate;
  std::printf(
      "floor:    %.2f us: the larger of %.2f us (%.3f MB at %.0f GB/s) and %.2f us (%.3f GFLOP at %.0f TFLOP/s)\n",
      1e6 * std::max(memory, products), 1e6 * memory, megabytes, device.rates.copy_bytes / 1e9, 1e6 * products,
      gigaflops, rate / 1e12);
  return std::max(memory, products);
}

std::string microseconds(std::optional<double> seconds) {
  if (!seconds) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", 1e6 * *seconds);
  return text;
}

std::string share(std::optional<double> floor, const Line& line) {
  const std::optional<double> seconds = line.measured ? line.measured : line.seconds;
  if (!floor || !seconds) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * *floor / *seconds);
  return text;
}

void print(const Explanation& e, std::optional<double> floor, const Options& options) {
  const std::size_t shown = std::min(e.lines.size(), static_cast<std::size_t>(std::max(options.most, 1)));
  std::size_t width = 20;
  for (std::size_t i = 0; i < shown; ++i) {
    width = std::max(width, e.lines[i].engine.size() + 1 + e.lines[i].config.size());
  }
  std::printf("%4s  %-*s %12s %12s %9s %12s  %s\n", "", static_cast<int>(width), "engine and config", "expected",
              options.measure ? "measured" : "", "of floor", "workspace", "source");
  for (std::size_t i = 0; i < shown; ++i) {
    const Line& line = e.lines[i];
    const std::string name = line.config.empty() ? line.engine : line.engine + ' ' + line.config;
    std::printf("%4zu  %-*s %12s %12s %9s %12s  %s\n", i + 1, static_cast<int>(width), name.c_str(),
                microseconds(line.seconds).c_str(), options.measure ? microseconds(line.measured).c_str() : "",
                share(floor, line).c_str(), line.workspace ? std::to_string(*line.workspace).c_str() : "-",
                line.source.c_str());
  }
  if (shown < e.lines.size()) std::printf("      and %zu more; --most shows them\n", e.lines.size() - shown);
  if (e.lines.empty()) std::printf("      no engine takes it\n");
  if (!e.refusals.empty()) std::printf("passed over:\n");
  for (const Refusal& refusal : e.refusals)
    std::printf("      %s: %s\n", refusal.engine.c_str(), refusal.reason.c_str());
}

// Each line that can be called, in turn. Of the other operations the bench measures what the library takes.
void measure_lines(Machine& machine, const Device& device, const std::optional<Task>& task, const Options& options,
                   Explanation* e) {
  const Repeats repeats{.min_seconds = options.min_time, .least = 3, .most = 100};
  Stage stage(machine, device);
  std::vector<Call> calls;
  std::vector<Line*> called;
  for (Line& line : e->lines) {
    if (!line.bind || called.size() >= static_cast<std::size_t>(options.most)) continue;
    if (std::optional<Call> call = line.bind(stage)) {
      calls.push_back(std::move(*call));
      called.push_back(&line);
    }
  }
  const std::vector<Timing> timings = machine.time_interleaved(calls, repeats);
  for (std::size_t i = 0; i < called.size(); ++i) {
    if (timings[i].repeats > 0) called[i]->measured = timings[i].seconds;
  }
  if (!called.empty() || !task) return;
  std::string why;
  const auto library = is_linked(*task) ? linked_library("gpudnn", &why) : open_library(options.library, &why);
  if (library == nullptr) return (void)std::fprintf(stderr, "gpudnn-explain: not measured: %s\n", why.c_str());
  MeasureOptions how;
  how.repeats = repeats;
  const Row row = measure(machine, *library, nullptr, *task, how);
  if (!row.ours.ok()) return (void)std::fprintf(stderr, "gpudnn-explain: not measured: %s\n", row.ours.failure.c_str());
  const std::string taken = row.ours.engine.empty() ? row.ours.choice.algorithm : row.ours.engine;
  for (Line& line : e->lines) {
    if (line.engine == taken || (taken.empty() && &line == e->lines.data())) line.measured = row.ours.timing.seconds;
  }
}

std::string names_of_devices() {
  std::string text;
  for (const std::string& name : described_device_names()) text += (text.empty() ? "" : ", ") + name;
  return text;
}

int run(const Options& options) {
  gpudnnHandle_t handle = nullptr;
  const Device* device = nullptr;
  if (options.device.empty()) {
    if (gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS) {
      return std::fprintf(stderr, "gpudnn-explain: %s\n", last_error_text()), kBadUsage;
    }
    device = handle->device;
  } else {
    device = described_device(options.device);
    if (device == nullptr) {
      return std::fprintf(stderr, "gpudnn-explain: no device is called '%s'; known: %s\n", options.device.c_str(),
                          names_of_devices().c_str()),
             kBadUsage;
    }
    if (device->backend == GPUDNN_BACKEND_CUDA && cuda::runtime_version() == 0) {
      return std::fprintf(stderr,
                          "gpudnn-explain: this build has no CUDA engines to explain; one with CUDA has them, "
                          "and needs no GPU for it\n"),
             kBadUsage;
    }
    if (options.measure && !device->is_present()) {
      return std::fprintf(stderr,
                          "gpudnn-explain: --measure needs the device itself, and --device only describes one\n"),
             kBadUsage;
    }
  }
  std::unique_ptr<Machine> machine;
  if (options.measure) {
    std::string why;
    machine = device->backend == GPUDNN_BACKEND_HOST ? make_host_machine() : make_cuda_machine(&why);
    if (machine == nullptr) return std::fprintf(stderr, "gpudnn-explain: %s\n", why.c_str()), kBadUsage;
  }
  int result = 0;
  for (const std::string& problem : options.problems) {
    std::string why;
    std::optional<Explanation> e = explain(problem, *device, &why);
    if (!e) {
      std::fprintf(stderr, "gpudnn-explain: %s\n  in: %s\n", why.c_str(), problem.c_str());
      result = kBadUsage;
      continue;
    }
    const std::optional<Task> task = parse_task(problem, {}, &why);
    std::printf("problem:  %s\ndevice:   %s", e->problem.c_str(), device->name.c_str());
    if (device->backend == GPUDNN_BACKEND_CUDA) {
      std::printf(", sm_%d, %d multiprocessors", device->compute_capability(), device->multiprocessors);
    }
    std::printf("%s\n", device->is_present() ? "" : " (described, not asked)");
    const std::optional<double> floor = print_floor(task, *device);
    if (machine != nullptr) measure_lines(*machine, *device, task, options, &*e);
    print(*e, floor, options);
    std::fflush(stdout);
  }
  if (handle != nullptr && gpudnnDestroy(handle) != GPUDNN_STATUS_SUCCESS) return 1;
  return result;
}

}  // namespace

int gpudnn::bench::run_explain(int argc, char** argv) {
  Options options;
  CLI::App app("Tells which engines take a problem, in which order, at what cost, and why the others do not");
  app.add_option("problem", options.problems, "Problems, each one line of the problem language in quotes")->required();
  app.add_option("--device", options.device,
                 "Explain for this device, whatever is at hand: " + names_of_devices() + ". Default: the one at hand");
  app.add_flag("--measure", options.measure,
               "Time the choices on the device at hand; of operations other than conv and matmul, the one taken");
  app.add_option("--most", options.most, "So many choices at the most")->capture_default_str();
  app.add_option("--min-time", options.min_time, "Seconds for the repeats of --measure")->capture_default_str();
  app.add_option("--lib", options.library, "The library that --measure loads")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadUsage;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpudnn-explain: %s\n", error.what());
    return 1;
  }
}
