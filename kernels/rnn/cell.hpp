// What one unit of a recurrent layer computes at one row of one step, forward and backward, behind the product with the
// recurrent weights. For device and host alike: `Convert` turns storage into the type of the sums and back.
// SPDX-License-Identifier: Apache-2.0
//
//   RNN   h = f(a)                                     a = pre + sum + bW + bR
//   LSTM  i, f, o = s(a);  g = tanh(a);  c' = f clip(c) + i g;  h = o tanh(clip(c'))
//   GRU   r, z = s(a);  q = sum + bR;  n = tanh(pre + bW + r q);  h' = (1 - z) n + z h
//
// Backward, from dh: RNN da = dh f'.  LSTM dc = carry + dh o (1 - tanh^2 clip(c')), the latter where the clip lets it
// through; do = dh tanh(clip(c')), di = dc g, df = dc clip(c), dg = dc i, each times the slope of its gate; carry = dc
// f where the clip of c lets it through.  GRU dz = dh (h - n), dn = dh (1 - z) (1 - n^2), dr = dn q, dq = dn r, the
// gates' times s'; carry = dh z.  The gradients take the slots of the gates.
#pragma once

#include <cmath>

#include "kernels/rnn/rnn.hpp"

namespace gpudnn::kernels {

template <class C>
GPUDNN_HOST_DEVICE C rnn_tanh(C x) {
#ifdef __CUDA_ARCH__
  return tanh(x);
#else
  return std::tanh(x);
#endif
}
template <class C>
GPUDNN_HOST_DEVICE C rnn_sigmoid(C x) {
#ifdef __CUDA_ARCH__
  return C(1) / (C(1) + exp(-x));
#else
  return C(1) / (C(1) + std::exp(-x));
#endif
}

// Convert: types T (data), C (arithmetic) and State (of c between steps), static C widen(T), static T narrow(C), and
// the two functions, static C sigmoid(C) and static C tanh(C).
template <class Convert>
struct RnnUnit {
  using T = typename Convert::T;
  using C = typename Convert::C;
  using State = typename Convert::State;

  GPUDNN_HOST_DEVICE static C load(const void* from, std::int64_t at) {
    return from == nullptr ? C(0) : Convert::widen(static_cast<const T*>(from)[at]);
  }
  GPUDNN_HOST_DEVICE static void store(void* to, std::int64_t at, C value) {
    static_cast<T*>(to)[at] = Convert::narrow(value);
  }
  GPUDNN_HOST_DEVICE static C load_state(const void* from, std::int64_t at) {
    return static_cast<C>(static_cast<const State*>(from)[at]);
  }
  GPUDNN_HOST_DEVICE static void store_state(void* to, std::int64_t at, C value) {
    static_cast<State*>(to)[at] = static_cast<State>(value);
  }
  GPUDNN_HOST_DEVICE static std::int64_t sequence_at(const RnnRows& rows, std::int32_t place) {
    return rows.device_order != nullptr ? rows.device_order[place] : place;
  }

  GPUDNN_HOST_DEVICE static C clip(const RnnLayer& l, C c) {
    if (!l.clips || (c != c && l.clip_passes_nan)) return c;
    const C low = static_cast<C>(l.clip_low);
    const C high = static_cast<C>(l.clip_high);
    return c > high ? high : c >= low ? c : low;  // a NaN becomes the lower bound
  }

  // Whether a gradient goes through the clip.
  GPUDNN_HOST_DEVICE static bool passes(const RnnLayer& l, C c) {
    return !l.clips || (c > static_cast<C>(l.clip_low) && c < static_cast<C>(l.clip_high)) || c != c;
  }

