// The lines of a log (GPUDNN_LOGLEVEL=3), and running their calls again.
//
// Each problem gets memory of its own, once; a call then runs on it as often as the log has it. Graphs run by the
// engines that are linked in, as matrix products do: on tensors of small random numbers, and zeros where integers are
// read, which no graph can take for positions that it does not have.
// SPDX-License-Identifier: Apache-2.0
#include "replay.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/data_type.hpp"
#include "core/handle.hpp"
#include "graph/plan.hpp"
#include "measure.hpp"

namespace gpudnn::bench {
namespace {

constexpr int kMaxBadLines = 5;
constexpr int kMaxTold = 5;

// The number behind `name=`, where the text has it.
std::optional<double> number_after(const std::string& text, const std::string& name) {
  const auto at = text.find(' ' + name + '=');
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(text.c_str() + at + name.size() + 2, nullptr);
}

// A graph's plan on memory of its own.
class GraphCall : public ReadyCall {
 public:
  static std::unique_ptr<ReadyCall> make(Machine& machine, gpudnnHandle_t handle, const std::string& text,
                                         std::string* why) {
    const std::optional<graph::Graph> parsed = graph::from_text(text, why);
    if (!parsed) return nullptr;
    const auto made = std::make_shared<const graph::Graph>(*parsed);
    const std::vector<graph::Choice> choices = graph::rank(*made, *handle->device, GPUDNN_HEUR_MODE_A, why);
    if (choices.empty()) return nullptr;
    auto call = std::unique_ptr<GraphCall>(new GraphCall);
    const graph::DeviceRef device(std::shared_ptr<const Device>(), handle->device);  // which lives for ever
    if (graph::make_plan(made, *choices[0].engine, device, choices[0].config.knobs, &call->plan_) !=
        GPUDNN_STATUS_SUCCESS) {
      return *why = last_error_text(), nullptr;
    }
    call->take_memory(machine, *made);
    call->call_ = [handle, raw = call.get()] {
      graph::Pack pack;
      pack.uids = raw->uids_;
      pack.pointers = raw->pointers_;
      pack.workspace = raw->workspace_.get();
      return graph::execute(handle, raw->plan_, pack);
    };
    return call;
  }
  [[nodiscard]] const Call& call() const override { return call_; }

 private:
  void take_memory(Machine& machine, const graph::Graph& graph) {
    std::set<int> written;
    for (const graph::Node& node : graph.nodes) {
      for (const graph::PortRow& port : graph::row_of(node.op).ports) {
        if (port.output && node.at(port.port) >= 0) written.insert(node.at(port.port));
      }
    }
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const graph::Tensor& tensor = graph.tensors[i];
      if (tensor.is_virtual) continue;
      uids_.push_back(tensor.uid);
      const std::size_t bytes = size_in_bytes(tensor.geometry);
      if (tensor.by_value) {  // host memory, whatever the backend
        values_.push_back(std::make_unique<double>(tensor.geometry.type == GPUDNN_DATA_DOUBLE ? 1.0 : 0.0));
        if (tensor.geometry.type == GPUDNN_DATA_FLOAT) *reinterpret_cast<float*>(values_.back().get()) = 1;
        pointers_.push_back(reinterpret_cast<std::int64_t>(values_.back().get()));
        continue;
      }
      memory_.emplace_back(machine, bytes);
      machine.fill_bytes(memory_.back().get(), 0, bytes);
      if (is_floating(tensor.geometry.type) && written.count(static_cast<int>(i)) == 0) {
        fill(machine, tensor.geometry, memory_.back().get(), Fill::positive, static_cast<unsigned>(i + 1));
      }
      pointers_.push_back(reinterpret_cast<std::int64_t>(memory_.back().get()));
    }
    workspace_ = Buffer(machine, plan_->work->workspace());
  }

  graph::PlanRef plan_;
  std::vector<std::int64_t> uids_, pointers_;
  std::vector<std::unique_ptr<double>> values_;
  std::vector<Buffer> memory_;
  Buffer workspace_;
  Call call_;
};

class Replayer {
 public:
  Replayer(Machine& machine, const Library& library, const Library& linked, std::size_t workspace_limit)
      : machine_(machine), library_(library), linked_(linked), workspace_limit_(workspace_limit) {}

  // Runs it and prints its line. False if it ran and failed.
  bool run(const LoggedCall& logged) {
    ReadyCall* const ready = ready_call(logged);
    if (ready == nullptr) return ++passed_over_, true;
    const Call calls[] = {ready->call()};
    const Timing timing = machine_.time_interleaved(calls, {.min_seconds = 0, .least = 1, .most = 1})[0];
    if (timing.repeats == 0) {
      std::printf("%6d  %-36s %12.1f %12s  %s\n", ++number_, logged.function.c_str(), 1e6 * logged.seconds, "failed",
                  logged.problem.c_str());
      return false;
    }
    logged_seconds_ += logged.seconds;
    seconds_ += timing.seconds;
    std::printf("%6d  %-36s %12.1f %12.1f  %s\n", ++number_, logged.function.c_str(), 1e6 * logged.seconds,
                1e6 * timing.seconds, logged.problem.c_str());
    return true;
  }

  void summarize() const {
    std::printf("%d calls of %zu problems run again: %.1f us in the log, %.1f us now; %d calls passed over\n", number_,
                calls_.size() - static_cast<std::size_t>(without_call_), 1e6 * logged_seconds_, 1e6 * seconds_,
                passed_over_);
  }

