// Composite attention graphs: recorded ones, random variations and random defects of them. What the attention engine
// takes, it must compute as the interpreter does, operation by operation.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "client.hpp"
#include "composite.hpp"
#include "graph/attention_match.hpp"
#include "support/backend.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kInterpreter = 100;
constexpr std::int64_t kAttention = 140;

// Why the attention engine refuses a graph; empty if it takes it.
std::string refusal(const graph::Graph& graph) {
  graph::AttentionMatch match;
  std::string why;
  if (graph::match_attention(graph::without_dead_operations(graph), &match, &why)) return {};
  return why.empty() ? "no reason" : why;
}

// Why these numbers are not run as attention; empty if they are. Then dSink is set, which attention gives the sign of
// the gradient, and the operations have without it.
std::string mismatch(const graph::Graph& graph, Memory memory, std::int64_t* dsink = nullptr) {
  const graph::Graph alive = graph::without_dead_operations(graph);
  graph::AttentionMatch match;
  std::string why;
  if (!graph::match_attention(alive, &match, &why)) return why;
  std::vector<void*> data;
  for (const graph::Tensor& t : alive.tensors) data.push_back(t.is_virtual ? nullptr : memory.pointer(t.uid));
  attention::Problem problem = match.problem;
  if (!graph::bind_values(alive, match, data.data(), &problem, &why)) return why;
  if (dsink != nullptr && match.at.dsink >= 0) *dsink = alive.tensors[static_cast<std::size_t>(match.at.dsink)].uid;
  return "";
}

// What a client keeps in its workspace, and attention does not write: sums of rows, gradients before their last step.
bool is_scratch(const graph::Graph& graph, std::int64_t uid) {
  const int place = graph.find(uid);
  bool written = false;
  bool read_on = false;
  for (const graph::Node& node : graph.nodes)
    for (const graph::Link& link : node.links)
      if (link.tensor == place) (is_output(node, link.port) ? written : read_on) = true;
  return written && read_on;
}

bool is_8_bit(DataType type) { return type == GPUDNN_DATA_FP8_E4M3 || type == GPUDNN_DATA_FP8_E5M2; }

double bound_of(DataType type) {
  // A probability next to the middle of two 8-bit numbers may become either.
  if (is_8_bit(type)) return 0x1p-6;
  return type == GPUDNN_DATA_BFLOAT16 ? 0x1p-6 : type == GPUDNN_DATA_HALF ? 0x1p-9 : 2e-5;
}

// Values that are equal up to the rounding of the probabilities to `type`, by the largest of the tensor in b and in
// `positive`. Empty, or what differs.
std::string difference(const graph::Graph& graph, const Memory& a, const Memory& b, const Memory& positive,
                       DataType type, bool on_device, std::int64_t dsink) {
  for (const graph::Tensor& t : graph.tensors) {
    if (t.is_virtual || is_scratch(graph, t.uid)) continue;
    const std::vector<double> x = a.values(t.uid);
    std::vector<double> y = b.values(t.uid);
    if (t.uid == dsink)
      for (double& value : y) value = -value;
    double largest = type == GPUDNN_DATA_FLOAT ? 0.05 : 0.5;  // what is summed may cancel
    // The GPU's engines round 8-bit probabilities and gradients otherwise.
    const bool rough = is_8_bit(t.geometry.type) || (is_8_bit(type) && on_device);
    const bool e5m2 = t.geometry.type == GPUDNN_DATA_FP8_E5M2 || type == GPUDNN_DATA_FP8_E5M2;
    const double bound = !rough ? bound_of(type) : e5m2 ? 0x1p-2 : 0x1p-3;
    for (const std::vector<double>& values : {y, positive.values(t.uid)})
      for (const double value : values)
        if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    // Rows of a ragged tensor beyond a sequence's length are not written.
    const bool ragged = t.ragged != graph::Tensor::kNone;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!(ragged && y[i] == 0 && std::isnan(x[i])) &&
          !(x[i] == y[i] || std::fabs(x[i] - y[i]) <= bound * largest || (std::isnan(x[i]) && std::isnan(y[i]))))
        return "tensor " + std::to_string(t.uid) + ", element " + std::to_string(i) + ": " + std::to_string(x[i]) +
               " by attention, " + std::to_string(y[i]) + " by operations";
  }
  return {};
}

