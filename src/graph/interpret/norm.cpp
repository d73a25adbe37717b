// Normalizations and their parts in the host interpreter.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "graph/interpret/state.hpp"

namespace gpudnn::graph {
namespace {

// Which dimensions of x share statistics: those where the statistics, or in their absence the parameters, say so.
struct Sets {
  int rank = 0;
  Dims dims{};            // of x
  Dims kept{};            // extents of the statistics: 1 where they are shared
  std::int64_t size = 1;  // elements of a set
};

Sets sets_of(const Node& node, const State& state, const Array& x) {
  Sets s;
  s.rank = x.rank;
  s.dims = x.dims;
  const auto rank = static_cast<std::size_t>(x.rank);
  const int statistics = node.at(Port::inverse) >= 0 ? node.at(Port::inverse) : node.at(Port::mean);
  const bool per_parameter =
      node.mode == GPUDNN_LAYER_NORM || node.mode == GPUDNN_RMS_NORM || node.mode == GPUDNN_ADA_LAYER_NORM;
  if (statistics >= 0) {
    const TensorGeometry& g = state.tensor(statistics).geometry;
    for (std::size_t d = 0; d < rank; ++d) s.kept[d] = g.dims[d];
  } else if (per_parameter && node.at(Port::scale) >= 0) {
    const TensorGeometry& g = state.tensor(node.at(Port::scale)).geometry;
    const int shift = x.rank - g.rank;
    for (std::size_t d = 0; d < rank; ++d) {
      const int at = static_cast<int>(d) - shift;
      // Of ADA_LAYER the scale varies by sample too: its first dimension is no normalised one.
      const bool sample = node.mode == GPUDNN_ADA_LAYER_NORM && d == 0;
      s.kept[d] = at < 0 || g.dims[at] == 1 || sample ? s.dims[d] : 1;
    }
  } else {
    for (std::size_t d = 0; d < rank; ++d) {
      const bool shared = node.mode == GPUDNN_BATCH_NORM ? d != 1 : node.mode == GPUDNN_INSTANCE_NORM ? d >= 2 : d >= 1;
      s.kept[d] = shared ? 1 : s.dims[d];
    }
  }
  for (std::size_t d = 0; d < rank; ++d) s.size *= s.dims[d] / s.kept[d];
  return s;
}

// body(flat index of x) for the elements of set `set`.
template <class Body>
void for_each_member(const Sets& s, const Dims& set, const Body& body) {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t stride = 1;
  for (int d = s.rank - 1; d >= 0; --d) {
    strides[static_cast<std::size_t>(d)] = stride;
    stride *= s.dims[static_cast<std::size_t>(d)];
  }
  for (std::int64_t i = 0; i < s.size; ++i) {
    std::int64_t rest = i;
    std::int64_t flat = 0;
    for (int d = s.rank - 1; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      std::int64_t at = set[k];
      if (s.kept[k] == 1) {
        at = rest % s.dims[k];
        rest /= s.dims[k];
      }
      flat += at * strides[k];
    }
    body(flat);
  }
}

Array statistics_array(const Sets& s) {
  Array array;
  array.rank = s.rank;
  array.dims = s.kept;
  std::int64_t count = 1;
  for (int d = 0; d < s.rank; ++d) count *= s.kept[static_cast<std::size_t>(d)];
  array.v.resize(static_cast<std::size_t>(count));
  return array;
}

struct Reader {
  const Array* array;
  Dims strides{};
  Reader(const Array* of, const Array& x) : array(of) {
    if (of != nullptr) strides = broadcast_strides(*of, x.rank, x.dims);
  }
  [[nodiscard]] double operator()(const Dims& index, int rank, double otherwise) const {
    if (array == nullptr) return otherwise;
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) flat += index[d] * strides[d];
    return array->at(flat);
  }
};

void measure(const Node& node, const Sets& s, const Array& x, double epsilon, Array* mean, Array* inverse,
             Array* variance) {
  for_each_index(s.rank, s.kept, s.size * 4, [&](std::int64_t set, const Dims& index) {
    double sum = 0;
    for_each_member(s, index, [&](std::int64_t i) { sum += x.at(i); });
    const double m = node.mode == GPUDNN_RMS_NORM ? 0 : sum / static_cast<double>(s.size);
    double squares = 0;
    for_each_member(s, index, [&](std::int64_t i) { squares += (x.at(i) - m) * (x.at(i) - m); });
    mean->at(set) = m;
    variance->at(set) = squares / static_cast<double>(s.size);
    inverse->at(set) = 1 / std::sqrt(variance->at(set) + epsilon);
  });
}

void copy_to(const Array& from, Array* to) {
  if (to != nullptr) to->v = from.v;
}

Status run_forward(const Node& node, State* state) {
  const Array& x = *state->in(node, Port::x);
  const Sets s = sets_of(node, *state, x);
  Array mean = statistics_array(s);
  Array inverse = mean;
  Array variance = mean;
  const bool given = state->in(node, Port::inverse) != nullptr && !is_output(node, Port::inverse);
  const double epsilon = state->number(node, Port::epsilon, 0);
  if (given) {
    inverse.v = state->in(node, Port::inverse)->v;
    if (const Array* m = state->in(node, Port::mean)) mean.v = m->v;
  } else {
    measure(node, s, x, epsilon, &mean, &inverse, &variance);
  }
  if (node.phase == GPUDNN_NORM_FWD_TRAINING) {
    const double f = state->number(node, Port::factor, 1);
    const double n = static_cast<double>(s.size);
    const Array* old_mean = state->in(node, Port::running_mean_in);
    const Array* old_variance = state->in(node, Port::running_var_in);
    if (Array* out = state->out(node, Port::running_mean_out)) {
      for (std::int64_t i = 0; i < out->count(); ++i)
        out->at(i) = (old_mean == nullptr ? 0 : (1 - f) * old_mean->at(i)) + f * mean.at(i);
    }
    if (Array* out = state->out(node, Port::running_var_out)) {
      const double unbiased = n > 1 ? n / (n - 1) : 1;
      for (std::int64_t i = 0; i < out->count(); ++i)
        out->at(i) = (old_variance == nullptr ? 0 : (1 - f) * old_variance->at(i)) + f * variance.at(i) * unbiased;
    }
    copy_to(mean, state->out(node, Port::mean));
    copy_to(inverse, state->out(node, Port::inverse));
  }
  Array* y = state->out(node, Port::y);
  const Reader scale(state->in(node, Port::scale), x);
  const Reader bias(state->in(node, Port::bias), x);
  const Reader means(&mean, x);
  const Reader inverses(&inverse, x);
  for_each_index(x.rank, x.dims, 10, [&](std::int64_t i, const Dims& index) {
    const double xhat = (x.at(i) - means(index, x.rank, 0)) * inverses(index, x.rank, 1);
    y->at(i) = scale(index, x.rank, 1) * xhat + bias(index, x.rank, 0);
  });
  return GPUDNN_STATUS_SUCCESS;
}

// Sums over the dimensions where `out` has extent 1.
void sum_into(Array* out, const Array& values) {
  if (out == nullptr) return;
  const Dims strides = broadcast_strides(*out, values.rank, values.dims);
  Dims index{};
  for (std::int64_t i = 0; i < values.count(); ++i) {
    std::int64_t to = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(values.rank); ++d) to += index[d] * strides[d];
    out->at(to) += values.at(i);
    for (int d = values.rank - 1; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      if (++index[k] < values.dims[k]) break;
      index[k] = 0;
    }
  }
}

