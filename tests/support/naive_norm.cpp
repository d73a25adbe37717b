// The oracle of batch normalization: by the definition, in long double, with the error bounds of docs/numerics.md.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "support/norm.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

// The sets: for each the row-major indices of its elements; sets in the row-major order of the parameters.
std::vector<std::vector<std::size_t>> sets_of(const norm::Problem& p) {
  std::size_t inner = 1;
  for (int i = 2; i < p.x.rank; ++i) inner *= static_cast<std::size_t>(p.x.dims[i]);
  const auto batch = static_cast<std::size_t>(p.x.dims[0]);
  const auto channels = static_cast<std::size_t>(p.x.dims[1]);
  std::vector<std::vector<std::size_t>> sets(p.per_activation ? channels * inner : channels);
  for (std::size_t n = 0; n < batch; ++n) {
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t s = 0; s < inner; ++s) {
        sets[p.per_activation ? c * inner + s : c].push_back((n * channels + c) * inner + s);
      }
    }
  }
  return sets;
}

Expected sized(std::size_t count) { return {std::vector<double>(count), std::vector<double>(count)}; }

// alpha * value + beta * old, where the value is off by at most `slack`.
void combine(double alpha, double beta, double old, double value, double slack, double u, std::size_t i,
             Expected* expected) {
  const double kept = beta != 0 ? beta * old : 0;
  expected->value[i] = alpha * value + kept;
  expected->slack[i] = std::fabs(alpha) * slack + 2 * u * (std::fabs(alpha * value) + std::fabs(kept));
}

double at(const std::vector<double>& values, std::size_t i) { return values.empty() ? 0 : values[i]; }

// Statistics, and how far computed ones may be off.
struct Statistics {
  double mean = 0, variance = 0, inverse = 0;
  double mean_slack = 0, variance_slack = 0, inverse_slack = 0;
};

void invert(double epsilon, double u, Statistics* s) {
  s->inverse = 1 / std::sqrt(s->variance + epsilon);
  const double high = 1 / std::sqrt(std::max(s->variance - s->variance_slack, 0.0) + epsilon * (1 - 2 * u));
  const double low = 1 / std::sqrt(s->variance + s->variance_slack + epsilon * (1 + 2 * u));
  s->inverse_slack = std::max(high - s->inverse, s->inverse - low) + 4 * u * s->inverse;
}

Statistics batch_statistics(const std::vector<std::size_t>& set, const std::vector<double>& x, double epsilon,
                            double u) {
  const auto m = static_cast<double>(set.size());
  long double sum = 0;
  double magnitude = 0;
  for (const std::size_t i : set) {
    sum += x[i];
    magnitude += std::fabs(x[i]);
  }
  const long double mean = sum / static_cast<long double>(m);
  long double squares = 0;
  for (const std::size_t i : set) squares += (x[i] - mean) * (x[i] - mean);
  Statistics s;
  s.mean = static_cast<double>(mean);
  s.variance = static_cast<double>(squares / static_cast<long double>(m));
  const double of_sum = 4 + 4 * std::sqrt(m);
  s.mean_slack = of_sum * u * magnitude / m;
  // Deviations are taken from means that carry a rounding of their own size.
  const double shift = 4 * u * magnitude / m;
  s.variance_slack =
      (8 + of_sum) * u * s.variance + 2 * shift * std::sqrt(s.variance) + shift * shift + s.mean_slack * s.mean_slack;
  invert(epsilon, u, &s);
  return s;
}

}  // namespace