Status run(const Backend& backend, const graph::Graph& graph, std::int64_t engine, Memory* memory) {
  ClientGraph client;
  build(graph, backend.handle(), &client);
  return execute(backend.handle(), make_plan(client.graph_descriptor, engine), memory);
}

// In a forward graph v loses its signs: by another rounding, sums of p v differ by a share of those of p |v|.
void make_v_positive(const graph::Graph& graph, Memory* memory) {
  const graph::Graph alive = graph::without_dead_operations(graph);
  graph::AttentionMatch match;
  std::string why;
  if (!graph::match_attention(alive, &match, &why) || match.problem.backward != 0) return;
  const std::int64_t v = alive.tensors[static_cast<std::size_t>(match.at.v)].uid;
  std::vector<double> values = memory->values(v);
  for (double& value : values) value = std::fabs(value);
  memory->set(v, values);
}

// Runs both engines from the same memory; max and statistics are written by both, so NaN may only meet NaN where
// neither wrote. The operations run on the host.
std::string run_both(const graph::Graph& graph, const Memory& memory, DataType type,
                     const Backend& backend = Backend::host()) {
  Memory a = memory;
  Memory b = memory;
  if (run(backend, graph, kAttention, &a) != GPUDNN_STATUS_SUCCESS) return "attention: " + last_error();
  if (run(Backend::host(), graph, kInterpreter, &b) != GPUDNN_STATUS_SUCCESS) return "operations: " + last_error();
  if (!a.guards_intact()) return "attention wrote outside of its tensors";
  Memory positive = b;
  if (is_8_bit(type) && backend.is_cuda()) {
    positive = memory;
    make_v_positive(graph, &positive);
    if (run(Backend::host(), graph, kInterpreter, &positive) != GPUDNN_STATUS_SUCCESS) return last_error();
  }
  std::int64_t dsink = graph::Tensor::kNone;
  (void)mismatch(graph, memory, &dsink);
  return difference(graph, a, b, positive, type, backend.is_cuda(), dsink);
}

TEST(CompositeAttention, EveryRecordedGraphIsTakenOrRefusedWithAReason) {
  int taken = 0;
  for (const char* file : {"attention.txt", "attention_windows.txt", "operations.txt", "further_operations.txt"}) {
    for (const GraphCase& one : graph_cases(file)) {
      SCOPED_TRACE(std::string(file) + ": " + one.name);
      const graph::Graph graph = read(one.text);
      const std::string why = refusal(graph);
      const std::string name = file;
      const bool in_8_bits = one.name.find("sdpa_fp8") != std::string::npos;
      if (name == "attention.txt" || name == "attention_windows.txt" || one.name == "sdpa_block_mask" || in_8_bits) {
        EXPECT_EQ(why, "");
        ++taken;
        if (graph.nodes.size() == 1) continue;
        Random random = case_random(session_seed(), one.text.size());
        Memory memory(graph, &random);
        set_recorded_values(graph, &memory, random);
        EXPECT_EQ(mismatch(graph, memory), "");
        const DataType rounding = in_8_bits ? GPUDNN_DATA_FP8_E4M3 : GPUDNN_DATA_BFLOAT16;
        EXPECT_EQ(run_both(graph, memory, rounding), "");
        if (Backend::at_hand().is_cuda()) {
          EXPECT_EQ(run_both(graph, memory, rounding, Backend::at_hand()), "");
        }
      } else {
        EXPECT_FALSE(why.empty());
      }
    }
  }
  EXPECT_EQ(taken, 34);
}

