// The oracle of convolution and of the bias gradient.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/numerics.hpp"
#include "core/parallel.hpp"
#include "support/naive.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

// Three spatial dimensions; missing ones come first, as 1. The row-major index does not notice.
struct Extents {
  std::int64_t d[3];
  [[nodiscard]] std::int64_t index(std::int64_t outer, const std::int64_t (&i)[3]) const {
    return ((outer * d[0] + i[0]) * d[1] + i[1]) * d[2] + i[2];
  }
};

Extents spatial_extents(const TensorGeometry& tensor) {
  Extents extents{{1, 1, 1}};
  for (int i = 2; i < tensor.rank; ++i) extents.d[3 - tensor.rank + i] = tensor.dims[i];
  return extents;
}

struct Parameters {
  std::int64_t pad[3] = {0, 0, 0};
  std::int64_t stride[3] = {1, 1, 1};
  std::int64_t dilation[3] = {1, 1, 1};
  explicit Parameters(const conv::Problem& p) {
    for (int i = 0; i < p.spatial; ++i) {
      pad[3 - p.spatial + i] = p.pad[i];
      stride[3 - p.spatial + i] = p.stride[i];
      dilation[3 - p.spatial + i] = p.dilation[i];
    }
  }
};

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// Products with one filter element along a row of outputs: output o + i meets x at x + i * x_step.
struct Products {
  std::int64_t x;
  std::int64_t x_step;
  std::int64_t w;
  std::int64_t y;
  std::int64_t count;
};

// Calls body(products) for every product of the definition that some filters have with some of their channels, a row of
// outputs and a filter element at a time.
template <class Body>
void for_each_product(const conv::Problem& p, Range filters_of, Range channels_of, Body body) {
  const Extents image = spatial_extents(p.x);
  const Extents filter = spatial_extents(p.w);
  const Extents output = spatial_extents(p.y);
  const Parameters at(p);
  const std::int64_t channels = p.x.dims[1];
  const std::int64_t group_channels = p.w.dims[1];
  const std::int64_t filters = p.w.dims[0];
  const std::int64_t group_filters = filters / p.groups;
  const auto stored = [&](int i, std::int64_t tap) {
    return p.mode == GPUDNN_CONVOLUTION ? filter.d[i] - 1 - tap : tap;
  };
  // Where output o and tap r of dimension i meet the image.
  const auto met = [&](int i, std::int64_t o, std::int64_t r) {
    return o * at.stride[i] + r * at.dilation[i] - at.pad[i];
  };
  const auto row_of_products = [&](std::int64_t n, std::int64_t k, std::int64_t c, const std::int64_t(&o)[2],
                                   const std::int64_t(&r)[3]) {
    const std::int64_t d = met(0, o[0], r[0]);
    const std::int64_t h = met(1, o[1], r[1]);
    if (d < 0 || d >= image.d[0] || h < 0 || h >= image.d[1]) return;
    std::int64_t first = 0;
    std::int64_t last = output.d[2];
    while (first < last && met(2, first, r[2]) < 0) ++first;
    while (last > first && met(2, last - 1, r[2]) >= image.d[2]) --last;
    if (first == last) return;
    const std::int64_t channel = n * channels + k / group_filters * group_channels + c;
    body(Products{image.index(channel, {d, h, met(2, first, r[2])}), at.stride[2],
                  filter.index(k * group_channels + c, {stored(0, r[0]), stored(1, r[1]), stored(2, r[2])}),
                  output.index(n * filters + k, {o[0], o[1], first}), last - first});
  };
  std::int64_t o[2];
  std::int64_t r[3];
  for (std::int64_t n = 0; n < p.x.dims[0]; ++n)
    for (std::int64_t k = filters_of.begin; k < filters_of.end; ++k)
      for (std::int64_t c = channels_of.begin; c < channels_of.end; ++c)
        for (o[0] = 0; o[0] < output.d[0]; ++o[0])
          for (o[1] = 0; o[1] < output.d[1]; ++o[1])
            for (r[0] = 0; r[0] < filter.d[0]; ++r[0])
              for (r[1] = 0; r[1] < filter.d[1]; ++r[1])
                for (r[2] = 0; r[2] < filter.d[2]; ++r[2]) row_of_products(n, k, c, o, r);
}

// What the activation multiplies its exponential or quotient by.
double factor_of_curve(std::int32_t mode, double coef, double x) {
  return mode == GPUDNN_ACTIVATION_SWISH || mode == conv::kGelu || mode == conv::kGeluTanh ? std::fabs(x)
         : mode == GPUDNN_ACTIVATION_ELU                                                   ? std::fabs(coef)
                                                                                           : 1;
}

