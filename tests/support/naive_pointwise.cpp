// The oracle of activation, softmax and the tensor operations.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/numerics.hpp"
#include "core/parallel.hpp"
#include "support/naive.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

// alpha * value + beta * old, where the value has an error of `slack` already.
void combine(double alpha, double beta, double old, double value, double slack, double u, std::size_t i,
             Expected* expected) {
  const double kept = beta != 0 ? beta * old : 0;
  expected->value[i] = alpha * value + kept;
  expected->slack[i] = std::fabs(alpha) * slack + 2 * u * (std::fabs(alpha * value) + std::fabs(kept));
}

double old_at(const Values& values, std::size_t i) { return values.out.empty() ? 0 : values.out[i]; }

// How far d f'(x) / d y is, where y = f(x) is stored rounded: formulas may use either x or y.
double slope_change_with_y(gpudnnActivationMode_t mode, double y) {
  switch (mode) {
    case GPUDNN_ACTIVATION_SIGMOID:
      return std::fabs(1 - 2 * y);
    case GPUDNN_ACTIVATION_TANH:
      return std::fabs(2 * y);
    case GPUDNN_ACTIVATION_ELU:
      return 1;
    default:
      return 0;
  }
}

using numerics::least_normal;

}  // namespace

bool activation_is_exact(std::int32_t mode) {
  return mode == GPUDNN_ACTIVATION_RELU || mode == GPUDNN_ACTIVATION_CLIPPED_RELU || mode == GPUDNN_ACTIVATION_IDENTITY;
}

Derivative activation_at(std::int32_t mode, double coef, double x) {
  // A long double's exp does not overflow where the result is still a number of the type under test.
  const auto gate_at = [](double z) { return static_cast<double>(1 / (1 + std::exp(-static_cast<long double>(z)))); };
  const double sigmoid = gate_at(x);
  switch (mode) {
    case GPUDNN_ACTIVATION_SIGMOID:
      return {sigmoid, sigmoid / (1 + std::exp(x))};
    case GPUDNN_ACTIVATION_RELU:
      return {x > 0 ? x : 0, x > 0 ? 1.0 : 0.0};
    case GPUDNN_ACTIVATION_TANH:
      return {std::tanh(x), 1 / (std::cosh(x) * std::cosh(x))};
    case GPUDNN_ACTIVATION_CLIPPED_RELU:
      return {std::min(coef, x > 0 ? x : 0), x > 0 && x < coef ? 1.0 : 0.0};
    case GPUDNN_ACTIVATION_ELU:
      return {x >= 0 ? x : coef * std::expm1(x), x >= 0 ? 1.0 : coef * std::exp(x)};
    case GPUDNN_ACTIVATION_SWISH: {
      const double gate = gate_at(coef * x);
      return {x * gate, gate + x * coef * gate / (1 + std::exp(coef * x))};
    }
    case conv::kGelu: {
      const double cdf = 0.5 * std::erfc(-x / std::sqrt(2.0));
      return {x * cdf, cdf + x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0))};
    }
    case conv::kGeluTanh: {
      const double c = std::sqrt(2 / std::acos(-1.0));
      const double u = c * (x + 0.044715 * x * x * x);
      const double cdf = gate_at(2 * u);
      return {x * cdf, cdf + x * c * (1 + 3 * 0.044715 * x * x) / (2 * std::cosh(u) * std::cosh(u))};
    }
    case conv::kSoftplus: {
      const double z = coef * x;
      return {(std::fmax(z, 0) + std::log1p(std::exp(-std::fabs(z)))) / coef, gate_at(z)};
    }
    default:
      return {x, 1};
  }
}

Expected naive(const ActivationCase& c, const Values& values) {
  const activation::Problem& p = c.problem;
  const TensorGeometry& out = output_of(p);
  const double u = unit_roundoff(compute_type(out.type));
  const bool exact = activation_is_exact(p.mode);
  const std::size_t count = values.x.size();
  Expected expected{std::vector<double>(count), std::vector<double>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    const double x = values.x[i];
    const Derivative f = activation_at(p.mode, p.coef, x);
    if (!p.backward) {
      const double slack = exact ? 0 : numerics::curve_slack(u, f.f, x * f.slope) + least_normal(out.type);
      combine(c.alpha, c.beta, old_at(values, i), f.f, slack, u, i, &expected);
    } else {
      // Conditioning: f' of the curved functions changes by less than (1 + |x|) f' + (that of y) per unit of x.
      const double stored = unit_roundoff(p.y.type) * std::fabs(values.y[i]) * 1.01;
      const double slope_slack = exact ? 0
                                       : 8 * u * (1 + std::fabs(x)) * std::max(std::fabs(f.slope), std::fabs(x) * u) +
                                             8 * u + slope_change_with_y(p.mode, f.f) * stored;
      const double dy = values.dy[i];
      combine(c.alpha, c.beta, old_at(values, i), f.slope * dy, slope_slack * std::fabs(dy), u, i, &expected);
    }
    if (exact && c.integers) expected.slack[i] = 0;
  }
  return expected;
}

