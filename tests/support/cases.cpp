// Making the data of test cases and judging results.
// SPDX-License-Identifier: Apache-2.0
#include "support/cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "support/naive.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

std::size_t count_of(const TensorGeometry& geometry) {
  std::int64_t count = geometry.rank > 0 ? 1 : 0;
  for (int i = 0; i < geometry.rank; ++i) count *= geometry.dims[i];
  return static_cast<std::size_t>(count);
}

std::vector<double> integers(Random* random, std::size_t count, std::int64_t magnitude) {
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(random->between(-magnitude, magnitude));
  return values;
}

std::vector<double> normals(Random* random, std::size_t count, gpudnnDataType_t type, double deviation = 1) {
  std::vector<double> values(count);
  for (double& value : values) value = round_to_type(deviation * random->normal(), type);
  return values;
}

std::vector<double> fill(Random* random, const TensorGeometry& geometry, bool whole, std::int64_t magnitude,
                         double deviation = 1) {
  return whole ? integers(random, count_of(geometry), magnitude)
               : normals(random, count_of(geometry), geometry.type, deviation);
}

// Rounds what an earlier operation would have stored.
std::vector<double> rounded(std::vector<double> values, gpudnnDataType_t type) {
  for (double& value : values) value = round_to_type(value, type);
  return values;
}

template <class Problem>
void fill_output(Random* random, const Case<Problem>& c, Values* values) {
  if (c.beta != 0) values->out = fill(random, output_of(c.problem), c.integers, 4);
}

}  // namespace

const TensorGeometry& output_of(const conv::Problem& problem) {
  if (problem.direction == conv::Direction::forward) return problem.y;
  return problem.direction == conv::Direction::dgrad ? problem.x : problem.w;
}
const TensorGeometry& output_of(const pooling::Problem& problem) { return problem.backward ? problem.dx : problem.y; }
const TensorGeometry& output_of(const activation::Problem& problem) {
  return problem.backward ? problem.dx : problem.y;
}
const TensorGeometry& output_of(const softmax::Problem& problem) { return problem.backward ? problem.dx : problem.y; }
const TensorGeometry& output_of(const tensor::Problem& problem) { return problem.c; }
const TensorGeometry& output_of(const bias_grad::Problem& problem) { return problem.db; }

std::int64_t reduction_length(const conv::Problem& problem) {
  std::int64_t taps = 1;
  std::int64_t outputs = problem.y.dims[0];
  for (int i = 0; i < problem.spatial; ++i) {
    taps *= problem.w.dims[2 + i];
    outputs *= problem.y.dims[2 + i];
  }
  switch (problem.direction) {
    case conv::Direction::forward:
      return problem.w.dims[1] * taps;
    case conv::Direction::dgrad:
      return problem.w.dims[0] / problem.groups * taps;
    default:
      return outputs;
  }
}

double multiply_adds(const conv::Problem& problem) {
  double product = static_cast<double>(count_of(problem.y)) * static_cast<double>(problem.w.dims[1]);
  for (int i = 0; i < problem.spatial; ++i) product *= static_cast<double>(problem.w.dims[2 + i]);
  return product;
}

Values make_values(const ConvCase& c) {
  Random random(c.seed);
  Values values;
  const conv::Problem& p = c.problem;
  // Products of magnitude^2 stay below f16's greatest number in the sum, and far below 2^24.
  const std::int64_t length = reduction_length(p);
  const std::int64_t magnitude = length < 3000 ? 3 : length < 7000 ? 2 : 1;
  const auto make = [&](const TensorGeometry& tensor) { return fill(&random, tensor, c.integers, magnitude); };
  if (p.direction != conv::Direction::dgrad) values.x = make(p.x);
  if (p.direction != conv::Direction::wgrad) values.w = make(p.w);
  if (p.direction != conv::Direction::forward) values.y = make(p.y);
  if (p.has_z != 0) values.z = make(p.z);
  const gpudnnDataType_t vectors = p.float_vectors != 0 ? GPUDNN_DATA_FLOAT : p.y.type;
  if (p.has_bias != 0) {
    const auto channels = static_cast<std::size_t>(p.w.dims[0]);
    values.bias = c.integers ? integers(&random, channels, 4) : normals(&random, channels, vectors);
  }
  if (p.has_scale != 0) {
    const auto channels = static_cast<std::size_t>(p.w.dims[0]);
    if (c.integers) {
      for (std::size_t k = 0; k < channels; ++k) values.scale.push_back(random.pick({1.0, -1.0, 0.5, 0.0}));
    } else {
      values.scale = normals(&random, channels, vectors);
    }
  }
  fill_output(&random, c, &values);
  return values;
}