TEST(CompositeAttention, RandomCompositesAgreeWithTheInterpreter) {
  for (int i = 0; i < session_cases(150); ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const Composite composite = random_composite(random, true);
    SCOPED_TRACE(composite.text);
    const graph::Graph graph = read(composite.text);
    ASSERT_EQ(refusal(graph), "");
    Memory memory(graph, &random);
    for (const auto& [uid, values] : composite.values) memory.set(uid, values);
    ASSERT_EQ(mismatch(graph, memory), "");
    ASSERT_EQ(run_both(graph, memory, composite.type), "");
  }
}

TEST(CompositeAttention, RandomCompositesIn8BitsAgreeWithTheInterpreter) {
  for (int i = 0; i < session_cases(150); ++i) {
    Random random = case_random(session_seed() + 4, static_cast<std::uint64_t>(i));
    const Composite composite = random_8_bit_composite(random);
    SCOPED_TRACE(composite.text);
    const graph::Graph graph = read(composite.text);
    ASSERT_EQ(refusal(graph), "");
    Memory memory(graph, &random);
    for (const auto& [uid, values] : composite.values) memory.set(uid, values);
    ASSERT_EQ(mismatch(graph, memory), "");
    ASSERT_EQ(run_both(graph, memory, composite.type), "");
    if (Backend::at_hand().is_cuda() && i < 40) {
      ASSERT_EQ(run_both(graph, memory, composite.type, Backend::at_hand()), "");
    }
  }
}

// One defect: another mode, exchanged or other operands, another axis, a factor, a tensor that is kept.
void spoil(graph::Graph* graph, Random& random) {
  const auto any = [&](std::size_t count) {
    return static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(count) - 1));
  };
  graph::Node& node = graph->nodes[any(graph->nodes.size())];
  graph::Link& link = node.links[any(node.links.size())];
  switch (random.between(0, 6)) {
    case 0:
      if (node.op == graph::Op::pointwise) node.mode = graph->nodes[any(graph->nodes.size())].mode;
      break;
    case 1:
      for (graph::Link& one : node.links)
        if (one.port == graph::Port::x || one.port == graph::Port::b)
          one.port = one.port == graph::Port::x ? graph::Port::b : graph::Port::x;
      break;
    case 2:
      if (node.mode == GPUDNN_POINTWISE_GEN_INDEX) node.axis = random.between(0, 3);
      if (node.op == graph::Op::reduction) node.mode = static_cast<int>(random.between(0, 7));
      break;
    case 3:
      node.alpha = 0.5;
      break;
    case 4:
      graph->tensors[static_cast<std::size_t>(link.tensor)].is_virtual = false;
      break;
    case 5:
      link.tensor = static_cast<std::int32_t>(any(graph->tensors.size()));
      break;
    default: {  // one reader more
      graph::Tensor kept = graph->tensors[static_cast<std::size_t>(link.tensor)];
      if (kept.by_value) break;
      kept.uid = 1000;
      kept.is_virtual = false;
      graph::Node reader;
      reader.mode = GPUDNN_POINTWISE_ABS;
      reader.links = {{graph::Port::x, link.tensor},
                      {graph::Port::y, static_cast<std::int32_t>(graph->tensors.size())}};
      graph->tensors.push_back(kept);
      graph->nodes.push_back(reader);
    }
  }
}

