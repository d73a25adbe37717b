// The graph: tensors, and operations on them in an order in which they can run. Plain data, made when an OPERATIONGRAPH
// descriptor is finalized, or read from text.
//
// The text has a line for each tensor and each operation; ';' may stand for the end of a line, '#' starts a comment:
//
//   tensor 1 f16 8x32x16x16 strides=8192,1,512,32
//   tensor 3 f32 8x64x16x16 strides=16384,1,1024,64 virtual
//   conv_fwd x=1 w=2 y=3 compute=f32 pre=1x1 post=1x1 stride=1x1 dilation=1x1
//   pointwise relu_fwd x=3 y=4 compute=f32
//
// It is the log line, the test case, a plan's saved form and the key of caches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/geometry.hpp"
#include "graph/attributes.hpp"

namespace gpudnn::graph {

struct Tensor {
  std::int64_t uid = 0;
  TensorGeometry geometry;
  std::int64_t alignment = 16;  // bytes that the pointer is a multiple of
  bool is_virtual = false;      // lives inside the graph alone
  bool by_value = false;        // the pointer is to a host scalar
  std::int64_t vector_count = 1;
  std::int64_t vector_dim = -1;
  int reordering = 0;           // a gpudnnBackendTensorReordering_t
  std::int64_t ragged = kNone;  // uid of the tensor of offsets
  static constexpr std::int64_t kNone = INT64_MIN;

  bool operator==(const Tensor&) const = default;
};

// The operations, one for each kind of OPERATION descriptor.
enum class Op : std::int8_t {
  conv_fwd,
  conv_dgrad,
  conv_wgrad,
  pointwise,
  gen_stats,
  matmul,
  bn_finalize,
  reduction,
  bn_weights,
  resample_fwd,
  resample_bwd,
  concat,
  signal,
  norm_fwd,
  norm_bwd,
  reshape,
  rng,
  paged_load,
  quantize,
  dequantize,
  expand_band,
  contract_band,
  sdpa_fwd,
  moe,
  sdpa_bwd,
  count
};
constexpr int kOps = static_cast<int>(Op::count);

// What a tensor is to an operation. Names of the interface, shortened; `y` is an output, whatever the operation.
enum class Port : std::int8_t {
  x,
  w,
  y,
  b,
  t,
  dx,
  dw,
  dy,
  index,
  m_override,
  n_override,
  k_override,
  sum,
  sqsum,
  mean,
  inverse,
  scale,
  bias,
  epsilon,
  factor,
  running_mean_in,
  running_var_in,
  running_mean_out,
  running_var_out,
  eq_scale,
  eq_bias,
  count,
  dscale,
  dbias,
  eq_dy_scale,
  eq_x_scale,
  seed,
  offset,
  q,
  k,
  v,
  o,
  stats,
  block_mask,
  page_table_k,
  page_table_v,
  seq_len_q,
  seq_len_kv,
  dq,
  dk,
  dv,
  d_o,
  page_table,
  seq_len,
  flag,
  token_index,
  token_ks,
  token_offset,
  kv_offset,
  speculative_mask,
  item,  // an input of concat, a peer's statistics
  last
};
[[nodiscard]] const char* port_name(Port port) noexcept;

// Numbers for each spatial dimension, or each dimension of a block; fractions where the denominator is not 1.
struct Extents {
  int count = 0;
  std::array<std::int64_t, kMaxRank> value{};
  std::array<std::int64_t, kMaxRank> divisor{1, 1, 1, 1, 1, 1, 1, 1};
  bool operator==(const Extents&) const = default;
};

struct Link {
  Port port = Port::x;
  std::int32_t tensor = -1;  // place in Graph::tensors
  bool operator==(const Link&) const = default;
};

// An operation. Fields that an operation does not have stay at their defaults.
struct Node {
  Op op = Op::pointwise;
  int mode = 0;   // of the operation: a gpudnnPointwiseMode_t, gpudnnReduceTensorOp_t, gpudnnResampleMode_t ...
  int phase = 0;  // norm_fwd: gpudnnBackendNormFwdPhase_t
  int nan = 1;    // gpudnnNanPropagation_t
  int padding_mode = 0;
  DataType compute = GPUDNN_DATA_FLOAT;
  std::int64_t axis = -1;
  std::int64_t inplace = -1;  // concat
  std::int64_t top_k = 0;
  std::int64_t value = 0;  // signal; the seed of rng where it is no tensor
  int negate_scale = 0;
  int deterministic = 0;
  std::int64_t lower = 0;  // band matrices
  std::int64_t upper = 0;
  double alpha = 1;  // alpha1 of pointwise
  double beta = 0;
  double alpha2 = 1;
  double lower_clip = 0;
  double upper_clip = kNoClip;
  double slope = 0;
  double elu_alpha = 1;
  double softplus_beta = 1;
  double swish_beta = 1;
  double padding_value = 0;
  double rng_mean = 0;
  double rng_deviation = 1;
  double rng_least = 0;
  double rng_most = 1;
  double probability = 0.5;
  Extents pre, post, stride, dilation, window, block;
  std::vector<Link> links;  // in the order of the operation's ports

