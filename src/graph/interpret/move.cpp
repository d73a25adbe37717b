// Operations of the host interpreter that move, draw or scale elements.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "graph/interpret/element.hpp"
#include "graph/interpret/state.hpp"
#include "kernels/attention/attention.hpp"

namespace gpudnn::graph {
namespace {

std::int64_t offset_in(const TensorGeometry& geometry, const Dims& index) {
  std::int64_t offset = 0;
  for (int i = 0; i < geometry.rank; ++i) offset += index[static_cast<std::size_t>(i)] * geometry.strides[i];
  return offset;
}

// The element at an offset of x's memory is the one at the same offset of y's. Where the two do not fill the same
// memory, the order is that of the dimensions.
void run_reshape(const Node& node, State* state) {
  const TensorGeometry from = reshaped(state->tensor(node.at(Port::x)), state->tensor(node.at(Port::y)));
  const TensorGeometry& to = state->tensor(node.at(Port::y)).geometry;
  const Array& x = *state->in(node, Port::x);
  Array* y = state->out(node, Port::y);
  if (element_span(from) != element_span(to) || !is_dense(from) || !is_dense(to)) {
    y->v = x.v;
    return;
  }
  std::vector<double> memory(x.v.size());
  for_each_index(x.rank, x.dims, 10, [&](std::int64_t flat, const Dims& index) {
    memory[static_cast<std::size_t>(offset_in(from, index))] = x.at(flat);
  });
  for_each_index(y->rank, y->dims, 10, [&](std::int64_t flat, const Dims& index) {
    y->at(flat) = memory[static_cast<std::size_t>(offset_in(to, index))];
  });
}

void run_concat(const Node& node, State* state) {
  // An input that lies in the output already is there by itself.
  Array before;
  if (node.inplace >= 0) before = state->before(node, Port::y);
  Array* y = state->out(node, Port::y);
  const auto axis = static_cast<std::size_t>(node.axis);
  const Dims strides = y->strides();
  std::int64_t first = 0;
  std::int64_t number = 0;
  for (const Link& link : node.links) {
    if (link.port != Port::item) continue;
    const Array& x = state->value(link.tensor);
    const bool there = number++ == node.inplace;
    for_each_index(x.rank, x.dims, 10, [&](std::int64_t flat, const Dims& index) {
      std::int64_t to = first * strides[axis];
      for (std::size_t d = 0; d < static_cast<std::size_t>(x.rank); ++d) to += index[d] * strides[d];
      y->at(to) = there ? before.at(to) : x.at(flat);
    });
    first += x.dims[axis];
  }
}

// y[b, h, s, d] of pages; y may be given with its last two dimensions exchanged.
void run_paged_load(const Node& node, State* state) {
  const Array& container = *state->in(node, Port::x);
  const Array& table = *state->in(node, Port::page_table);
  const Array& lengths = *state->in(node, Port::seq_len);
  Array* y = state->out(node, Port::y);
  const bool straight = container.dims[3] == y->dims[3] &&
                        (y->dims[2] != container.dims[3] || table.dims[2] * container.dims[2] >= y->dims[2]);
  const TensorGeometry& geometry = state->tensor(node.at(Port::y)).geometry;
  // Keys are given transposed: the smaller stride is then along the third dimension.
  const bool turned = !straight || (container.dims[3] == y->dims[2] && geometry.strides[2] < geometry.strides[3]);
  const std::int64_t block = container.dims[2];
  const Dims cs = container.strides();
  for_each_index(4, y->dims, 10, [&](std::int64_t flat, const Dims& index) {
    const std::int64_t row = turned ? index[3] : index[2];
    const std::int64_t column = turned ? index[2] : index[3];
    if (row >= static_cast<std::int64_t>(lengths.at(index[0]))) return;
    const auto page = static_cast<std::int64_t>(table.at(index[0] * table.dims[1] * table.dims[2] + row / block));
    if (page < 0 || page >= container.dims[0]) return;
    y->at(flat) = container.at(page * cs[0] + index[1] * cs[1] + row % block * cs[2] + column);
  });
}

// A draw of [0, 1) from each word of a block.
double unit(std::uint32_t word) { return static_cast<double>(word) * 0x1p-32; }

}  // namespace

Status interpret_move(const Node& node, State* state) {
  if (node.op == Op::reshape) run_reshape(node, state);
  if (node.op == Op::concat) run_concat(node, state);
  if (node.op == Op::paged_load) run_paged_load(node, state);
  return GPUDNN_STATUS_SUCCESS;
}

// Philox4x32-10 with the seed as key; the counter is the element's row-major position and the offset. A mask of
// attention's scores, which has four dimensions, is the one that the attention engines draw.
Status interpret_rng(const Node& node, State* state) {
  Array* y = state->out(node, Port::y);
  const std::uint64_t seed = state->bits64(node, Port::seed, static_cast<std::uint64_t>(node.value));
  const std::uint64_t offset = state->bits64(node, Port::offset, 0);
  if (node.mode == GPUDNN_RNG_DISTRIBUTION_BERNOULLI && y->rank == 4) {
    kernels::AttentionDropout dropout;
    dropout.seed_value = seed;
    dropout.offset_value = offset;
    const kernels::DropoutKey key = kernels::dropout_key(dropout);
    const auto threshold = static_cast<std::uint32_t>(std::lround((1 - node.probability) * 65536));
    for_each_index(4, y->dims, 60, [&](std::int64_t flat, const Dims& i) {
      const bool kept = kernels::is_score_kept(key, threshold, static_cast<std::uint32_t>(i[0] * y->dims[1] + i[1]),
                                               static_cast<std::uint32_t>(i[2]), static_cast<std::uint32_t>(i[3]));
      y->at(flat) = kept ? 1 : 0;
    });
    return GPUDNN_STATUS_SUCCESS;
  }
  for_each_index(y->rank, y->dims, 60, [&](std::int64_t flat, const Dims&) {
    const auto position = static_cast<std::uint64_t>(flat);
    kernels::PhiloxBlock block[1] = {{{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                                       static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32)}}};
    kernels::philox(block, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    const double u = unit(block[0].word[0]);
    double value = 0;
    if (node.mode == GPUDNN_RNG_DISTRIBUTION_BERNOULLI) {
      value = u < node.probability ? 1 : 0;
    } else if (node.mode == GPUDNN_RNG_DISTRIBUTION_UNIFORM) {
      value = node.rng_least + u * (node.rng_most - node.rng_least);
    } else {
      const double radius = std::sqrt(-2 * std::log(1 - u));
      value = node.rng_mean + node.rng_deviation * radius * std::cos(2 * std::numbers::pi * unit(block[0].word[1]));
    }
    y->at(flat) = value;
  });
  return GPUDNN_STATUS_SUCCESS;
}

namespace {

// Elements that share a scale, along each dimension of x.
Dims block_dims(const Node& node, const Array& x, const Array& scale) {
  Dims block{};
  const auto rank = static_cast<std::size_t>(x.rank);
  for (std::size_t d = 0; d < rank; ++d) block[d] = 1;
  const auto count = static_cast<std::size_t>(node.block.count);
  if (count > 1) {
    for (std::size_t i = 0; i < count; ++i) block[rank - count + i] = node.block.value[i];
    return block;
  }
  // One number: along the dimension whose extent it cuts down to the scale's.
  const std::int64_t size = node.block.value[0];
  for (std::size_t d = rank; d-- > 0;) {
    if (x.dims[d] > scale.dims[d] && (x.dims[d] + size - 1) / size <= scale.dims[d]) {
      block[d] = size;
      return block;
    }
  }
  block[rank - 1] = size;
  return block;
}

std::int64_t scale_place(const Array& scale, const Dims& block, const Dims& index) {
  const Dims strides = scale.strides();
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(scale.rank); ++d)
    flat += std::min(index[d] / block[d], scale.dims[d] - 1) * strides[d];
  return flat;
}

}  // namespace

