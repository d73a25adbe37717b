// Graphs as text, timed through the descriptors of the graph interface.
//
// For each graph: "plan", the host's time from the first descriptor to the finalized plan of the heuristic's first
// choice that the library accepts; "calls", the host's time of the five calls that an execution consists of (a variant
// pack: its creation, three attributes, finalizing; and the execution) and of destroying the pack; and the time on the
// device. Plans are made twice: all of them one after the other before anything else, and each before its own runs,
// where data of the graph before it lie in the host's caches.
// SPDX-License-Identifier: Apache-2.0
#include "graphs.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "core/data_type.hpp"
#include "data.hpp"
#include "graph/kinds.hpp"
#include "graph_client.hpp"

namespace gpudnn::bench {
namespace {

constexpr int kConfigs = 8;  // of the other library's heuristic that are tried in turn

// Tensors of a graph that have memory, by place in Graph::tensors.
class Operands {
 public:
  Operands(Machine& machine, const graph::Graph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const graph::Tensor& tensor = graph.tensors[i];
      if (tensor.is_virtual) continue;
      uids_.push_back(tensor.uid);
      if (tensor.by_value) {
        pointers_.push_back(host_scalar(tensor, is_read_as(graph::Port::epsilon, i) ? 1e-5 : 0.5));
        continue;
      }
      const std::size_t bytes = size_in_bytes(tensor.geometry);
      buffers_.emplace_back(machine, bytes);
      pointers_.push_back(buffers_.back().get());
      if (is_written(i)) {
        outputs_.push_back({i, buffers_.size() - 1});
        machine.fill_bytes(pointers_.back(), 0xff, bytes);
      } else if (is_floating(tensor.geometry.type)) {
        const bool positive = is_read_as(graph::Port::inverse, i) || is_read_as(graph::Port::running_var_in, i);
        fill(machine, tensor.geometry, pointers_.back(), positive ? Fill::positive : Fill::normal,
             static_cast<unsigned>(i + 1));
      } else {
        machine.fill_bytes(pointers_.back(), tensor.geometry.type == GPUDNN_DATA_BOOLEAN ? 1 : 0, bytes);
      }
    }
  }
  [[nodiscard]] const std::vector<std::int64_t>& uids() const noexcept { return uids_; }
  [[nodiscard]] const std::vector<void*>& pointers() const noexcept { return pointers_; }

  // The greatest relative error of an output next to another library's.
  [[nodiscard]] double error_of(Machine& machine, const Operands& reference) const {
    double worst = 0;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const TensorGeometry& geometry = graph_.tensors[outputs_[i].tensor].geometry;
      if (!is_comparable(geometry.type)) continue;
      const auto values = [&](const Operands& of) {
        const Buffer& buffer = of.buffers_[of.outputs_[i].buffer];
        std::vector<std::byte> bytes(buffer.bytes());
        machine.download(bytes.data(), buffer.get(), bytes.size());
        return bytes;
      };
      const double error = relative_error(geometry, values(*this), values(reference));
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
    return worst;
  }
  // Bytes of all tensors, each once.
  [[nodiscard]] double bytes() const {
    double sum = 0;
    for (const Buffer& buffer : buffers_) sum += static_cast<double>(buffer.bytes());
    return sum;
  }

 private:
  struct Output {
    std::size_t tensor, buffer;
  };
  [[nodiscard]] bool is_written(std::size_t tensor) const {
    for (const graph::Node& node : graph_.nodes) {
      for (const graph::Link& link : node.links) {
        if (link.tensor == static_cast<std::int32_t>(tensor) && is_output(node, link.port)) return true;
      }
    }
    return false;
  }
  [[nodiscard]] bool is_read_as(graph::Port port, std::size_t tensor) const {
    for (const graph::Node& node : graph_.nodes) {
      if (node.at(port) == static_cast<int>(tensor)) return true;
    }
    return false;
  }
  void* host_scalar(const graph::Tensor& tensor, double value) {
    scalars_.push_back(std::make_unique<double>(0));
    const auto narrow = static_cast<float>(value);
    if (tensor.geometry.type == GPUDNN_DATA_DOUBLE) {
      std::memcpy(scalars_.back().get(), &value, sizeof value);
    } else if (tensor.geometry.type == GPUDNN_DATA_FLOAT) {
      std::memcpy(scalars_.back().get(), &narrow, sizeof narrow);
    }
    return scalars_.back().get();
  }

