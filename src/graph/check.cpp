// What makes an operation legal by itself: ranks, extents and types that fit together. A graph that passes never fails
// for its shapes later.
// SPDX-License-Identifier: Apache-2.0
#include "graph/check.hpp"

#include <algorithm>

namespace gpudnn::graph {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;
constexpr std::int64_t kMaxSpan = std::int64_t{1} << 58;

Status check_tensor_numbers(const TensorGeometry& g) {
  std::int64_t count = 1;
  std::int64_t span = 0;
  for (int i = 0; i < g.rank; ++i) {
    const auto dim = static_cast<long long>(g.dims[i]);
    const auto stride = static_cast<long long>(g.strides[i]);
    GPUDNN_REQUIRE(dim > 0 && dim <= kMaxExtent, GPUDNN_STATUS_BAD_PARAM,
                   "GPUDNN_ATTR_TENSOR_DIMENSIONS: dimension %d is %lld; it must be positive, and at most 2^40", i,
                   dim);
    GPUDNN_REQUIRE(stride >= 0, GPUDNN_STATUS_BAD_PARAM,
                   "GPUDNN_ATTR_TENSOR_STRIDES: stride %d is %lld; it must not be negative", i, stride);
    std::int64_t part = 0;
    GPUDNN_REQUIRE(!__builtin_mul_overflow(count, dim, &count) && count <= kMaxSpan &&
                       (dim == 1 || (!__builtin_mul_overflow(dim - 1, stride, &part) && part <= kMaxSpan - span)),
                   GPUDNN_STATUS_BAD_PARAM, "the tensor %s spans more than 2^58 elements", dims_text(g).c_str());
    span += part;
  }
  return GPUDNN_STATUS_SUCCESS;
}

struct Checked {
  const Node& node;
  std::span<const Tensor> tensors;

