// What a lane of a sweep of one or two sequences (`gemv_sm90.cuh`) does of a unit beside the product: it has one gate,
// and loads and stores what belongs to it. The mathematics is that of `cell.hpp`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/gpu_relaxed_u16.cuh"
#include "kernels/rnn/unit_sm90.cuh"

namespace gpudnn::kernels {

// The sigmoid, or tanh. Float: the quotient is within two units in the last place, and where the series stands what it
// leaves out is below 6e-8 of the result; 16 bits as in `step.cuh`.
template <class T>
__device__ __forceinline__ float rnn_gemv_gate(float x, bool is_tanh) {
  const float argument = is_tanh ? 2 * x : -x;
  const float e = sizeof(T) == 2 ? __expf(argument) : expf(argument);
  const float quotient = __fdividef(1.0f, 1.0f + e);
  const float x2 = x * x;
  float series = -17.0f / 315.0f;
  if (sizeof(T) == 4) {
    series = -1382.0f / 155925.0f * x2 + 62.0f / 2835.0f;
    series = series * x2 - 17.0f / 315.0f;
  }
  series = x + x * x2 * (-1.0f / 3.0f + x2 * (2.0f / 15.0f + x2 * series));
  const bool is_small = fabsf(x) < (sizeof(T) == 2 ? 0.3f : 0.4f);
  return is_tanh ? (is_small ? series : 1.0f - 2.0f * quotient) : quotient;
}

// A column of a matrix over the rows, at a step.
template <class T>
struct RnnGemvStream {
  T* at = nullptr;
  std::int64_t step = 0;
  __device__ __forceinline__ RnnGemvStream(void* matrix, std::int64_t first_row, std::int64_t rows_of_step,
                                           std::int64_t row, std::int64_t column) {
    if (matrix == nullptr) return;
    at = static_cast<T*>(matrix) + (first_row * row + column);
    step = rows_of_step * row;
  }
  __device__ __forceinline__ void advance() { at += step; }
};

// What a lane does of a unit beside the product: it loads and stores what belongs to its gate.
template <class T, int G, class Block>
struct RnnGemvForward {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  static constexpr int kSums = G;
  const Block& b;
  const RnnLayer& l;
  const RnnDirection& d;
  int j, gate, place;
  bool works;
  RnnGemvStream<const T> pre;
  RnnGemvStream<T> gates, y;
  RnnGemvStream<float> cells;
  float bias = 0, hidden_bias = 0;
  float kept = 0;    // c, or h of a GRU
  float before = 0;  // the same, clipped
  float h = 0;
  float x = 0, x_of_n = 0;  // the sum without the product with R, and that of n
  RnnRaw<T> raw{};