Status interpret_block_scale(const Node& node, State* state) {
  const Array& x = *state->in(node, Port::x);
  if (node.op == Op::dequantize) {
    const Array& scale = *state->in(node, Port::scale);
    Array* y = state->out(node, Port::y);
    const Dims block = block_dims(node, x, scale);
    const double sign = node.negate_scale != 0 ? -1 : 1;
    for_each_index(x.rank, x.dims, 20, [&](std::int64_t flat, const Dims& index) {
      y->at(flat) = sign * x.at(flat) * scale.at(scale_place(scale, block, index));
    });
    return GPUDNN_STATUS_SUCCESS;
  }
  Array* y = state->out(node, Port::y);
  Array* scale = state->out(node, Port::scale);
  const Dims block = block_dims(node, x, *scale);
  const DataType scale_type = state->tensor(node.at(Port::scale)).geometry.type;
  const double greatest = greatest_of(state->tensor(node.at(Port::y)).geometry.type);
  Dims index{};
  const auto advance = [&x](Dims* at) {
    for (int d = x.rank - 1; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      if (++(*at)[k] < x.dims[k]) return;
      (*at)[k] = 0;
    }
  };
  for (std::int64_t i = 0; i < x.count(); ++i, advance(&index)) {
    double& amax = scale->at(scale_place(*scale, block, index));
    amax = std::fmax(amax, std::fabs(x.at(i)));
  }
  for (double& value : scale->v) value = rounded(scale_type, value / greatest);
  index = {};
  for (std::int64_t i = 0; i < x.count(); ++i, advance(&index)) {
    const double s = scale->at(scale_place(*scale, block, index));
    y->at(i) = s == 0 ? 0 : x.at(i) / s;
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
