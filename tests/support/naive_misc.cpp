// Oracles of dropout, the spatial transformer and the CTC loss.
// SPDX-License-Identifier: Apache-2.0
#include "support/naive_misc.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/backend.hpp"
#include "support/naive.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Philox4x32-10 as the paper's section 3.2 states it: (R0, L0, R1, L1), multipliers and Weyl constants.
Block philox_block(std::uint64_t low, std::uint64_t high, std::uint64_t key) {
  Block b = {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32), static_cast<std::uint32_t>(high),
             static_cast<std::uint32_t>(high >> 32)};
  for (std::uint32_t round = 0; round < 10; ++round) {
    const std::uint32_t k0 = static_cast<std::uint32_t>(key) + round * 0x9E3779B9u;
    const std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32) + round * 0xBB67AE85u;
    const std::uint64_t p0 = 0xD2511F53ull * b[0];
    const std::uint64_t p1 = 0xCD9E8D57ull * b[2];
    b = {static_cast<std::uint32_t>((p1 >> 32) ^ b[1] ^ k0), static_cast<std::uint32_t>(p1 & 0xffffffffu),
         static_cast<std::uint32_t>((p0 >> 32) ^ b[3] ^ k1), static_cast<std::uint32_t>(p0 & 0xffffffffu)};
  }
  return b;
}

double combine_slack(double alpha, double slack, double beta, double result, double old, double u) {
  return std::fabs(alpha) * slack + 2 * u * (std::fabs(alpha * result) + std::fabs(beta * old));
}

}  // namespace

std::vector<bool> naive_mask(const TensorGeometry& out, float probability, std::uint64_t seed, std::uint64_t call) {
  // The elements in the order of their addresses; extents of 1 do not matter.
  const std::vector<std::int64_t> offsets = element_offsets(out);
  std::vector<std::size_t> order(offsets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return offsets[a] < offsets[b]; });
  std::vector<bool> mask(offsets.size());
  const double threshold = std::round(static_cast<double>(probability) * 65536);
  for (std::size_t place = 0; place < order.size(); ++place) {
    const Block block = philox_block(place / 8, call, seed);
    const std::uint32_t word = block[place % 8 / 2];
    const std::uint32_t bits = place % 2 == 0 ? word % 65536 : word / 65536;
    mask[order[place]] = bits >= threshold;
  }
  return mask;
}

Expected naive_dropout(const TensorGeometry& out, float probability, const std::vector<bool>& mask,
                       const std::vector<double>& in) {
  Expected expected;
  const double u = unit_roundoff(compute_type(out.type));
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double value = mask[i] ? in[i] / (1 - static_cast<double>(probability)) : 0;
    expected.value.push_back(value);
    expected.slack.push_back(probability == 0 ? 0 : 2 * u * std::fabs(value));
  }
  return expected;
}

// --- spatial transformer --------------------------------------------------------------------------------------------

namespace {

long double coordinate(std::int64_t i, std::int64_t extent) {
  return extent == 1 ? 0 : -1 + 2.0 * static_cast<long double>(i) / static_cast<long double>(extent - 1);
}

// The weight of column (or row) `i` in a sample at `at`: a hat of height 1 and width 2.
double hat(double at, std::int64_t i) { return std::fmax(0, 1 - std::fabs(at - static_cast<double>(i))); }
// Its derivative by `at`, taken from the right at the kinks.
double hat_slope(double at, std::int64_t i) {
  const double left = std::floor(at);
  return static_cast<double>(i) == left ? -1 : static_cast<double>(i) == left + 1 ? 1 : 0;
}

struct Sampler {
  const spatial_transformer::Problem& p;
  std::int64_t images, channels, height, width, in_height, in_width;

  explicit Sampler(const spatial_transformer::Problem& problem)
      : p(problem),
        images(problem.y.dims[0]),
        channels(problem.y.dims[1]),
        height(problem.y.dims[2]),
        width(problem.y.dims[3]),
        in_height(problem.x.dims[2]),
        in_width(problem.x.dims[3]) {}