ForwardExpected naive_forward(const NormCase& c, const NormValues& values, bool infer) {
  const norm::Problem& p = infer ? c.infer : c.forward;
  const double u = unit_roundoff(compute_type(p.x.type));
  const auto sets = sets_of(p);
  ForwardExpected e;
  e.y = sized(values.x.size());
  e.passes.assign(values.x.size(), 1);
  e.running_mean = e.running_variance = e.saved_mean = e.saved_inverse = sized(sets.size());
  for (std::size_t k = 0; k < sets.size(); ++k) {
    Statistics s;
    if (infer) {
      s.mean = values.mean[k];
      s.variance = values.variance[k];
      invert(p.epsilon, u, &s);
    } else {
      s = batch_statistics(sets[k], values.x, p.epsilon, u);
    }
    for (const std::size_t i : sets[k]) {
      const double distance = values.x[i] - s.mean;
      const double scale = values.scale[k];
      double value = scale * distance * s.inverse + values.bias[k];
      double slack = std::fabs(scale) * ((s.inverse + s.inverse_slack) * (s.mean_slack + 2 * u * std::fabs(distance)) +
                                         std::fabs(distance) * s.inverse_slack) +
                     4 * u * (std::fabs(scale * distance * s.inverse) + std::fabs(values.bias[k]));
      if (!values.z.empty()) {
        value += values.z[i];
        slack += 2 * u * (std::fabs(value) + std::fabs(values.z[i]));
      }
      if (p.ops != GPUDNN_BATCHNORM_OPS_BN && p.mode != GPUDNN_ACTIVATION_IDENTITY) {
        const bool clipped = p.mode == GPUDNN_ACTIVATION_CLIPPED_RELU;
        e.doubtful = e.doubtful || std::fabs(value) <= slack || (clipped && std::fabs(value - p.coef) <= slack);
        e.passes[i] = static_cast<char>(value > 0 && (!clipped || value < p.coef));
        value = std::max(value, 0.0);
        if (clipped) value = std::min(value, p.coef);
      }
      combine(c.alpha, c.beta, at(values.y, i), value, slack, u, i, &e.y);
    }
    const auto m = static_cast<double>(sets[k].size());
    const double unbias = m > 1 ? m / (m - 1) : 1;
    combine(c.factor, 1 - c.factor, at(values.mean, k), s.mean, s.mean_slack, u, k, &e.running_mean);
    combine(c.factor, 1 - c.factor, at(values.variance, k), s.variance * unbias,
            unbias * (s.variance_slack + 4 * u * s.variance), u, k, &e.running_variance);
    // factor and 1 - factor are rounded to the compute type too.
    e.running_mean.slack[k] += 2 * u * (std::fabs(s.mean) + std::fabs(at(values.mean, k)));
    e.running_variance.slack[k] += 2 * u * (s.variance * unbias + std::fabs(at(values.variance, k)));
    e.saved_mean.value[k] = s.mean;
    e.saved_mean.slack[k] = s.mean_slack;
    e.saved_inverse.value[k] = s.inverse;
    e.saved_inverse.slack[k] = s.inverse_slack;
  }
  return e;
}

BackwardExpected naive_backward(const NormCase& c, const NormValues& values, const std::vector<char>& passes,
                                const std::vector<double>& mean, const std::vector<double>& inverse) {
  const norm::Problem& p = c.backward;
  const double u = unit_roundoff(compute_type(p.x.type));
  const auto sets = sets_of(p);
  BackwardExpected e;
  e.dx = e.dz = sized(values.x.size());
  e.dscale = e.dbias = sized(sets.size());
  for (std::size_t k = 0; k < sets.size(); ++k) {
    Statistics s;
    if (mean.empty()) {
      s = batch_statistics(sets[k], values.x, p.epsilon, u);
    } else {
      s.mean = mean[k];
      s.inverse = inverse[k];
    }
    long double sum = 0;
    long double product = 0;  // of g and x - mean
    double sum_size = 0;
    double product_size = 0;
    for (const std::size_t i : sets[k]) {
      const double g = passes[i] != 0 ? values.dy[i] : 0;
      sum += g;
      product += static_cast<long double>(g) * (static_cast<long double>(values.x[i]) - s.mean);
      sum_size += std::fabs(g);
      product_size += std::fabs(g * (values.x[i] - s.mean));
    }
    const auto m = static_cast<double>(sets[k].size());
    const double of_sum = (4 + 4 * std::sqrt(m)) * u;
    const double sum_slack = of_sum * sum_size;
    const double product_slack = (of_sum + 4 * u) * product_size + s.mean_slack * sum_size;
    const auto total = static_cast<double>(sum);
    const auto moment = static_cast<double>(product);
    const double scale = values.scale[k];
    const double inverse_high = s.inverse + s.inverse_slack;
    const double square = s.inverse * s.inverse;
    const double square_slack = inverse_high * inverse_high - square;
    for (const std::size_t i : sets[k]) {
      const double g = passes[i] != 0 ? values.dy[i] : 0;
      const double distance = values.x[i] - s.mean;
      const double centred = g - total / m - distance * square * moment / m;
      const double size = std::fabs(g) + std::fabs(total) / m + std::fabs(distance * moment) * square / m;
      const double slack_of_centred = sum_slack / m +
                                      std::fabs(distance) * (square + square_slack) * product_slack / m +
                                      std::fabs(distance * moment) * square_slack / m +
                                      s.mean_slack * (square + square_slack) * std::fabs(moment) / m + 10 * u * size;
      const double slack = std::fabs(scale) * (inverse_high * slack_of_centred + s.inverse_slack * std::fabs(centred)) +
                           4 * u * std::fabs(scale * s.inverse * centred);
      combine(c.alpha, c.beta, at(values.dx, i), scale * s.inverse * centred, slack, u, i, &e.dx);
      e.dz.value[i] = g;
    }
    combine(c.alpha_param, c.beta_param, at(values.dscale, k), moment * s.inverse,
            inverse_high * product_slack + std::fabs(moment) * s.inverse_slack + 4 * u * std::fabs(moment * s.inverse),
            u, k, &e.dscale);
    combine(c.alpha_param, c.beta_param, at(values.dbias, k), total, sum_slack, u, k, &e.dbias);
  }
  return e;
}

}  // namespace gpudnn::test
