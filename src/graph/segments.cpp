// The engine for graphs that no single operation covers: runs of operations, each as long as some engine takes, one
// after the other. What passes between them lies in the workspace, where memory is given back after the last reader. An
// operation that no engine takes is replaced by pointwise operations and reductions where it has such a form. Products
// of float tensors are computed in TF32 by the row with tensor cores alone.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/decompose.hpp"
#include "graph/engines.hpp"

namespace gpudnn::graph {
namespace {

constexpr std::size_t kAlignment = 256;  // of what lies in the workspace, from a start at a multiple of 16

struct Segment {
  GraphRef graph;
  std::vector<int> places;  // of the segment's tensors in the whole graph
  Choice choice;
};

struct Split {
  Graph graph;  // the whole, some operations replaced; its first tensors are the whole's
  std::vector<Segment> segments;
  std::string why;  // why a segment is missing
};

// Operations [first, last) as a graph of their own. A virtual tensor has memory there if others read or write it, or if
// nobody reads it: its operation has further results, which are wanted.
Segment cut(const Graph& graph, std::size_t first, std::size_t last) {
  Segment segment;
  auto part = std::make_shared<Graph>();
  std::vector<std::int32_t> place(graph.tensors.size(), -1);
  const auto add = [&](int tensor) {
    std::int32_t& at = place[static_cast<std::size_t>(tensor)];
    if (at >= 0) return at;
    at = static_cast<std::int32_t>(part->tensors.size());
    part->tensors.push_back(graph.tensors[static_cast<std::size_t>(tensor)]);
    segment.places.push_back(tensor);
    return at;
  };
  for (std::size_t n = first; n < last; ++n) {
    part->nodes.push_back(graph.nodes[n]);
    for (Link& link : part->nodes.back().links) link.tensor = add(link.tensor);
  }
  for (std::size_t t = 0; t < segment.places.size(); ++t)
    if (const int offsets = graph.find(part->tensors[t].ragged); offsets >= 0) add(offsets);
  std::vector<bool> is_read(graph.tensors.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const bool is_inside = n >= first && n < last;
    for (const Link& link : graph.nodes[n].links) {
      const std::int32_t at = place[static_cast<std::size_t>(link.tensor)];
      if (at >= 0 && !is_inside) part->tensors[static_cast<std::size_t>(at)].is_virtual = false;
      if (!is_output(graph.nodes[n], link.port)) is_read[static_cast<std::size_t>(link.tensor)] = true;
    }
  }
  for (std::size_t t = 0; t < segment.places.size(); ++t)
    if (!is_read[static_cast<std::size_t>(segment.places[t])]) part->tensors[t].is_virtual = false;
  segment.graph = std::move(part);
  return segment;
}

// Whether the graph has a product of float tensors, which tensor cores compute in TF32.
bool has_float_product(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const bool is_product =
        node.op == Op::matmul || node.op == Op::conv_fwd || node.op == Op::conv_dgrad || node.op == Op::conv_wgrad;
    if (!is_product) continue;
    for (const Link& link : node.links) {
      const Tensor& t = graph.tensors[static_cast<std::size_t>(link.tensor)];
      if (!is_output(node, link.port) && t.geometry.type == GPUDNN_DATA_FLOAT) return true;
    }
  }
  return false;
}

bool choose(const Device& device, bool tensor_cores, Segment* segment, std::string* why) {
  const bool keeps_float = !tensor_cores && has_float_product(*segment->graph);
  std::vector<Choice> choices;
  std::string reasons;
  if (rank_convolution(*segment->graph, device, &choices, &reasons)) {
    for (const Choice& choice : choices) {
      if (keeps_float && choice.engine->tensor_cores) continue;
      segment->choice = choice;
      return true;
    }
  }
  for (const Engine& engine : engines()) {
    if (!runs_on(engine, device) || engine.last_resort || engine.inner != nullptr) continue;
    if (keeps_float && engine.tensor_cores) continue;
    std::string reason;
    const std::vector<Config> configs = engine.configs(engine, *segment->graph, device, &reason);
    if (!configs.empty()) {
      segment->choice = {&engine, configs.front()};
      return true;
    }
    if (!reason.empty()) reasons += (reasons.empty() ? "" : "; ") + std::string(engine.name) + ": " + reason;
  }
  *why = reasons;
  return false;
}

// The strides of a virtual tensor are advice. Where its elements would lie on each other, as when a client's are those
// of an input that overlaps itself, it is packed.
void separate_elements(Graph* graph) {
  for (Tensor& t : graph->tensors)
    if (t.is_virtual && overlaps_itself(t.geometry)) set_packed_strides(&t.geometry, GPUDNN_TENSOR_NCHW);
  for (const Node& node : graph->nodes) {
    if (node.op != Op::reshape) continue;
    Tensor& x = graph->tensors[static_cast<std::size_t>(node.at(Port::x))];
    x.geometry = reshaped(x, graph->tensors[static_cast<std::size_t>(node.at(Port::y))]);
  }
}

Split split(const Graph& whole, const Device& device, bool tensor_cores) {
  constexpr std::size_t kLongest = 16;
  Split result;
  Graph& graph = result.graph = whole;
  separate_elements(&graph);
  for (std::size_t first = 0; first < graph.nodes.size();) {
    std::string why;
    bool found = false;
    for (std::size_t last = std::min(graph.nodes.size(), first + kLongest); last > first && !found; --last) {
      Segment segment = cut(graph, first, last);
      found = choose(device, tensor_cores, &segment, &why);
      if (!found) continue;
      result.segments.push_back(std::move(segment));
      first = last;
      break;
    }
    if (!found) {
      if (std::optional<Graph> other = decomposed(graph, first); other.has_value()) {
        graph = std::move(*other);
        continue;
      }
      result.segments.clear();
      result.why = "no engine takes '" + to_text(graph.nodes[first], graph) + "' by itself: " + why;
      return result;
    }
  }
  return result;
}

// Where each tensor between segments lies in the workspace, and how much of it there is.
struct Layout {
  std::vector<std::size_t> offset;  // of the graph's tensors; SIZE_MAX for those that are not there
  std::size_t bytes = 0;            // of the tensors
  std::size_t scratch = 0;          // of the segments, behind them
};

struct Life {
  std::size_t first = SIZE_MAX;
  std::size_t last = 0;
  std::size_t bytes = 0;
};

Layout plan_workspace(const Graph& graph, const std::vector<Segment>& segments) {
  std::vector<Life> lives(graph.tensors.size());
  Layout layout;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    layout.scratch = std::max(layout.scratch, segments[s].choice.config.workspace);
    for (std::size_t t = 0; t < segments[s].places.size(); ++t) {
      const auto place = static_cast<std::size_t>(segments[s].places[t]);
      if (!graph.tensors[place].is_virtual || segments[s].graph->tensors[t].is_virtual) continue;
      Life& life = lives[place];
      life.first = std::min(life.first, s);
      life.last = s;
      life.bytes = (size_in_bytes(graph.tensors[place].geometry) + kAlignment - 1) / kAlignment * kAlignment;
    }
  }
  // Each at the lowest place that is free for the whole of its life.
  layout.offset.assign(graph.tensors.size(), SIZE_MAX);
  for (std::size_t t = 0; t < lives.size(); ++t) {
    if (lives[t].first == SIZE_MAX) continue;
    std::size_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t o = 0; o < lives.size(); ++o) {
        if (layout.offset[o] == SIZE_MAX || lives[o].last < lives[t].first || lives[o].first > lives[t].last) continue;
        if (at < layout.offset[o] + lives[o].bytes && layout.offset[o] < at + lives[t].bytes) {
          at = layout.offset[o] + lives[o].bytes;
          moved = true;
        }
      }
    }
    layout.offset[t] = at;
    layout.bytes = std::max(layout.bytes, at + lives[t].bytes);
  }
  return layout;
}

