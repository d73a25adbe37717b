// The text of graphs: what is printed is read back, and what is no graph is refused with a reason.
// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

namespace gpudnn::test {
namespace {

constexpr const char* kFiles[] = {"operations.txt", "further_operations.txt", "attention.txt", "attention_windows.txt"};

TEST(GraphText, RoundTrip) {
  int graphs = 0;
  for (const char* file : kFiles) {
    for (const GraphCase& one : graph_cases(file)) {
      std::string why;
      const auto graph = graph::from_text(one.text, &why);
      ASSERT_TRUE(graph.has_value()) << file << " " << one.name << ": " << why;
      const std::string text = graph::to_text(*graph);
      const auto again = graph::from_text(text, &why);
      ASSERT_TRUE(again.has_value()) << why << "\n" << text;
      EXPECT_EQ(graph::to_text(*again), text);
      const auto line = graph::from_text(graph::to_text(*graph, ';'), &why);
      ASSERT_TRUE(line.has_value()) << why;
      EXPECT_EQ(graph::to_text(*line), text);
      ++graphs;
    }
  }
  EXPECT_GT(graphs, 55);
}

TEST(GraphText, Refusals) {
  const auto refused = [](const char* text, const char* expected) {
    std::string why;
    EXPECT_FALSE(graph::from_text(text, &why).has_value()) << text;
    EXPECT_NE(why.find(expected), std::string::npos) << text << ": " << why;
  };
  refused("tensor 1 f32", "a tensor's line");
  refused("tensor 1 f99 2x2", "a tensor's line");
  refused("tensor 1 f32 2x2 strides=1", "properties");
  refused("tensor 1 f32 2x2 red", "left over");
  refused("tensor 1 f32 2x2; tensor 1 f32 2x2", "two lines");
  refused("dance x=1", "neither");
  refused("pointwise add x=1 b=1 y=2", "names no tensor");
  refused("tensor 1 f32 2x2; tensor 2 f32 2x2; pointwise add x=1 y=2", "needs a tensor for b");
  refused("tensor 1 f32 2x2; tensor 2 f32 2x3; pointwise exp x=1 y=2", "does not broadcast");
  refused("tensor 1 f32 2x2; tensor 2 f32 2x2; pointwise exp x=1 y=2 speed=3", "not understood");
  refused("tensor 1 f32 2x2; tensor 2 f32 2x2 virtual; pointwise exp x=2 y=1", "no operation writes");
  refused("tensor 1 f32 2x2 virtual; tensor 2 f32 2x2 virtual; pointwise exp x=1 y=2; pointwise exp x=2 y=1", "cycle");
  refused("tensor 1 f32 2x2; tensor 2 f32 2x2; pointwise exp x=1 y=2; pointwise log x=1 y=2", "two operations write");
  refused("tensor 1 f32 2x3; tensor 2 f32 4x5; tensor 3 f32 2x5; matmul x=1 b=2 y=3", "does not give");
}

TEST(GraphText, DeadOperationsGo) {
  std::string why;
  const auto graph = graph::from_text(
      "tensor 1 f32 4x4; tensor 2 f32 4x4; tensor 3 f32 4x4 virtual; tensor 4 f32 4x4 virtual\n"
      "pointwise exp x=1 y=3; pointwise log x=3 y=4; pointwise neg x=1 y=2",
      &why);
  ASSERT_TRUE(graph.has_value()) << why;
  const graph::Graph live = graph::without_dead_operations(*graph);
  EXPECT_EQ(live.nodes.size(), 1U);
  EXPECT_EQ(live.tensors.size(), 2U);
}

}  // namespace
}  // namespace gpudnn::test