  // c one step back.
  GPUDNN_HOST_DEVICE static C cell_before(const RnnLayer& l, const RnnDirection& d, const RnnStep& s,
                                          std::int32_t place, std::int32_t j) {
    if (place >= s.previous_rows) return load(d.cx, sequence_at(l.rows, place) * l.units + j);
    const std::int64_t row = l.keeps_cells ? s.previous_first + place : place;
    return load_state(d.cells, row * l.units + j);
  }
  // h one step back.
  GPUDNN_HOST_DEVICE static C hidden_before(const RnnLayer& l, const RnnDirection& d, const RnnStep& s,
                                            std::int32_t place, std::int32_t j) {
    if (place >= s.previous_rows) return load(d.hx, sequence_at(l.rows, place) * l.width + j);
    return load(d.y, (s.previous_first + place) * l.y_row + j);
  }

  // What a step needs beside its product, so that it can be fetched before that is there.
  struct Inputs {
    C pre[4];
    C hidden_bias;  // of n
    C before;       // c, or h
  };
  GPUDNN_HOST_DEVICE static Inputs fetch(const RnnLayer& l, const RnnDirection& d, const RnnStep& s, std::int32_t place,
                                         std::int32_t j) {
    Inputs in{};
    const std::int64_t at = (s.first + place) * l.pre_row + j;
    const int gates = rnn_gates(l.cell);
    for (int g = 0; g < 4; ++g) {
      if (g >= gates) break;
      in.pre[g] = load(d.pre, at + g * l.pre_gate) + load(d.input_bias, g * l.units + j);
      const C hidden_bias = load(d.hidden_bias, g * l.units + j);
      if (l.cell == RnnCell::gru && g == 2) {
        in.hidden_bias = hidden_bias;
      } else {
        in.pre[g] += hidden_bias;
      }
    }
    if (l.cell == RnnCell::lstm) in.before = cell_before(l, d, s, place, j);
    if (l.cell == RnnCell::gru) in.before = hidden_before(l, d, s, place, j);
    return in;
  }

  // What a unit becomes.
  struct Outputs {
    C slot[4];  // what training keeps
    C cell;     // c
    C hidden;
  };
  // `sums`: the products with h. G: gates of the cell.
  template <int G>
  GPUDNN_HOST_DEVICE static Outputs activate_gates(const RnnLayer& l, const Inputs& in, const C* sums) {
    Outputs out{};
    if constexpr (G == 4) {
      const C i = Convert::sigmoid(in.pre[0] + sums[0]);
      const C f = Convert::sigmoid(in.pre[1] + sums[1]);
      const C g = Convert::tanh(in.pre[2] + sums[2]);
      const C o = Convert::sigmoid(in.pre[3] + sums[3]);
      out.slot[0] = i, out.slot[1] = f, out.slot[2] = g, out.slot[3] = o;
      out.cell = f * clip(l, in.before) + i * g;
      out.hidden = o * Convert::tanh(clip(l, out.cell));
    } else if constexpr (G == 3) {
      const C r = Convert::sigmoid(in.pre[0] + sums[0]);
      const C z = Convert::sigmoid(in.pre[1] + sums[1]);
      const C q = sums[2] + in.hidden_bias;
      const C n = Convert::tanh(in.pre[2] + r * q);
      out.slot[0] = r, out.slot[1] = z, out.slot[2] = n, out.slot[3] = q;
      out.hidden = (C(1) - z) * n + z * in.before;
    } else {
      const C a = in.pre[0] + sums[0];
      out.hidden = l.cell == RnnCell::tanh ? Convert::tanh(a) : a > C(0) || a != a ? a : C(0);
    }
    return out;
  }
  GPUDNN_HOST_DEVICE static Outputs activate(const RnnLayer& l, const Inputs& in, const C* sums) {
    if (l.cell == RnnCell::lstm) return activate_gates<4>(l, in, sums);
    return l.cell == RnnCell::gru ? activate_gates<3>(l, in, sums) : activate_gates<1>(l, in, sums);
  }
  // All but what a projection takes goes to y and hy too.
  GPUDNN_HOST_DEVICE static void store_unit(const RnnLayer& l, const RnnDirection& d, const RnnStep& s,
                                            std::int32_t place, std::int32_t j, const Outputs& out) {
    const std::int64_t row = s.first + place;
    if (d.gates != nullptr && (l.cell == RnnCell::lstm || l.cell == RnnCell::gru)) {
      const std::int64_t slot = row * rnn_gates_row(l.cell, l.units, sizeof(T)) + j;
      for (int g = 0; g < 4; ++g) store(d.gates, slot + g * std::int64_t{l.units}, out.slot[g]);
    }
    if (l.cell == RnnCell::lstm) {
      store_state(d.cells, (l.keeps_cells ? row : place) * l.units + j, out.cell);
      if (place >= s.ends_from && d.cy != nullptr) store(d.cy, sequence_at(l.rows, place) * l.units + j, out.cell);
    }
    if (d.projection != nullptr) {
      store(d.hidden, row * l.units + j, out.hidden);
    } else {
      store_hidden(l, d, s, place, j, out.hidden);
    }
  }
  GPUDNN_HOST_DEVICE static C forward(const RnnLayer& l, const RnnDirection& d, const RnnStep& s, std::int32_t place,
                                      std::int32_t j, const Inputs& in, const C* sums) {
    const Outputs out = activate(l, in, sums);
    store_unit(l, d, s, place, j, out);
    return out.hidden;
  }
  GPUDNN_HOST_DEVICE static void store_hidden(const RnnLayer& l, const RnnDirection& d, const RnnStep& s,
                                              std::int32_t place, std::int32_t j, C h) {
    if (d.y != nullptr) store(d.y, (s.first + place) * l.y_row + j, h);
    if (place >= s.ends_from && d.hy != nullptr) store(d.hy, sequence_at(l.rows, place) * l.width + j, h);
  }