void apply_epilogue(const ConvCase& c, const Values& values, std::size_t plane, Expected* expected) {
  const conv::Problem& p = c.problem;
  const double u = unit_roundoff(compute_type(p.y.type));
  const auto channels = static_cast<std::size_t>(p.w.dims[0]);
  for (std::size_t i = 0; i < expected->value.size(); ++i) {
    double& value = expected->value[i];
    double& slack = expected->slack[i];
    if (p.has_scale != 0) {
      value *= values.scale[i / plane % channels];
      slack *= std::fabs(values.scale[i / plane % channels]);
    }
    double magnitude = std::fabs(value);
    if (p.has_z != 0 && c.alpha2 != 0) {
      value += c.alpha2 * values.z[i];
      magnitude += std::fabs(c.alpha2 * values.z[i]);
    }
    if (p.has_bias != 0) {
      value += values.bias[i / plane % channels];
      magnitude += std::fabs(values.bias[i / plane % channels]);
    }
    if (!c.integers) slack += 3 * u * magnitude;
    if (p.activation < 0) continue;
    const std::int32_t mode = p.activation;
    Derivative f = activation_at(mode, c.coef, value);
    if (activation_is_exact(mode) && mode != GPUDNN_ACTIVATION_IDENTITY && value < 0) f.f = c.slope * value;
    // Slopes: at most 1 for the bounded functions, coef for ELU, 1.13 for swish and GELU.
    slack *= std::fmax(1.13, std::fabs(c.coef));
    // The error of 1 + erf, of which a negative x leaves little.
    if (mode == conv::kGelu) slack += 8 * u * std::fabs(value);
    if (!activation_is_exact(mode)) {
      slack += numerics::curve_slack(u, f.f, value * f.slope);
      const bool is_rounded_curve = mode != GPUDNN_ACTIVATION_ELU && mode != conv::kSoftplus;
      if (is_rounded_curve && data_type_bits(p.y.type) <= 16) slack += numerics::rounded_curve_slack(f.f, value);
      slack += 3 * least_subnormal(compute_type(p.y.type)) * (1 + factor_of_curve(mode, c.coef, value));
    }
    value = f.f;
  }
}

}  // namespace

double sum_bound(gpudnnDataType_t type, double terms) { return numerics::sum_bound(type, terms); }

Expected naive(const ConvCase& c, const Values& values) {
  const conv::Problem& p = c.problem;
  const TensorGeometry& out = output_of(p);
  std::size_t count = 1;
  for (int i = 0; i < out.rank; ++i) count *= static_cast<std::size_t>(out.dims[i]);
  std::vector<double> sum(count);
  std::vector<double> magnitude(count);
  std::vector<std::int64_t> terms(count);
  // Of `products` the element `at`, at_step apart from one to the next, gets one factor times the other.
  const auto add = [&](std::int64_t products, std::int64_t at, std::int64_t at_step, const double* left,
                       std::int64_t left_step, const double* right, std::int64_t right_step) {
    for (std::int64_t i = 0; i < products; ++i) {
      const auto to = static_cast<std::size_t>(at + i * at_step);
      const double product = left[i * left_step] * right[i * right_step];
      sum[to] += product;
      magnitude[to] += std::fabs(product);
      ++terms[to];
    }
  };
  const auto add_products = [&](const Products& q) {
    const double* const x = values.x.data() + q.x;
    const double* const w = values.w.data() + q.w;
    const double* const y = values.y.data() + q.y;
    switch (p.direction) {
      case conv::Direction::forward:
        return add(q.count, q.y, 1, x, q.x_step, w, 0);
      case conv::Direction::dgrad:
        return add(q.count, q.x, q.x_step, y, 1, w, 0);
      case conv::Direction::wgrad:
        return add(q.count, q.w, 0, x, q.x_step, y, 1);
    }
  };
  // Threads share no sum: those of a data gradient belong to channels, the others to filters.
  const Range filters{0, p.w.dims[0]};
  const Range channels{0, p.w.dims[1]};
  const bool of_channels = p.direction == conv::Direction::dgrad;
  parallel_for(of_channels ? channels.end : filters.end, 1, [&](std::int64_t begin, std::int64_t end) {
    for_each_product(p, of_channels ? filters : Range{begin, end}, of_channels ? Range{begin, end} : channels,
                     add_products);
  });

  Expected expected{std::vector<double>(count), std::vector<double>(count)};
  const double u = unit_roundoff(compute_type(out.type));
  for (std::size_t i = 0; i < count; ++i) {
    const double old = c.beta != 0 ? c.beta * values.out[i] : 0;
    expected.value[i] = c.alpha * sum[i] + old;
    if (c.integers) continue;
    const double bound = sum_bound(out.type, static_cast<double>(terms[i])) + numerics::tf32_bound(p.x.type, p.math);
    expected.slack[i] =
        std::fabs(c.alpha) * bound * magnitude[i] + 2 * u * (std::fabs(c.alpha * sum[i]) + std::fabs(old));
  }
  std::size_t plane = 1;
  for (int i = 2; i < p.y.rank; ++i) plane *= static_cast<std::size_t>(p.y.dims[i]);
  if (p.direction == conv::Direction::forward) apply_epilogue(c, values, plane, &expected);
  return expected;
}

Expected naive(const BiasGradCase& c, const Values& values) {
  const TensorGeometry& dy = c.problem.dy;
  const auto channels = static_cast<std::size_t>(dy.dims[1]);
  std::size_t plane = 1;
  for (int i = 2; i < dy.rank; ++i) plane *= static_cast<std::size_t>(dy.dims[i]);
  std::vector<double> sum(channels);
  std::vector<double> magnitude(channels);
  for (std::size_t i = 0; i < values.dy.size(); ++i) {
    sum[i / plane % channels] += values.dy[i];
    magnitude[i / plane % channels] += std::fabs(values.dy[i]);
  }
  Expected expected{std::vector<double>(channels), std::vector<double>(channels)};
  const double u = unit_roundoff(compute_type(dy.type));
  const double terms = static_cast<double>(values.dy.size()) / static_cast<double>(channels);
  for (std::size_t k = 0; k < channels; ++k) {
    const double old = c.beta != 0 ? c.beta * values.out[k] : 0;
    expected.value[k] = c.alpha * sum[k] + old;
    if (c.integers) continue;
    expected.slack[k] = std::fabs(c.alpha) * sum_bound(dy.type, terms) * magnitude[k] +
                        2 * u * (std::fabs(c.alpha * sum[k]) + std::fabs(old));
  }
  return expected;
}

}  // namespace gpudnn::test
