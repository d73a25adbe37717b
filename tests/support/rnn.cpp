// The oracle of recurrent networks.
// SPDX-License-Identifier: Apache-2.0
#include "support/rnn.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/naive_misc.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

int gate_count(gpudnnRNNMode_t cell) { return cell == GPUDNN_LSTM ? 4 : cell == GPUDNN_GRU ? 3 : 1; }

// One step of one sequence in one direction of one layer, as backpropagation needs it.
struct Step {
  std::vector<double> x, h_before, c_before, gate[4], q, c, hidden, h;
};

struct Net {
  const rnn::Problem& problem;
  const RnnValues& values;
  RnnExpected& out;
  std::vector<RnnPlace> places;
  int directions = problem.net.bidirectional ? 2 : 1;
  int gates = gate_count(problem.net.cell);
  std::size_t h_width = static_cast<std::size_t>(problem.net.projected);
  std::size_t units = static_cast<std::size_t>(problem.net.hidden);

  [[nodiscard]] double weight(std::int64_t base, std::size_t row, std::size_t column, std::size_t columns) const {
    return base < 0 ? 0 : values.weights[static_cast<std::size_t>(base) + row * columns + column];
  }
  void add_gradient(std::int64_t base, std::size_t row, std::size_t column, std::size_t columns, double value) const {
    if (base >= 0) out.dweights[static_cast<std::size_t>(base) + row * columns + column] += value;
  }
  [[nodiscard]] std::size_t state(int pseudo, std::size_t n, std::size_t width) const {
    return (static_cast<std::size_t>(pseudo) * static_cast<std::size_t>(problem.sequences.batch) + n) * width;
  }
  [[nodiscard]] std::vector<double> first(const std::vector<double>& from, int pseudo, std::size_t n,
                                          std::size_t width) const {
    if (from.empty()) return std::vector<double>(width);
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(state(pseudo, n, width));
    return {at, at + static_cast<std::ptrdiff_t>(width)};
  }

  // The sum over the input of row (g, j); of skip input the element itself.
  [[nodiscard]] double from_input(const RnnPlace& p, int g, std::size_t j, const std::vector<double>& x) const {
    if (p.w < 0) return x[j];
    return product(p.w, static_cast<std::size_t>(g) * units + j, x);
  }
  // A row of weights times a vector, as four sums side by side.
  [[nodiscard]] double product(std::int64_t base, std::size_t row, const std::vector<double>& x) const {
    const double* const w = values.weights.data() + static_cast<std::size_t>(base) + row * x.size();
    double sums[4] = {};
    std::size_t k = 0;
    for (; k + 4 <= x.size(); k += 4)
      for (std::size_t i = 0; i < 4; ++i) sums[i] += w[k + i] * x[k + i];
    for (; k < x.size(); ++k) sums[0] += w[k] * x[k];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
  }
  [[nodiscard]] double from_state(const RnnPlace& p, int g, std::size_t j, const std::vector<double>& h) const {
    return product(p.r, static_cast<std::size_t>(g) * units + j, h);
  }
  [[nodiscard]] double bias(std::int64_t base, int g, std::size_t j) const {
    return weight(base, static_cast<std::size_t>(g) * units + j, 0, 1);
  }