  // What a step of the gradients needs beside its product.
  struct GradientInputs {
    C dh;         // of the output, of the last state where the sweep begins here, and what bypasses the product
    C dc;         // of c, from the step after or of the last state
    C slot[4];    // what forward kept
    C cell;       // c
    C before;     // c one step back, or h of a GRU
    bool begins;  // there is no step after: the product is not to be added
  };
  // `s` is the step of the gradients' sweep, `forward` that of the sweep that made the gates.
  GPUDNN_HOST_DEVICE static GradientInputs fetch_hidden(const RnnLayer& l, const RnnDirection& d, const RnnStep& s,
                                                        std::int32_t place, std::int32_t j) {
    GradientInputs in{};
    in.begins = place >= s.previous_rows;
    in.dh = load(d.dy, (s.first + place) * l.y_row + j);
    if (in.begins) {
      in.dh += load(d.dhy, sequence_at(l.rows, place) * l.width + j);
    } else if (l.cell == RnnCell::gru) {
      in.dh += load_state(d.carry_h, std::int64_t{place} * l.units + j);
    }
    return in;
  }
  GPUDNN_HOST_DEVICE static void fetch_unit(const RnnLayer& l, const RnnDirection& d, const RnnStep& s,
                                            const RnnStep& forward, std::int32_t place, std::int32_t j,
                                            GradientInputs* in) {
    const std::int64_t row = s.first + place;
    const std::int64_t slot = row * rnn_gates_row(l.cell, l.units, sizeof(T)) + j;
    if (l.cell == RnnCell::lstm || l.cell == RnnCell::gru) {
      for (int g = 0; g < 4; ++g) in->slot[g] = load(d.gates, slot + g * std::int64_t{l.units});
    }
    if (l.cell == RnnCell::lstm) {
      in->cell = load_state(d.cells, row * l.units + j);
      in->before = cell_before(l, d, forward, place, j);
      in->dc = place >= s.previous_rows ? load(d.dcy, sequence_at(l.rows, place) * l.units + j)
                                        : load_state(d.carry_c, std::int64_t{place} * l.units + j);
    } else if (l.cell == RnnCell::gru) {
      in->before = hidden_before(l, d, forward, place, j);
    } else {
      in->cell = load(d.y, row * l.y_row + j);
    }
  }