Status run_backward(const Node& node, State* state) {
  const Array& x = *state->in(node, Port::x);
  const Array& dy = *state->in(node, Port::dy);
  const Sets s = sets_of(node, *state, x);
  const Reader means(state->in(node, Port::mean), x);
  const Reader inverses(state->in(node, Port::inverse), x);
  const Reader scale(state->in(node, Port::scale), x);
  const bool rms = node.mode == GPUDNN_RMS_NORM;
  Array xhat = x;
  Array gradient = x;  // of xhat
  Array weighted = x;  // dy * xhat
  for_each_index(x.rank, x.dims, 10, [&](std::int64_t i, const Dims& index) {
    xhat.at(i) = (x.at(i) - means(index, x.rank, 0)) * inverses(index, x.rank, 1);
    gradient.at(i) = dy.at(i) * scale(index, x.rank, 1);
    weighted.at(i) = dy.at(i) * xhat.at(i);
  });
  sum_into(state->out(node, Port::dscale), weighted);
  sum_into(state->out(node, Port::dbias), dy);
  Array* dx = state->out(node, Port::dx);
  const Array sets = statistics_array(s);
  for_each_index(s.rank, s.kept, s.size * 10, [&](std::int64_t, const Dims& index) {
    double sum = 0;
    double product = 0;
    for_each_member(s, index, [&](std::int64_t i) {
      sum += gradient.at(i);
      product += gradient.at(i) * xhat.at(i);
    });
    const double n = static_cast<double>(s.size);
    const double inverse = inverses(index, s.rank, 1);
    for_each_member(s, index, [&](std::int64_t i) {
      dx->at(i) = inverse * (gradient.at(i) - (rms ? 0 : sum / n) - xhat.at(i) * product / n);
    });
  });
  return GPUDNN_STATUS_SUCCESS;
}

void run_gen_stats(const Node& node, State* state) {
  const Array& x = *state->in(node, Port::x);
  sum_into(state->out(node, Port::sum), x);
  Array squares = x;
  for (double& value : squares.v) value *= value;
  sum_into(state->out(node, Port::sqsum), squares);
}

