// The oracle of pooling.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <optional>

#include "support/naive.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

// One window: the row-major indices of its elements inside the image, in row order, and how many of its positions lie
// inside the padded image.
struct Window {
  std::vector<std::size_t> inside;
  std::size_t padded = 0;
};

std::vector<Window> windows_of(const pooling::Problem& p) {
  std::int64_t in[3] = {1, 1, 1};
  std::int64_t out[3] = {1, 1, 1};
  std::int64_t window[3] = {1, 1, 1};
  std::int64_t pad[3] = {0, 0, 0};
  std::int64_t stride[3] = {1, 1, 1};
  for (int i = 0; i < p.spatial; ++i) {
    const int at = 3 - p.spatial + i;
    in[at] = p.x.dims[2 + i];
    out[at] = p.y.dims[2 + i];
    window[at] = p.window[i];
    pad[at] = p.pad[i];
    stride[at] = p.stride[i];
  }
  std::vector<Window> windows;
  for (std::int64_t plane = 0; plane < p.x.dims[0] * p.x.dims[1]; ++plane)
    for (std::int64_t a = 0; a < out[0]; ++a)
      for (std::int64_t b = 0; b < out[1]; ++b)
        for (std::int64_t c = 0; c < out[2]; ++c) {
          Window made;
          for (std::int64_t i = 0; i < window[0]; ++i)
            for (std::int64_t j = 0; j < window[1]; ++j)
              for (std::int64_t k = 0; k < window[2]; ++k) {
                const std::int64_t d = a * stride[0] - pad[0] + i;
                const std::int64_t h = b * stride[1] - pad[1] + j;
                const std::int64_t w = c * stride[2] - pad[2] + k;
                if (d < in[0] + pad[0] && h < in[1] + pad[1] && w < in[2] + pad[2]) ++made.padded;
                if (d < 0 || d >= in[0] || h < 0 || h >= in[1] || w < 0 || w >= in[2]) continue;
                made.inside.push_back(static_cast<std::size_t>(((plane * in[0] + d) * in[1] + h) * in[2] + w));
              }
          windows.push_back(std::move(made));
        }
  return windows;
}

bool is_max(const pooling::Problem& p) {
  return p.mode == GPUDNN_POOLING_MAX || p.mode == GPUDNN_POOLING_MAX_DETERMINISTIC;
}

// The element that is the maximum: the first NaN where NaN count, else the first greatest number; nothing if none is.
std::optional<std::size_t> chosen(const pooling::Problem& p, const Window& window, const std::vector<double>& x) {
  std::optional<std::size_t> best;
  for (const std::size_t i : window.inside) {
    if (std::isnan(x[i])) {
      if (p.nan == GPUDNN_PROPAGATE_NAN) return i;
    } else if (!best || x[i] > x[*best]) {
      best = i;
    }
  }
  return best;
}

double divisor(const pooling::Problem& p, const Window& window) {
  return static_cast<double>(p.mode == GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ? window.padded
                                                                                    : window.inside.size());
}

// Value and sum of absolute terms of each output element.
struct Sums {
  std::vector<double> value;
  std::vector<double> magnitude;
  std::vector<double> terms;
  explicit Sums(std::size_t count) : value(count), magnitude(count), terms(count) {}
  void add(std::size_t i, double term) {
    value[i] += term;
    magnitude[i] += std::fabs(term);
    terms[i] += 1;
  }
};

Sums pool(const pooling::Problem& p, const Values& values) {
  const std::vector<Window> windows = windows_of(p);
  Sums sums(p.backward ? values.x.size() : windows.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    if (is_max(p)) {
      const std::optional<std::size_t> best = chosen(p, window, values.x);
      if (!p.backward) {
        sums.add(i, best ? values.x[*best] : -greatest_finite(p.y.type));
      } else if (best) {
        sums.add(*best, values.dy[i]);
      }
      continue;
    }
    for (const std::size_t at : window.inside) {
      if (p.backward) {
        sums.add(at, values.dy[i] / divisor(p, window));
      } else {
        sums.add(i, values.x[at] / divisor(p, window));
      }
    }
  }
  return sums;
}

}  // namespace

Expected naive(const PoolingCase& c, const Values& values) {
  const pooling::Problem& p = c.problem;
  const Sums sums = pool(p, values);
  const std::size_t count = sums.value.size();
  const double u = unit_roundoff(compute_type(p.x.type));
  Expected expected{std::vector<double>(count), std::vector<double>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    const double old = c.beta != 0 ? c.beta * values.out[i] : 0;
    expected.value[i] = c.alpha * sums.value[i] + old;
    // A maximum is exact, and so is a sum of integers; a division is not.
    if (is_max(p) && (c.integers || (!p.backward && c.alpha == 1 && c.beta == 0))) continue;
    expected.slack[i] = std::fabs(c.alpha) * sum_bound(p.x.type, sums.terms[i]) * sums.magnitude[i] +
                        2 * u * (std::fabs(c.alpha * sums.value[i]) + std::fabs(old));
  }
  return expected;
}

}  // namespace gpudnn::test