// Whatever has become of a composite: if attention still takes it, it computes what the operations say.
TEST(CompositeAttention, DefectsAreRefusedOrComputedAsTheyStand) {
  int refused = 0;
  int taken = 0;
  for (int i = 0; i < session_cases(1500); ++i) {
    Random random = case_random(session_seed() + 1, static_cast<std::uint64_t>(i));
    const Composite composite = random_composite(random, false);
    graph::Graph spoilt = read(composite.text);
    spoil(&spoilt, random);
    std::string why;
    const auto graph = graph::from_text(to_text(spoilt), &why);
    if (!graph.has_value()) continue;
    why = refusal(*graph);
    if (!why.empty()) {
      EXPECT_GT(why.size(), 10U);
      ++refused;
      continue;
    }
    SCOPED_TRACE(to_text(*graph));
    ++taken;
    Memory memory(*graph, &random);
    for (const auto& [uid, values] : composite.values)
      if (graph->find(uid) >= 0) memory.set(uid, values);
    ASSERT_EQ(run_both(*graph, memory, composite.type), "");
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(taken, 0);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The recorded graphs in 8-bit floats, with small extents, spoilt likewise.
TEST(CompositeAttention, DefectsIn8BitsAreRefusedOrComputedAsTheyStand) {
  int refused = 0;
  int taken = 0;
  for (const char* file : {"operations.txt", "further_operations.txt"}) {
    for (const GraphCase& one : graph_cases(file)) {
      if (one.name.find("sdpa_fp8") == std::string::npos) continue;
      std::string text = replaced(one.text, "2x4x128x", "1x2x12x");
      for (const auto& [from, to] : {std::pair{"2x4x64x128 strides=32768,8192,1,64", "1x2x8x12 strides=192,96,1,8"},
                                     std::pair{"x12x128 strides=65536,16384,1,128", "x12x12 strides=288,144,1,12"},
                                     std::pair{"x12x128", "x12x12"}, std::pair{"x12x64", "x12x8"}})
        text = replaced(text, from, to);
      ASSERT_EQ(refusal(read(text)), "");
      for (int i = 0; i < session_cases(400); ++i) {
        Random random = case_random(session_seed() + 3, static_cast<std::uint64_t>(i));
        graph::Graph spoilt = read(text);
        if (i > 0) spoil(&spoilt, random);
        std::string why;
        const auto graph = graph::from_text(to_text(spoilt), &why);
        if (!graph.has_value()) continue;
        if (!refusal(*graph).empty()) {
          ++refused;
          continue;
        }
        SCOPED_TRACE(to_text(*graph));
        ++taken;
        Memory memory(*graph, &random);
        set_recorded_values(*graph, &memory, random);
        ASSERT_EQ(run_both(*graph, memory, GPUDNN_DATA_FP8_E4M3), "");
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(taken, 0);
}

// Each line changed once is no attention any more, and the refusal says where.
TEST(CompositeAttention, NearMisses) {
  const std::string tensors =
      "tensor 1 f32 2x4x6x8; tensor 2 f32 2x4x8x6; tensor 3 f32 2x4x6x8; tensor 4 f32 2x4x6x8; tensor 5 f32 2x4x6x1\n"
      "tensor 6 f32 1x1x1x1 by_value; tensor 7 f32 1x1x1x1 by_value; tensor 8 f32 1x4x6x6; tensor 9 f32 2x4x6x6\n"
      "tensor 10 f32 2x4x6x6 virtual; tensor 11 f32 2x4x6x6 virtual; tensor 12 f32 2x4x6x6 virtual; tensor 13 i32 "
      "2x4x6x6 virtual\n"
      "tensor 14 i32 2x4x6x6 virtual; tensor 15 bool 2x4x6x6 virtual; tensor 16 f32 2x4x6x6 virtual; tensor 17 f32 "
      "2x4x6x1 virtual\n"
      "tensor 18 f32 2x4x6x6 virtual; tensor 19 f32 2x4x6x6 virtual; tensor 20 f32 2x4x6x1 virtual; tensor 21 f32 "
      "2x4x6x1 virtual\n"
      "tensor 22 f32 2x4x6x6 virtual\n";
  const std::vector<std::string> lines = {"matmul x=1 b=2 y=10 compute=f32",
                                          "pointwise mul x=10 b=6 y=11 compute=f32",
                                          "pointwise add x=11 b=8 y=12 compute=f32",
                                          "pointwise gen_index x=12 y=13 axis=2 compute=i32",
                                          "pointwise gen_index x=12 y=14 axis=3 compute=i32",
                                          "pointwise cmp_ge x=13 b=14 y=15 compute=f32",
                                          "pointwise binary_select x=12 b=7 t=15 y=16 compute=f32",
                                          "reduction max x=16 y=17 compute=f32",
                                          "pointwise sub x=16 b=17 y=18 compute=f32",
                                          "pointwise exp x=18 y=19 compute=f32",
                                          "reduction add x=19 y=20 compute=f32",
                                          "pointwise log x=20 y=21 compute=f32",
                                          "pointwise add x=17 b=21 y=5 compute=f32",
                                          "pointwise div x=19 b=20 y=22 compute=f32",
                                          "matmul x=22 b=3 y=4 compute=f32"};
  const auto with = [&](std::size_t line, const std::string& text) {
    std::string all = tensors;
    for (std::size_t i = 0; i < lines.size(); ++i) all += (i == line ? text : lines[i]) + '\n';
    return refusal(read(all));
  };
  EXPECT_EQ(with(lines.size(), ""), "");
  const struct {
    std::size_t line;
    const char* text;
    const char* reason;
  } misses[] = {
      {1, "pointwise mul x=10 b=6 y=11 compute=f32 alpha1=2", "not made by a matrix product"},
      {1, "pointwise div x=10 b=6 y=11 compute=f32", "no part of attention's scores"},
      {1, "pointwise mul x=10 b=9 y=11 compute=f32", "no part of attention's scores"},
      {2, "pointwise add x=11 b=7 y=12 compute=f32", "neither a bias nor ALiBi"},
      {3, "pointwise gen_index x=12 y=13 axis=1 compute=i32", "counts neither rows nor columns"},
      {3, "pointwise gen_index x=12 y=13 axis=3 compute=i32", "compares neither row and column"},
      {5, "pointwise cmp_eq x=13 b=14 y=15 compute=f32", "no comparison of row and column"},
      {6, "pointwise binary_select x=12 b=8 t=15 y=16 compute=f32", "by a number passed by value"},
      {7, "reduction min x=16 y=17 compute=f32", "rows' maximum"},
      {7, "reduction max x=12 y=17 compute=f32", "rows' maximum"},
      {8, "pointwise sub x=12 b=17 y=18 compute=f32", "rows' maximum"},
      {9, "pointwise exp x=16 y=19 compute=f32", "is not exp(scores - maximum) / sum"},
      {10, "reduction avg x=19 y=20 compute=f32", "rows' maximum"},
      {10, "reduction add x=18 y=20 compute=f32", "rows' maximum"},
      {11, "pointwise exp x=20 y=21 compute=f32", "no part of attention"},
      {12, "pointwise sub x=17 b=21 y=5 compute=f32", "no part of attention"},
      {13, "pointwise mul x=19 b=20 y=22 compute=f32", "is not exp(scores - maximum) / sum"},
      {14, "matmul x=22 b=3 y=4 compute=f32; pointwise exp x=16 y=9 compute=f32", "no part of attention"},
      {14, "pointwise mul x=22 b=6 y=9 compute=f32; matmul x=9 b=3 y=4 compute=f32", "without dropout"},
  };
  for (const auto& miss : misses) {
    SCOPED_TRACE(miss.text);
    EXPECT_NE(with(miss.line, miss.text).find(miss.reason), std::string::npos) << with(miss.line, miss.text);
  }
  std::string kept = tensors;
  kept.replace(kept.find("tensor 19 f32 2x4x6x6 virtual"), 29, "tensor 19 f32 2x4x6x6");
  for (const std::string& line : lines) kept += line + '\n';
  EXPECT_NE(refusal(read(kept)).find("tensor 19 is not virtual"), std::string::npos);
}

// Numbers that only an execution knows decide between attention and the operations one by one.
TEST(CompositeAttention, NumbersThatAreNotAttentionsRunByOperations) {
  for (int i = 0; i < session_cases(60); ++i) {
    Random random = case_random(session_seed() + 2, static_cast<std::uint64_t>(i));
    const Composite composite = random_composite(random, false);
    SCOPED_TRACE(composite.text);
    const graph::Graph graph = read(composite.text);
    Memory memory(graph, &random);
    for (const auto& [uid, values] : composite.values) memory.set(uid, values);
    for (const graph::Tensor& t : graph.tensors)
      if (t.by_value && random.chance(0.5)) memory.set(t.uid, {random.chance(0.5) ? 0.75 : -2});
    ASSERT_EQ(run_both(graph, memory, composite.type), "");
  }
}

}  // namespace
}  // namespace gpudnn::test