  [[nodiscard]] const Tensor* at(Port port) const {
    const int i = node.at(port);
    return i < 0 ? nullptr : &tensors[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] const char* name() const { return op_name(node.op); }
  [[nodiscard]] long long uid(Port port) const { return static_cast<long long>(at(port)->uid); }
};

std::string dims_of(const Tensor* tensor) { return tensor_text(tensor->geometry); }

Status require_ports(const Checked& c, std::initializer_list<Port> ports) {
  for (const Port port : ports)
    GPUDNN_REQUIRE(c.at(port) != nullptr, GPUDNN_STATUS_BAD_PARAM, "%s needs a tensor for %s", c.name(),
                   port_name(port));
  return GPUDNN_STATUS_SUCCESS;
}

Status require_rank_of(const Checked& c, Port port, int rank) {
  const Tensor* t = c.at(port);
  GPUDNN_REQUIRE(t->geometry.rank == rank, GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                 "%s: %s (%s) must have %d dimensions", c.name(), port_name(port), dims_of(t).c_str(), rank);
  return GPUDNN_STATUS_SUCCESS;
}

Status require_equal_dims(const Checked& c, Port a, Port b) {
  if (c.at(a) == nullptr || c.at(b) == nullptr) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_REQUIRE(same_dims(c.at(a)->geometry, c.at(b)->geometry), GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                 "%s: %s (%s) and %s (%s) must have the same dimensions", c.name(), port_name(a),
                 dims_of(c.at(a)).c_str(), port_name(b), dims_of(c.at(b)).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

// Each extent of the part is the whole's, or 1. A part of fewer dimensions is aligned to the last ones.
bool broadcasts(const TensorGeometry& part, const TensorGeometry& whole) {
  if (part.rank > whole.rank) return false;
  const int shift = whole.rank - part.rank;
  for (int i = 0; i < part.rank; ++i)
    if (part.dims[i] != 1 && part.dims[i] != whole.dims[i + shift]) return false;
  return true;
}

Status check_convolution(const Checked& c) {
  const Port x = c.node.op == Op::conv_dgrad ? Port::dx : Port::x;
  const Port w = c.node.op == Op::conv_wgrad ? Port::dw : Port::w;
  const Port y = c.node.op == Op::conv_fwd ? Port::y : Port::dy;
  GPUDNN_TRY(require_ports(c, {x, w, y}));
  const int spatial = c.node.pre.count;
  GPUDNN_REQUIRE(spatial >= 1 && spatial <= 3, GPUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                 "%s has %d spatial dimensions; convolution is built for 1 to 3", c.name(), spatial);
  for (const Extents* e : {&c.node.post, &c.node.stride, &c.node.dilation})
    GPUDNN_REQUIRE(e->count == spatial, GPUDNN_STATUS_BAD_PARAM,
                   "%s: paddings, strides and dilations must have as many numbers as there are spatial dimensions",
                   c.name());
  for (const Port port : {x, w, y}) GPUDNN_TRY(require_rank_of(c, port, spatial + 2));
  const std::int64_t* dx = c.at(x)->geometry.dims;
  const std::int64_t* dw = c.at(w)->geometry.dims;
  const std::int64_t* dy = c.at(y)->geometry.dims;
  const std::int64_t channels = dx[1] * std::max<std::int64_t>(c.at(x)->vector_count, 1);
  const std::int64_t each = dw[1] * std::max<std::int64_t>(c.at(w)->vector_count, 1);
  const std::int64_t filters = dy[1] * std::max<std::int64_t>(c.at(y)->vector_count, 1);
  GPUDNN_REQUIRE(dx[0] == dy[0] && channels % each == 0 && dw[0] == filters && filters % (channels / each) == 0,
                 GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                 "%s: images %s, filters %s and outputs %s do not fit: batches and filter counts must agree, and the "
                 "filters' channels divide the images'",
                 c.name(), dims_of(c.at(x)).c_str(), dims_of(c.at(w)).c_str(), dims_of(c.at(y)).c_str());
  for (int i = 0; i < spatial; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const std::int64_t stride = c.node.stride.value[k];
    const std::int64_t dilation = c.node.dilation.value[k];
    GPUDNN_REQUIRE(stride > 0 && dilation > 0, GPUDNN_STATUS_BAD_PARAM,
                   "%s: stride %lld and dilation %lld must be positive", c.name(), static_cast<long long>(stride),
                   static_cast<long long>(dilation));
    const std::int64_t room = dx[i + 2] + c.node.pre.value[k] + c.node.post.value[k] - dilation * (dw[i + 2] - 1) - 1;
    GPUDNN_REQUIRE(
        room >= 0 && dy[i + 2] == room / stride + 1, GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
        "%s: along spatial dimension %d, %lld pixels with padding %lld and %lld, %lld taps, dilation %lld and "
        "stride %lld give %lld outputs, not %lld",
        c.name(), i, static_cast<long long>(dx[i + 2]), static_cast<long long>(c.node.pre.value[k]),
        static_cast<long long>(c.node.post.value[k]), static_cast<long long>(dw[i + 2]),
        static_cast<long long>(dilation), static_cast<long long>(stride),
        static_cast<long long>(room < 0 ? 0 : room / stride + 1), static_cast<long long>(dy[i + 2]));
  }
  return GPUDNN_STATUS_SUCCESS;
}

// Batch dimensions of an operand: those of the product, 1, or a divisor of them.
Status check_batches(const Checked& c, Port port, int first_matrix_dim) {
  const Tensor* t = c.at(port);
  const Tensor* y = c.at(Port::y);
  for (int i = 0; i < first_matrix_dim; ++i) {
    const std::int64_t extent = t->geometry.dims[i];
    GPUDNN_REQUIRE(y->geometry.dims[i] % extent == 0, GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                   "%s: dimension %d of %s (%s) must divide that of the product (%s)", c.name(), i, port_name(port),
                   dims_of(t).c_str(), dims_of(y).c_str());
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status check_matmul(const Checked& c) {
  GPUDNN_TRY(require_ports(c, {Port::x, Port::b, Port::y}));
  const int rank = c.at(Port::y)->geometry.rank;
  GPUDNN_REQUIRE(rank >= 2, GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                 "%s: the product (%s) must have 2 dimensions at least", c.name(), dims_of(c.at(Port::y)).c_str());
  GPUDNN_TRY(require_rank_of(c, Port::x, rank));
  GPUDNN_TRY(require_rank_of(c, Port::b, rank));
  const std::int64_t* a = c.at(Port::x)->geometry.dims;
  const std::int64_t* b = c.at(Port::b)->geometry.dims;
  const std::int64_t* y = c.at(Port::y)->geometry.dims;
  GPUDNN_REQUIRE(a[rank - 2] == y[rank - 2] && b[rank - 1] == y[rank - 1] && a[rank - 1] == b[rank - 2],
                 GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "%s: %s times %s does not give %s", c.name(),
                 dims_of(c.at(Port::x)).c_str(), dims_of(c.at(Port::b)).c_str(), dims_of(c.at(Port::y)).c_str());
  GPUDNN_TRY(check_batches(c, Port::x, rank - 2));
  return check_batches(c, Port::b, rank - 2);
}

Status check_pointwise(const Checked& c) {
  const bool backward = c.node.mode >= GPUDNN_POINTWISE_RELU_BWD && c.node.mode < GPUDNN_POINTWISE_CMP_EQ;
  const Port out = backward ? Port::dx : Port::y;
  GPUDNN_TRY(require_ports(c, {out}));
  const bool generates = c.node.mode == GPUDNN_POINTWISE_GEN_INDEX;
  if (backward) {
    GPUDNN_TRY(require_ports(c, {Port::dy}));
    GPUDNN_REQUIRE(c.at(Port::x) != nullptr || c.at(Port::y) != nullptr, GPUDNN_STATUS_BAD_PARAM,
                   "pointwise %s needs x or y beside dy", mode_name(c.node.op, c.node.mode));
  } else if (!generates) {
    GPUDNN_TRY(require_ports(c, {Port::x}));
  }
  const int mode = c.node.mode;
  const bool two = mode <= GPUDNN_POINTWISE_SUB
                       ? mode != GPUDNN_POINTWISE_SQRT
                       : mode == GPUDNN_POINTWISE_ATAN2 ||
                             (mode >= GPUDNN_POINTWISE_CMP_EQ && mode <= GPUDNN_POINTWISE_LOGICAL_OR) ||
                             mode == GPUDNN_POINTWISE_BINARY_SELECT;
  if (two) GPUDNN_TRY(require_ports(c, {Port::b}));
  if (mode == GPUDNN_POINTWISE_BINARY_SELECT) GPUDNN_TRY(require_ports(c, {Port::t}));
  const TensorGeometry& y = c.at(out)->geometry;
  if (generates) {
    GPUDNN_REQUIRE(c.node.axis >= 0 && c.node.axis < y.rank, GPUDNN_STATUS_BAD_PARAM,
                   "pointwise gen_index: axis is %lld; y has %d dimensions", static_cast<long long>(c.node.axis),
                   y.rank);
  }
  // A maximum of rows may be declared with the rows' full extents: its values are the same along them.
  const bool of_rows = mode == GPUDNN_POINTWISE_MAX || mode == GPUDNN_POINTWISE_MIN;
  for (const Port port : {Port::x, Port::b, Port::t, Port::dy}) {
    const Tensor* t = c.at(port);
    if (t == nullptr || (of_rows && t->is_virtual && broadcasts(y, t->geometry))) continue;
    GPUDNN_REQUIRE(broadcasts(t->geometry, y), GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                   "pointwise %s: %s (%s) does not broadcast to the output (%s): each extent must be equal or 1",
                   mode_name(c.node.op, mode), port_name(port), dims_of(t).c_str(), dims_of(c.at(out)).c_str());
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status check_reduction(const Checked& c) {
  GPUDNN_TRY(require_ports(c, {Port::x, Port::y}));
  GPUDNN_TRY(require_rank_of(c, Port::y, c.at(Port::x)->geometry.rank));
  const TensorGeometry& x = c.at(Port::x)->geometry;
  const TensorGeometry& y = c.at(Port::y)->geometry;
  for (int i = 0; i < x.rank; ++i)
    GPUDNN_REQUIRE(x.dims[i] % y.dims[i] == 0, GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                   "reduction: extent %lld of y must divide extent %lld of x (dimension %d)",
                   static_cast<long long>(y.dims[i]), static_cast<long long>(x.dims[i]), i);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_resample(const Checked& c) {
  const bool backward = c.node.op == Op::resample_bwd;
  const Port x = backward ? Port::dx : Port::x;
  const Port y = backward ? Port::dy : Port::y;
  GPUDNN_TRY(require_ports(c, {x, y}));
  const int spatial = c.node.window.count;
  GPUDNN_REQUIRE(spatial >= 1 && spatial <= 3, GPUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                 "%s has %d spatial dimensions; 1 to 3 are built", c.name(), spatial);
  for (const Extents* e : {&c.node.pre, &c.node.post, &c.node.stride})
    GPUDNN_REQUIRE(e->count == spatial, GPUDNN_STATUS_BAD_PARAM,
                   "%s: window, paddings and strides must have as many numbers as there are spatial dimensions",
                   c.name());
  GPUDNN_TRY(require_rank_of(c, x, spatial + 2));
  GPUDNN_TRY(require_rank_of(c, y, spatial + 2));
  for (const Extents* e : {&c.node.stride, &c.node.window})
    for (int i = 0; i < spatial; ++i)
      GPUDNN_REQUIRE(e->value[static_cast<std::size_t>(i)] > 0, GPUDNN_STATUS_BAD_PARAM,
                     "%s: windows and strides must be positive", c.name());
  const std::int64_t* dx = c.at(x)->geometry.dims;
  const std::int64_t* dy = c.at(y)->geometry.dims;
  GPUDNN_REQUIRE(dx[0] == dy[0] && dx[1] == dy[1], GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                 "%s: %s and %s must have the same batch and channels", c.name(), dims_of(c.at(x)).c_str(),
                 dims_of(c.at(y)).c_str());
  if (backward && c.node.mode == GPUDNN_RESAMPLE_MAXPOOL) {
    GPUDNN_REQUIRE(c.at(Port::index) != nullptr || (c.at(Port::x) != nullptr), GPUDNN_STATUS_BAD_PARAM,
                   "%s of a maximum needs the indices, or x", c.name());
  }
  if (!backward) GPUDNN_TRY(require_equal_dims(c, Port::index, Port::y));
  return require_equal_dims(c, Port::dx, Port::x);
}

Status check_norm(const Checked& c) {
  const bool backward = c.node.op == Op::norm_bwd;
  GPUDNN_REQUIRE(c.node.mode != GPUDNN_GROUP_NORM, GPUDNN_STATUS_NOT_SUPPORTED,
                 "%s: group normalization has no number of groups in this interface; reshape, and use instance norm",
                 c.name());
  const Port y = backward ? Port::dx : Port::y;
  GPUDNN_TRY(require_ports(c, {Port::x, y}));
  GPUDNN_TRY(require_equal_dims(c, Port::x, y));
  if (backward) {
    GPUDNN_TRY(require_ports(c, {Port::dy, Port::inverse}));
    if (c.node.mode != GPUDNN_RMS_NORM) GPUDNN_TRY(require_ports(c, {Port::mean}));
    GPUDNN_TRY(require_equal_dims(c, Port::x, Port::dy));
  } else if (c.node.mode == GPUDNN_BATCH_NORM && c.node.phase == GPUDNN_NORM_FWD_INFERENCE) {
    GPUDNN_TRY(require_ports(c, {Port::mean, Port::inverse}));
  } else if (c.at(Port::inverse) == nullptr || is_output(c.node, Port::inverse)) {
    GPUDNN_TRY(require_ports(c, {Port::epsilon}));
  }
  for (const Port port :
       {Port::mean, Port::inverse, Port::scale, Port::bias, Port::running_mean_in, Port::running_var_in,
        Port::running_mean_out, Port::running_var_out, Port::dscale, Port::dbias}) {
    const Tensor* t = c.at(port);
    if (t == nullptr) continue;
    GPUDNN_REQUIRE(broadcasts(t->geometry, c.at(Port::x)->geometry), GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                   "%s: %s (%s) must have x's extents (%s) or 1", c.name(), port_name(port), dims_of(t).c_str(),
                   dims_of(c.at(Port::x)).c_str());
  }
  for (const Port port : {Port::epsilon, Port::factor}) {
    GPUDNN_REQUIRE(c.at(port) == nullptr || element_count(c.at(port)->geometry) == 1,
                   GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "%s: %s must be one number", c.name(), port_name(port));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status check_concat(const Checked& c) {
  GPUDNN_TRY(require_ports(c, {Port::item, Port::y}));
  const TensorGeometry& y = c.at(Port::y)->geometry;
  GPUDNN_REQUIRE(c.node.axis >= 0 && c.node.axis < y.rank, GPUDNN_STATUS_BAD_PARAM,
                 "concat: axis is %lld; the output has %d dimensions", static_cast<long long>(c.node.axis), y.rank);
  std::int64_t along = 0;
  for (const Link& link : c.node.links) {
    if (link.port != Port::item) continue;
    const TensorGeometry& x = c.tensors[static_cast<std::size_t>(link.tensor)].geometry;
    bool fits = x.rank == y.rank;
    for (int i = 0; fits && i < y.rank; ++i) fits = i == c.node.axis || x.dims[i] == y.dims[i];
    GPUDNN_REQUIRE(fits, GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                   "concat: an input (%s) must have the output's dimensions (%s) except along axis %lld",
                   tensor_text(x).c_str(), tensor_text(y).c_str(), static_cast<long long>(c.node.axis));
    along += x.dims[c.node.axis];
  }
  GPUDNN_REQUIRE(along == y.dims[c.node.axis], GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                 "concat: the inputs have %lld elements along axis %lld, the output %lld",
                 static_cast<long long>(along), static_cast<long long>(c.node.axis),
                 static_cast<long long>(y.dims[c.node.axis]));
  return GPUDNN_STATUS_SUCCESS;
}

Status check_reshape(const Checked& c) {
  GPUDNN_TRY(require_ports(c, {Port::x, Port::y}));
  GPUDNN_REQUIRE(element_count(c.at(Port::x)->geometry) == element_count(c.at(Port::y)->geometry),
                 GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "reshape: %s and %s have different numbers of elements",
                 dims_of(c.at(Port::x)).c_str(), dims_of(c.at(Port::y)).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

Status check_paged(const Checked& c) {
  GPUDNN_TRY(require_ports(c, {Port::x, Port::page_table, Port::seq_len, Port::y}));
  for (const Port port : {Port::x, Port::page_table, Port::y}) GPUDNN_TRY(require_rank_of(c, port, 4));
  const std::int64_t* from = c.at(Port::x)->geometry.dims;
  const std::int64_t* y = c.at(Port::y)->geometry.dims;
  const bool straight = from[1] == y[1] && from[3] == y[3];
  const bool turned = from[1] == y[1] && from[3] == y[2];
  GPUDNN_REQUIRE(straight || turned, GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                 "paged_load: the container (%s) has other heads or sizes than y (%s)", dims_of(c.at(Port::x)).c_str(),
                 dims_of(c.at(Port::y)).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

// The block along each dimension follows from the scale's extents, or from block=; either must cover x.
Status check_scales(const Checked& c) {
  GPUDNN_TRY(require_ports(c, {Port::x, Port::y, Port::scale}));
  GPUDNN_TRY(require_equal_dims(c, Port::x, Port::y));
  GPUDNN_TRY(require_rank_of(c, Port::scale, c.at(Port::x)->geometry.rank));
  GPUDNN_REQUIRE(c.node.block.count >= 1 && c.node.block.count <= c.at(Port::x)->geometry.rank, GPUDNN_STATUS_BAD_PARAM,
                 "%s: the block size has %d numbers; it must have 1, or one for each of the last dimensions", c.name(),
                 c.node.block.count);
  for (int i = 0; i < c.node.block.count; ++i)
    GPUDNN_REQUIRE(c.node.block.value[static_cast<std::size_t>(i)] > 0, GPUDNN_STATUS_BAD_PARAM,
                   "%s: a block size must be positive", c.name());
  return GPUDNN_STATUS_SUCCESS;
}

Status check_attention(const Checked& c) {
  GPUDNN_TRY(require_ports(c, {Port::q, Port::k, Port::v, Port::o}));
  for (const Port port : {Port::q, Port::k, Port::v, Port::o}) GPUDNN_TRY(require_rank_of(c, port, 4));
  const std::int64_t* q = c.at(Port::q)->geometry.dims;
  const std::int64_t* k = c.at(Port::k)->geometry.dims;
  const std::int64_t* v = c.at(Port::v)->geometry.dims;
  const std::int64_t* o = c.at(Port::o)->geometry.dims;
  const bool paged = c.at(Port::page_table_k) != nullptr;
  const bool fits = q[3] == k[3] && o[0] == q[0] && o[1] == q[1] && o[2] == q[2] && o[3] == v[3] && q[1] % k[1] == 0 &&
                    q[1] % v[1] == 0 && (paged || (k[2] == v[2] && k[0] == q[0] && v[0] == q[0]));
  GPUDNN_REQUIRE(fits, GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "%s: Q %s, K %s, V %s and O %s do not fit together",
                 c.name(), dims_of(c.at(Port::q)).c_str(), dims_of(c.at(Port::k)).c_str(),
                 dims_of(c.at(Port::v)).c_str(), dims_of(c.at(Port::o)).c_str());
  if (paged) {
    GPUDNN_TRY(require_ports(c, {Port::page_table_v, Port::seq_len_kv}));
    for (const Port port : {Port::page_table_k, Port::page_table_v}) GPUDNN_TRY(require_rank_of(c, port, 4));
  }
  if (c.node.op == Op::sdpa_bwd) {
    GPUDNN_TRY(require_ports(c, {Port::stats, Port::d_o, Port::dq, Port::dk, Port::dv}));
    GPUDNN_TRY(require_equal_dims(c, Port::o, Port::d_o));
    GPUDNN_TRY(require_equal_dims(c, Port::q, Port::dq));
    GPUDNN_TRY(require_equal_dims(c, Port::k, Port::dk));
    GPUDNN_TRY(require_equal_dims(c, Port::v, Port::dv));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status check_moe(const Checked& c) {
  GPUDNN_TRY(require_ports(c, {Port::x, Port::w, Port::token_offset, Port::y}));
  for (const Port port : {Port::x, Port::w, Port::y}) GPUDNN_TRY(require_rank_of(c, port, 3));
  const std::int64_t* x = c.at(Port::x)->geometry.dims;
  const std::int64_t* w = c.at(Port::w)->geometry.dims;
  const std::int64_t* y = c.at(Port::y)->geometry.dims;
  GPUDNN_REQUIRE(x[2] == w[1] && y[2] == w[2], GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                 "moe: tokens %s times weights %s do not give %s", dims_of(c.at(Port::x)).c_str(),
                 dims_of(c.at(Port::w)).c_str(), dims_of(c.at(Port::y)).c_str());
  GPUDNN_REQUIRE(element_count(c.at(Port::token_offset)->geometry) >= w[0], GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                 "moe: there are fewer token offsets than experts (%lld)", static_cast<long long>(w[0]));
  if (c.node.mode != GPUDNN_MOE_GROUPED_MATMUL_MODE_NONE) GPUDNN_TRY(require_ports(c, {Port::token_index}));
  return GPUDNN_STATUS_SUCCESS;
}

Status check_by_kind(const Checked& c) {
  switch (c.node.op) {
    case Op::conv_fwd:
    case Op::conv_dgrad:
    case Op::conv_wgrad:
      return check_convolution(c);
    case Op::pointwise:
      return check_pointwise(c);
    case Op::matmul:
      return check_matmul(c);
    case Op::reduction:
      return check_reduction(c);
    case Op::resample_fwd:
    case Op::resample_bwd:
      return check_resample(c);
    case Op::norm_fwd:
    case Op::norm_bwd:
      return check_norm(c);
    case Op::concat:
      return check_concat(c);
    case Op::reshape:
      return check_reshape(c);
    case Op::paged_load:
      return check_paged(c);
    case Op::quantize:
    case Op::dequantize:
      return check_scales(c);
    case Op::sdpa_fwd:
    case Op::sdpa_bwd:
      return check_attention(c);
    case Op::moe:
      return check_moe(c);
    case Op::gen_stats:
      return require_ports(c, {Port::x, Port::sum, Port::sqsum});
    case Op::bn_finalize:
      if (c.node.mode == GPUDNN_BN_FINALIZE_STATISTICS_TRAINING)
        return require_ports(c, {Port::sum, Port::sqsum, Port::scale, Port::bias, Port::epsilon, Port::count});
      return require_ports(c, {Port::running_mean_in, Port::running_var_in, Port::scale, Port::bias, Port::epsilon});
    case Op::bn_weights:
      return require_ports(c, {Port::mean, Port::inverse, Port::scale, Port::x, Port::dy});
    case Op::rng:
      return require_ports(c, {Port::y});
    default:
      return GPUDNN_STATUS_SUCCESS;
  }
}

}  // namespace

Status check_tensor(const Tensor& tensor) {
  GPUDNN_TRY(check_tensor_numbers(tensor.geometry));
  GPUDNN_REQUIRE(!tensor.by_value || (!tensor.is_virtual && element_count(tensor.geometry) == 1),
                 GPUDNN_STATUS_BAD_PARAM,
                 "a tensor passed by value is one number of the program's: its extents are 1, and it is not virtual");
  const bool vectors = tensor.vector_count == 1 || ((tensor.vector_count == 4 || tensor.vector_count == 32) &&
                                                    tensor.vector_dim >= 0 && tensor.vector_dim < tensor.geometry.rank);
  GPUDNN_REQUIRE(vectors, GPUDNN_STATUS_BAD_PARAM,
                 "vectors of %lld along dimension %lld: a vector has 1, 4 or 32 elements, along one of %d dimensions",
                 static_cast<long long>(tensor.vector_count), static_cast<long long>(tensor.vector_dim),
                 tensor.geometry.rank);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_operation(const Node& node, std::span<const Tensor> tensors) {
  const Checked checked{node, tensors};
  for (const Tensor& tensor : tensors) {
    GPUDNN_REQUIRE(tensor.geometry.type != GPUDNN_DATA_COMPLEX_FP32 && tensor.geometry.type != GPUDNN_DATA_COMPLEX_FP64,
                   GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "%s: tensor %lld is complex; complex types are not built",
                   op_name(node.op), static_cast<long long>(tensor.uid));
  }
  return check_by_kind(checked);
}

}  // namespace gpudnn::graph
