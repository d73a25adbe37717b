// The text of graphs: what is accepted prints to a text that is read again and prints the same.
// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"
#include "graph/graph.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpudnn;
  const std::string_view input = fuzz::text_of(data, size);
  std::string why;
  const auto graph = graph::from_text(input, &why);
  if (!graph) {
    fuzz::expect(!why.empty(), "a refusal without a reason", input);
    return 0;
  }
  const std::string text = to_text(*graph, '\n');
  const auto again = graph::from_text(text, &why);
  fuzz::expect(again.has_value(), ("what was printed is not read: " + why).c_str(), input);
  fuzz::expect(to_text(*again, '\n') == text, "printed otherwise the second time", input);
  return 0;
}