  __device__ __forceinline__ RnnGemvForward(const Block& block, std::int64_t first_row, std::int64_t rows_of_step)
      : b(block),
        l(block.l),
        d(block.d),
        j(block.unit0 + block.unit()),
        gate(block.gate()),
        place(block.place()),
        works(place < block.batch && j < l.units && block.part == 0),
        pre(works && gate < G ? const_cast<void*>(d.pre) : nullptr, first_row + place, rows_of_step,  // NOLINT
            l.pre_row, gate * l.pre_gate + j),
        gates(works ? d.gates : nullptr, first_row + place, rows_of_step, rnn_gates_row(l.cell, l.units, sizeof(T)),
              std::int64_t{gate} * l.units + j),
        y(works && gate == 1 ? d.y : nullptr, first_row + place, rows_of_step, l.y_row, j),
        cells(works && gate == 0 && G == 4 && l.keeps_cells ? d.cells : nullptr, first_row + place, rows_of_step,
              l.units, j) {
    if (!works) return;
    kept = Unit::load(G == 4 ? d.cx : d.hx, std::int64_t{place} * l.units + j);
    if (gate < G) {
      const float hidden = Unit::load(d.hidden_bias, gate * l.units + j);
      bias = Unit::load(d.input_bias, gate * l.units + j) + (G == 3 && gate == 2 ? 0.0f : hidden);
    }
    if (G == 3) hidden_bias = Unit::load(d.hidden_bias, 2 * l.units + j);
  }
  __device__ __forceinline__ void fetch(bool /*is_last*/) {
    if (pre.at == nullptr) return;
    raw = look();
    pre.advance();
  }
  __device__ __forceinline__ RnnRaw<T> look() const {
    if constexpr (Block::kPipes) {
      return ptx::ld_relaxed_gpu_u16(pre.at);
    } else {
      return rnn_raw<T>(pre.at);
    }
  }
  // Of a lane for products: looked for until they have come.
  __device__ __forceinline__ void await_products() {
    constexpr std::uint32_t kMissing = 0xffffu;
    while (true) {
      const bool missing = b.lane.awaits && pre.at != nullptr && raw == kMissing;
      if (!__any_sync(0xffffffffu, missing)) return;
      if (missing) raw = ptx::ld_relaxed_gpu_u16(pre.at - pre.step);
    }
  }
  // What has been fetched, without the product with R.
  __device__ __forceinline__ void prepare() {
    if constexpr (Block::kPipes) await_products();
    x = bias + (pre.at != nullptr ? rnn_value<T>(raw) : 0.0f);
    if constexpr (G == 3) x_of_n = b.of_gate(x, 2);
    before = G == 4 && l.clips ? Unit::clip(l, kept) : kept;
  }
  // What the lane's unit sends.
  __device__ __forceinline__ float finish(const float (&total)[G]) {
    float sum = total[0];
    if (gate == 1) sum = total[1];
    if constexpr (G == 4) {
      if (gate == 2) sum = total[2];
      if (gate == 3) sum = total[3];
    }
    x = rnn_gemv_gate<T>(x + sum, G == 4 && gate == 2);
    const float v0 = b.of_gate(x, 0);
    const float v1 = b.of_gate(x, 1);
    if constexpr (G == 4) {
      const float v2 = b.of_gate(x, 2);
      const float v3 = b.of_gate(x, 3);
      kept = v1 * before + v0 * v2;
      h = v3 * rnn_gemv_gate<T>(l.clips ? Unit::clip(l, kept) : kept, true);
    } else {
      const float q = total[2] + hidden_bias;
      const float n = rnn_gemv_gate<T>(x_of_n + v0 * q, true);
      h = (1.0f - v1) * n + v1 * kept;
      kept = tile::widen<float>(tile::narrow<T>(h));
      if (gate == 2) x = n;
      if (gate == 3) x = q;
    }
    return works ? h : 0.0f;
  }
  __device__ __forceinline__ void store() {
    if (gates.at != nullptr) *gates.at = tile::narrow<T>(x), gates.advance();
    if (y.at != nullptr) *y.at = tile::narrow<T>(h), y.advance();
    if (G == 4 && cells.at != nullptr) *cells.at = kept, cells.advance();
  }
  __device__ __forceinline__ void store_last() const {
    if (!works || gate != 0) return;
    const std::int64_t state = std::int64_t{place} * l.units + j;
    if (G == 4 && d.cy != nullptr) Unit::store(d.cy, state, kept);
    if (d.hy != nullptr) Unit::store(d.hy, state, h);
  }
};

template <class T, int G, class Block>
struct RnnGemvBackward {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  static constexpr int kSums = 1;
  const Block& b;
  const RnnLayer& l;
  const RnnDirection& d;
  int j, gate, place;
  bool works;
  RnnGemvStream<const T> dy;
  RnnGemvStream<T> gates, gradients;
  RnnGemvStream<const float> cells;  // one step back
  RnnGemvStream<const T> y;          // the same
  float kept = 0;                    // of c, or what bypasses the product of a GRU
  float cell = 0, before = 0;
  RnnRaw<T> raw_dy{}, raw_slot{}, raw_before{};
  float raw_cell = 0;
  float first_dh = 0;
  float dh = 0, of_cell = 0, factor = 0, carry = 0;
  float gradient = 0;

