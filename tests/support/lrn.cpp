// Cases of local response and divisive normalization.
// SPDX-License-Identifier: Apache-2.0
#include "support/lrn.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "support/number.hpp"
#include "support/random_problems.hpp"

namespace gpudnn::test {
namespace {

// For each element the row-major indices of its window's elements, by walking all dimensions.
std::vector<std::vector<std::size_t>> windows_of(const lrn::Problem& p) {
  const TensorGeometry& x = p.x;
  const std::int64_t before = (p.n - 1) / 2, after = p.n / 2;
  std::vector<std::int64_t> step(static_cast<std::size_t>(x.rank), 1);
  for (int i = x.rank - 2; i >= 0; --i) {
    step[static_cast<std::size_t>(i)] = step[static_cast<std::size_t>(i) + 1] * x.dims[i + 1];
  }
  std::vector<std::vector<std::size_t>> windows(static_cast<std::size_t>(step[0] * x.dims[0]));
  for (std::size_t element = 0; element < windows.size(); ++element) {
    std::vector<std::size_t> members = {element};
    for (int i = 1; i < x.rank; ++i) {
      if (p.spatial ? i < 2 : i != 1) continue;
      const std::int64_t stride = step[static_cast<std::size_t>(i)];
      const std::int64_t at = static_cast<std::int64_t>(element) / stride % x.dims[i];
      std::vector<std::size_t> wider;
      for (const std::size_t member : members) {
        for (std::int64_t move = -before; move <= after; ++move) {
          if (at + move < 0 || at + move >= x.dims[i]) continue;
          wider.push_back(static_cast<std::size_t>(static_cast<std::int64_t>(member) + move * stride));
        }
      }
      members = wider;
    }
    windows[element] = members;
  }
  return windows;
}

std::vector<double> numbers(Random* random, std::size_t count, gpudnnDataType_t type, bool whole) {
  std::vector<double> values(count);
  for (double& value : values) {
    value = whole ? static_cast<double>(random->between(-4, 4)) : round_to_type(2 * random->normal(), type);
  }
  return values;
}

// How far s^-e may be off, in unit roundoffs of the result: the sum under it, the logarithm, the power.
double power_error(double terms, double s, double e) {
  return 4 + e * (4 + 4 * std::sqrt(terms)) + 4 * e * std::max(1.0, std::fabs(std::log2(s)));
}

}  // namespace

LrnDescriptor::LrnDescriptor(const lrn::Problem& p) {
  GPUDNN_TEST_REQUIRE(gpudnnSetLRNDescriptor(*this, static_cast<unsigned>(p.n), p.alpha, p.beta, p.k));
}

const TensorGeometry& output_of(const lrn::Problem& problem) { return problem.backward ? problem.dx : problem.y; }

Values make_values(const LrnCase& c) {
  const lrn::Problem& p = c.problem;
  Random random(c.seed);
  std::size_t count = 1;
  for (int i = 0; i < p.x.rank; ++i) count *= static_cast<std::size_t>(p.x.dims[i]);
  Values values;
  values.x = numbers(&random, count, p.x.type, c.integers);
  if (p.has_means) values.z = numbers(&random, count, p.x.type, c.integers);
  if (p.backward) values.dy = numbers(&random, count, p.x.type, c.integers);
  if (c.beta != 0) values.out = numbers(&random, count, p.x.type, c.integers);
  return values;
}

Expected naive(const LrnCase& c, const Values& values) {
  const lrn::Problem& p = c.problem;
  const double u = unit_roundoff(compute_type(p.x.type));
  const auto windows = windows_of(p);
  const std::size_t count = windows.size();
  double size = 1;
  for (int i = p.spatial ? 2 : 1; i < (p.spatial ? p.x.rank : 2); ++i) size *= p.n;
  const double weight = p.alpha / size;
  std::vector<double> z = values.x, s(count), result(count), error(count), sums(count), absolute(count), worst(count);
  for (std::size_t i = 0; i < values.z.size(); ++i) z[i] -= values.z[i];
  for (std::size_t i = 0; i < count; ++i) {
    s[i] = p.k;
    for (const std::size_t j : windows[i]) s[i] += weight * z[j] * z[j];
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto terms = static_cast<double>(windows[i].size());
    const double power = std::pow(s[i], -p.beta);
    result[i] = (p.backward ? values.dy[i] : z[i]) * power;
    error[i] = (4 + power_error(terms, s[i], p.beta)) * u * std::fabs(result[i]);
    if (!p.backward) continue;
    const double term = values.dy[i] * z[i] * power / s[i];
    for (const std::size_t j : windows[i]) {
      sums[j] += term;
      absolute[j] += std::fabs(term);
      worst[j] = std::max(worst[j], 8 + power_error(terms, s[i], p.beta + 1) + 4 + 4 * std::sqrt(terms));
    }
  }
  Expected expected{std::vector<double>(count), std::vector<double>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    if (p.backward) {
      const double factor = 2 * weight * p.beta * z[i];
      result[i] -= factor * sums[i];
      error[i] += (4 + worst[i]) * u * std::fabs(factor) * absolute[i] + 2 * u * std::fabs(result[i]);
      if (p.means_gradient) result[i] = -result[i];
    }
    const double old = c.beta != 0 ? c.beta * values.out[i] : 0;
    expected.value[i] = c.alpha * result[i] + old;
    expected.slack[i] = std::fabs(c.alpha) * error[i] + 2 * u * (std::fabs(c.alpha * result[i]) + std::fabs(old));
  }
  return expected;
}

Outcome run(const Backend& backend, const LrnCase& c, const Values& values, const RunOptions& options) {
  const lrn::Problem& p = c.problem;
  const auto make = [&](const TensorGeometry& geometry, const std::vector<double>& from) {
    return std::make_unique<DeviceTensor>(backend, geometry, from.empty() ? nullptr : &from, options.misaligned);
  };
  const LrnDescriptor norm(p);
  const TensorDescriptor x_desc(p.x), y_desc(p.y), out_desc(output_of(p));
  const TensorDescriptor dy_desc(p.backward ? p.dy : p.x);
  const Scalar alpha(c.alpha, p.x.type), beta(c.beta, p.x.type);
  const auto x = make(p.x, values.x), dy = make(p.backward ? p.dy : p.x, values.dy), means = make(p.x, values.z);
  const auto y = make(p.y, {}), temp = make(p.x, {}), temp2 = make(p.x, {});
  const auto out = make(output_of(p), values.out), other = make(output_of(p), values.out);
  const void* const m = p.has_means ? means->data() : nullptr;
  const gpudnnHandle_t h = backend.handle();
  Outcome outcome;
  if (!p.spatial && !p.backward) {
    outcome.status = gpudnnLRNCrossChannelForward(h, norm, GPUDNN_LRN_CROSS_CHANNEL_DIM1, alpha, x_desc, x->data(),
                                                  beta, out_desc, out->data());
  } else if (!p.spatial) {
    outcome.status = gpudnnLRNCrossChannelBackward(h, norm, GPUDNN_LRN_CROSS_CHANNEL_DIM1, alpha, y_desc, y->data(),
                                                   dy_desc, dy->data(), x_desc, x->data(), beta, out_desc, out->data());
  } else if (!p.backward) {
    outcome.status =
        gpudnnDivisiveNormalizationForward(h, norm, GPUDNN_DIVNORM_PRECOMPUTED_MEANS, alpha, x_desc, x->data(), m,
                                           temp->data(), temp2->data(), beta, out_desc, out->data());
  } else {
    // The judged output is dMeans where it is asked for.
    void* const dx = p.means_gradient ? other->data() : out->data();
    outcome.status = gpudnnDivisiveNormalizationBackward(h, norm, GPUDNN_DIVNORM_PRECOMPUTED_MEANS, alpha, x_desc,
                                                         x->data(), m, dy->data(), temp->data(), temp2->data(), beta,
                                                         out_desc, dx, p.means_gradient ? out->data() : nullptr);
  }
  if (outcome.status != GPUDNN_STATUS_SUCCESS) outcome.text = take_error_text();
  outcome.values = out->values();
  for (const auto* tensor : {&out, &other, &temp, &temp2}) {
    if (outcome.damage.empty()) outcome.damage = (*tensor)->damage_outside_elements();
  }
  for (const auto* tensor : {&x, &dy, &means, &y}) {
    if (outcome.damage.empty()) outcome.damage = (*tensor)->damage_anywhere();
  }
  return outcome;
}

LrnCase random_lrn(Random& random) {
  LrnCase c{};
  lrn::Problem& p = c.problem;
  p.backward = random.chance(0.5);
  p.spatial = random.chance(0.4);
  p.n = random.chance(0.5) ? 5 : static_cast<std::int32_t>(random.between(1, 16));
  p.alpha = random.pick({1e-4, 0.1, 1.0, 3.0});
  p.beta = random.pick({0.75, 0.75, 0.5, 1.0, 0.01});
  p.k = random.pick({1.0, 2.0, 0.5, 1e-5});
  p.x.type = random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_DOUBLE});
  p.x.rank = static_cast<std::int32_t>(p.spatial ? random.between(3, 5) : random.between(2, 6));
  p.x.dims[0] = random.between(1, 3);
  p.x.dims[1] = p.spatial ? random.between(1, 4) : random.pick<std::int64_t>({1, 3, 8, 24, 40, 70, 133});
  for (int i = 2; i < p.x.rank; ++i) p.x.dims[i] = random.between(1, p.x.rank > 4 ? 4 : p.spatial ? 9 : 6);
  if (p.x.rank > 2 && random.chance(0.4)) p.x.dims[p.x.rank - 1] = 4 * random.between(1, 3);
  set_random_layout(random, &p.x);
  p.y = p.x;
  if (random.chance(0.3)) set_random_layout(random, &p.y);
  if (p.backward) {
    p.dx = p.dy = p.x;
    if (random.chance(0.3)) set_random_layout(random, &p.dx);
    if (!p.spatial && random.chance(0.3)) set_random_layout(random, &p.dy);
  }
  p.has_means = p.spatial && random.chance(0.6);
  p.means_gradient = p.spatial && p.backward && random.chance(0.4);
  const bool combines = random.chance(0.4);
  c.alpha = combines ? -2 : 1;
  c.beta = combines ? 0.25 : 0;
  c.integers = random.chance(0.3);
  c.seed = random.bits() >> 16;
  return c;
}

}  // namespace gpudnn::test
