// The fused step of a recurrent layer: what its product multiplies, and what follows it.
// SPDX-License-Identifier: Apache-2.0
//
// Every part of a step is a product of rows of one matrix, 16 to 32 places at a time, with rows of another, both
// contiguous along the summed index, and the unit's own arithmetic (cell.hpp) on the sums:
//
//   part                rows of a                                rows of b          sums of a unit
//   forward_cell        h one step back, or hx                   R [G H, P]         G
//   forward_projection  h before the projection                  projection [P, H]  1
//   backward_hidden     gate gradients one step later            R^T [P, G H]       1
//   backward_cell       the same, or the gradient of projected h R^T, projection^T  1
//   backward_first      gate gradients of the first step         R^T                1
//
// The gate gradients of a GRU have four slots, of which the recurrent product takes 0, 1 and 3: from column 2 H on, the
// columns of a lie H further right.
#pragma once

#include "kernels/rnn/cell.hpp"
#include "kernels/rnn/step.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

// tanh for results of 16 bits: below 0.3 the series to x^7, whose remainder is under 2e-6 x, above it 1 - 2 / (1 +
// e^2x), whose error is some 2e-7; both lie far below the half unit of rounding, 2.4e-4.
__device__ __forceinline__ float rnn_tanh_of_16_bits(float x) {
  const float x2 = x * x;
  const float series = x + x * x2 * (-1.0f / 3.0f + x2 * (2.0f / 15.0f + x2 * (-17.0f / 315.0f)));
  const float whole = 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x));
  return fabsf(x) < 0.3f ? series : whole;
}

// Of 16-bit data the approximate exponential and quotient, each of a few units in the last place of float.
template <class Element>
struct RnnDeviceConvert {
  using T = Element;
  using C = tile::Compute<Element>;
  using State = C;
  __device__ __forceinline__ static C widen(T value) { return tile::widen<C>(value); }
  __device__ __forceinline__ static T narrow(C value) { return tile::narrow<T>(value); }
  __device__ __forceinline__ static C sigmoid(C x) {
    if constexpr (sizeof(T) == 2) return __fdividef(1.0f, 1.0f + __expf(-x));
    return rnn_sigmoid(x);
  }
  __device__ __forceinline__ static C tanh(C x) {
    if constexpr (sizeof(T) == 2) return rnn_tanh_of_16_bits(x);
    return rnn_tanh(x);
  }
};

template <class T>
struct RnnFactors {
  const T* a = nullptr;
  const T* other = nullptr;  // rows of places from `a_places` on, by the caller's numbers; null: zeros
  const T* b = nullptr;      // row of gate g and unit j: g * columns + j
  std::int64_t a_first = 0;
  std::int64_t a_row = 0;
  std::int32_t a_places = 0;
  std::int32_t places = 0;   // of the result
  std::int32_t columns = 0;  // units of the result
  std::int32_t depth = 0;
  std::int32_t skip_from = 0x7fffffff;
  std::int32_t skip = 0;
  bool at_last_steps = false;  // a's row is that of the place's own last step
};

template <class T>
__device__ __forceinline__ RnnFactors<T> rnn_factors(const RnnLayer& l, const RnnDirection& d, RnnPart part,
                                                     const RnnStep& s) {
  RnnFactors<T> f;
  const int gates = rnn_gates(l.cell);
  f.places = s.rows;
  f.a_first = s.previous_first;
  f.a_places = s.previous_rows;
  if (part == RnnPart::forward_cell) {
    f.a = static_cast<const T*>(d.y);
    f.other = static_cast<const T*>(d.hx);
    f.b = static_cast<const T*>(d.recurrent);
    f.a_row = l.y_row;
    f.columns = l.units;
    f.depth = l.width;
    return f;
  }
  if (part == RnnPart::forward_projection || (part == RnnPart::backward_cell && d.projection_t != nullptr)) {
    const bool forward = part == RnnPart::forward_projection;
    f.a = static_cast<const T*>(forward ? d.hidden : d.dh);
    f.b = static_cast<const T*>(forward ? d.projection : d.projection_t);
    f.a_first = s.first;
    f.a_places = s.rows;
    f.depth = forward ? l.units : l.width;
    f.columns = forward ? l.width : l.units;
    f.a_row = f.depth;
    return f;
  }
  f.a = static_cast<const T*>(d.gates);
  f.b = static_cast<const T*>(d.recurrent_t);
  f.depth = gates * l.units;
  f.a_row = rnn_gates_row(l.cell, l.units, sizeof(T));
  f.columns = l.width;
  if (l.cell == RnnCell::gru) {
    f.skip_from = 2 * l.units;
    f.skip = l.units;
  }
  if (part == RnnPart::backward_first) {
    f.a_first = s.first;
    f.a_places = s.rows;
    f.at_last_steps = d.downwards;
  }
  return f;
}

// The row of `a` for a place, or null for zeros.
template <class T>
__device__ __forceinline__ const T* rnn_row_of(const RnnLayer& l, const RnnFactors<T>& f, std::int32_t place) {
  if (place >= f.places) return nullptr;
  if (place >= f.a_places) {
    return f.other == nullptr ? nullptr
                              : f.other + (l.rows.device_order != nullptr ? l.rows.device_order[place] : place) *
                                              std::int64_t{f.depth};
  }
  std::int64_t first = f.a_first;
  if (f.at_last_steps) {
    first = l.rows.device_lengths == nullptr ? std::int64_t{l.rows.steps - 1} * l.rows.batch
                                             : l.rows.device_offsets[l.rows.device_lengths[place] - 1];
  }
  return f.a + (first + place) * f.a_row;
}

// What follows the product, at one place and unit.
template <class T, class C>
__device__ __forceinline__ void rnn_finish(const RnnStepArgs& args, int direction, std::int32_t place, std::int32_t j,
                                           const C* sums) {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  const RnnLayer& l = args.layer;
  const RnnDirection& d = l.direction[direction];
  const RnnStep& s = args.step[direction];
  switch (args.part) {
    case RnnPart::forward_cell:
      Unit::forward(l, d, s, place, j, Unit::fetch(l, d, s, place, j), sums);
      break;
    case RnnPart::forward_projection:
      Unit::store_hidden(l, d, s, place, j, sums[0]);
      break;
    case RnnPart::backward_hidden: {
      const auto in = Unit::fetch_hidden(l, d, s, place, j);
      Unit::store(d.dh, (s.first + place) * l.width + j, in.begins ? in.dh : in.dh + sums[0]);
      break;
    }
    case RnnPart::backward_cell: {
      const bool projects = d.projection_t != nullptr;
      auto in = projects ? typename Unit::GradientInputs{} : Unit::fetch_hidden(l, d, s, place, j);
      Unit::fetch_unit(l, d, s, args.forward[direction], place, j, &in);
      Unit::backward(l, d, s, place, j, in, in.begins ? in.dh : in.dh + sums[0]);
      break;
    }
    case RnnPart::backward_first:
      Unit::backward_first(l, d, place, j, sums[0]);
      break;
  }
}

}  // namespace gpudnn::kernels