  void forward(const RnnPlace& p, Step* s) const {
    s->hidden.resize(units);
    s->c.resize(units);
    s->q.resize(units);
    for (auto& gate : s->gate) gate.resize(units);
    for (std::size_t j = 0; j < units; ++j) {
      double input[4] = {};
      double recurrent[4] = {};
      for (int g = 0; g < gates; ++g) {
        input[g] = from_input(p, g, j, s->x) + bias(p.w_bias, g, j);
        recurrent[g] = from_state(p, g, j, s->h_before) + bias(p.r_bias, g, j);
      }
      unit(j, input, recurrent, s);
    }
    s->h = s->hidden;
    if (p.projection >= 0) {
      for (double& h : s->hidden) h = round_to_type(h, problem.net.type);
      s->h.assign(h_width, 0);
      for (std::size_t i = 0; i < h_width; ++i)
        for (std::size_t j = 0; j < units; ++j) s->h[i] += weight(p.projection, i, j, units) * s->hidden[j];
    }
    for (double& h : s->h) h = round_to_type(h, problem.net.type);
  }
  // A cell state is clipped where it is used: the state itself, and cy, are not.
  [[nodiscard]] double clip(double c) const {
    return problem.net.clips ? std::min(std::max(c, problem.net.clip_low), problem.net.clip_high) : c;
  }
  [[nodiscard]] bool passes(double c) const {
    return !problem.net.clips || (c > problem.net.clip_low && c < problem.net.clip_high);
  }
  void unit(std::size_t j, const double* input, const double* recurrent, Step* s) const {
    const rnn::Network& net = problem.net;
    if (net.cell == GPUDNN_LSTM) {
      s->gate[0][j] = logistic(input[0] + recurrent[0]);
      s->gate[1][j] = logistic(input[1] + recurrent[1]);
      s->gate[2][j] = std::tanh(input[2] + recurrent[2]);
      s->gate[3][j] = logistic(input[3] + recurrent[3]);
      const double c = s->gate[1][j] * clip(s->c_before[j]) + s->gate[0][j] * s->gate[2][j];
      for (const double state : {s->c_before[j], c}) {
        if (!net.clips) break;
        out.least_margin =
            std::min({out.least_margin, std::abs(state - net.clip_low), std::abs(state - net.clip_high)});
      }
      s->c[j] = c;
      s->hidden[j] = s->gate[3][j] * std::tanh(clip(c));
    } else if (net.cell == GPUDNN_GRU) {
      s->gate[0][j] = logistic(input[0] + recurrent[0]);
      s->gate[1][j] = logistic(input[1] + recurrent[1]);
      s->q[j] = recurrent[2];
      s->gate[2][j] = std::tanh(input[2] + s->gate[0][j] * recurrent[2]);
      s->hidden[j] = (1 - s->gate[1][j]) * s->gate[2][j] + s->gate[1][j] * s->h_before[j];
    } else {
      const double a = input[0] + recurrent[0];
      if (net.cell == GPUDNN_RNN_RELU) out.least_margin = std::min(out.least_margin, std::abs(a));
      s->hidden[j] = net.cell == GPUDNN_RNN_TANH ? std::tanh(a) : std::max(a, 0.0);
    }
  }

  // The gradients of a step's gates, [gates, units], before the sums over the input and over the state.
  struct GateGradients {
    const Step* step;
    std::vector<double> input, recurrent;
  };

