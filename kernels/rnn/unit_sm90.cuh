// What the blocks of the sweeps that stay on the chip have in common: vectors of weights, words of an exchange, and
// what one thread finishes of a unit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/pin_half.cuh"
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

template <class T>
__device__ __forceinline__ void rnn_pin(T& value) {
  if constexpr (sizeof(T) == 4) {
    ptx::pin(value);
  } else {
    ptx::pin(value.bits);
  }
}

// What one thread finishes: units of the same number at some places. Loads are begun before the wait and used behind
// it; a value that is converted where it is loaded would make the thread wait for each of them in turn.
template <class T, int G>
struct RnnForwardFinisher {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  struct Inputs {
    T pre[G];
  };
  const RnnLayer& l;
  const RnnDirection& d;
  int j;
  float bias[G] = {};
  float hidden_bias = 0;

  __device__ __forceinline__ RnnForwardFinisher(const RnnLayer& layer, const RnnDirection& direction, int unit)
      : l(layer), d(direction), j(unit) {
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
  __device__ __forceinline__ void fetch(const RnnStep& s, const RnnStep&, int place, Inputs* in) const {
    if (d.pre == nullptr) return;
    const T* const from = static_cast<const T*>(d.pre) + (s.first + place) * l.pre_row + j;
#pragma unroll
    for (int g = 0; g < G; ++g) in->pre[g] = from[g * l.pre_gate];
  }
  __device__ __forceinline__ auto finish(const RnnStep& s, const RnnStep&, int place, Inputs* fetched,
                                         const float (&total)[G], float* kept, bool /*across*/) const {
    typename Unit::Inputs in{};
#pragma unroll
    for (int g = 0; g < G; ++g) {
      if (d.pre != nullptr) rnn_pin(fetched->pre[g]);
      in.pre[g] = bias[g] + (d.pre != nullptr ? tile::widen<float>(fetched->pre[g]) : 0.0f);
    }
    in.hidden_bias = hidden_bias;
    const std::int64_t width = l.units;
    if (G > 1) {
      in.before = place < s.previous_rows
                      ? *kept
                      : Unit::load(G == 4 ? d.cx : d.hx, Unit::sequence_at(l.rows, place) * width + j);
    }
    const auto out = Unit::activate(l, in, total);
    *kept = G == 4 ? out.cell : tile::widen<float>(tile::narrow<T>(out.hidden));
    return out;
  }
};

template <class T>
struct RnnBackwardFinisher {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  struct Inputs {
    T dy, h;  // h: of a GRU one step back
    T slot[4];
    float cell, before;
  };
  const RnnLayer& l;
  const RnnDirection& d;
  int j;

  __device__ __forceinline__ RnnBackwardFinisher(const RnnLayer& layer, const RnnDirection& direction, int unit)
      : l(layer), d(direction), j(unit) {}
  __device__ __forceinline__ void fetch(const RnnStep& s, const RnnStep& made, int place, Inputs* in) const {
    const std::int64_t row = s.first + place;
    const std::int64_t units = l.units;
    if (d.dy != nullptr) in->dy = static_cast<const T*>(d.dy)[row * l.y_row + j];
    if (l.cell == RnnCell::lstm || l.cell == RnnCell::gru) {
      const T* const from = static_cast<const T*>(d.gates) + row * 4 * units + j;
#pragma unroll
      for (int g = 0; g < 4; ++g) in->slot[g] = from[g * units];
    }
    const std::int64_t older = made.previous_first + place;
    if (l.cell == RnnCell::lstm) {
      const float* const cells = static_cast<const float*>(d.cells) + j;
      in->cell = cells[row * units];
      if (place < made.previous_rows) in->before = cells[older * units];
    } else if (l.cell != RnnCell::gru) {
      in->h = static_cast<const T*>(d.y)[row * l.y_row + j];
    } else if (place < made.previous_rows) {
      in->h = static_cast<const T*>(d.y)[older * l.y_row + j];
    }
  }
  __device__ __forceinline__ auto finish(const RnnStep& s, const RnnStep& made, int place, Inputs* fetched,
                                         const float (&total)[1], float* kept, bool across) const {
    typename Unit::GradientInputs in{};
    const std::int64_t at = Unit::sequence_at(l.rows, place) * l.units + j;
    in.begins = place >= s.previous_rows;
    if (d.dy != nullptr) {
      rnn_pin(fetched->dy);
      in.dh = tile::widen<float>(fetched->dy);
    }
    if (in.begins) {
      in.dh += Unit::load(d.dhy, at);
    } else if (l.cell == RnnCell::gru) {
      in.dh += *kept;
    }
    if (l.cell == RnnCell::lstm || l.cell == RnnCell::gru) {
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        rnn_pin(fetched->slot[g]);
        in.slot[g] = tile::widen<float>(fetched->slot[g]);
      }
    }
    if (l.cell == RnnCell::lstm) {
      ptx::pin(fetched->cell);
      in.cell = fetched->cell;
      in.before = place < made.previous_rows ? fetched->before : Unit::load(d.cx, at);
      in.dc = in.begins ? Unit::load(d.dcy, at) : *kept;
    } else if (l.cell != RnnCell::gru) {
      rnn_pin(fetched->h);
      in.cell = tile::widen<float>(fetched->h);
    } else if (place < made.previous_rows) {
      rnn_pin(fetched->h);
      in.before = tile::widen<float>(fetched->h);
    } else {
      in.before = Unit::load(d.hx, at);
    }
    const auto out = Unit::differentiate(l, in, !in.begins || across ? in.dh + total[0] : in.dh);
    *kept = out.carry;
    return out;
  }
};

}  // namespace gpudnn::kernels