// Room to move up to a multiple of kAlignment is part of it.
std::size_t whole_workspace(const Layout& layout) {
  return layout.bytes + layout.scratch == 0 ? 0 : layout.bytes + layout.scratch + kAlignment;
}

class SegmentsWork final : public Work {
 public:
  struct Step {
    std::vector<int> places;
    WorkRef work;
  };
  SegmentsWork(std::vector<Step> steps, Layout layout, std::size_t tensors)
      : steps_(std::move(steps)), layout_(std::move(layout)), tensors_(tensors) {}

  [[nodiscard]] std::size_t workspace() const noexcept override { return whole_workspace(layout_); }

  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    const std::uintptr_t start =
        (reinterpret_cast<std::uintptr_t>(workspace) + kAlignment - 1) / kAlignment * kAlignment;
    std::vector<void*> pointers;
    for (const Step& step : steps_) {
      pointers.clear();
      for (const int place : step.places) {
        const std::size_t offset = layout_.offset[static_cast<std::size_t>(place)];
        void* const given = static_cast<std::size_t>(place) < tensors_ ? data[place] : nullptr;
        pointers.push_back(offset == SIZE_MAX ? given : reinterpret_cast<void*>(start + offset));
      }
      GPUDNN_TRY(step.work->run(handle, pointers.data(), reinterpret_cast<void*>(start + layout_.bytes)));
    }
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  std::vector<Step> steps_;
  Layout layout_;
  std::size_t tensors_;  // of the graph that the program gave
};

}  // namespace

std::vector<Config> segment_configs(const Engine& engine, const Graph& graph, const Device& device, std::string* why) {
  if (engine.tensor_cores && (device.backend == GPUDNN_BACKEND_HOST || !has_float_product(graph))) {
    *why = "there is no product of float tensors that TF32 could take";
    return {};
  }
  const Split parts = split(graph, device, engine.tensor_cores);
  if (parts.segments.empty()) {
    *why = graph.nodes.empty() ? "the graph has no operation" : parts.why;
    return {};
  }
  Config config;
  config.workspace = whole_workspace(plan_workspace(parts.graph, parts.segments));
  return {config};
}

Status segment_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs&, WorkRef* work) {
  const Split parts = split(*graph, device, engine.tensor_cores);
  GPUDNN_REQUIRE(!parts.segments.empty(), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s", engine.name,
                 parts.why.c_str());
  std::vector<SegmentsWork::Step> steps;
  for (const Segment& segment : parts.segments) {
    SegmentsWork::Step step{segment.places, nullptr};
    const Choice& choice = segment.choice;
    GPUDNN_TRY(choice.engine->prepare(*choice.engine, segment.graph, device, choice.config.knobs, &step.work));
    steps.push_back(std::move(step));
  }
  *work = std::make_shared<SegmentsWork>(std::move(steps), plan_workspace(parts.graph, parts.segments),
                                         graph->tensors.size());
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
