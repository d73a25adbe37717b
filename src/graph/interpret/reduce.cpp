// Reductions, pooling and interpolation of the host interpreter.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/interpret/state.hpp"

namespace gpudnn::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double first_of(int mode) {
  switch (mode) {
    case GPUDNN_REDUCE_TENSOR_MUL:
    case GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
      return 1;
    case GPUDNN_REDUCE_TENSOR_MIN:
      return kInfinity;
    case GPUDNN_REDUCE_TENSOR_MAX:
      return -kInfinity;
    default:
      return 0;
  }
}

double joined(int mode, double sum, double x) {
  switch (mode) {
    case GPUDNN_REDUCE_TENSOR_MUL:
      return sum * x;
    case GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
      return x == 0 ? sum : sum * x;
    case GPUDNN_REDUCE_TENSOR_MIN:
      return std::isnan(x) || std::isnan(sum) ? sum + x : std::fmin(sum, x);
    case GPUDNN_REDUCE_TENSOR_MAX:
      return std::isnan(x) || std::isnan(sum) ? sum + x : std::fmax(sum, x);
    case GPUDNN_REDUCE_TENSOR_AMAX:
      return std::isnan(x) || std::isnan(sum) ? sum + x : std::fmax(sum, std::fabs(x));
    case GPUDNN_REDUCE_TENSOR_NORM1:
      return sum + std::fabs(x);
    case GPUDNN_REDUCE_TENSOR_NORM2:
      return sum + x * x;
    default:  // ADD, AVG
      return sum + x;
  }
}

// Clients declare the row maximum before a sink with the dims of the scores; what is meant is a maximum of each row,
// which the reader broadcasts.
bool is_row_maximum(const Node& node, const Graph& graph) {
  const Tensor& y = *graph.tensor(node, Port::y);
  if (node.mode != GPUDNN_REDUCE_TENSOR_MAX || !y.is_virtual) return false;
  const int place = node.at(Port::y);
  for (const Node& reader : graph.nodes) {
    if (reader.op != Op::pointwise || reader.mode != GPUDNN_POINTWISE_MAX || reader.at(Port::x) != place) continue;
    const TensorGeometry& result = graph.tensor(reader, Port::y)->geometry;
    if (result.dims[result.rank - 1] == 1 && y.geometry.dims[y.geometry.rank - 1] > 1) return true;
  }
  return false;
}

// --- resample -------------------------------------------------------------------------------------------------------

// A window of the output pixel `index` along each spatial dimension.
struct Windows {
  int spatial = 0;
  std::array<std::int64_t, 3> window{1, 1, 1};
  std::array<std::int64_t, 3> input{1, 1, 1};
  std::array<double, 3> start{};  // of the window, in input pixels; a fraction for interpolation

  Windows(const Node& node, const Array& x, const Dims& index) : spatial(node.window.count) {
    for (int i = 0; i < spatial; ++i) {
      const auto k = static_cast<std::size_t>(i);
      window[k] = node.window.value[k] / node.window.divisor[k];
      input[k] = x.dims[k + 2];
      start[k] = static_cast<double>(index[k + 2]) * static_cast<double>(node.stride.value[k]) /
                     static_cast<double>(node.stride.divisor[k]) -
                 static_cast<double>(node.pre.value[k]) / static_cast<double>(node.pre.divisor[k]);
    }
  }
};