  static constexpr double kNoClip = 1.7976931348623157e308;

  // The tensor at a port, or -1.
  [[nodiscard]] int at(Port port) const noexcept;
  bool operator==(const Node&) const = default;
};

struct Graph {
  std::vector<Tensor> tensors;  // each uid once
  std::vector<Node> nodes;      // none reads what a later one writes
  bool dynamic_shapes = false;

  [[nodiscard]] const Tensor* tensor(const Node& node, Port port) const noexcept {
    const int i = node.at(port);
    return i < 0 ? nullptr : &tensors[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] int find(std::int64_t uid) const noexcept;
  bool operator==(const Graph&) const = default;
};

// --- what is known of each operation --------------------------------------------------------------------------------

struct PortRow {
  Port port;
  AttributeName attribute;
  bool output = false;
};

using IntField = int Node::*;
using LongField = std::int64_t Node::*;
using RealField = double Node::*;
using TypeField = DataType Node::*;
using ExtentsField = Extents Node::*;
using Field = std::variant<IntField, LongField, RealField, TypeField, ExtentsField>;

// A field of Node, and the attribute that sets it: of the operation's own descriptor, or of the one that it refers to.
struct FieldRow {
  const char* name;
  Field field;
  AttributeName attribute;
};

struct OpRow {
  Op op;
  int kind;            // of its descriptor
  const char* name;    // of the text
  int companion = -1;  // the kind of the descriptor with its parameters, or -1
  AttributeName companion_attribute = GPUDNN_ATTR_POINTWISE_MODE;
  std::vector<PortRow> ports;
  std::vector<FieldRow> fields;
};
// The first call makes the table, which takes memory.
[[nodiscard]] const OpRow& row_of(Op op);
[[nodiscard]] const OpRow* row_of_kind(int kind);
[[nodiscard]] inline const char* op_name(Op op) { return row_of(op).name; }
// What a port is depends on the operation's form: batch statistics are read in inference, y in a backward pass.
[[nodiscard]] bool is_output(const Node& node, Port port);
// x as a RESHAPE to y reads it. A virtual tensor's strides are a client's guess (NVIDIA's frontend takes them from the
// operand with the same extents, a broadcast bias with strides of 0 included), so where y is a packed x with the last
// two dimensions exchanged, x is packed.
[[nodiscard]] TensorGeometry reshaped(const Tensor& x, const Tensor& y);
// "relu_fwd", "add" ... of pointwise, reduction, resample and norm modes; null where the number speaks for itself.
[[nodiscard]] const char* mode_name(Op op, int mode);
[[nodiscard]] int parse_mode(Op op, std::string_view name);  // -1 if there is none

// --- making graphs --------------------------------------------------------------------------------------------------

// An operation as its descriptor gives it: the links of `node` are places in `tensors`.
struct Operation {
  Node node;
  std::vector<Tensor> tensors;
};

// Refuses what contradicts itself within the operation: ranks, extents, types.
[[nodiscard]] Status check_operation(const Node& node, std::span<const Tensor> tensors);

// Merges tensors of one uid, sorts the operations, and refuses cycles, tensors written twice or never.
[[nodiscard]] Status join(std::span<const std::shared_ptr<const Operation>> operations, Graph* graph);

// Operations whose results nobody sees; the graph without them, and without tensors that are then unused.
[[nodiscard]] bool has_dead_operations(const Graph& graph);
[[nodiscard]] Graph without_dead_operations(const Graph& graph);

[[nodiscard]] std::string to_text(const Graph& graph, char separator = '\n');
[[nodiscard]] std::string to_text(const Node& node, const Graph& graph);
// Nothing if `text` is no graph; *why says what was wrong.
[[nodiscard]] std::optional<Graph> from_text(std::string_view text, std::string* why);

}  // namespace gpudnn::graph
