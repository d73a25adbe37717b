// The slack of engines that transform their data.
// SPDX-License-Identifier: Apache-2.0
#include "support/transform_slack.hpp"

#include <algorithm>
#include <cmath>

#include "core/numerics.hpp"

namespace gpudnn::test {
namespace {

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::fabs(value));
  return most;
}

}  // namespace

void widen_for_family(const ConvCase& c, const Values& values, conv::Family family, Expected* expected) {
  const conv::Problem& p = c.problem;
  if (family == conv::Family::direct || p.x.type != GPUDNN_DATA_FLOAT) return;
  const bool is_fourier = family == conv::Family::fft || family == conv::Family::fft_tiling;
  const double taps = static_cast<double>(p.w.dims[2] * p.w.dims[p.w.rank - 1]);
  const double growth = is_fourier ? numerics::fourier_growth(taps) : numerics::kWinogradGrowth;
  const auto terms = static_cast<double>(reduction_length(p));
  const double data = largest(p.direction == conv::Direction::dgrad ? values.y : values.x);
  const double other = largest(p.direction == conv::Direction::wgrad ? values.y : values.w);
  double slack = std::fabs(c.alpha) * growth * numerics::sum_bound(p.x.type, terms) * terms * data * other;
  if (p.has_scale != 0) slack *= largest(values.scale);
  if (p.activation >= 0) slack *= std::fmax(1.13, std::fabs(c.coef));
  for (double& one : expected->slack) one += slack;
}

}  // namespace gpudnn::test