// body(tap number, flat input pixel or -1 outside, weight) for each tap of the window. The weight is that of bilinear
// interpolation at the window's start; for nearest, 1 at the nearest pixel; for pooling, 1.
template <class Body>
void for_each_tap(const Node& node, const Windows& w, const Body& body) {
  std::array<std::int64_t, 3> t{};
  const bool bilinear = node.mode == GPUDNN_RESAMPLE_BILINEAR;
  const bool nearest = node.mode == GPUDNN_RESAMPLE_NEAREST;
  const bool clamps = node.padding_mode == GPUDNN_EDGE_VAL_PAD;
  std::array<std::int64_t, 3> taps = w.window;
  for (int i = 0; i < w.spatial; ++i) {
    if (bilinear) taps[static_cast<std::size_t>(i)] = 2;
    if (nearest) taps[static_cast<std::size_t>(i)] = 1;
  }
  std::int64_t number = 0;
  for (t[0] = 0; t[0] < taps[0]; ++t[0])
    for (t[1] = 0; t[1] < taps[1]; ++t[1])
      for (t[2] = 0; t[2] < taps[2]; ++t[2]) {
        double weight = 1;
        std::int64_t pixel = 0;
        bool inside = true;
        for (std::size_t i = 0; i < static_cast<std::size_t>(w.spatial); ++i) {
          const double floor = std::floor(w.start[i]);
          std::int64_t at = static_cast<std::int64_t>(floor) + t[i];
          if (bilinear) weight *= t[i] == 0 ? 1 - (w.start[i] - floor) : w.start[i] - floor;
          if (nearest) at = static_cast<std::int64_t>(std::floor(w.start[i] + 0.5));
          if (clamps || nearest) at = std::clamp<std::int64_t>(at, 0, w.input[i] - 1);
          inside = inside && at >= 0 && at < w.input[i];
          pixel = pixel * w.input[i] + at;
        }
        body(number++, inside ? pixel : -1, weight);
      }
}

std::int64_t pixels(const Array& x) {
  std::int64_t count = 1;
  for (int i = 2; i < x.rank; ++i) count *= x.dims[static_cast<std::size_t>(i)];
  return count;
}

// What an average divides by.
double divisor_of(const Node& node, const Windows& w) {
  double all = 0;
  double inside = 0;
  for_each_tap(node, w, [&](std::int64_t, std::int64_t pixel, double) {
    all += 1;
    inside += pixel >= 0 ? 1 : 0;
  });
  return node.mode == GPUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING ? std::fmax(inside, 1) : all;
}

// The tap with the maximum, its pixel and value; the first of equal ones. A NaN wins where it propagates.
struct Maximum {
  std::int64_t tap = 0;
  std::int64_t pixel = -1;
  double value = -kInfinity;
};
Maximum maximum_of(const Node& node, const Windows& w, const double* plane) {
  Maximum best;
  bool any = false;
  const bool zeros = node.padding_mode == GPUDNN_ZERO_PAD;
  for_each_tap(node, w, [&](std::int64_t tap, std::int64_t pixel, double) {
    if (pixel < 0 && !zeros) return;
    const double value = pixel < 0 ? 0 : plane[pixel];
    const bool nan = std::isnan(value);
    if (nan && node.nan != GPUDNN_PROPAGATE_NAN) return;
    if (any && (std::isnan(best.value) || (!nan && value <= best.value))) return;
    best = {tap, pixel, value};
    any = true;
  });
  return best;
}

void run_forward(const Node& node, State* state) {
  Array* y = state->out(node, Port::y);
  Array* index_out = state->out(node, Port::index);
  const Array& x = *state->in(node, Port::x);
  const std::int64_t plane = pixels(x);
  for_each_index(y->rank, y->dims, 100, [&](std::int64_t flat, const Dims& index) {
    const Windows w(node, x, index);
    const double* from = &x.v[static_cast<std::size_t>((index[0] * x.dims[1] + index[1]) * plane)];
    if (node.mode == GPUDNN_RESAMPLE_MAXPOOL) {
      const Maximum best = maximum_of(node, w, from);
      y->at(flat) = best.value;
      if (index_out != nullptr) index_out->at(flat) = static_cast<double>(best.tap);
      return;
    }
    double sum = 0;
    for_each_tap(node, w, [&](std::int64_t, std::int64_t pixel, double weight) {
      if (pixel >= 0 && weight != 0) sum += weight * from[pixel];
    });
    const bool average = node.mode == GPUDNN_RESAMPLE_AVGPOOL || node.mode == GPUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
    y->at(flat) = average ? sum / divisor_of(node, w) : sum;
  });
}