  __device__ __forceinline__ RnnGemvBackward(const Block& block, std::int64_t first_row, std::int64_t rows_of_step)
      : b(block),
        l(block.l),
        d(block.d),
        j(block.unit0 + block.unit()),
        gate(block.gate()),
        place(block.place()),
        works(place < block.batch && j < l.units && block.part == 0),
        dy(works ? const_cast<void*>(d.dy) : nullptr, first_row + place, rows_of_step, l.y_row, j),  // NOLINT
        gates(works ? d.gates : nullptr, first_row + place, rows_of_step, rnn_gates_row(l.cell, l.units, sizeof(T)),
              std::int64_t{gate} * l.units + j),
        gradients(gates),
        cells(works && G == 4 ? d.cells : nullptr, first_row + place, rows_of_step, l.units, j),
        y(works && G == 3 ? d.y : nullptr, first_row + place, rows_of_step, l.y_row, j) {
    if (!works) return;
    kept = Unit::load(G == 4 ? d.dcy : d.dhy, state_at());
    if (G == 4) {
      first_dh = Unit::load(d.dhy, state_at());
      before = *cells.at;  // of the first step the cell
      cells.advance();
    } else {
      y.advance();
    }
  }
  __device__ __forceinline__ std::int64_t state_at() const { return std::int64_t{place} * l.units + j; }
  __device__ __forceinline__ void fetch(bool is_last) {
    if (!works) return;
    if (dy.at != nullptr) raw_dy = rnn_raw<T>(dy.at), dy.advance();
    raw_slot = rnn_raw<T>(gates.at);
    gates.advance();
    if (is_last) {
      if (G == 4) raw_cell = Unit::load(d.cx, state_at());
      if (G == 3) raw_before = d.hx != nullptr ? rnn_raw<T>(static_cast<const T*>(d.hx) + state_at()) : RnnRaw<T>{};
      return;
    }
    if (G == 4) raw_cell = *cells.at, cells.advance();
    if (G == 3) raw_before = rnn_raw<T>(y.at), y.advance();
  }
  __device__ __forceinline__ void prepare() {
    const float v = rnn_value<T>(raw_slot);
    const float v0 = b.of_gate(v, 0);
    const float v1 = b.of_gate(v, 1);
    const float v2 = b.of_gate(v, 2);
    const float v3 = b.of_gate(v, 3);
    dh = first_dh + (dy.at != nullptr ? rnn_value<T>(raw_dy) : 0.0f);
    first_dh = 0;
    if constexpr (G == 4) {
      cell = before;
      ptx::pin(raw_cell);
      before = raw_cell;
      const float t = rnn_gemv_gate<T>(Unit::clip(l, cell), true);
      of_cell = Unit::passes(l, cell) ? v3 * (1 - t * t) : 0.0f;
      carry = Unit::passes(l, before) ? v1 : 0.0f;
      float other = v2;
      if (gate == 1) other = Unit::clip(l, before);
      if (gate == 2) other = v0;
      if (gate == 3) other = t;
      factor = other * (gate == 2 ? 1 - v * v : v * (1 - v));
    } else {
      before = rnn_value<T>(raw_before);
      const float of_n = (1 - v1) * (1 - v2 * v2);
      factor = of_n;
      if (gate == 0) factor = of_n * v3 * v0 * (1 - v0);
      if (gate == 1) factor = (before - v2) * v1 * (1 - v1);
      if (gate == 3) factor = of_n * v0;
      dh += kept;
      carry = v1;
    }
  }
  __device__ __forceinline__ float finish(const float (&total)[1]) {
    const float all = dh + total[0];
    const float dc = G == 4 ? kept + all * of_cell : all;
    gradient = (gate == 3 ? all : dc) * factor;
    kept = dc * carry;
    return works ? gradient : 0.0f;
  }
  __device__ __forceinline__ void store() {
    if (works) *gradients.at = tile::narrow<T>(gradient), gradients.advance();
  }
  __device__ __forceinline__ void store_last() const {
    if (!works || gate != 0) return;
    if (G == 3) Unit::store_state(d.carry_h, state_at(), kept);
    if (G == 4 && d.dcx != nullptr) Unit::store(d.dcx, state_at(), kept);
  }
};

}  // namespace gpudnn::kernels
