// The sum and the sum of squares of each channel, by the kernel that the fused operations of the classic interface
// have.
// SPDX-License-Identifier: Apache-2.0
#include "graph/engines.hpp"
#include "graph/match.hpp"
#include "ops/fused_ops/channel_sums.hpp"

namespace gpudnn::graph {
namespace {

struct Sums {
  fused_ops::SumsProblem problem;
  std::size_t workspace = 0;
  int x = -1;
  int sum = -1;
  int squares = -1;
};

// One result: a number for each channel in the type that is summed in, and no other dimension. Absent ones fit.
bool match_result(const Graph& graph, int place, const TensorGeometry& x, fused_ops::ChannelVector* vector) {
  if (place < 0) return true;
  const Tensor& t = tensor_at(graph, place);
  if (!is_plain(t) || t.is_virtual || t.geometry.rank != x.rank) return false;
  for (int i = 0; i < x.rank; ++i)
    if (t.geometry.dims[i] != (i == 1 ? x.dims[1] : 1)) return false;
  *vector = {true, t.geometry.type, t.geometry.strides[1]};
  return t.geometry.type == (x.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT);
}

bool match_sums(const Graph& graph, const Device& device, Sums* sums, std::string* why) {
  constexpr std::int64_t kAlignment = 16;
  if (graph.nodes.size() != 1 || graph.nodes.front().op != Op::gen_stats)
    return no_match(why, "the graph is not one gen_stats");
  const Node& node = graph.nodes.front();
  sums->x = node.at(Port::x);
  sums->sum = node.at(Port::sum);
  sums->squares = node.at(Port::sqsum);
  const Tensor& x = tensor_at(graph, sums->x);
  if (!is_plain(x) || x.is_virtual || x.alignment % kAlignment != 0 || x.geometry.rank < 3)
    return no_match(why, "x is virtual, ragged, a vector, or not at a multiple of 16 bytes");
  switch (x.geometry.type) {
    case GPUDNN_DATA_FLOAT:
    case GPUDNN_DATA_DOUBLE:
    case GPUDNN_DATA_HALF:
    case GPUDNN_DATA_BFLOAT16:
      break;
    default:
      return no_match(why, "x has no floating type of 16 bits or more");
  }
  sums->problem.y = x.geometry;
  if (!match_result(graph, sums->sum, x.geometry, &sums->problem.sum) ||
      !match_result(graph, sums->squares, x.geometry, &sums->problem.squares))
    return no_match(why, "a result is not one number of the compute type for each channel");
  return fused_ops::takes_sums(sums->problem, device, &sums->workspace) ||
         no_match(why, "the channels of x are not contiguous in memory in whole packs of 16 bytes");
}

class SumsWork final : public Work {
 public:
  explicit SumsWork(const Sums& sums) : sums_(sums) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return sums_.workspace; }
  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    const auto pointer = [data](int place) { return place < 0 ? nullptr : data[place]; };
    const fused_ops::SumsArgs args = {pointer(sums_.x), pointer(sums_.sum), pointer(sums_.squares), workspace};
    GPUDNN_REQUIRE(
        args.y != nullptr && (sums_.sum < 0 || args.sum != nullptr) && (sums_.squares < 0 || args.squares != nullptr),
        GPUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a data pointer of gen_stats is null");
    return fused_ops::run(handle, sums_.problem, args);
  }

 private:
  Sums sums_;
};

}  // namespace

std::vector<Config> statistics_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  Sums sums;
  if (!match_sums(graph, device, &sums, why)) return {};
  return {Config{.knobs = {}, .workspace = sums.workspace}};
}

Status statistics_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs&,
                          WorkRef* work) {
  Sums sums;
  std::string why;
  GPUDNN_REQUIRE(match_sums(*graph, device, &sums, &why), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s",
                 engine.name, why.c_str());
  *work = std::make_shared<SumsWork>(sums);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