void run_backward(const Node& node, State* state) {
  Array* dx = state->out(node, Port::dx);
  const Array& dy = *state->in(node, Port::dy);
  const Array* x = state->in(node, Port::x);
  const Array* indices = state->in(node, Port::index);
  const std::int64_t plane = pixels(*dx);
  const std::int64_t out_plane = pixels(dy);
  Dims planes{dx->dims[0], dx->dims[1]};
  for_each_index(2, planes, out_plane * 100, [&](std::int64_t number, const Dims&) {
    double* to = &dx->v[static_cast<std::size_t>(number * plane)];
    for (std::int64_t o = 0; o < out_plane; ++o) {
      Dims index{};
      std::int64_t rest = o;
      for (int i = dy.rank - 1; i >= 2; --i) {
        index[static_cast<std::size_t>(i)] = rest % dy.dims[static_cast<std::size_t>(i)];
        rest /= dy.dims[static_cast<std::size_t>(i)];
      }
      const Windows w(node, *dx, index);
      const double gradient = dy.at(number * out_plane + o);
      if (node.mode == GPUDNN_RESAMPLE_MAXPOOL) {
        const std::int64_t wanted = indices != nullptr
                                        ? static_cast<std::int64_t>(indices->at(number * out_plane + o))
                                        : maximum_of(node, w, &x->v[static_cast<std::size_t>(number * plane)]).tap;
        for_each_tap(node, w, [&](std::int64_t tap, std::int64_t pixel, double) {
          if (tap == wanted && pixel >= 0) to[pixel] += gradient;
        });
        continue;
      }
      const bool average = node.mode == GPUDNN_RESAMPLE_AVGPOOL || node.mode == GPUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
      const double share = average ? gradient / divisor_of(node, w) : gradient;
      for_each_tap(node, w, [&](std::int64_t, std::int64_t pixel, double weight) {
        if (pixel >= 0) to[pixel] += weight * share;
      });
    }
  });
}

}  // namespace

Status interpret_reduction(const Node& node, State* state) {
  Array* y = state->out(node, Port::y);
  const Array& x = *state->in(node, Port::x);
  const bool row_maximum = is_row_maximum(node, state->graph());
  // Elements of x behind one of y: a run of `runs` along each dimension.
  Dims runs{};
  std::int64_t count = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(x.rank); ++d) {
    runs[d] = x.dims[d] / y->dims[d];
    if (row_maximum && d + 1 == static_cast<std::size_t>(x.rank)) runs[d] = x.dims[d];
    count *= runs[d];
  }
  const Dims xs = x.strides();
  for_each_index(y->rank, y->dims, count * 10, [&](std::int64_t flat, const Dims& index) {
    double sum = first_of(node.mode);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i;
      std::int64_t offset = 0;
      for (int d = x.rank - 1; d >= 0; --d) {
        const auto k = static_cast<std::size_t>(d);
        const std::int64_t first = row_maximum && d + 1 == x.rank ? 0 : index[k] * runs[k];
        offset += (first + rest % runs[k]) * xs[k];
        rest /= runs[k];
      }
      sum = joined(node.mode, sum, x.at(offset));
    }
    if (node.mode == GPUDNN_REDUCE_TENSOR_AVG) sum /= static_cast<double>(count);
    if (node.mode == GPUDNN_REDUCE_TENSOR_NORM2) sum = std::sqrt(sum);
    y->at(flat) = sum;
  });
  return GPUDNN_STATUS_SUCCESS;
}

Status interpret_resample(const Node& node, State* state) {
  const bool backward = node.op == Op::resample_bwd;
  if (backward) {
    run_backward(node, state);
  } else {
    run_forward(node, state);
  }
  const Port port = backward ? Port::dx : Port::y;
  Array& out = *const_cast<Array*>(state->in(node, port));
  for (double& value : out.v) value *= node.alpha;
  if (node.beta != 0) {
    const Array before = state->before(node, port);
    for (std::size_t i = 0; i < out.v.size(); ++i) out.v[i] += node.beta * before.v[i];
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