  const graph::Graph& graph_;
  std::vector<std::int64_t> uids_;
  std::vector<void*> pointers_;
  std::vector<Buffer> buffers_;
  std::vector<Output> outputs_;
  std::vector<std::unique_ptr<double>> scalars_;
};

// A plan with memory and workspace of its own, to be executed any number of times.
class ReadyGraph {
 public:
  ReadyGraph(Machine& machine, const Library& library, const graph::Graph& graph) : library_(library) {
    const auto begin = std::chrono::steady_clock::now();
    descriptors_ = std::make_unique<GraphDescriptors>(library, graph);
    std::string refusals;
    for (const BackendObject& config : descriptors_->configs(kConfigs)) {
      try {
        plan_ = std::make_unique<BackendObject>(descriptors_->plan(config));
        break;
      } catch (const std::runtime_error& error) {
        if (refusals.empty()) refusals = error.what();
      }
    }
    plan_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (plan_ == nullptr) throw std::runtime_error(refusals.empty() ? "no engine takes it" : refusals);
    operands_ = std::make_unique<Operands>(machine, graph);
    workspace_ = Buffer(machine, static_cast<std::size_t>(plan_->integer(GPUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)));
    pack_ = std::make_unique<BackendObject>(make_pack());
  }

  [[nodiscard]] const Operands& operands() const noexcept { return *operands_; }
  [[nodiscard]] double plan_seconds() const noexcept { return plan_seconds_; }
  [[nodiscard]] gpudnnStatus_t execute() const {
    return library_.api.BackendExecute(library_.handle, plan_->get(), pack_->get());
  }
  // As a program that has a pack for each execution.
  [[nodiscard]] gpudnnStatus_t execute_with_new_pack() const {
    const BackendObject pack = make_pack();
    return library_.api.BackendExecute(library_.handle, plan_->get(), pack.get());
  }

 private:
  [[nodiscard]] BackendObject make_pack() const {
    BackendObject pack(library_, graph::kPack);
    const auto count = static_cast<std::int64_t>(operands_->uids().size());
    void* const workspace = workspace_.get();
    pack.set(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64, count, operands_->uids().data());
    pack.set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, count, operands_->pointers().data());
    pack.set(GPUDNN_ATTR_VARIANT_PACK_WORKSPACE, GPUDNN_TYPE_VOID_PTR, 1, &workspace);
    pack.finalize();
    return pack;
  }

  const Library& library_;
  std::unique_ptr<Operands> operands_;
  std::unique_ptr<GraphDescriptors> descriptors_;
  std::unique_ptr<BackendObject> plan_;
  Buffer workspace_;
  std::unique_ptr<BackendObject> pack_;
  double plan_seconds_ = 0;
};

struct GraphSide {
  std::string failure;
  double seconds = kUnknown, plan_seconds = kUnknown, call_seconds = kUnknown;
};

// Operations of products, and the rate that they can have.
double floor_seconds_of(const graph::Graph& graph, double bytes, const Ceilings& ceilings) {
  double flops = 0;
  DataType type = GPUDNN_DATA_FLOAT;
  for (const graph::Node& node : graph.nodes) {
    const auto count = [&](graph::Port port) {
      const graph::Tensor* const tensor = graph.tensor(node, port);
      return tensor == nullptr ? 0.0 : static_cast<double>(element_count(tensor->geometry));
    };
    const auto extent = [&](graph::Port port, int from_end) {
      const TensorGeometry& geometry = graph.tensor(node, port)->geometry;
      return static_cast<double>(geometry.dims[geometry.rank - 1 - from_end]);
    };
    const auto of_filter = [&](graph::Port filter, graph::Port image) {
      return 2 * count(image) * count(filter) / static_cast<double>(graph.tensor(node, filter)->geometry.dims[0]);
    };
    if (node.op == graph::Op::sdpa_fwd || node.op == graph::Op::sdpa_bwd) {  // two products forward, five backward
      const double each = 2 * count(graph::Port::q) * extent(graph::Port::k, 1);
      flops += (node.op == graph::Op::sdpa_fwd ? 2 : 5) * each;
      type = graph.tensor(node, graph::Port::q)->geometry.type;
    } else if (node.op == graph::Op::matmul) {
      flops += 2 * count(graph::Port::y) * extent(graph::Port::x, 0);
      type = graph.tensor(node, graph::Port::x)->geometry.type;
    } else if (node.op == graph::Op::conv_fwd) {
      flops += of_filter(graph::Port::w, graph::Port::y);
      type = graph.tensor(node, graph::Port::x)->geometry.type;
    } else if (node.op == graph::Op::conv_dgrad) {
      flops += of_filter(graph::Port::w, graph::Port::dy);
      type = graph.tensor(node, graph::Port::dy)->geometry.type;
    } else if (node.op == graph::Op::conv_wgrad) {
      flops += of_filter(graph::Port::dw, graph::Port::dy);
      type = graph.tensor(node, graph::Port::dy)->geometry.type;
    }
  }
  const double rate = type == GPUDNN_DATA_HALF       ? ceilings.tflops_f16
                      : type == GPUDNN_DATA_BFLOAT16 ? ceilings.tflops_bf16
                      : is_float8(type)              ? ceilings.tflops_f8
                                                     : ceilings.tflops_tf32;
  return std::max(flops / (rate * 1e12), bytes / (ceilings.copy_gbps * 1e9));
}

