// Pointwise operations of the host interpreter.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numbers>

#include "graph/interpret/element.hpp"
#include "graph/interpret/state.hpp"

namespace gpudnn::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }
double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x, double beta) {
  const double z = beta * x;
  return (std::fmax(z, 0) + std::log1p(std::exp(-std::fabs(z)))) / beta;
}

constexpr double kTanhScale = 0.7978845608028654;  // sqrt(2 / pi)
double gelu_tanh_inner(double x) { return kTanhScale * (x + 0.044715 * x * x * x); }

// NaN of either operand passes on.
double maximum(double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b); }
double minimum(double a, double b) { return std::isnan(a) || std::isnan(b) ? a + b : std::fmin(a, b); }

double two_operands(int mode, double x, double b) {
  switch (mode) {
    case GPUDNN_POINTWISE_ADD:
      return x + b;
    case GPUDNN_POINTWISE_MUL:
      return x * b;
    case GPUDNN_POINTWISE_MIN:
      return minimum(x, b);
    case GPUDNN_POINTWISE_MAX:
      return maximum(x, b);
    case GPUDNN_POINTWISE_ADD_SQUARE:
      return x + b * b;
    case GPUDNN_POINTWISE_DIV:
      return x / b;
    case GPUDNN_POINTWISE_MOD:
      return std::fmod(x, b);
    case GPUDNN_POINTWISE_POW:
      return std::pow(x, b);
    case GPUDNN_POINTWISE_SUB:
      return x - b;
    case GPUDNN_POINTWISE_ATAN2:
      return std::atan2(x, b);
    case GPUDNN_POINTWISE_CMP_EQ:
      return x == b;
    case GPUDNN_POINTWISE_CMP_NEQ:
      return x != b;
    case GPUDNN_POINTWISE_CMP_GT:
      return x > b;
    case GPUDNN_POINTWISE_CMP_GE:
      return x >= b;
    case GPUDNN_POINTWISE_CMP_LT:
      return x < b;
    case GPUDNN_POINTWISE_CMP_LE:
      return x <= b;
    case GPUDNN_POINTWISE_LOGICAL_AND:
      return x != 0 && b != 0;
    default:  // LOGICAL_OR
      return x != 0 || b != 0;
  }
}

bool has_two_operands(int mode) {
  return (mode <= GPUDNN_POINTWISE_SUB && mode != GPUDNN_POINTWISE_SQRT) || mode == GPUDNN_POINTWISE_ATAN2 ||
         (mode >= GPUDNN_POINTWISE_CMP_EQ && mode <= GPUDNN_POINTWISE_LOGICAL_OR);
}

double forward(const Node& node, double x) {
  switch (node.mode) {
    case GPUDNN_POINTWISE_RELU_FWD:
      if (std::isnan(x)) return node.nan == GPUDNN_PROPAGATE_NAN ? x : node.lower_clip;
      return x > node.lower_clip ? std::fmin(x, node.upper_clip) : node.lower_clip + node.slope * (x - node.lower_clip);
    case GPUDNN_POINTWISE_TANH_FWD:
      return std::tanh(x);
    case GPUDNN_POINTWISE_SIGMOID_FWD:
      return sigmoid(x);
    case GPUDNN_POINTWISE_ELU_FWD:
      return x > 0 ? x : node.elu_alpha * std::expm1(x);
    case GPUDNN_POINTWISE_GELU_FWD:
      return x == -kInfinity ? 0 : x * normal_distribution(x);
    case GPUDNN_POINTWISE_SOFTPLUS_FWD:
      return softplus(x, node.softplus_beta);
    case GPUDNN_POINTWISE_SWISH_FWD:
      return x == -kInfinity ? 0 : x * sigmoid(node.swish_beta * x);
    default:  // GELU_APPROX_TANH_FWD
      return x == -kInfinity ? 0 : 0.5 * x * (1 + std::tanh(gelu_tanh_inner(x)));
  }
}