  [[nodiscard]] double column(const TransformerValues& v, std::int64_t n, std::int64_t q) const {
    return (v.grid[static_cast<std::size_t>((n * height * width + q) * 2)] + 1) / 2 * static_cast<double>(in_width - 1);
  }
  [[nodiscard]] double row(const TransformerValues& v, std::int64_t n, std::int64_t q) const {
    return (v.grid[static_cast<std::size_t>((n * height * width + q) * 2 + 1)] + 1) / 2 *
           static_cast<double>(in_height - 1);
  }
  [[nodiscard]] std::size_t image_index(std::int64_t n, std::int64_t c, std::int64_t r, std::int64_t s) const {
    return static_cast<std::size_t>(((n * channels + c) * in_height + r) * in_width + s);
  }
  [[nodiscard]] std::size_t sample_index(std::int64_t n, std::int64_t c, std::int64_t q) const {
    return static_cast<std::size_t>((n * channels + c) * height * width + q);
  }
  // A coordinate is off by three roundings of something below the extent, and that moves a weight as much; forming the
  // weight from it rounds four times more.
  [[nodiscard]] double weight_error() const {
    return unit_roundoff(compute_type(p.y.type)) * (4 + 3 * static_cast<double>(in_height + in_width));
  }
  // Whether a weight may differ from 0, in exact or in rounded arithmetic.
  [[nodiscard]] static bool near(double at, std::int64_t i) { return std::fabs(at - static_cast<double>(i)) < 1.001; }
};

}  // namespace

Expected naive_grid(const spatial_transformer::Problem& problem, const TransformerValues& v) {
  Expected e;
  const double u = unit_roundoff(compute_type(problem.y.type));
  for (std::int64_t n = 0; n < problem.y.dims[0]; ++n) {
    for (std::int64_t h = 0; h < problem.y.dims[2]; ++h) {
      for (std::int64_t w = 0; w < problem.y.dims[3]; ++w) {
        for (std::int64_t i = 0; i < 2; ++i) {
          const double* const m = &v.theta[static_cast<std::size_t>(n * 6 + i * 3)];
          // The bound is the library's alone, so the oracle needs digits beyond those of f64.
          const long double x = m[0] * coordinate(w, problem.y.dims[3]);
          const long double y = m[1] * coordinate(h, problem.y.dims[2]);
          e.value.push_back(static_cast<double>(x + y + m[2]));
          e.slack.push_back(static_cast<double>(4 * u * (std::fabs(x) + std::fabs(y) + std::fabs(m[2]))));
        }
      }
    }
  }
  return e;
}

Expected naive_theta_gradient(const spatial_transformer::Problem& problem, const TransformerValues& v) {
  Expected e;
  const std::int64_t pixels = problem.y.dims[2] * problem.y.dims[3];
  for (std::int64_t n = 0; n < problem.y.dims[0]; ++n) {
    for (std::int64_t i = 0; i < 2; ++i) {
      for (int j = 0; j < 3; ++j) {
        double sum = 0;
        double absolute = 0;
        for (std::int64_t q = 0; q < pixels; ++q) {
          const long double factor = j == 0   ? coordinate(q % problem.y.dims[3], problem.y.dims[3])
                                     : j == 1 ? coordinate(q / problem.y.dims[3], problem.y.dims[2])
                                              : 1;
          const auto term = static_cast<double>(v.grid[static_cast<std::size_t>((n * pixels + q) * 2 + i)] * factor);
          sum += term;
          absolute += std::fabs(term);
        }
        e.value.push_back(sum);
        e.slack.push_back(sum_bound(problem.y.type, static_cast<double>(pixels)) * absolute);
      }
    }
  }
  return e;
}