struct Mean {
  double logarithms = 0;
  double greatest = 0;
  int count = 0;
  void add(double value) {
    if (!(value > 0)) return;
    logarithms += std::log(value);
    greatest = std::max(greatest, value);
    ++count;
  }
  [[nodiscard]] double value() const { return count == 0 ? kUnknown : std::exp(logarithms / count); }
};

std::unique_ptr<ReadyGraph> make_ready(Machine& machine, const Library* library, const graph::Graph& graph,
                                       GraphSide* side) {
  if (library == nullptr) return nullptr;
  try {
    auto ready = std::make_unique<ReadyGraph>(machine, *library, graph);
    side->plan_seconds = ready->plan_seconds();
    if (const gpudnnStatus_t status = ready->execute(); status != GPUDNN_STATUS_SUCCESS) {
      side->failure = failure_text(*library, status);
      return nullptr;
    }
    machine.synchronize();
    return ready;
  } catch (const std::runtime_error& error) {
    side->failure = error.what();
    return nullptr;
  }
}

// Plans of all graphs, one after the other, with no other work in between: a new shape each, by code that is at hand.
// The first one warms what the library makes once.
Mean plans_in_turn(const Library& library, const std::vector<NamedGraph>& graphs) {
  Mean plans;
  std::string why;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const std::optional<graph::Graph> graph = graph::from_text(graphs[i].text, &why);
    if (!graph) continue;
    try {
      const auto begin = std::chrono::steady_clock::now();
      const GraphDescriptors descriptors(library, *graph);
      const std::vector<BackendObject> configs = descriptors.configs(kConfigs);
      if (configs.empty()) continue;
      const BackendObject plan = descriptors.plan(configs.front());
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      if (i > 0) plans.add(seconds.count());
    } catch (const std::runtime_error&) {  // what fails is told of below
    }
  }
  return plans;
}

}  // namespace

bool read_graphs(const std::string& file, const std::string& filter, std::vector<NamedGraph>* graphs) {
  std::ifstream stream(file);
  if (!stream) return std::fprintf(stderr, "gpudnn-bench: cannot read %s\n", file.c_str()), false;
  bool wanted = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("== ")) {
      wanted = line.find(filter) != std::string::npos;
      if (wanted) graphs->push_back({line.substr(3), ""});
    } else if (wanted) {
      graphs->back().text += line + '\n';
    }
  }
  if (!graphs->empty()) return true;
  return std::fprintf(stderr, "gpudnn-bench: no graph in %s (or none passes the filter)\n", file.c_str()), false;
}

