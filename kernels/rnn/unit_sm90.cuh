// What the blocks of the sweeps that stay on the chip have in common: words of an exchange, and what one thread
// finishes of a unit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/ptx/gpu_relaxed.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/st_shared.cuh"
#include "kernels/rnn/step.cuh"
#include "kernels/rnn/vectors_sm90.cuh"

namespace gpudnn::kernels {

constexpr std::uint32_t kRnnNothing = 0xffffffffu;  // a word of the exchange that has not come

// A value as its word of the exchange has it: no value is the word that says that none has come.
template <class T>
__device__ __forceinline__ std::uint32_t rnn_word_bits(float value) {
  if constexpr (sizeof(T) == 4) {
    const std::uint32_t bits = __float_as_uint(value);
    return bits == kRnnNothing ? 0x7fffffffu : bits;
  } else {
    const std::uint32_t bits = tile::narrow<T>(value).bits;
    return bits == 0xffffu ? 0x7fffu : bits;
  }
}
__device__ __forceinline__ bool rnn_is_there(const uint4& w) {
  return w.x != kRnnNothing && w.y != kRnnNothing && w.z != kRnnNothing && w.w != kRnnNothing;
}

// The upper bits of a float, which are a TF32 number, and the others.
__device__ __forceinline__ std::uint32_t rnn_upper(std::uint32_t bits) { return bits & 0xffffe000u; }
__device__ __forceinline__ std::uint32_t rnn_rest(std::uint32_t bits) {
  return __float_as_uint(__uint_as_float(bits) - __uint_as_float(rnn_upper(bits)));
}

// States as they lie in the exchange, from `from` on, to the same bytes of shared memory: `wanted` says which of a
// thread's vectors, kThreads of them apart, there are.
template <int kThreads, int kVectors, int kAtOnce>
__device__ __forceinline__ void rnn_receive(const unsigned char* from, int thread, std::uint32_t wanted,
                                            std::uint32_t states) {
  constexpr int kBytesApart = kThreads * 16;
  std::int64_t first = reinterpret_cast<std::int64_t>(from) + thread * 16;
  std::uint32_t to = states + static_cast<std::uint32_t>(thread) * 16;
  // Kept in registers: else they are worked out for each load anew.
  ptx::pin(&first);
  ptx::pin(to);
  uint4 words[kAtOnce];
#pragma unroll
  for (int begin = 0; begin < kVectors; begin += kAtOnce) {
    std::uint32_t missing = kAtOnce == kVectors ? wanted : wanted >> begin & ((1u << kAtOnce) - 1);
#pragma unroll 1
    while (missing != 0) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (missing >> i & 1) {
          words[i] =
              ptx::ld_relaxed_gpu_v4(reinterpret_cast<const void*>(first + (begin + i) * kBytesApart));  // NOLINT
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const uint4& w = words[i];
        // rnn_is_there, written out: by the function the compiler makes other code of the split sweeps, not measured.
        const bool is_there = w.x != kRnnNothing && w.y != kRnnNothing && w.z != kRnnNothing && w.w != kRnnNothing;
        if ((missing >> i & 1) == 0 || !is_there) continue;
        ptx::st_shared(to + (begin + i) * kBytesApart, w);
        missing &= ~(1u << i);
      }
    }
  }
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
        gates(G > 1 ? direction.gates : nullptr, unit, rnn_gates_row(layer.cell, layer.units, sizeof(T)), layer.units),
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
        gates(direction.gates, unit, rnn_gates_row(layer.cell, layer.units, sizeof(T)), layer.units),
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
  // The same in two: what does not need the sum, and what does. G: not 0.
  struct Prepared {
    bool begins;
    float dh, dc;
    float cell;     // of dc, times dh
    float slot[4];  // times dc, where the cell has one, or dh
    float carry;
  };
  __device__ __forceinline__ Prepared prepare(const RnnUnitStep& s, int place, Inputs& fetched, float kept) const {
    Prepared p{};
    p.begins = place >= s.previous_rows;
    if (dy.is_there()) p.dh = rnn_value<T>(fetched.dy);
    if (p.begins && G != 3) p.dh += Unit::load(d.dhy, state_at(place));
    float v[4];
    if constexpr (G > 1) {
#pragma unroll
      for (int g = 0; g < 4; ++g) v[g] = rnn_value<T>(fetched.slot[g]);
    }
    if constexpr (G == 4) {
      ptx::pin(fetched.cell);
      const float before = place < s.older_rows ? fetched.before : Unit::load(d.cx, state_at(place));
      const float t = RnnDeviceConvert<T>::tanh(Unit::clip(l, fetched.cell));
      p.dc = kept;
      p.cell = Unit::passes(l, fetched.cell) ? v[3] * (1 - t * t) : 0.0f;
      p.slot[0] = v[2] * v[0] * (1 - v[0]);
      p.slot[1] = Unit::clip(l, before) * v[1] * (1 - v[1]);
      p.slot[2] = v[0] * (1 - v[2] * v[2]);
      p.slot[3] = t * v[3] * (1 - v[3]);
      p.carry = Unit::passes(l, before) ? v[1] : 0.0f;
    } else if constexpr (G == 3) {
      const float before = place < s.older_rows ? rnn_value<T>(fetched.h) : Unit::load(d.hx, state_at(place));
      p.dh += kept;
      p.slot[2] = (1 - v[1]) * (1 - v[2] * v[2]);
      p.slot[0] = p.slot[2] * v[3] * v[0] * (1 - v[0]);
      p.slot[1] = (before - v[2]) * v[1] * (1 - v[1]);
      p.slot[3] = p.slot[2] * v[0];
      p.carry = v[1];
    } else {
      const float h = rnn_value<T>(fetched.h);
      p.slot[0] = l.cell == RnnCell::tanh ? 1 - h * h : h > 0 ? 1.0f : 0.0f;
    }
    return p;
  }
  __device__ __forceinline__ static Outputs finish(const Prepared& p, float total, float* kept) {
    Outputs out{};
    const float dh = p.begins ? p.dh : p.dh + total;
    const float dc = G == 4 ? p.dc + dh * p.cell : dh;
#pragma unroll
    for (int g = 0; g < (G == 1 ? 1 : 4); ++g) out.slot[g] = (g == 3 ? dh : dc) * p.slot[g];
    out.carry = dc * p.carry;
    if constexpr (G > 1) *kept = out.carry;
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