Expected naive_sample(const spatial_transformer::Problem& problem, const TransformerValues& v,
                      const TransformerScalars& scalars) {
  const Sampler s(problem);
  const double u = unit_roundoff(compute_type(problem.y.type));
  Expected e;
  for (std::int64_t n = 0; n < s.images; ++n) {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      for (std::int64_t q = 0; q < s.height * s.width; ++q) {
        double sum = 0;
        double absolute = 0;
        for (std::int64_t r = 0; r < s.in_height; ++r) {
          for (std::int64_t t = 0; t < s.in_width; ++t) {
            if (!Sampler::near(s.row(v, n, q), r) || !Sampler::near(s.column(v, n, q), t)) continue;
            const double x = v.x[s.image_index(n, c, r, t)];
            sum += hat(s.row(v, n, q), r) * hat(s.column(v, n, q), t) * x;
            absolute += std::fabs(x);
          }
        }
        const double old = v.out.empty() ? 0 : v.out[s.sample_index(n, c, q)];
        e.value.push_back(scalars.alpha * sum + scalars.beta * old);
        e.slack.push_back(
            combine_slack(scalars.alpha, s.weight_error() * absolute + 4 * u * absolute, scalars.beta, sum, old, u));
      }
    }
  }
  return e;
}

Expected naive_image_gradient(const spatial_transformer::Problem& problem, const TransformerValues& v,
                              const TransformerScalars& scalars) {
  const Sampler s(problem);
  const double u = unit_roundoff(compute_type(problem.y.type));
  Expected e;
  for (std::int64_t n = 0; n < s.images; ++n) {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      for (std::int64_t r = 0; r < s.in_height; ++r) {
        for (std::int64_t t = 0; t < s.in_width; ++t) {
          double sum = 0;
          double absolute = 0;
          double terms = 0;
          for (std::int64_t q = 0; q < s.height * s.width; ++q) {
            if (!Sampler::near(s.row(v, n, q), r) || !Sampler::near(s.column(v, n, q), t)) continue;
            const double dy = v.dy[s.sample_index(n, c, q)];
            sum += hat(s.row(v, n, q), r) * hat(s.column(v, n, q), t) * dy;
            absolute += std::fabs(dy);
            terms += 1;
          }
          const double old = v.out.empty() ? 0 : v.out[s.image_index(n, c, r, t)];
          e.value.push_back(scalars.alpha * sum + scalars.beta * old);
          e.slack.push_back(combine_slack(scalars.alpha,
                                          (s.weight_error() + sum_bound(problem.y.type, terms)) * absolute,
                                          scalars.beta, sum, old, u));
        }
      }
    }
  }
  return e;
}

Expected naive_grid_gradient(const spatial_transformer::Problem& problem, const TransformerValues& v,
                             const TransformerScalars& scalars) {
  const Sampler s(problem);
  const double u = unit_roundoff(compute_type(problem.y.type));
  Expected e;
  for (std::int64_t n = 0; n < s.images; ++n) {
    for (std::int64_t q = 0; q < s.height * s.width; ++q) {
      for (int i = 0; i < 2; ++i) {
        double sum = 0;
        double absolute = 0;
        for (std::int64_t c = 0; c < s.channels; ++c) {
          for (std::int64_t r = 0; r < s.in_height; ++r) {
            for (std::int64_t t = 0; t < s.in_width; ++t) {
              const double row = s.row(v, n, q);
              const double column = s.column(v, n, q);
              if (!Sampler::near(row, r) || !Sampler::near(column, t)) continue;
              const double product = v.x[s.image_index(n, c, r, t)] * v.dy[s.sample_index(n, c, q)];
              sum += product * (i == 0 ? hat(row, r) * hat_slope(column, t) : hat_slope(row, r) * hat(column, t));
              absolute += std::fabs(product);
            }
          }
        }
        const double scale = static_cast<double>(i == 0 ? s.in_width - 1 : s.in_height - 1) / 2;
        const double old =
            v.grid_out.empty() ? 0 : v.grid_out[static_cast<std::size_t>((n * s.height * s.width + q) * 2 + i)];
        const double slack =
            scale * absolute * (s.weight_error() + sum_bound(problem.y.type, static_cast<double>(s.channels)));
        e.value.push_back(scalars.grid_alpha * scale * sum + scalars.grid_beta * old);
        e.slack.push_back(combine_slack(scalars.grid_alpha, slack, scalars.grid_beta, scale * sum, old, u));
      }
    }
  }
  return e;
}