void run_bn_finalize(const Node& node, State* state) {
  const Array& scale = *state->in(node, Port::scale);
  const Array& bias = *state->in(node, Port::bias);
  const Array* old_mean = state->in(node, Port::running_mean_in);
  const Array* old_variance = state->in(node, Port::running_var_in);
  const double epsilon = state->number(node, Port::epsilon, 0);
  const double f = state->number(node, Port::factor, 1);
  const double n = state->number(node, Port::count, 1);
  Array mean = scale;
  Array variance = scale;
  if (node.mode == GPUDNN_BN_FINALIZE_STATISTICS_TRAINING) {
    const Array& sum = *state->in(node, Port::sum);
    const Array& squares = *state->in(node, Port::sqsum);
    for (std::int64_t i = 0; i < scale.count(); ++i) {
      mean.at(i) = sum.at(i) / n;
      variance.at(i) = std::fmax(0, squares.at(i) / n - mean.at(i) * mean.at(i));
    }
    const double unbiased = n > 1 ? n / (n - 1) : 1;
    Array* new_mean = state->out(node, Port::running_mean_out);
    Array* new_variance = state->out(node, Port::running_var_out);
    for (std::int64_t i = 0; i < scale.count(); ++i) {
      if (new_mean != nullptr) new_mean->at(i) = (old_mean == nullptr ? 0 : (1 - f) * old_mean->at(i)) + f * mean.at(i);
      if (new_variance != nullptr)
        new_variance->at(i) =
            (old_variance == nullptr ? 0 : (1 - f) * old_variance->at(i)) + f * variance.at(i) * unbiased;
    }
  } else {
    mean.v = old_mean->v;
    variance.v = old_variance->v;
  }
  Array* saved_mean = state->out(node, Port::mean);
  Array* saved_inverse = state->out(node, Port::inverse);
  Array* eq_scale = state->out(node, Port::eq_scale);
  Array* eq_bias = state->out(node, Port::eq_bias);
  for (std::int64_t i = 0; i < scale.count(); ++i) {
    const double inverse = 1 / std::sqrt(variance.at(i) + epsilon);
    if (saved_mean != nullptr) saved_mean->at(i) = mean.at(i);
    if (saved_inverse != nullptr) saved_inverse->at(i) = inverse;
    if (eq_scale != nullptr) eq_scale->at(i) = scale.at(i) * inverse;
    if (eq_bias != nullptr) eq_bias->at(i) = bias.at(i) - mean.at(i) * scale.at(i) * inverse;
  }
}

void run_bn_weights(const Node& node, State* state) {
  const Array& x = *state->in(node, Port::x);
  const Array& dy = *state->in(node, Port::dy);
  const Array& mean = *state->in(node, Port::mean);
  const Array& inverse = *state->in(node, Port::inverse);
  const Array& scale = *state->in(node, Port::scale);
  const Reader means(&mean, x);
  const Reader inverses(&inverse, x);
  Array weighted = x;
  for_each_index(x.rank, x.dims, 10, [&](std::int64_t i, const Dims& index) {
    weighted.at(i) = dy.at(i) * (x.at(i) - means(index, x.rank, 0)) * inverses(index, x.rank, 1);
  });
  Array dscale = mean;
  std::fill(dscale.v.begin(), dscale.v.end(), 0);
  Array dbias = dscale;
  sum_into(&dscale, weighted);
  sum_into(&dbias, dy);
  const double m = static_cast<double>(x.count()) / static_cast<double>(mean.count());
  copy_to(dscale, state->out(node, Port::dscale));
  copy_to(dbias, state->out(node, Port::dbias));
  Array* a = state->out(node, Port::eq_dy_scale);
  Array* c = state->out(node, Port::eq_x_scale);
  Array* e = state->out(node, Port::eq_bias);
  for (std::int64_t i = 0; i < mean.count(); ++i) {
    const double va = scale.at(i) * inverse.at(i);
    const double vc = -va * inverse.at(i) * dscale.at(i) / m;
    if (a != nullptr) a->at(i) = va;
    if (c != nullptr) c->at(i) = vc;
    if (e != nullptr) e->at(i) = -va * dbias.at(i) / m - vc * mean.at(i);
  }
}

}  // namespace

Status interpret_norm(const Node& node, State* state) {
  return node.op == Op::norm_bwd ? run_backward(node, state) : run_forward(node, state);
}

Status interpret_statistics(const Node& node, State* state) {
  if (node.op == Op::gen_stats) run_gen_stats(node, state);
  if (node.op == Op::bn_finalize) run_bn_finalize(node, state);
  if (node.op == Op::bn_weights) run_bn_weights(node, state);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