bool measure_graphs(Machine& machine, const Library& ours, const Library* theirs, const std::vector<NamedGraph>& graphs,
                    const MeasureOptions& options, const Ceilings& ceilings, const std::string& csv) {
  std::FILE* const table = csv.empty() ? nullptr : std::fopen(csv.c_str(), "w");
  if (table != nullptr) {
    std::fputs("name,ms,floor,plan_us,calls_us,their_ms,their_plan_us,their_calls_us,ratio,difference\n", table);
  }
  std::printf("%-44s %10s %8s %9s %9s %10s %11s %9s %7s %10s\n", "graph", "ms", "% floor", "plan us", "calls us",
              theirs != nullptr ? "their ms" : "", theirs != nullptr ? "plan us" : "",
              theirs != nullptr ? "calls us" : "", theirs != nullptr ? "ratio" : "",
              theirs != nullptr ? "difference" : "");
  const Mean in_turn = plans_in_turn(ours, graphs);
  Mean floors, ratios, plans, calls;
  double beyond = 0;  // an empty launch, which is measured beside each graph's calls, as hosts are not steady
  double most_beyond = 0;
  int failures = 0;
  int only_ours = 0;
  for (const NamedGraph& named : graphs) {
    std::string why;
    const std::optional<graph::Graph> graph = graph::from_text(named.text, &why);
    if (!graph) {
      std::printf("%-44s FAILED: %s\n", named.name.c_str(), why.c_str());
      ++failures;
      continue;
    }
    GraphSide sides[2];
    const Library* const libraries[2] = {&ours, theirs};
    std::unique_ptr<ReadyGraph> ready[2];
    std::vector<Call> to_time;
    for (int i = 0; i < 2; ++i) {
      ready[i] = make_ready(machine, libraries[i], *graph, &sides[i]);
      if (ready[i] != nullptr) to_time.push_back([one = ready[i].get()] { return one->execute(); });
    }
    const double difference = ready[0] != nullptr && ready[1] != nullptr
                                  ? ready[0]->operands().error_of(machine, ready[1]->operands())
                                  : kUnknown;
    const std::vector<Timing> timings = machine.time_interleaved(to_time, options.repeats);
    for (int i = 0, next = 0; i < 2; ++i) {
      if (ready[i] == nullptr) continue;
      const Timing& timing = timings[static_cast<std::size_t>(next++)];
      if (timing.repeats == 0) {
        sides[i].failure = failure_text(*libraries[i], timing.status);
      } else {
        sides[i].seconds = timing.seconds;
        sides[i].call_seconds = host_seconds_per_call(
            machine, [one = ready[i].get()] { return one->execute_with_new_pack(); }, options.host_calls);
      }
    }
    if (!machine.is_host() && sides[0].failure.empty()) {
      const double more = sides[0].call_seconds - machine.empty_launch_seconds();
      beyond += more;
      most_beyond = std::max(most_beyond, more);
    }
    failures += sides[0].failure.empty() ? 0 : 1;
    only_ours += sides[0].failure.empty() && !sides[1].failure.empty() ? 1 : 0;
    const double floor =
        ready[0] == nullptr || machine.is_host()
            ? kUnknown
            : 100 * floor_seconds_of(*graph, ready[0]->operands().bytes(), ceilings) / sides[0].seconds;
    const double ratio = sides[0].seconds / sides[1].seconds;
    floors.add(floor);
    ratios.add(ratio);
    plans.add(sides[0].plan_seconds);
    calls.add(sides[0].call_seconds);
    std::printf("%-44s %10.4f %8.1f %9.1f %9.2f", named.name.c_str(), 1e3 * sides[0].seconds, floor,
                1e6 * sides[0].plan_seconds, 1e6 * sides[0].call_seconds);
    if (theirs != nullptr) {
      std::printf(" %10.4f %11.1f %9.2f %7.3f %10.2e", 1e3 * sides[1].seconds, 1e6 * sides[1].plan_seconds,
                  1e6 * sides[1].call_seconds, ratio, difference);
    }
    for (int i = 0; i < 2; ++i) {
      if (!sides[i].failure.empty()) std::printf("  %s: %s", i == 0 ? "ours" : "theirs", sides[i].failure.c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
    if (table != nullptr) {
      std::fprintf(table, "%s,%.6g,%.4g,%.4g,%.4g,%.6g,%.4g,%.4g,%.4g,%.3g\n", named.name.c_str(),
                   1e3 * sides[0].seconds, floor, 1e6 * sides[0].plan_seconds, 1e6 * sides[0].call_seconds,
                   1e3 * sides[1].seconds, 1e6 * sides[1].plan_seconds, 1e6 * sides[1].call_seconds, ratio, difference);
    }
  }
  std::printf("\n%zu graphs, %d failed; geometric means: %.1f %% of the floor, plan %.1f us, calls %.2f us\n",
              graphs.size(), failures, floors.value(), 1e6 * plans.value(), 1e6 * calls.value());
  if (!machine.is_host() && calls.count > 0) {
    std::printf("calls beyond an empty launch: mean %.2f us, greatest %.2f\n", 1e6 * beyond / calls.count,
                1e6 * most_beyond);
  }
  if (in_turn.count > 0) {
    std::printf("plans one after the other: geometric mean %.1f us of %d, greatest %.1f\n", 1e6 * in_turn.value(),
                in_turn.count, 1e6 * in_turn.greatest);
  }
  if (theirs != nullptr) {
    std::printf("ratio: geometric mean %.3f of %d, greatest %.3f; %d run on ours alone\n", ratios.value(), ratios.count,
                ratios.greatest, only_ours);
  }
  if (table != nullptr) std::fclose(table);
  return failures == 0;
}

}  // namespace gpudnn::bench