// f'(x).
double derivative(const Node& node, double x) {
  switch (node.mode) {
    case GPUDNN_POINTWISE_RELU_BWD:
      return x > node.lower_clip ? (x < node.upper_clip ? 1 : 0) : node.slope;
    case GPUDNN_POINTWISE_TANH_BWD:
      return 1 - std::tanh(x) * std::tanh(x);
    case GPUDNN_POINTWISE_SIGMOID_BWD:
      return sigmoid(x) * sigmoid(-x);
    case GPUDNN_POINTWISE_ELU_BWD:
      return x > 0 ? 1 : node.elu_alpha * std::exp(x);
    case GPUDNN_POINTWISE_GELU_BWD:
      return std::isinf(x) ? (x > 0 ? 1 : 0) : normal_distribution(x) + x * normal_density(x);
    case GPUDNN_POINTWISE_SOFTPLUS_BWD:
      return sigmoid(node.softplus_beta * x);
    case GPUDNN_POINTWISE_SWISH_BWD: {
      const double s = sigmoid(node.swish_beta * x);
      return std::isinf(x) ? s : s + node.swish_beta * x * s * (1 - s);
    }
    default: {  // GELU_APPROX_TANH_BWD
      if (std::isinf(x)) return x > 0 ? 1 : 0;
      const double t = std::tanh(gelu_tanh_inner(x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kTanhScale * (1 + 3 * 0.044715 * x * x);
    }
  }
}

// f'(x) from y = f(x).
double derivative_from_output(const Node& node, double y) {
  switch (node.mode) {
    case GPUDNN_POINTWISE_RELU_BWD:
      return y > node.lower_clip ? (y < node.upper_clip ? 1 : 0) : node.slope;
    case GPUDNN_POINTWISE_TANH_BWD:
      return 1 - y * y;
    case GPUDNN_POINTWISE_SIGMOID_BWD:
      return y * (1 - y);
    default:  // ELU_BWD
      return y > 0 ? 1 : y + node.elu_alpha;
  }
}

double one_operand(const Node& node, double x) {
  switch (node.mode) {
    case GPUDNN_POINTWISE_SQRT:
      return std::sqrt(x);
    case GPUDNN_POINTWISE_ABS:
      return std::fabs(x);
    case GPUDNN_POINTWISE_CEIL:
      return std::ceil(x);
    case GPUDNN_POINTWISE_COS:
      return std::cos(x);
    case GPUDNN_POINTWISE_EXP:
      return std::exp(x);
    case GPUDNN_POINTWISE_FLOOR:
      return std::floor(x);
    case GPUDNN_POINTWISE_LOG:
      return std::log(x);
    case GPUDNN_POINTWISE_NEG:
      return -x;
    case GPUDNN_POINTWISE_RSQRT:
      return 1 / std::sqrt(x);
    case GPUDNN_POINTWISE_SIN:
      return std::sin(x);
    case GPUDNN_POINTWISE_TAN:
      return std::tan(x);
    case GPUDNN_POINTWISE_ERF:
      return std::erf(x);
    case GPUDNN_POINTWISE_IDENTITY:
      return x;
    case GPUDNN_POINTWISE_RECIPROCAL:
      return 1 / x;
    case GPUDNN_POINTWISE_LOGICAL_NOT:
      return x == 0;
    default:
      return forward(node, x);
  }
}

// --- softmax by parts -----------------------------------------------------------------------------------------------
//
// Clients write a softmax as maximum, subtraction, exponential, sum and quotient. A row that is masked throughout then
// asks for exp(-inf - -inf) and 0 / 0; its probabilities are 0 by definition.

bool is_mode(const Node& node, int mode) { return node.op == Op::pointwise && node.mode == mode; }

// The node that writes a tensor, or null.
const Node* writer_of(const Graph& graph, int tensor) {
  for (const Node& node : graph.nodes)
    for (const Link& link : node.links)
      if (link.tensor == tensor && is_output(node, link.port)) return &node;
  return nullptr;
}

// Whether what the node writes goes to an exponential, or through selections to one.
bool goes_to_exp(const Graph& graph, int tensor, int depth = 0) {
  for (const Node& node : graph.nodes) {
    const bool reads = node.at(Port::x) == tensor || node.at(Port::b) == tensor;
    if (!reads) continue;
    if (is_mode(node, GPUDNN_POINTWISE_EXP)) return true;
    if (is_mode(node, GPUDNN_POINTWISE_BINARY_SELECT) && depth < 4 && goes_to_exp(graph, node.at(Port::y), depth + 1))
      return true;
  }
  return false;
}

// x - b of scores and a number for each row.
bool subtracts_row_maximum(const Node& node, const Graph& graph) {
  if (!is_mode(node, GPUDNN_POINTWISE_SUB)) return false;
  const TensorGeometry& x = graph.tensor(node, Port::x)->geometry;
  const TensorGeometry& b = graph.tensor(node, Port::b)->geometry;
  const bool per_row = x.rank == b.rank && b.dims[b.rank - 1] == 1;
  return per_row && goes_to_exp(graph, node.at(Port::y));
}

// An exponential over its sum.
bool divides_by_row_sum(const Node& node, const Graph& graph) {
  if (!is_mode(node, GPUDNN_POINTWISE_DIV)) return false;
  const Node* x = writer_of(graph, node.at(Port::x));
  if (x == nullptr || !is_mode(*x, GPUDNN_POINTWISE_EXP)) return false;
  const Node* sum = writer_of(graph, node.at(Port::b));
  return sum != nullptr &&
         ((sum->op == Op::reduction && sum->at(Port::x) == node.at(Port::x)) || is_mode(*sum, GPUDNN_POINTWISE_ADD));
}

Status run_backward(const Node& node, State* state) {
  Array* dx = state->out(node, Port::dx);
  const Array& dy = *state->in(node, Port::dy);
  const Array* x = state->in(node, Port::x);
  const Array* y = state->in(node, Port::y);
  const Array& at = x != nullptr ? *x : *y;
  const bool from_output = x == nullptr;
  GPUDNN_REQUIRE(!from_output || node.mode <= GPUDNN_POINTWISE_ELU_BWD, GPUDNN_STATUS_NOT_SUPPORTED,
                 "pointwise %s does not follow from its output; set XDESC", mode_name(node.op, node.mode));
  const Dims dy_strides = broadcast_strides(dy, dx->rank, dx->dims);
  const Dims at_strides = broadcast_strides(at, dx->rank, dx->dims);
  for_each_index(dx->rank, dx->dims, 20, [&](std::int64_t flat, const Dims& index) {
    std::int64_t i = 0;
    std::int64_t k = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dx->rank); ++d) {
      i += index[d] * dy_strides[d];
      k += index[d] * at_strides[d];
    }
    // FE's order of scales: alpha1 belongs to x, alpha2 to dy.
    const double point = node.alpha * at.at(k);
    const double slope = from_output ? derivative_from_output(node, point) : derivative(node, point);
    const double gradient = node.alpha2 * dy.at(i);
    dx->at(flat) = std::isnan(point) ? point : slope * gradient;
  });
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status interpret_pointwise(const Node& node, State* state) {
  if (node.mode >= GPUDNN_POINTWISE_RELU_BWD && node.mode < GPUDNN_POINTWISE_CMP_EQ) return run_backward(node, state);
  Array* y = state->out(node, Port::y);
  if (node.mode == GPUDNN_POINTWISE_GEN_INDEX) {
    for_each_index(y->rank, y->dims, 1, [&](std::int64_t flat, const Dims& index) {
      y->at(flat) = static_cast<double>(index[static_cast<std::size_t>(node.axis)]);
    });
    return GPUDNN_STATUS_SUCCESS;
  }
  const Array& x = *state->in(node, Port::x);
  const Array* b = state->in(node, Port::b);
  const Array* t = state->in(node, Port::t);
  // An operand that counts 0 times is not there: its memory may be.
  if (b != nullptr && b->v.empty()) b = nullptr;
  const Dims xs = broadcast_strides(x, y->rank, y->dims);
  const Dims bs = b != nullptr ? broadcast_strides(*b, y->rank, y->dims) : Dims{};
  const Dims ts = t != nullptr ? broadcast_strides(*t, y->rank, y->dims) : Dims{};
  const bool shifts = subtracts_row_maximum(node, state->graph());
  const bool normalises = divides_by_row_sum(node, state->graph());
  const bool integers = node.compute == GPUDNN_DATA_INT32 || node.compute == GPUDNN_DATA_INT64;
  const bool two = has_two_operands(node.mode);
  for_each_index(y->rank, y->dims, 20, [&](std::int64_t flat, const Dims& index) {
    std::int64_t i = 0;
    std::int64_t k = 0;
    std::int64_t m = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(y->rank); ++d) {
      i += index[d] * xs[d];
      k += index[d] * bs[d];
      m += index[d] * ts[d];
    }
    const double vx = node.alpha * x.at(i);
    const double vb = b == nullptr || node.alpha2 == 0 ? 0 : node.alpha2 * b->at(k);
    double result = 0;
    if (node.mode == GPUDNN_POINTWISE_BINARY_SELECT) {
      result = t->at(m) != 0 ? vx : vb;
    } else if (shifts && vx == -kInfinity && vb == -kInfinity) {
      result = -kInfinity;
    } else if (normalises && vx == 0 && vb == 0) {
      result = 0;
    } else {
      result = two ? two_operands(node.mode, vx, vb) : one_operand(node, vx);
    }
    y->at(flat) = integers && node.mode == GPUDNN_POINTWISE_DIV ? std::trunc(result) : result;
  });
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