namespace {

// Calls body(indices) with the row-major indices of each set that a softmax normalizes over, on several threads.
template <class Body>
void for_each_softmax_set(const TensorGeometry& tensor, gpudnnSoftmaxMode_t mode, Body body) {
  const auto batch = static_cast<std::size_t>(tensor.dims[0]);
  const auto channels = static_cast<std::size_t>(tensor.rank > 1 ? tensor.dims[1] : 1);
  std::size_t plane = 1;
  for (int i = 2; i < tensor.rank; ++i) plane *= static_cast<std::size_t>(tensor.dims[i]);
  const bool whole = mode == GPUDNN_SOFTMAX_MODE_INSTANCE;
  const std::size_t sets = whole ? 1 : plane;
  const std::size_t length = whole ? channels * plane : channels;
  const std::size_t step = whole ? 1 : plane;
  parallel_for(static_cast<std::int64_t>(batch * sets), 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::size_t> set(length);
    for (auto index = static_cast<std::size_t>(begin); index < static_cast<std::size_t>(end); ++index) {
      const std::size_t start = index / sets * channels * plane + index % sets;
      for (std::size_t i = 0; i < length; ++i) set[i] = start + i * step;
      body(set);
    }
  });
}

using Set = std::vector<std::size_t>;

void softmax_forward(const SoftmaxCase& c, const Values& values, const Set& set, double u, Expected* expected) {
  const bool log = c.problem.algorithm == GPUDNN_SOFTMAX_LOG;
  double greatest = -std::numeric_limits<double>::infinity();
  for (const std::size_t i : set) greatest = std::max(greatest, values.x[i]);
  long double sum = 0;
  for (const std::size_t i : set) sum += std::exp(static_cast<long double>(values.x[i]) - greatest);
  const auto n = static_cast<double>(set.size());
  for (const std::size_t i : set) {
    const long double distance = static_cast<long double>(values.x[i]) - greatest;
    const auto below = static_cast<double>(-distance);
    if (log) {
      const long double log_sum = std::log(sum);
      const double slack = numerics::log_softmax_slack(u, n, below, static_cast<double>(log_sum));
      combine(c.alpha, c.beta, old_at(values, i), static_cast<double>(distance - log_sum), slack, u, i, expected);
    } else {
      const auto value = static_cast<double>(std::exp(distance) / sum);
      const double slack = numerics::softmax_slack(u, n, below, value) + least_normal(c.problem.y.type);
      combine(c.alpha, c.beta, old_at(values, i), value, slack, u, i, expected);
    }
  }
}

void softmax_backward(const SoftmaxCase& c, const Values& values, const Set& set, double u, Expected* expected) {
  const bool log = c.problem.algorithm == GPUDNN_SOFTMAX_LOG;
  long double sum = 0;
  double magnitude = 0;
  for (const std::size_t i : set) {
    const long double term = log ? values.dy[i] : static_cast<long double>(values.dy[i]) * values.y[i];
    sum += term;
    magnitude += std::fabs(static_cast<double>(term));
  }
  const double bound = u * (8 + 4 * std::sqrt(static_cast<double>(set.size())));
  for (const std::size_t i : set) {
    const double y = values.y[i];
    const double dy = values.dy[i];
    if (log) {
      const double weight = std::exp(y);
      const auto value = static_cast<double>(dy - static_cast<long double>(weight) * sum);
      const double slack = bound * (std::fabs(dy) + weight * magnitude * (1 + std::fabs(y)));
      combine(c.alpha, c.beta, old_at(values, i), value, slack, u, i, expected);
    } else {
      const auto value = static_cast<double>(y * (dy - sum));
      const double slack = bound * std::fabs(y) * (std::fabs(dy) + magnitude) + least_normal(c.problem.y.type);
      combine(c.alpha, c.beta, old_at(values, i), value, slack, u, i, expected);
    }
  }
}

}  // namespace

Expected naive(const SoftmaxCase& c, const Values& values) {
  const TensorGeometry& out = output_of(c.problem);
  const double u = unit_roundoff(compute_type(out.type));
  const std::size_t count = c.problem.backward ? values.y.size() : values.x.size();
  Expected expected{std::vector<double>(count), std::vector<double>(count)};
  for_each_softmax_set(out, c.problem.mode, [&](const Set& set) {
    if (c.problem.backward) {
      softmax_backward(c, values, set, u, &expected);
    } else {
      softmax_forward(c, values, set, u, &expected);
    }
  });
  return expected;
}

Expected naive(const TensorCase& c, const Values& values) {
  const TensorGeometry& out = c.problem.c;
  const double u = unit_roundoff(compute_type(out.type));
  std::size_t count = 1;
  for (int i = 0; i < out.rank; ++i) count *= static_cast<std::size_t>(out.dims[i]);
  Expected expected{std::vector<double>(count), std::vector<double>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    switch (c.problem.operation) {
      case tensor::Operation::set:
        expected.value[i] = round_to_type(c.value, out.type);
        break;
      case tensor::Operation::scale:
        combine(c.alpha, 0, 0, values.out[i], 0, u, i, &expected);
        break;
      default: {
        // The element of a under element i of c: index 0 along each dimension where a is repeated.
        std::size_t rest = i;
        std::size_t from = 0;
        std::size_t step = 1;
        for (int d = out.rank - 1; d >= 0; --d) {
          const std::size_t at = rest % static_cast<std::size_t>(out.dims[d]);
          rest /= static_cast<std::size_t>(out.dims[d]);
          if (c.problem.a.dims[d] != 1) from += at * step;
          step *= static_cast<std::size_t>(c.problem.a.dims[d]);
        }
        combine(c.alpha, c.beta, old_at(values, i), values.x[from], 0, u, i, &expected);
      }
    }
    if (c.integers) expected.slack[i] = 0;
  }
  return expected;
}

}  // namespace gpudnn::test
