// What the blocks of the sweeps that stay on the chip have in common: vectors of weights, words of an exchange, and
// what one thread finishes of a unit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/ptx/pin.cuh"
#include "kernels/rnn/step.cuh"

namespace gpudnn::kernels {

constexpr std::uint32_t kRnnNothing = 0xffffffffu;  // a word of the exchange that has not come

// 16 bytes of elements, of which the first `valid` are there; the others are zeros.
template <class T>
__device__ __forceinline__ uint4 rnn_vector(const T* from, int valid, bool vectors) {
  constexpr int kCount = 16 / sizeof(T);
  if (valid <= 0) return make_uint4(0, 0, 0, 0);
  if (vectors && valid >= kCount) return *reinterpret_cast<const uint4*>(from);
  std::uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= valid) break;
    if constexpr (sizeof(T) == 4) {
      words[i] = __float_as_uint(from[i]);
    } else {
      words[i / 2] |= std::uint32_t{from[i].bits} << (16 * (i % 2));
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// A value as it is loaded: 16 bits have a register of their own until they are used, else two are put into one as soon
// as they come, and the thread waits for them there.
template <class T>
using RnnRaw = std::conditional_t<sizeof(T) == 2, std::uint32_t, T>;
template <class T>
__device__ __forceinline__ RnnRaw<T> rnn_raw(const T* from) {
  if constexpr (sizeof(T) == 2) {
    return from->bits;
  } else {
    return *from;
  }
}
template <class T>
__device__ __forceinline__ float rnn_value(RnnRaw<T>& raw) {
  ptx::pin(raw);  // not converted before here
  if constexpr (sizeof(T) == 2) {
    return tile::widen<float>(T{static_cast<std::uint16_t>(raw)});
  } else {
    return raw;
  }
}

// One step of a sweep as its units see it.
struct RnnUnitStep {
  std::int32_t first = 0;           // row of place 0
  std::int32_t previous_first = 0;  // the same of the step before in the sweep
  std::int32_t older_first = 0;     // the same of the step before in time of the layer's own direction
  std::int32_t rows = 0;
  std::int32_t older_rows = 0;     // places that have such a step
  std::int32_t previous_rows = 0;  // places that have a step before in the sweep; the others begin here
  std::int32_t ends_from = 0;      // places from here on have no step after this one in the sweep
};
// Step i of a sweep; `downwards`: of the layer's own direction. `continues`: sequences have steps before the first.
__device__ __forceinline__ RnnUnitStep rnn_unit_step(const RnnRows& rows, bool downwards, bool backward, std::int32_t i,
                                                     bool continues = false) {
  const bool falls = downwards != backward;
  const std::int32_t t = falls ? rows.steps - 1 - i : i;
  RnnUnitStep s;
  if (rows.device_offsets == nullptr) {
    const std::int32_t older = downwards ? t + 1 : t - 1;
    const bool has_older = (older >= 0 || continues) && older < rows.steps;
    s.first = t * rows.batch;
    s.older_first = has_older ? older * rows.batch : 0;
    s.previous_first = i > 0 ? (falls ? t + 1 : t - 1) * rows.batch : 0;
    s.rows = rows.batch;
    s.older_rows = has_older ? rows.batch : 0;
    s.previous_rows = i > 0 ? rows.batch : 0;
    s.ends_from = i + 1 < rows.steps ? rows.batch : 0;
    return s;
  }
  const auto offset = [&](std::int32_t step) { return std::int64_t{rows.device_offsets[step]}; };
  const RnnStep sweep = rnn_step(rows, falls, t, offset);
  const RnnStep own = rnn_step(rows, downwards, t, offset);
  s.first = static_cast<std::int32_t>(sweep.first), s.rows = sweep.rows;
  s.older_first = static_cast<std::int32_t>(own.previous_first), s.older_rows = own.previous_rows;
  s.previous_first = static_cast<std::int32_t>(sweep.previous_first);
  s.previous_rows = sweep.previous_rows, s.ends_from = sweep.ends_from;
  return s;
}

// A column of a matrix over the rows, or of several in like steps. Its address stays in a register: else it is worked
// out anew for each access.
template <class T>
struct RnnColumn {
  std::int64_t at = 0;
  std::int32_t row = 0;   // bytes
  std::int32_t step = 0;  // bytes
  __device__ __forceinline__ RnnColumn(const void* matrix, std::int64_t column, std::int64_t row_elements,
                                       std::int64_t step_elements = 0)
      : row(static_cast<std::int32_t>(row_elements * std::int64_t{sizeof(T)})),
        step(static_cast<std::int32_t>(step_elements * std::int64_t{sizeof(T)})) {
    if (matrix != nullptr) {
      at = static_cast<std::int64_t>(__cvta_generic_to_global(static_cast<const T*>(matrix) + column));
    }
    ptx::pin(&at);
  }
  __device__ __forceinline__ bool is_there() const { return at != 0; }
  __device__ __forceinline__ T* of(std::int32_t index, int matrix = 0) const {
    const std::int64_t element = at + std::int64_t{index} * row + std::int64_t{matrix} * step;
    return static_cast<T*>(__cvta_global_to_generic(static_cast<std::size_t>(element)));
  }
};

// What one thread finishes of a sweep, without a branch that the cell or a pointer takes where every step is alike:
// unit j at some places. `kept` is c, or h of a GRU, and begins with the first state; backward what comes from the step
// after, and begins with the gradient of the last state. G: gates of the cell.
template <class T, int G>
struct RnnForwardUnit {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  using Outputs = typename Unit::Outputs;
  struct Inputs {
    RnnRaw<T> pre[G];
  };
  const RnnLayer& l;
  const RnnDirection& d;
  int j;
  RnnColumn<const T> pre;
  RnnColumn<T> gates;
  RnnColumn<float> cells;
  RnnColumn<T> y;
  float bias[G] = {};
  float hidden_bias = 0;

  __device__ __forceinline__ RnnForwardUnit(const RnnLayer& layer, const RnnDirection& direction, int unit)
      : l(layer),
        d(direction),
        j(unit),
        pre(direction.pre, unit, layer.pre_row, layer.pre_gate),
        gates(G > 1 ? direction.gates : nullptr, unit, std::int64_t{4} * layer.units, layer.units),
        cells(G == 4 && layer.keeps_cells ? direction.cells : nullptr, unit, layer.units),
        y(direction.y, unit, layer.y_row) {
    if (j >= l.units) return;
#pragma unroll
    for (int g = 0; g < G; ++g) {
      const float hidden = Unit::load(d.hidden_bias, g * l.units + j);
      bias[g] = Unit::load(d.input_bias, g * l.units + j);
      if (G == 3 && g == 2) {
        hidden_bias = hidden;
      } else {
        bias[g] += hidden;
      }
    }
  }
  __device__ __forceinline__ float first_kept(int place) const {
    if (G == 1) return 0.0f;
    if (G == 4 && d.c_first != nullptr) return d.c_first[std::int64_t{place} * l.units + j];
    return Unit::load(G == 4 ? d.cx : d.hx, Unit::sequence_at(l.rows, place) * l.units + j);
  }
  __device__ __forceinline__ void fetch(const RnnUnitStep& s, int place, Inputs* in) const {
    if (!pre.is_there()) return;
#pragma unroll
    for (int g = 0; g < G; ++g) in->pre[g] = rnn_raw(pre.of(s.first + place, g));
  }
  __device__ __forceinline__ Outputs finish(const RnnUnitStep&, int, Inputs& fetched, const float (&total)[G],
                                            float* kept, bool /*across*/ = false) const {
    typename Unit::Inputs in{};
#pragma unroll
    for (int g = 0; g < G; ++g) {
      in.pre[g] = bias[g] + (pre.is_there() ? rnn_value<T>(fetched.pre[g]) : 0.0f);
    }
    in.hidden_bias = hidden_bias;
    if (G > 1) in.before = *kept;
    const Outputs out = Unit::template activate_gates<G>(l, in, total);
    if (G > 1) *kept = G == 4 ? out.cell : tile::widen<float>(tile::narrow<T>(out.hidden));
    return out;
  }
  __device__ __forceinline__ void store(const RnnUnitStep& s, int place, const Outputs& out) const {
    const std::int32_t row = s.first + place;
    if (G > 1 && gates.is_there()) {
#pragma unroll
      for (int g = 0; g < 4; ++g) *gates.of(row, g) = tile::narrow<T>(out.slot[g]);
    }
    if (G == 4 && cells.is_there()) *cells.of(row) = out.cell;
    if (y.is_there()) *y.of(row) = tile::narrow<T>(out.hidden);
    if (place < s.ends_from) return;
    const std::int64_t state = Unit::sequence_at(l.rows, place) * l.units + j;
    if (G == 4 && d.cy != nullptr) Unit::store(d.cy, state, out.cell);
    if (G == 4 && d.c_last != nullptr) d.c_last[std::int64_t{place} * l.units + j] = out.cell;
    if (d.hy != nullptr) Unit::store(d.hy, state, out.hidden);
  }
};

// G 0: the layer says which cell it is.
template <class T, int G>
struct RnnBackwardUnit {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  using Outputs = typename Unit::Gradients;
  struct Inputs {
    RnnRaw<T> dy, h;  // h: of a GRU one step back
    RnnRaw<T> slot[4];
    float cell, before;
  };
  const RnnLayer& l;
  const RnnDirection& d;
  int j;
  RnnColumn<const T> dy;
  RnnColumn<T> gates;
  RnnColumn<const float> cells;
  RnnColumn<const T> y;

  __device__ __forceinline__ RnnBackwardUnit(const RnnLayer& layer, const RnnDirection& direction, int unit)
      : l(layer),
        d(direction),
        j(unit),
        dy(direction.dy, unit, layer.y_row),
        gates(direction.gates, unit, rnn_slots(layer.cell) * std::int64_t{layer.units}, layer.units),
        cells(layer.cell == RnnCell::lstm ? direction.cells : nullptr, unit, layer.units),
        y(layer.cell == RnnCell::lstm ? nullptr : direction.y, unit, layer.y_row) {}
  __device__ __forceinline__ bool has(int count) const { return G == 0 ? rnn_gates(l.cell) == count : G == count; }
  __device__ __forceinline__ std::int64_t state_at(int place) const {
    return Unit::sequence_at(l.rows, place) * l.units + j;
  }
  __device__ __forceinline__ float first_kept(int place) const {
    if (has(1)) return 0.0f;
    if (has(4) && d.c_first != nullptr) return d.c_first[std::int64_t{place} * l.units + j];
    return Unit::load(has(4) ? d.dcy : d.dhy, state_at(place));
  }
  __device__ __forceinline__ void fetch(const RnnUnitStep& s, int place, Inputs* in) const {
    const std::int32_t row = s.first + place;
    const std::int32_t older = s.older_first + place;
    if (dy.is_there()) in->dy = rnn_raw(dy.of(row));
    if (!has(1)) {
#pragma unroll
      for (int g = 0; g < 4; ++g) in->slot[g] = rnn_raw<T>(gates.of(row, g));
    }
    if (has(4)) {
      in->cell = *cells.of(row);
      if (place < s.older_rows) in->before = *cells.of(older);
    } else if (has(3)) {
      if (place < s.older_rows) in->h = rnn_raw(y.of(older));
    } else {
      in->h = rnn_raw(y.of(row));
    }
  }
  __device__ __forceinline__ Outputs finish(const RnnUnitStep& s, int place, Inputs& fetched, const float (&total)[1],
                                            float* kept, bool across = false) const {
    typename Unit::GradientInputs in{};
    in.begins = place >= s.previous_rows;
    if (dy.is_there()) in.dh = rnn_value<T>(fetched.dy);
    if (in.begins && !has(3)) in.dh += Unit::load(d.dhy, state_at(place));
    if (!in.begins || across) in.dh += total[0];
    if (has(3)) in.dh += *kept;
    if (!has(1)) {
#pragma unroll
      for (int g = 0; g < 4; ++g) in.slot[g] = rnn_value<T>(fetched.slot[g]);
    }
    if (has(4)) {
      ptx::pin(fetched.cell);
      in.cell = fetched.cell;
      in.before = place < s.older_rows ? fetched.before : Unit::load(d.cx, state_at(place));
      in.dc = *kept;
    } else if (has(3)) {
      in.before = place < s.older_rows ? rnn_value<T>(fetched.h) : Unit::load(d.hx, state_at(place));
    } else {
      in.cell = rnn_value<T>(fetched.h);
    }
    Outputs out;
    if constexpr (G == 0) {
      out = Unit::differentiate(l, in, in.dh);
    } else {
      out = Unit::template differentiate_gates<G>(l, in, in.dh);
    }
    if (!has(1)) *kept = out.carry;
    return out;
  }
  __device__ __forceinline__ void store(const RnnUnitStep& s, int place, const Outputs& out) const {
    *gates.of(s.first + place) = tile::narrow<T>(out.slot[0]);
    if (has(1)) return;
#pragma unroll
    for (int g = 1; g < 4; ++g) *gates.of(s.first + place, g) = tile::narrow<T>(out.slot[g]);
    if (place < s.ends_from) return;
    if (has(3)) Unit::store_state(d.carry_h, std::int64_t{place} * l.units + j, out.carry);
    if (has(4) && d.dcx != nullptr) Unit::store(d.dcx, state_at(place), out.carry);
    if (has(4) && d.c_last != nullptr) d.c_last[std::int64_t{place} * l.units + j] = out.carry;
  }
};

}  // namespace gpudnn::kernels
