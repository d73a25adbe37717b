// The oracle of convolution and of the bias gradient.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/parallel.hpp"
#include "support/naive.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

// Three spatial dimensions; missing ones come first, as 1. The row-major index does not notice.
struct Extents {
  std::int64_t d[3];
  std::int64_t index(std::int64_t outer, const std::int64_t (&i)[3]) const {
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

template <class Body>
void for_each(const Extents& extents, Body body) {
  std::int64_t i[3];
  for (i[0] = 0; i[0] < extents.d[0]; ++i[0])
    for (i[1] = 0; i[1] < extents.d[1]; ++i[1])
      for (i[2] = 0; i[2] < extents.d[2]; ++i[2]) body(i);
}

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// Calls body(x index, w index, y index) for every product of the definition that some filters have with some of their
// channels.
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
  for (std::int64_t n = 0; n < p.x.dims[0]; ++n)
    for (std::int64_t k = filters_of.begin; k < filters_of.end; ++k)
      for (std::int64_t c = channels_of.begin; c < channels_of.end; ++c)
        for_each(output, [&](const std::int64_t(&o)[3]) {
          for_each(filter, [&](const std::int64_t(&r)[3]) {
            std::int64_t from[3];
            std::int64_t tap[3];
            for (int i = 0; i < 3; ++i) {
              from[i] = o[i] * at.stride[i] + r[i] * at.dilation[i] - at.pad[i];
              if (from[i] < 0 || from[i] >= image.d[i]) return;
              tap[i] = p.mode == GPUDNN_CONVOLUTION ? filter.d[i] - 1 - r[i] : r[i];
            }
            const std::int64_t channel = k / group_filters * group_channels + c;
            body(image.index(n * channels + channel, from), filter.index(k * group_channels + c, tap),
                 output.index(n * filters + k, o));
          });
        });
}

// The relative error that the math type allows in one product.
double product_error(const conv::Problem& p) {
  const bool tf32 = p.x.type == GPUDNN_DATA_FLOAT &&
                    (p.math == GPUDNN_TENSOR_OP_MATH || p.math == GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
  return tf32 ? 0x1p-9 : 0;  // two factors cut to 11 bits, at worst without rounding
}

// What the activation multiplies its exponential or quotient by.
double factor_of_curve(gpudnnActivationMode_t mode, double coef, double x) {
  return mode == GPUDNN_ACTIVATION_SWISH ? std::fabs(x) : mode == GPUDNN_ACTIVATION_ELU ? std::fabs(coef) : 1;
}

void apply_epilogue(const ConvCase& c, const Values& values, std::size_t plane, Expected* expected) {
  const conv::Problem& p = c.problem;
  const double u = unit_roundoff(compute_type(p.y.type));
  const auto channels = static_cast<std::size_t>(p.w.dims[0]);
  for (std::size_t i = 0; i < expected->value.size(); ++i) {
    double& value = expected->value[i];
    double& slack = expected->slack[i];
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
    const auto mode = static_cast<gpudnnActivationMode_t>(p.activation);
    const Derivative f = activation_at(mode, c.coef, value);
    // Slopes: at most 1 for the bounded functions, coef for ELU, 1.1 for swish.
    slack *= std::fmax(1.1, std::fabs(c.coef));
    if (!activation_is_exact(mode)) {
      slack += 8 * u * (std::fabs(f.f) + std::fabs(value * f.slope));
      slack += 3 * least_subnormal(compute_type(p.y.type)) * (1 + factor_of_curve(mode, c.coef, value));
    }
    value = f.f;
  }
}

}  // namespace

double sum_bound(gpudnnDataType_t type, double terms) {
  return unit_roundoff(compute_type(type)) * (4 + 4 * std::sqrt(terms));
}

Expected naive(const ConvCase& c, const Values& values) {
  const conv::Problem& p = c.problem;
  const TensorGeometry& out = output_of(p);
  std::size_t count = 1;
  for (int i = 0; i < out.rank; ++i) count *= static_cast<std::size_t>(out.dims[i]);
  std::vector<double> sum(count);
  std::vector<double> magnitude(count);
  std::vector<std::int64_t> terms(count);
  const auto add = [&](std::int64_t at, double product) {
    const auto i = static_cast<std::size_t>(at);
    sum[i] += product;
    magnitude[i] += std::fabs(product);
    ++terms[i];
  };
  const auto add_product = [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    const auto xi = static_cast<std::size_t>(x);
    const auto wi = static_cast<std::size_t>(w);
    const auto yi = static_cast<std::size_t>(y);
    switch (p.direction) {
      case conv::Direction::forward:
        return add(y, values.x[xi] * values.w[wi]);
      case conv::Direction::dgrad:
        return add(x, values.y[yi] * values.w[wi]);
      case conv::Direction::wgrad:
        return add(w, values.x[xi] * values.y[yi]);
    }
  };
  // Threads share no sum: those of a data gradient belong to channels, the others to filters.
  const Range filters{0, p.w.dims[0]};
  const Range channels{0, p.w.dims[1]};
  const bool of_channels = p.direction == conv::Direction::dgrad;
  parallel_for(of_channels ? channels.end : filters.end, 1, [&](std::int64_t begin, std::int64_t end) {
    for_each_product(p, of_channels ? filters : Range{begin, end}, of_channels ? Range{begin, end} : channels,
                     add_product);
  });

  Expected expected{std::vector<double>(count), std::vector<double>(count)};
  const double u = unit_roundoff(compute_type(out.type));
  for (std::size_t i = 0; i < count; ++i) {
    const double old = c.beta != 0 ? c.beta * values.out[i] : 0;
    expected.value[i] = c.alpha * sum[i] + old;
    if (c.integers) continue;
    const double bound = sum_bound(out.type, static_cast<double>(terms[i])) + product_error(p);
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