Values make_values(const BiasGradCase& c) {
  Random random(c.seed);
  Values values;
  values.dy = fill(&random, c.problem.dy, c.integers, 3);
  fill_output(&random, c, &values);
  return values;
}

// y as the forward pass makes it, and dy.
template <class Case>
void fill_gradient(Random* random, const Case& c, gpudnnDataType_t type, Values* values) {
  Case forward = c;
  forward.problem.backward = false;
  forward.alpha = 1;
  forward.beta = 0;
  values->y = rounded(naive(forward, *values).value, type);
  values->dy = fill(random, c.problem.dy, c.integers, 4);
}

Values make_values(const PoolingCase& c) {
  Random random(c.seed);
  Values values;
  values.x = fill(&random, c.problem.x, c.integers, 4);  // few different values: ties are frequent
  if (c.problem.backward) fill_gradient(&random, c, c.problem.y.type, &values);
  fill_output(&random, c, &values);
  return values;
}

Values make_values(const ActivationCase& c) {
  Random random(c.seed);
  Values values;
  values.x = fill(&random, c.problem.x, c.integers, 4, 3);
  // The functions with a kink at zero have no one derivative there that every formula agrees on.
  for (double& x : values.x) x = x == 0 ? 1 : x;
  if (c.problem.backward) fill_gradient(&random, c, c.problem.y.type, &values);
  fill_output(&random, c, &values);
  return values;
}

Values make_values(const SoftmaxCase& c) {
  Random random(c.seed);
  Values values;
  const TensorGeometry& x = c.problem.backward ? c.problem.y : c.problem.x;
  values.x = fill(&random, x, c.integers, 4, random.chance(0.2) ? 20 : 3);
  if (c.problem.backward) {
    SoftmaxCase forward = c;
    forward.problem.x = x;
    fill_gradient(&random, forward, x.type, &values);
    values.x.clear();
  }
  fill_output(&random, c, &values);
  return values;
}

Values make_values(const TensorCase& c) {
  Random random(c.seed);
  Values values;
  const tensor::Operation operation = c.problem.operation;
  if (operation == tensor::Operation::add || operation == tensor::Operation::transform) {
    values.x = fill(&random, c.problem.a, c.integers, 8);
    fill_output(&random, c, &values);
  } else if (operation == tensor::Operation::scale) {
    values.out = fill(&random, c.problem.c, c.integers, 8);
  }
  return values;
}

std::string mismatch(const TensorGeometry& geometry, const std::vector<double>& actual, const Expected& expected) {
  if (actual.size() != expected.value.size()) return "the output has another number of elements than expected";
  std::size_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double value = expected.value[i];
    const double slack = expected.slack[i];
    if (std::isfinite(value) && std::fabs(actual[i] - value) <= slack) continue;  // rounding cannot part them
    const bool right = std::isnan(value)   ? std::isnan(actual[i])
                       : std::isinf(value) ? actual[i] == value
                                           : actual[i] >= round_to_type(value - slack, geometry.type) &&
                                                 actual[i] <= round_to_type(value + slack, geometry.type);
    if (!right && wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  std::string place;
  std::size_t rest = first;
  for (int i = geometry.rank - 1; i >= 0; --i) {
    const auto extent = static_cast<std::size_t>(geometry.dims[i]);
    place = std::to_string(rest % extent) + (place.empty() ? "" : ",") + place;
    rest /= extent;
  }
  char text[256];
  std::snprintf(text, sizeof text,
                "%zu of %zu elements are wrong; the first at [%s]: %.9g instead of %.9g (slack %.3g)", wrong,
                actual.size(), place.c_str(), actual[first], expected.value[first], expected.slack[first]);
  return text;
}

double normwise_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(actual[i]) != std::isnan(expected[i])) return std::numeric_limits<double>::infinity();
    if (std::isnan(expected[i])) continue;
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace gpudnn::test