// --- CTC ------------------------------------------------------------------------------------------------------------

namespace {

// What a path says: repetitions merged, then blanks removed.
std::vector<int> spoken(const std::vector<int>& path) {
  std::vector<int> labels;
  for (std::size_t t = 0; t < path.size(); ++t) {
    if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  }
  return labels;
}

}  // namespace

CtcExpected naive_ctc(const ctc::Problem& problem, const std::vector<double>& x, const CtcLabels& given) {
  const auto sequences = static_cast<std::size_t>(problem.x.dims[1]);
  const auto alphabet = static_cast<std::size_t>(problem.x.dims[2]);
  const double u = unit_roundoff(problem.x.type);
  CtcExpected e;
  e.gradients.value.assign(x.size(), 0);
  e.gradients.slack.assign(x.size(), 0);
  auto first = given.labels.begin();
  for (std::size_t n = 0; n < sequences; ++n) {
    const std::vector<int> wanted(first, first + given.label_lengths[n]);
    first += given.label_lengths[n];
    const auto length = static_cast<std::size_t>(given.input_lengths[n]);
    std::vector<std::vector<double>> y(length, std::vector<double>(alphabet));
    double greatest = 1;
    for (std::size_t t = 0; t < length; ++t) {
      double sum = 0;
      for (std::size_t k = 0; k < alphabet; ++k) {
        const double value = x[(t * sequences + n) * alphabet + k];
        y[t][k] = problem.softmax ? std::exp(value) : value;
        sum += y[t][k];
        greatest = std::fmax(greatest, std::fabs(problem.softmax ? value : std::log(value)));
      }
      for (double& probability : y[t]) probability /= problem.softmax ? sum : 1;
    }
    double total = 0;
    std::vector<std::vector<double>> share(length, std::vector<double>(alphabet));
    std::vector<int> path(length);
    while (true) {
      if (spoken(path) == wanted) {
        double probability = 1;
        for (std::size_t t = 0; t < length; ++t) probability *= y[t][static_cast<std::size_t>(path[t])];
        total += probability;
        for (std::size_t t = 0; t < length; ++t) share[t][static_cast<std::size_t>(path[t])] += probability;
      }
      std::size_t t = 0;
      while (t < length && ++path[t] == static_cast<int>(alphabet)) path[t++] = 0;
      if (t == length) break;
    }
    e.is_impossible.push_back(total == 0);
    // Each step multiplies by an emission and adds two or three numbers, going up and coming down: 16 roundings. The
    // cost is a difference of logarithms in double, and in double the host takes all of it in logarithms.
    const double magnitude = greatest * static_cast<double>(length + 1) + 4;
    const double logarithms = problem.x.type == GPUDNN_DATA_DOUBLE ? 8 * magnitude : 0;
    const double slack = u * (16 * static_cast<double>(length) + 40 + logarithms);
    e.costs.value.push_back(total == 0 ? std::numeric_limits<double>::infinity() : -std::log(total));
    e.costs.slack.push_back(total == 0 ? 0 : slack);
    for (std::size_t t = 0; t < length && total > 0; ++t) {
      for (std::size_t k = 0; k < alphabet; ++k) {
        const std::size_t i = (t * sequences + n) * alphabet + k;
        e.gradients.value[i] = y[t][k] - share[t][k] / total;
        e.gradients.slack[i] = slack * (y[t][k] + share[t][k] / total) + 4 * u;
      }
    }
  }
  return e;
}

}  // namespace gpudnn::test