  // dh and dc come in, those of the step before go out; `dx` is added to. Those of W and R wait for
  // add_weight_gradients.
  GateGradients backward(const RnnPlace& p, const Step& s, std::vector<double>* dh, std::vector<double>* dc,
                         std::vector<double>* dx) const {
    const std::size_t rows = static_cast<std::size_t>(gates) * units;
    GateGradients d{&s, std::vector<double>(rows), std::vector<double>(rows)};
    std::vector<double> dhidden = *dh;
    if (p.projection >= 0) {
      dhidden.assign(units, 0);
      for (std::size_t i = 0; i < h_width; ++i) {
        for (std::size_t j = 0; j < units; ++j) {
          dhidden[j] += weight(p.projection, i, j, units) * (*dh)[i];
          add_gradient(p.projection, i, j, units, (*dh)[i] * s.hidden[j]);
        }
      }
    }
    std::vector<double> before(h_width);
    for (std::size_t j = 0; j < units; ++j) {
      double input[4] = {};
      double recurrent[4] = {};
      unit_gradients(j, s, dhidden[j], &(*dc)[j], input, recurrent, &before);
      for (int g = 0; g < gates; ++g) {
        const std::size_t row = static_cast<std::size_t>(g) * units + j;
        if (p.w < 0) {
          (*dx)[j] += input[g];
        } else {
          add_row(p.w, row, input[g], dx);
        }
        add_row(p.r, row, recurrent[g], &before);
        d.input[row] = input[g];
        d.recurrent[row] = recurrent[g];
        add_gradient(p.w_bias, row, 0, 1, input[g]);
        add_gradient(p.r_bias, row, 0, 1, recurrent[g]);
      }
    }
    *dh = before;
    return d;
  }
  // d times a row of weights.
  void add_row(std::int64_t base, std::size_t row, double d, std::vector<double>* dx) const {
    const double* const w = values.weights.data() + static_cast<std::size_t>(base) + row * dx->size();
    double* const to = dx->data();
    for (std::size_t k = 0; k < dx->size(); ++k) to[k] += w[k] * d;
  }
  // Row by row, as a row of all steps stays in the cache.
  void add_weight_gradients(const RnnPlace& p, const std::vector<GateGradients>& steps) const {
    const auto add = [this](std::int64_t base, std::size_t row, const std::vector<double>& x, double d) {
      double* const dw = out.dweights.data() + static_cast<std::size_t>(base) + row * x.size();
      for (std::size_t k = 0; k < x.size(); ++k) dw[k] += d * x[k];
    };
    for (std::size_t row = 0; row < static_cast<std::size_t>(gates) * units; ++row) {
      for (const GateGradients& s : steps) {
        if (p.w >= 0) add(p.w, row, s.step->x, s.input[row]);
      }
      for (const GateGradients& s : steps) add(p.r, row, s.step->h_before, s.recurrent[row]);
    }
  }
  void unit_gradients(std::size_t j, const Step& s, double dh, double* dc, double* input, double* recurrent,
                      std::vector<double>* before) const {
    if (problem.net.cell == GPUDNN_LSTM) {
      const double i = s.gate[0][j], f = s.gate[1][j], g = s.gate[2][j], o = s.gate[3][j];
      const double t = std::tanh(clip(s.c[j]));
      const double d = *dc + (passes(s.c[j]) ? dh * o * (1 - t * t) : 0);
      input[0] = d * g * i * (1 - i);
      input[1] = d * clip(s.c_before[j]) * f * (1 - f);
      input[2] = d * i * (1 - g * g);
      input[3] = dh * t * o * (1 - o);
      std::copy_n(input, 4, recurrent);
      *dc = passes(s.c_before[j]) ? d * f : 0;
    } else if (problem.net.cell == GPUDNN_GRU) {
      const double r = s.gate[0][j], z = s.gate[1][j], n = s.gate[2][j];
      const double dn = dh * (1 - z) * (1 - n * n);
      input[0] = recurrent[0] = dn * s.q[j] * r * (1 - r);
      input[1] = recurrent[1] = dh * (s.h_before[j] - n) * z * (1 - z);
      input[2] = dn;
      recurrent[2] = dn * r;
      (*before)[j] += dh * z;
    } else {
      const double h = s.hidden[j];
      input[0] = recurrent[0] = problem.net.cell == GPUDNN_RNN_TANH ? dh * (1 - h * h) : h > 0 ? dh : 0;
    }
  }

