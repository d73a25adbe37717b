// Convolutions and matrix products of the host interpreter.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/interpret/state.hpp"

namespace gpudnn::graph {
namespace {

// A convolution of 1 to 3 spatial dimensions as one of 3.
struct Shape {
  std::int64_t n = 0, c = 0, k = 0, each = 0, filters_each = 0;  // each: channels of a group
  std::array<std::int64_t, 3> x{1, 1, 1}, w{1, 1, 1}, y{1, 1, 1}, pre{}, stride{1, 1, 1}, dilation{1, 1, 1};
  bool mirrored = false;
};

Shape shape_of(const Node& node, const Array& x, const Array& w, const Array& y) {
  Shape s;
  const int spatial = node.pre.count;
  s.n = x.dims[0];
  s.c = x.dims[1];
  s.k = y.dims[1];
  s.each = w.dims[1];
  s.filters_each = s.k / (s.c / s.each);
  s.mirrored = node.mode == GPUDNN_CONVOLUTION;
  for (int i = 0; i < spatial; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const auto to = static_cast<std::size_t>(3 - spatial + i);
    s.x[to] = x.dims[k + 2];
    s.w[to] = w.dims[k + 2];
    s.y[to] = y.dims[k + 2];
    s.pre[to] = node.pre.value[k];
    s.stride[to] = node.stride.value[k];
    s.dilation[to] = node.dilation.value[k];
  }
  return s;
}

std::int64_t volume(const std::array<std::int64_t, 3>& a) { return a[0] * a[1] * a[2]; }

// body(tap, output pixel, input pixel) for every pair that meets.
template <class Body>
void for_each_meeting(const Shape& s, const Body& body) {
  std::array<std::int64_t, 3> t{};
  for (t[0] = 0; t[0] < s.w[0]; ++t[0])
    for (t[1] = 0; t[1] < s.w[1]; ++t[1])
      for (t[2] = 0; t[2] < s.w[2]; ++t[2]) {
        std::array<std::int64_t, 3> o{};
        for (o[0] = 0; o[0] < s.y[0]; ++o[0])
          for (o[1] = 0; o[1] < s.y[1]; ++o[1])
            for (o[2] = 0; o[2] < s.y[2]; ++o[2]) {
              std::int64_t pixel = 0;
              bool inside = true;
              for (std::size_t d = 0; d < 3; ++d) {
                const std::int64_t tap = s.mirrored ? s.w[d] - 1 - t[d] : t[d];
                const std::int64_t at = o[d] * s.stride[d] - s.pre[d] + tap * s.dilation[d];
                inside = inside && at >= 0 && at < s.x[d];
                pixel = pixel * s.x[d] + at;
              }
              if (inside) body((t[0] * s.w[1] + t[1]) * s.w[2] + t[2], (o[0] * s.y[1] + o[1]) * s.y[2] + o[2], pixel);
            }
      }
}

// out = alpha * out + beta * what was there.
void combine(const Node& node, const State& state, Port port, Array* out) {
  if (node.alpha != 1)
    for (double& value : out->v) value *= node.alpha;
  if (node.beta == 0) return;
  const Array before = state.before(node, port);
  for (std::size_t i = 0; i < out->v.size(); ++i) out->v[i] += node.beta * before.v[i];
}

// Rows of an index space, each worked on by one thread.
void for_each_pair(std::int64_t a, std::int64_t b, std::int64_t cost,
                   const std::function<void(std::int64_t, std::int64_t)>& body) {
  for_each_index(2, {a, b}, cost, [&](std::int64_t, const Dims& index) { body(index[0], index[1]); });
}

}  // namespace

Status interpret_convolution(const Node& node, State* state) {
  const Port out_port = node.op == Op::conv_fwd ? Port::y : node.op == Op::conv_dgrad ? Port::dx : Port::dw;
  for (const Link& link : node.links)
    GPUDNN_REQUIRE(state->tensor(link.tensor).reordering != GPUDNN_TENSOR_REORDERING_INT8x32,
                   GPUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "%s: the reordered INT8x32 layout is not built",
                   op_name(node.op));
  Array* out = state->out(node, out_port);
  const Array& x = node.op == Op::conv_dgrad ? *out : *state->in(node, Port::x);
  const Array& w = node.op == Op::conv_wgrad ? *out : *state->in(node, Port::w);
  const Array& y = node.op == Op::conv_fwd ? *out : *state->in(node, Port::dy);
  const Shape s = shape_of(node, x, w, y);
  const std::int64_t xs = volume(s.x);
  const std::int64_t ws = volume(s.w);
  const std::int64_t ys = volume(s.y);
  const std::int64_t cost = ws * ys * s.each;
  if (node.op == Op::conv_fwd) {
    for_each_pair(s.n, s.k, cost, [&](std::int64_t n, std::int64_t k) {
      const std::int64_t first = k / s.filters_each * s.each;
      for (std::int64_t c = 0; c < s.each; ++c)
        for_each_meeting(s, [&](std::int64_t tap, std::int64_t o, std::int64_t i) {
          out->at((n * s.k + k) * ys + o) += x.at((n * s.c + first + c) * xs + i) * w.at((k * s.each + c) * ws + tap);
        });
    });
  } else if (node.op == Op::conv_dgrad) {
    for_each_pair(s.n, s.c, cost, [&](std::int64_t n, std::int64_t c) {
      const std::int64_t group = c / s.each;
      for (std::int64_t k = group * s.filters_each; k < (group + 1) * s.filters_each; ++k)
        for_each_meeting(s, [&](std::int64_t tap, std::int64_t o, std::int64_t i) {
          out->at((n * s.c + c) * xs + i) += y.at((n * s.k + k) * ys + o) * w.at((k * s.each + c % s.each) * ws + tap);
        });
    });
  } else {
    for_each_pair(s.k, s.each, cost, [&](std::int64_t k, std::int64_t c) {
      const std::int64_t channel = k / s.filters_each * s.each + c;
      for (std::int64_t n = 0; n < s.n; ++n)
        for_each_meeting(s, [&](std::int64_t tap, std::int64_t o, std::int64_t i) {
          out->at((k * s.each + c) * ws + tap) += x.at((n * s.c + channel) * xs + i) * y.at((n * s.k + k) * ys + o);
        });
    });
  }
  combine(node, *state, out_port, out);
  return GPUDNN_STATUS_SUCCESS;
}

Status interpret_matmul(const Node& node, State* state) {
  Array* y = state->out(node, Port::y);
  const Array& a = *state->in(node, Port::x);
  const Array& b = *state->in(node, Port::b);
  const auto rank = static_cast<std::size_t>(y->rank);
  const std::int64_t m = y->dims[rank - 2];
  const std::int64_t n = y->dims[rank - 1];
  const std::int64_t k = a.dims[rank - 1];
  const auto extent = [state, &node](Port port, std::int64_t batch, std::int64_t whole) {
    const Array* of = state->in(node, port);
    return of == nullptr ? whole
                         : std::clamp<std::int64_t>(static_cast<std::int64_t>(of->at(batch % of->count())), 0, whole);
  };
  // The matrix of an operand that belongs to a batch index: a divisor of the product's extent is repeated in runs.
  const auto matrix_of = [rank, y](const Array& operand, const Dims& index) {
    std::int64_t matrix = 0;
    for (std::size_t d = 0; d + 2 < rank; ++d)
      matrix = matrix * operand.dims[d] + index[d] / (y->dims[d] / operand.dims[d]);
    return matrix;
  };
  for_each_index(static_cast<int>(rank) - 1, y->dims, n * k, [&](std::int64_t row, const Dims& index) {
    const std::int64_t batch = rank > 2 ? index[0] : 0;
    const std::int64_t rows = extent(Port::m_override, batch, m);
    const std::int64_t columns = extent(Port::n_override, batch, n);
    const std::int64_t depth = extent(Port::k_override, batch, k);
    const std::int64_t i = index[rank - 2];
    const double* from_a = &a.v[static_cast<std::size_t>((matrix_of(a, index) * m + i) * k)];
    const double* from_b = &b.v[static_cast<std::size_t>(matrix_of(b, index) * k * n)];
    double* to = &y->v[static_cast<std::size_t>(row * n)];
    for (std::int64_t j = 0; j < n; ++j) to[j] = i < rows && j < columns ? 0 : node.padding_value;
    if (i >= rows) return;
    for (std::int64_t p = 0; p < depth; ++p)
      for (std::int64_t j = 0; j < columns; ++j) to[j] += from_a[p] * from_b[p * n + j];
  });
  return GPUDNN_STATUS_SUCCESS;
}

Status interpret_moe(const Node& node, State* state) {
  Array* y = state->out(node, Port::y);
  const Array& x = *state->in(node, Port::x);
  const Array& w = *state->in(node, Port::w);
  const Array& offsets = *state->in(node, Port::token_offset);
  const Array* indices = state->in(node, Port::token_index);
  const std::int64_t experts = w.dims[0];
  const std::int64_t depth = x.dims[2];
  const std::int64_t width = w.dims[2];
  const bool gathers = node.mode == GPUDNN_MOE_GROUPED_MATMUL_MODE_GATHER;
  const std::int64_t rows = gathers ? y->dims[1] : x.dims[1];
  for_each_pair(rows, 1, depth * width, [&](std::int64_t t, std::int64_t) {
    std::int64_t expert = 0;
    while (expert + 1 < experts && t >= static_cast<std::int64_t>(offsets.at(expert + 1))) ++expert;
    if (t < static_cast<std::int64_t>(offsets.at(0))) return;
    const std::int64_t other =
        indices != nullptr && t < indices->count() ? static_cast<std::int64_t>(indices->at(t)) : t;
    const std::int64_t from = gathers ? other : t;
    const std::int64_t to = node.mode == GPUDNN_MOE_GROUPED_MATMUL_MODE_SCATTER ? other : t;
    if (from < 0 || from >= x.dims[1] || to < 0 || to >= y->dims[1]) return;
    for (std::int64_t p = 0; p < depth; ++p)
      for (std::int64_t j = 0; j < width; ++j)
        y->at(to * width + j) += x.at(from * depth + p) * w.at((expert * depth + p) * width + j);
  });
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