  // The gradients of a unit.
  struct Gradients {
    C slot[4];  // of the gates
    C carry;    // to the step before: of c, or what bypasses the product
  };
  // From the whole gradient of h. G: gates of the cell.
  template <int G>
  GPUDNN_HOST_DEVICE static Gradients differentiate_gates(const RnnLayer& l, const GradientInputs& in, C dh) {
    Gradients out{};
    if constexpr (G == 4) {
      const C i = in.slot[0];
      const C f = in.slot[1];
      const C g = in.slot[2];
      const C o = in.slot[3];
      const C c = in.cell;
      const C t = Convert::tanh(clip(l, c));
      const C dc = in.dc + (passes(l, c) ? dh * o * (C(1) - t * t) : C(0));
      out.slot[0] = dc * g * i * (C(1) - i);
      out.slot[1] = dc * clip(l, in.before) * f * (C(1) - f);
      out.slot[2] = dc * i * (C(1) - g * g);
      out.slot[3] = dh * t * o * (C(1) - o);
      out.carry = passes(l, in.before) ? dc * f : C(0);
    } else if constexpr (G == 3) {
      const C r = in.slot[0];
      const C z = in.slot[1];
      const C n = in.slot[2];
      const C q = in.slot[3];
      const C dn = dh * (C(1) - z) * (C(1) - n * n);
      out.slot[0] = dn * q * r * (C(1) - r);
      out.slot[1] = dh * (in.before - n) * z * (C(1) - z);
      out.slot[2] = dn;
      out.slot[3] = dn * r;
      out.carry = dh * z;
    } else {
      const C h = in.cell;
      out.slot[0] = l.cell == RnnCell::tanh ? dh * (C(1) - h * h) : h > C(0) ? dh : C(0);
    }
    return out;
  }
  GPUDNN_HOST_DEVICE static Gradients differentiate(const RnnLayer& l, const GradientInputs& in, C dh) {
    if (l.cell == RnnCell::lstm) return differentiate_gates<4>(l, in, dh);
    return l.cell == RnnCell::gru ? differentiate_gates<3>(l, in, dh) : differentiate_gates<1>(l, in, dh);
  }
  GPUDNN_HOST_DEVICE static void store_gradients(const RnnLayer& l, const RnnDirection& d, const RnnStep& s,
                                                 std::int32_t place, std::int32_t j, const Gradients& out) {
    const int slots = rnn_slots(l.cell);
    const std::int64_t slot = (s.first + place) * rnn_gates_row(l.cell, l.units, sizeof(T)) + j;
    const std::int64_t state = std::int64_t{place} * l.units + j;
    for (int g = 0; g < 4; ++g) {
      if (g < slots) store(d.gates, slot + g * std::int64_t{l.units}, out.slot[g]);
    }
    if (l.cell == RnnCell::gru) store_state(d.carry_h, state, out.carry);
    if (l.cell != RnnCell::lstm) return;
    store_state(d.carry_c, state, out.carry);
    if (place >= s.ends_from && d.dcx != nullptr) {
      store(d.dcx, sequence_at(l.rows, place) * l.units + j, out.carry);
    }
  }
  GPUDNN_HOST_DEVICE static void backward(const RnnLayer& l, const RnnDirection& d, const RnnStep& s,
                                          std::int32_t place, std::int32_t j, const GradientInputs& in, C dh) {
    store_gradients(l, d, s, place, j, differentiate(l, in, dh));
  }
  GPUDNN_HOST_DEVICE static void backward_first(const RnnLayer& l, const RnnDirection& d, std::int32_t place,
                                                std::int32_t j, C sum) {
    if (l.cell == RnnCell::gru) sum += load_state(d.carry_h, std::int64_t{place} * l.units + j);
    store(d.dhx, sequence_at(l.rows, place) * l.width + j, sum);
  }
};

}  // namespace gpudnn::kernels