  // All layers, for one sequence.
  void run_sequence(std::size_t n) {
    const rnn::Sequences& q = problem.sequences;
    const auto batch = static_cast<std::size_t>(q.batch);
    const auto length = static_cast<std::size_t>(q.lengths[n]);
    const std::size_t width = h_width * static_cast<std::size_t>(directions);
    const auto at = [&](std::size_t t, std::size_t w) { return (t * batch + n) * w; };
    std::vector<std::vector<std::vector<Step>>> steps;  // layer, direction, t
    std::vector<std::vector<double>> input(length);
    const auto in_width = static_cast<std::size_t>(problem.net.input);
    for (std::size_t t = 0; t < length; ++t) {
      const auto from = values.x.begin() + static_cast<std::ptrdiff_t>(at(t, in_width));
      input[t].assign(from, from + static_cast<std::ptrdiff_t>(in_width));
    }
    for (int layer = 0; layer < problem.net.layers; ++layer) {
      steps.emplace_back(static_cast<std::size_t>(directions), std::vector<Step>(length));
      std::vector<std::vector<double>> output(length, std::vector<double>(width));
      for (int k = 0; k < directions; ++k) {
        const int pseudo = layer * directions + k;
        std::vector<double> h = first(values.hx, pseudo, n, h_width);
        std::vector<double> c = first(values.cx, pseudo, n, units);
        for (std::size_t i = 0; i < length; ++i) {
          const std::size_t t = k == 1 ? length - 1 - i : i;
          Step& s = steps.back()[static_cast<std::size_t>(k)][t];
          s.x = input[t], s.h_before = h, s.c_before = c;
          forward(places[static_cast<std::size_t>(pseudo)], &s);
          h = s.h, c = s.c;
          std::ranges::copy(h, output[t].begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(k) * h_width));
        }
        std::ranges::copy(h, out.hy.begin() + static_cast<std::ptrdiff_t>(state(pseudo, n, h_width)));
        std::ranges::copy(c, out.cy.begin() + static_cast<std::ptrdiff_t>(state(pseudo, n, units)));
      }
      const bool last = layer == problem.net.layers - 1;
      for (std::size_t t = 0; t < length; ++t) {
        if (last) std::ranges::copy(output[t], out.y.begin() + static_cast<std::ptrdiff_t>(at(t, width)));
        if (!last && !values.kept.empty()) {
          for (std::size_t j = 0; j < width; ++j)
            output[t][j] = round_to_type(output[t][j] * values.kept[static_cast<std::size_t>(layer)][at(t, width) + j],
                                         problem.net.type);
        }
      }
      input = output;
    }
    if (!values.dy.empty()) back_through(n, steps);
  }
  void back_through(std::size_t n, const std::vector<std::vector<std::vector<Step>>>& steps) {
    const auto batch = static_cast<std::size_t>(problem.sequences.batch);
    const std::size_t length = steps[0][0].size();
    const std::size_t width = h_width * static_cast<std::size_t>(directions);
    const auto at = [&](std::size_t t, std::size_t w) { return (t * batch + n) * w; };
    std::vector<std::vector<double>> d(length);
    for (std::size_t t = 0; t < length; ++t) {
      const auto from = values.dy.begin() + static_cast<std::ptrdiff_t>(at(t, width));
      d[t].assign(from, from + static_cast<std::ptrdiff_t>(width));
    }
    for (int layer = problem.net.layers - 1; layer >= 0; --layer) {
      const std::size_t in_width = layer == 0 ? static_cast<std::size_t>(problem.net.input) : width;
      std::vector<std::vector<double>> dx(length, std::vector<double>(in_width));
      for (int k = 0; k < directions; ++k) {
        const int pseudo = layer * directions + k;
        std::vector<double> dh = first(values.dhy, pseudo, n, h_width);
        std::vector<double> dc = first(values.dcy, pseudo, n, units);
        const RnnPlace& place = places[static_cast<std::size_t>(pseudo)];
        std::vector<GateGradients> gradients;
        for (std::size_t i = 0; i < length; ++i) {
          const std::size_t t = k == 1 ? i : length - 1 - i;
          for (std::size_t j = 0; j < h_width; ++j) dh[j] += d[t][static_cast<std::size_t>(k) * h_width + j];
          const Step& step = steps[static_cast<std::size_t>(layer)][static_cast<std::size_t>(k)][t];
          gradients.push_back(backward(place, step, &dh, &dc, &dx[t]));
        }
        add_weight_gradients(place, gradients);
        std::ranges::copy(dh, out.dhx.begin() + static_cast<std::ptrdiff_t>(state(pseudo, n, h_width)));
        std::ranges::copy(dc, out.dcx.begin() + static_cast<std::ptrdiff_t>(state(pseudo, n, units)));
      }
      if (layer > 0 && !values.kept.empty()) {
        for (std::size_t t = 0; t < length; ++t)
          for (std::size_t j = 0; j < width; ++j)
            dx[t][j] *= values.kept[static_cast<std::size_t>(layer - 1)][at(t, width) + j];
      }
      d = dx;
    }
    for (std::size_t t = 0; t < length; ++t) {
      std::ranges::copy(
          d[t], out.dx.begin() + static_cast<std::ptrdiff_t>(at(t, static_cast<std::size_t>(problem.net.input))));
    }
  }
};

}  // namespace

std::vector<RnnPlace> naive_rnn_places(const rnn::Network& net, std::int64_t* total) {
  const int directions = net.bidirectional ? 2 : 1;
  const std::int64_t gates = gate_count(net.cell);
  std::vector<RnnPlace> places(static_cast<std::size_t>(net.layers * directions));
  std::int64_t at = 0;
  for (int pseudo = 0; pseudo < net.layers * directions; ++pseudo) {
    RnnPlace& p = places[static_cast<std::size_t>(pseudo)];
    const bool first = pseudo < directions;
    if (!first || !net.skip) {
      p.w = at;
      at += gates * net.hidden * (first ? net.input : net.projected * directions);
    }
    p.r = at;
    at += gates * net.hidden * net.projected;
    if (net.cell == GPUDNN_LSTM && net.projected != net.hidden) {
      p.projection = at;
      at += std::int64_t{net.projected} * net.hidden;
    }
  }
  for (RnnPlace& p : places) {
    if (net.bias == GPUDNN_RNN_SINGLE_INP_BIAS || net.bias == GPUDNN_RNN_DOUBLE_BIAS) {
      p.w_bias = at;
      at += gates * net.hidden;
    }
    if (net.bias == GPUDNN_RNN_SINGLE_REC_BIAS || net.bias == GPUDNN_RNN_DOUBLE_BIAS) {
      p.r_bias = at;
      at += gates * net.hidden;
    }
  }
  *total = at;
  return places;
}