 private:
  ReadyCall* ready_call(const LoggedCall& logged) {
    const std::string key = logged.problem + '|' + std::to_string(logged.scalars.alpha.value_or(1)) + '|' +
                            std::to_string(logged.scalars.beta.value_or(0));
    const auto [place, is_new] = calls_.try_emplace(key);
    if (!is_new) return place->second.get();
    std::string why;
    try {
      place->second = make(logged, &why);
    } catch (const std::runtime_error& error) {  // out of memory: that of the problems before goes
      std::fprintf(stderr, "gpudnn-bench: memory of earlier problems is given back: %s\n", error.what());
      for (auto& [other, call] : calls_) call.reset();
      calls_.clear();
      without_call_ = 0;
      return (calls_[key] = make(logged, &why)).get();
    }
    if (place->second == nullptr && ++without_call_ <= kMaxTold) {
      std::fprintf(stderr, "gpudnn-bench: passed over: %s\n  in: %s\n", why.c_str(), logged.problem.c_str());
    }
    return place->second.get();
  }

  std::unique_ptr<ReadyCall> make(const LoggedCall& logged, std::string* why) {
    if (logged.problem.find("; ") != std::string::npos || logged.function.starts_with("gpudnnBackend")) {
      if (logged.problem.starts_with("tensor ")) return GraphCall::make(machine_, linked_.handle, logged.problem, why);
    }
    const std::optional<Task> task = parse_task(logged.problem, logged.scalars, why);
    if (!task) return nullptr;
    return ReadyCall::make(machine_, is_linked(*task) ? linked_ : library_, *task, workspace_limit_, why);
  }

  Machine& machine_;
  const Library& library_;
  const Library& linked_;
  std::size_t workspace_limit_;
  std::map<std::string, std::unique_ptr<ReadyCall>> calls_;  // null: it cannot be run here
  int without_call_ = 0;
  int number_ = 0;
  int passed_over_ = 0;
  double logged_seconds_ = 0;
  double seconds_ = 0;
};

}  // namespace

bool is_log_line(const std::string& line) {
  return line.starts_with("gpudnn ") && line.find(" pid=") != std::string::npos;
}

// "gpudnn I 0.1 pid=1 tid=1 FUNCTION | PROBLEM | ARGUMENTS | engine=NAME -> SUCCESS in 1.0 us"
std::optional<LoggedCall> logged_call(const std::string& line) {
  const auto first = line.find(" | ");
  const auto engine = line.rfind(" | engine=");
  if (!is_log_line(line) || first == std::string::npos || engine == std::string::npos || engine == first)
    return std::nullopt;
  LoggedCall call;
  const auto function = line.rfind(' ', first - 1) + 1;
  call.function = line.substr(function, first - function);
  auto end = line.find(" | ", first + 3);
  // A fused plan's problem has bars of its own: what is not in the problem begins with alpha.
  if (const auto arguments = line.find(" | alpha"); arguments != std::string::npos) {
    end = arguments;
    const std::string text = line.substr(arguments, engine - arguments);
    call.scalars.alpha = number_after(text, "alpha");
    call.scalars.beta = number_after(text, "beta");
  } else if (line.compare(first + 3, 6, "fused ") == 0) {
    end = engine;
  }
  call.problem = line.substr(first + 3, end - first - 3);
  const auto name = engine + 10;
  call.engine = line.substr(name, line.find(' ', name) - name);
  if (const auto in = line.rfind(" in "); in != std::string::npos) {
    call.seconds = 1e-6 * std::strtod(line.c_str() + in + 4, nullptr);
  }
  return call;
}

int replay(Machine& machine, const std::string& library, const std::string& file, std::size_t workspace_limit) {
  std::ifstream stream(file);
  std::string why;
  if (!stream) return std::fprintf(stderr, "gpudnn-bench: cannot read %s\n", file.c_str()), 2;
  const auto ours = open_library(library, &why);
  const auto linked = ours != nullptr ? linked_library("gpudnn", &why) : nullptr;
  if (linked == nullptr) return std::fprintf(stderr, "gpudnn-bench: %s\n", why.c_str()), 2;
  for (const Library* one : {ours.get(), linked.get()}) {
    const gpudnnStatus_t status = one->api.SetStream(one->handle, machine.stream());
    if (status != GPUDNN_STATUS_SUCCESS) {
      return std::fprintf(stderr, "gpudnn-bench: %s\n", failure_text(*one, status).c_str()), 2;
    }
  }
  Replayer replayer(machine, *ours, *linked, workspace_limit);
  std::printf("# device: %s\n%6s  %-36s %12s %12s  %s\n", machine.description().c_str(), "", "call", "logged us",
              "now us", "problem");
  int bad = 0;
  int others = 0;
  int failures = 0;
  std::string line;
  for (int number = 1; std::getline(stream, line) && bad < kMaxBadLines; ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!is_log_line(line)) {
      ++bad;
      std::fprintf(stderr, "%s:%d: no line of a log\n  in: %s\n", file.c_str(), number, line.substr(0, 200).c_str());
    } else if (const std::optional<LoggedCall> call = logged_call(line)) {
      failures += replayer.run(*call) ? 0 : 1;
      std::fflush(stdout);
    } else {
      ++others;
    }
  }
  replayer.summarize();
  std::printf("%d lines of the log are no such calls; %d lines are no lines of a log; %d calls failed\n", others, bad,
              failures);
  if (bad == kMaxBadLines) {
    return std::fprintf(stderr, "%s: the rest is not read\n", file.c_str()), 2;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace gpudnn::bench
