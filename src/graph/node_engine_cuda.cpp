// One operation that has no other engine on the device, by the kernels that take whatever it can be.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/device.hpp"
#include "core/guard.hpp"
#include "graph/engines.hpp"
#include "graph/interpret/element.hpp"
#include "graph/match.hpp"
#include "kernels/graph/node.hpp"
#include "ops/any_type.hpp"

namespace gpudnn::graph {
namespace {

bool is_taken(Op op) {
  switch (op) {
    case Op::concat:
    case Op::paged_load:
    case Op::rng:
    case Op::quantize:
    case Op::dequantize:
    case Op::resample_fwd:
    case Op::resample_bwd:
    case Op::moe:
      return true;
    default:
      return false;
  }
}

bool is_int4(DataType type) { return type == GPUDNN_DATA_INT4 || type == GPUDNN_DATA_UINT4; }

bool match_tensor(const Graph& graph, const Node& node, const Link& link, std::string* why) {
  const Tensor& t = tensor_at(graph, link.tensor);
  const std::string name = "tensor " + std::to_string(t.uid);
  const bool is_number = link.port == Port::seed || link.port == Port::offset;
  if (t.is_virtual || t.ragged != Tensor::kNone || t.vector_count != 1)
    return no_match(why, name + " is virtual, ragged or a vector");
  if (t.by_value && !is_number) return no_match(why, name + " is passed by value");
  if (t.geometry.type == GPUDNN_DATA_UINT32) return no_match(why, name + " is uint32");
  if (is_int4(t.geometry.type) && !(node.op == Op::dequantize && link.port == Port::x))
    return no_match(why, name + " is of integers of 4 bits, which dequantize alone reads");
  const bool is_tiled = t.reordering == GPUDNN_TENSOR_REORDERING_F8_128x4;
  if (t.reordering != 0 && !(is_tiled && link.port == Port::scale)) return no_match(why, name + " is reordered");
  const DataType type = t.geometry.type;
  const bool is_block_scale = node.op == Op::quantize || node.op == Op::dequantize;
  if ((type == GPUDNN_DATA_FP4_E2M1 || type == GPUDNN_DATA_FP8_E8M0) && !is_block_scale)
    return no_match(why, name + " has a type of block scales");
  if (type == GPUDNN_DATA_FP4_E2M1 && link.port == Port::y) {
    // Two elements of a byte are written by one thread.
    int fast = -1;
    for (int d = 0; d < t.geometry.rank; ++d)
      if (t.geometry.strides[d] == 1 && t.geometry.dims[d] > 1) fast = d;
    bool whole = fast >= 0 && t.geometry.dims[fast] % 2 == 0;
    for (int d = 0; d < t.geometry.rank; ++d)
      whole = whole && (d == fast || t.geometry.dims[d] == 1 || t.geometry.strides[d] % 2 == 0);
    if (!whole) return no_match(why, name + " has rows of 4-bit numbers that are no whole bytes");
  }
  return true;
}

bool match_graph(const Graph& graph, std::string* why) {
  if (graph.nodes.size() != 1 || !is_taken(graph.nodes.front().op))
    return no_match(why, "the graph is not one concat, paged load, rng, block scale, resample or grouped product");
  const Node& node = graph.nodes.front();
  for (const Link& link : node.links)
    if (!match_tensor(graph, node, link, why)) return false;
  if ((node.op == Op::resample_fwd || node.op == Op::resample_bwd) && node.window.count > kernels::kNodeSpatial)
    return no_match(why, "it has more than three spatial dimensions");
  return true;
}

// The tensors of an execution.
class Pack {
 public:
  Pack(const Graph& graph, const Node& node, void* const* data) : graph_(graph), node_(node), data_(data) {}

  [[nodiscard]] kernels::NodeTensor tensor(int place) const {
    kernels::NodeTensor result;
    if (place < 0) return result;
    const Tensor& t = graph_.tensors[static_cast<std::size_t>(place)];
    result.data = data_[place];
    result.type = any_type(t.geometry.type);
    if (t.geometry.type == GPUDNN_DATA_FP8_E8M0) result.special = kernels::NodeType::e8m0;
    if (t.geometry.type == GPUDNN_DATA_FP4_E2M1) result.special = kernels::NodeType::e2m1;
    if (t.geometry.type == GPUDNN_DATA_INT4) result.special = kernels::NodeType::int4;
    if (t.geometry.type == GPUDNN_DATA_UINT4) result.special = kernels::NodeType::uint4;
    result.tiled = t.reordering == GPUDNN_TENSOR_REORDERING_F8_128x4;
    result.rank = t.geometry.rank;
    for (int d = 0; d < result.rank; ++d) {
      result.dims[d] = t.geometry.dims[d];
      result.strides[d] = t.geometry.strides[d];
    }
    return result;
  }
  [[nodiscard]] kernels::NodeTensor at(Port port) const { return tensor(node_.at(port)); }