RnnExpected naive_rnn(const rnn::Problem& problem, const RnnValues& values) {
  RnnExpected out;
  std::int64_t total = 0;
  const std::vector<RnnPlace> places = naive_rnn_places(problem.net, &total);
  const auto cells = static_cast<std::size_t>(problem.sequences.capacity());
  const auto states = static_cast<std::size_t>(problem.net.pseudo_layers() * problem.sequences.batch);
  const auto projected = static_cast<std::size_t>(problem.net.projected);
  const auto hidden = static_cast<std::size_t>(problem.net.hidden);
  out.y.resize(cells * static_cast<std::size_t>(problem.net.output_width()));
  out.dx.resize(cells * static_cast<std::size_t>(problem.net.input));
  out.hy.resize(states * projected), out.dhx.resize(states * projected);
  out.cy.resize(states * hidden), out.dcx.resize(states * hidden);
  out.dweights.resize(static_cast<std::size_t>(total));
  Net net{problem, values, out, places};
  for (std::size_t n = 0; n < static_cast<std::size_t>(problem.sequences.batch); ++n) net.run_sequence(n);
  return out;
}

// In 16 bits a state or a product with W on the other side of a rounding is two roundings off, its result one more,
// stored gates and gradients one, and each layer hands on one; steps hand on less than they are given, as weights here
// are small. The worst of 3,237 tensors was 2.7 roundings off with kernels (one layer 2.2). In floats: sums of up to
// `terms` products.
double rnn_tolerance(const rnn::Problem& problem) {
  const double u = unit_roundoff(problem.net.type);
  const double sums = unit_roundoff(compute_type(problem.net.type));
  const double steps = static_cast<double>(problem.sequences.steps) * problem.net.layers;
  const double terms = problem.net.hidden * 4.0 + problem.net.input + static_cast<double>(problem.sequences.capacity());
  if (element_size(problem.net.type) == 2) return u * (4 + problem.net.layers) + 4 * sums * terms;
  const bool tf32 = problem.net.type == GPUDNN_DATA_FLOAT && problem.net.math == GPUDNN_TENSOR_OP_MATH;
  return 8 * u * (4 + steps) + 4 * sums * terms + (tf32 ? 0x1p-9 * (4 + steps) : 0);
}

std::vector<double> naive_rnn_kept(const rnn::Problem& problem, std::uint64_t seed, std::uint64_t call) {
  const rnn::Sequences& s = problem.sequences;
  const auto width = static_cast<std::size_t>(problem.net.output_width());
  // Masks follow the rows: step by step, sequences from longest to shortest.
  std::vector<std::size_t> order(static_cast<std::size_t>(s.batch));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return s.lengths[a] > s.lengths[b]; });
  const std::int64_t rows = std::accumulate(s.lengths.begin(), s.lengths.end(), std::int64_t{0});
  const std::int64_t dims[] = {1, 1, rows, static_cast<std::int64_t>(width)};
  const std::vector<bool> mask =
      naive_mask(packed_tensor(problem.net.type, GPUDNN_TENSOR_NCHW, 4, dims), problem.net.dropout, seed, call);
  std::vector<double> kept(static_cast<std::size_t>(s.capacity()) * width);
  std::size_t row = 0;
  for (std::size_t t = 0; t < static_cast<std::size_t>(s.steps); ++t) {
    for (const std::size_t n : order) {
      if (static_cast<std::size_t>(s.lengths[n]) <= t) break;
      for (std::size_t j = 0; j < width; ++j) {
        const double scale = 1 / (1 - static_cast<double>(problem.net.dropout));
        kept[(t * order.size() + n) * width + j] = mask[row * width + j] ? scale : 0;
      }
      ++row;
    }
  }
  return kept;
}

}  // namespace gpudnn::test