  // A seed or an offset: its memory on the device, or its value.
  void number(Port port, const void** memory, std::uint64_t* value, int* bits) const {
    const int place = node_.at(port);
    if (place < 0) return;
    const Tensor& t = graph_.tensors[static_cast<std::size_t>(place)];
    *bits = data_type_bits(t.geometry.type);
    if (!t.by_value) {
      *memory = data_[place];
    } else if (t.geometry.type == GPUDNN_DATA_INT64) {
      std::memcpy(value, data_[place], sizeof *value);
    } else {
      *value = static_cast<std::uint64_t>(static_cast<std::int64_t>(loader_of(t.geometry.type)(data_[place], 0)));
    }
  }

 private:
  const Graph& graph_;
  const Node& node_;
  void* const* data_;
};

void launch_concat(const Node& node, const Pack& pack, CUstream_st* stream) {
  kernels::NodeCopy copy;
  copy.y = pack.at(Port::y);
  copy.axis = static_cast<int>(node.axis);
  std::int64_t number = 0;
  for (const Link& link : node.links) {
    if (link.port != Port::item) continue;
    copy.x = pack.tensor(link.tensor);
    if (number++ != node.inplace) launch_node_copy(copy, stream);  // that one lies in y already
    copy.first += copy.x.dims[copy.axis];
  }
}

void launch_paged_load(const Pack& pack, CUstream_st* stream) {
  kernels::NodePagedLoad load;
  load.pages = pack.at(Port::x);
  load.table = pack.at(Port::page_table);
  load.lengths = pack.at(Port::seq_len);
  load.y = pack.at(Port::y);
  // Keys are given transposed: the smaller stride is then along the third dimension.
  const std::int64_t depth = load.pages.dims[3];
  const bool straight =
      depth == load.y.dims[3] && (load.y.dims[2] != depth || load.table.dims[2] * load.pages.dims[2] >= load.y.dims[2]);
  load.turned = !straight || (depth == load.y.dims[2] && load.y.strides[2] < load.y.strides[3]);
  launch_node_paged_load(load, stream);
}

void launch_rng(const Node& node, const Pack& pack, CUstream_st* stream) {
  kernels::NodeRng rng;
  rng.y = pack.at(Port::y);
  rng.key.seed_value = static_cast<std::uint64_t>(node.value);
  rng.key.offset_value = 0;
  int bits = 64;
  pack.number(Port::seed, &rng.key.seed, &rng.key.seed_value, &bits);
  pack.number(Port::offset, &rng.key.offset, &rng.key.offset_value, &bits);
  rng.key.bits = bits;
  rng.distribution = node.mode == GPUDNN_RNG_DISTRIBUTION_BERNOULLI ? kernels::Distribution::bernoulli
                     : node.mode == GPUDNN_RNG_DISTRIBUTION_UNIFORM ? kernels::Distribution::uniform
                                                                    : kernels::Distribution::normal;
  rng.probability = node.probability;
  rng.least = node.rng_least;
  rng.most = node.rng_most;
  rng.mean = node.rng_mean;
  rng.deviation = node.rng_deviation;
  launch_node_rng(rng, stream);
}

// Elements that share a scale, along each dimension of x: one number given belongs to the dimension whose extent it
// cuts down to the scale's.
void set_block(const Node& node, kernels::NodeBlockScale* work) {
  const kernels::NodeTensor& x = work->x;
  for (int d = 0; d < x.rank; ++d) work->block[d] = 1;
  if (node.block.count > 1) {
    for (int i = 0; i < node.block.count; ++i)
      work->block[x.rank - node.block.count + i] = node.block.value[static_cast<std::size_t>(i)];
    return;
  }
  const std::int64_t size = node.block.value[0];
  for (int d = x.rank - 1; d >= 0; --d) {
    if (x.dims[d] > work->scale.dims[d] && (x.dims[d] + size - 1) / size <= work->scale.dims[d]) {
      work->block[d] = size;
      return;
    }
  }
  work->block[x.rank - 1] = size;
}

void launch_block_scale(const Graph& graph, const Node& node, const Pack& pack, CUstream_st* stream) {
  kernels::NodeBlockScale work;
  work.x = pack.at(Port::x);
  work.y = pack.at(Port::y);
  work.scale = pack.at(Port::scale);
  work.quantize = node.op == Op::quantize;
  work.negate = node.negate_scale != 0;
  work.greatest = greatest_of(graph.tensor(node, Port::y)->geometry.type);
  set_block(node, &work);
  launch_node_block_scale(work, stream);
}

kernels::Resample resample_of(int mode) {
  switch (mode) {
    case GPUDNN_RESAMPLE_MAXPOOL:
      return kernels::Resample::maximum;
    case GPUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING:
      return kernels::Resample::average;
    case GPUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING:
      return kernels::Resample::average_inside;
    case GPUDNN_RESAMPLE_NEAREST:
      return kernels::Resample::nearest;
    default:
      return kernels::Resample::bilinear;
  }
}

void launch_resample(const Node& node, const Pack& pack, CUstream_st* stream) {
  kernels::NodeResample work;
  work.backward = node.op == Op::resample_bwd;
  work.x = pack.at(work.backward ? Port::dx : Port::x);
  work.y = pack.at(work.backward ? Port::dy : Port::y);
  if (work.backward) work.values = pack.at(Port::x);
  work.index = pack.at(Port::index);
  work.mode = resample_of(node.mode);
  work.clamps = node.padding_mode == GPUDNN_EDGE_VAL_PAD;
  work.zeros = node.padding_mode == GPUDNN_ZERO_PAD;
  work.propagates_nan = node.nan == GPUDNN_PROPAGATE_NAN;
  work.spatial = node.window.count;
  for (int i = 0; i < work.spatial; ++i) {
    const auto k = static_cast<std::size_t>(i);
    work.window[i] = node.window.value[k] / node.window.divisor[k];
    work.stride[i] = static_cast<double>(node.stride.value[k]) / static_cast<double>(node.stride.divisor[k]);
    work.pad[i] = static_cast<double>(node.pre.value[k]) / static_cast<double>(node.pre.divisor[k]);
  }
  work.alpha = node.alpha;
  work.beta = node.beta;
  launch_node_resample(work, stream);
}

void launch_grouped_matmul(const Node& node, const Pack& pack, CUstream_st* stream) {
  kernels::NodeGroupedMatmul work;
  work.x = pack.at(Port::x);
  work.w = pack.at(Port::w);
  work.offsets = pack.at(Port::token_offset);
  work.y = pack.at(Port::y);
  work.index = pack.at(Port::token_index);
  work.gathers = node.mode == GPUDNN_MOE_GROUPED_MATMUL_MODE_GATHER;
  work.scatters = node.mode == GPUDNN_MOE_GROUPED_MATMUL_MODE_SCATTER;
  launch_node_grouped_matmul(work, stream);
}

void launch(const Graph& graph, void* const* data, CUstream_st* stream) {
  const Node& node = graph.nodes.front();
  const Pack pack(graph, node, data);
  switch (node.op) {
    case Op::concat:
      return launch_concat(node, pack, stream);
    case Op::paged_load:
      return launch_paged_load(pack, stream);
    case Op::rng:
      return launch_rng(node, pack, stream);
    case Op::quantize:
    case Op::dequantize:
      return launch_block_scale(graph, node, pack, stream);
    case Op::resample_fwd:
    case Op::resample_bwd:
      return launch_resample(node, pack, stream);
    default:
      return launch_grouped_matmul(node, pack, stream);
  }
}

class NodeWork final : public Work {
 public:
  explicit NodeWork(GraphRef graph) : graph_(std::move(graph)) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return 0; }
  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void*) const override {
    for (const Link& link : graph_->nodes.front().links) {
      const Tensor& t = graph_->tensors[static_cast<std::size_t>(link.tensor)];
      GPUDNN_REQUIRE(data[link.tensor] != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                     "the data pointer of tensor %lld is null", static_cast<long long>(t.uid));
      if (element_count(t.geometry) == 0) return GPUDNN_STATUS_SUCCESS;
    }
    const LaunchSite site = launch_site(handle);
    const cuda::DeviceScope scope(site.device);
    call_context().engine = "node";
    launch(*graph_, data, site.stream);
    return cuda::launch_status("node");
  }

 private:
  GraphRef graph_;
};

}  // namespace

std::vector<Config> node_configs(const Engine&, const Graph& graph, const Device&, std::string* why) {
  if (!match_graph(graph, why)) return {};
  return {Config{}};
}

Status node_prepare(const Engine&, const GraphRef& graph, const Device&, const Knobs&, WorkRef* work) {
  *work = std::make_shared<NodeWork>(graph);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
