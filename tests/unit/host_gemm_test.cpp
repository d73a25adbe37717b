// The host's blocked matrix products, by themselves and as convolutions, against sums in double.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "host/block_kernel.hpp"
#include "host/conv_gemm.hpp"
#include "host/convolution.hpp"
#include "host/gemm.hpp"
#include "support/session.hpp"

namespace gpudnn {
namespace {

using host::kRun;

constexpr double kPoison = std::numeric_limits<double>::quiet_NaN();

// The worst case of n products added in T one after the other: each product and each sum is rounded, n + 1 roundings
// lie on a term's way. Runs are joined in double.
template <class T>
double sum_error(std::int64_t n) {
  const double u = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
  const auto joined = static_cast<double>(n / kRun + 1);
  return 1.01 * (static_cast<double>(std::min(n, kRun) + 1) * u + joined * 0x1p-53);
}

std::mt19937_64& random_source() {
  static std::mt19937_64 source(test::session_seed() + std::random_device{}());
  return source;
}

template <class T>
std::vector<T> random_values(std::int64_t count, bool integers) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::uniform_int_distribution<int> whole(-3, 3);
  std::normal_distribution<double> normal;
  for (T& value : values) {
    value = static_cast<T>(static_cast<float>(integers ? whole(random_source()) : normal(random_source())));
  }
  return values;
}

// --- the kernels -----------------------------------------------------------------------------------------------------

// Every kernel, all sizes of the last tile, on small integers: exact. What lies beyond the sums stays.
template <class T>
void check_kernels() {
  const host::BlockKernel<T>* kernels[host::kMaxBlockKernels];
  const int count = host::block_kernels<T>(kernels);
  ASSERT_GE(count, 1);
  for (int i = 0; i < count; ++i) {
    const host::BlockKernel<T>& kernel = *kernels[i];
    for (std::int64_t m = 1; m <= 2 * kernel.rows + 1; ++m) {
      const std::int64_t n = m % 3 * kernel.columns + 1 + m;
      const std::int64_t k = m == 1 ? kRun : m % 7 + 1;
      const std::int64_t row = (n - 1) / kernel.columns * kernel.columns + kernel.columns;
      const std::vector<T> a = random_values<T>(m * k, true);
      const std::vector<T> b = random_values<T>(row * k, true);
      std::vector<double> sums(static_cast<std::size_t>((m + 1) * row), kPoison);
      for (const bool add : {false, true}) {
        host::Block<T> block;
        block.m = m;
        block.n = n;
        block.k = k;
        block.a = a.data();
        block.a_row = add ? 1 : k;  // both ways to lie in memory
        block.a_k = add ? m : 1;
        block.b = b.data();
        block.b_panel = kernel.columns;
        block.b_k = row;
        block.sums = sums.data();
        block.sums_row = row;
        block.add = add;
        kernel.multiply(block);
      }
      for (std::int64_t x = 0; x < m; ++x) {
        for (std::int64_t y = 0; y < n; ++y) {
          double expected = 0;
          for (std::int64_t at = 0; at < k; ++at) {
            const double factor = static_cast<double>(b[static_cast<std::size_t>(at * row + y)]);
            expected += static_cast<double>(a[static_cast<std::size_t>(x * k + at)]) * factor;
            expected += static_cast<double>(a[static_cast<std::size_t>(x + at * m)]) * factor;
          }
          ASSERT_EQ(sums[static_cast<std::size_t>(x * row + y)], expected)
              << kernel.name << " m=" << m << " n=" << n << " k=" << k << " at " << x << ',' << y;
        }
      }
      for (std::int64_t y = 0; y < row; ++y) EXPECT_TRUE(std::isnan(sums[static_cast<std::size_t>(m * row + y)]));
    }
  }
}

TEST(HostBlockKernel, FloatTilesAreExactOnIntegers) { check_kernels<float>(); }
TEST(HostBlockKernel, DoubleTilesAreExactOnIntegers) { check_kernels<double>(); }

// --- the product -----------------------------------------------------------------------------------------------------

struct Shape {
  std::int64_t m, n, k;
};

template <class T>
std::vector<double> product(const Shape& s, const host::GemmMatrix<host::FactorOf<T>>& a,
                            const host::GemmMatrix<host::FactorOf<T>>& b) {
  std::vector<double> result(static_cast<std::size_t>(s.m * s.n), kPoison);
  host::gemm<host::FactorOf<T>>(s.m, s.n, s.k, a, b,
                                [&](std::int64_t row, std::int64_t column, std::int64_t count, const double* sums) {
                                  for (std::int64_t i = 0; i < count; ++i) {
                                    double& to = result[static_cast<std::size_t>(row * s.n + column + i)];
                                    EXPECT_TRUE(std::isnan(to)) << "written twice";
                                    to = sums[i];
                                  }
                                });
  return result;
}

// All four orders of the factors in memory.
template <class T>
void check_product(const Shape& s, bool integers) {
  const std::vector<T> a = random_values<T>(s.m * s.k, integers);
  const std::vector<T> b = random_values<T>(s.k * s.n, integers);
  for (const bool a_turned : {false, true}) {
    for (const bool b_turned : {false, true}) {
      const std::int64_t a_row = a_turned ? 1 : s.k, a_column = a_turned ? s.m : 1;
      const std::int64_t b_row = b_turned ? 1 : s.n, b_column = b_turned ? s.k : 1;
      const std::vector<double> actual =
          product<T>(s, host::gemm_matrix(a.data(), a_row, a_column), host::gemm_matrix(b.data(), b_row, b_column));
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          double sum = 0;
          double magnitude = 0;
          for (std::int64_t k = 0; k < s.k; ++k) {
            const double term = to_double(a[static_cast<std::size_t>(i * a_row + k * a_column)]) *
                                to_double(b[static_cast<std::size_t>(k * b_row + j * b_column)]);
            sum += term;
            magnitude += std::fabs(term);
          }
          // The sum to compare with is rounded in double itself.
          const double slack =
              integers ? 0 : (sum_error<host::FactorOf<T>>(s.k) + static_cast<double>(s.k) * 0x1p-53) * magnitude;
          ASSERT_NEAR(actual[static_cast<std::size_t>(i * s.n + j)], sum, slack)
              << s.m << 'x' << s.n << 'x' << s.k << " at " << i << ',' << j << " orders " << a_turned << b_turned;
        }
      }
    }
  }
}

constexpr Shape kShapes[] = {{1, 1, 1},  {1, 5, 300},    {7, 1, 257},    {5, 17, 3},    {13, 33, 256},
                             {6, 16, 0}, {145, 193, 20}, {150, 40, 513}, {20, 210, 700}};

TEST(HostGemm, IntegersAreExact) {
  for (const Shape& s : kShapes) {
    check_product<float>(s, true);
    check_product<double>(s, true);
    check_product<Half>(s, true);
    check_product<BFloat16>(s, true);
    check_product<std::int8_t>(s, true);
  }
}

TEST(HostGemm, ErrorIsThatOfOneRun) {
  for (const Shape& s : kShapes) {
    check_product<float>(s, false);
    check_product<double>(s, false);
    check_product<Half>(s, false);
    check_product<BFloat16>(s, false);
  }
}

// In floats alone, 2^24 + 1 would stay 2^24.
TEST(HostGemm, RunsAreJoinedInDouble) {
  const std::int64_t k = (std::int64_t{1} << 20) + 1;
  std::vector<float> a(static_cast<std::size_t>(k), 16);
  a.back() = 1;
  const std::vector<float> ones(static_cast<std::size_t>(k), 1);
  const std::vector<double> sum =
      product<float>({1, 1, k}, host::gemm_matrix(a.data(), k, 1), host::gemm_matrix(ones.data(), 1, 1));
  EXPECT_EQ(sum[0], 16777217);
}

// --- convolution -----------------------------------------------------------------------------------------------------

constexpr const char* kConvolutions[] = {
    " f32 nchw n3c5h11w13 k7r3s3 p1x1 t1x1 d1x1 g1",
    " f32 nhwc n2c32h9w7 k40r3s2 p1x0 t2x1 d1x2 g2",
    " f32 nhwc n2c24h7w9 k16r3s3 p1x1 t2x2 d1x1 g1",
    " f64 nchw n2c4h9w8 k6r3s3 p2x2 t3x2 d1x1 g2",
    " f32 nchw n2c70h13w5 k200r1s1 p0x0 t1x1 d1x1 g1",
    " f32 nchw n4c16h4w4 k120r4s4 p0x0 t1x1 d1x1 g1",
    " f32 nchw n5c30h1w1 k20r1s1 p0x0 t1x1 d1x1 g1",
    " f32 nhwc n1c16h12w12 k16r3s3 p1x1 t1x1 d1x1 g16",
    " f32 nchw n2c4d5h6w7 k6t3r2s3 p1x0x1 t2x1x2 d1x2x1 g1",
    " f32 nchw n2c4w50 k6s5 p7 t3 d2 g1 flip",
    " f32 nchw n1c3h20w20 k8r3s3 p5x5 t2x2 d3x3 g1",
    " f32 nchw n1c3h5w6 k4r5s3 p4x2 t5x4 d1x1 g1",
    " f32 strides=500,7,1,70 n2c4h5w6 k6r3s2 p1x0 t2x1 d1x2 g2 w:nhwc y:strides=200,31,10,1",
    " f32 nchw n2c3h40w40 k20r5s5 p2x2 t1x1 d1x1 g1 y:nhwc",
};

conv::Problem problem_of(const std::string& line) {
  std::string why;
  const auto problem = conv::from_text(line, &why);
  if (!problem) throw std::invalid_argument(line + ": " + why);
  return *problem;
}

// Magnitudes, for the bound.
template <class T>
std::vector<T> absolute(std::vector<T> values) {
  for (T& value : values) value = std::fabs(value);
  return values;
}

template <class T>
struct ConvTensors {
  std::vector<T> x, w, y, out;
  explicit ConvTensors(const conv::Problem& p, bool integers)
      : x(random_values<T>(element_span(p.x), integers)),
        w(random_values<T>(element_span(p.w), integers)),
        y(random_values<T>(element_span(p.y), integers)),
        out(random_values<T>(element_span(conv::output(p)), integers)) {}
};

// The sums of one convolution in double, in the layout of the output; gaps are NaN.
template <class T>
std::vector<double> reference(const conv::Problem& problem, const std::vector<T>& x, const std::vector<T>& w,
                              const std::vector<T>& y) {
  conv::Problem wide = problem;
  wide.x.type = wide.w.type = wide.y.type = GPUDNN_DATA_DOUBLE;
  const auto widened = [](const std::vector<T>& values) { return std::vector<double>(values.begin(), values.end()); };
  const std::vector<double> x_wide = widened(x), w_wide = widened(w), y_wide = widened(y);
  std::vector<double> out(static_cast<std::size_t>(element_span(conv::output(wide))), kPoison);
  host::convolution(wide, {.x = x_wide.data(), .w = w_wide.data(), .y = y_wide.data(), .out = out.data()});
  return out;
}

template <class T>
void check_convolution(const std::string& line, bool integers) {
  const conv::Problem problem = problem_of(line);
  const ConvTensors<T> data(problem, integers);
  const std::vector<double> sums = reference(problem, data.x, data.w, data.y);
  const std::vector<double> sizes = reference(problem, absolute(data.x), absolute(data.w), absolute(data.y));
  const double u = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
  for (const bool accumulates : {false, true}) {
    const double alpha = accumulates ? 1.5 : 1;
    const double beta = accumulates ? -0.5 : 0;
    std::vector<T> actual =
        accumulates ? data.out : std::vector<T>(data.out.size(), std::numeric_limits<T>::quiet_NaN());
    const std::vector<T> before = actual;
    host::conv_gemm(problem, {.alpha = alpha,
                              .beta = beta,
                              .x = data.x.data(),
                              .w = data.w.data(),
                              .y = data.y.data(),
                              .out = actual.data()});
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (std::isnan(sums[i])) {  // a gap
        ASSERT_EQ(std::memcmp(&actual[i], &before[i], sizeof(T)), 0) << line << ": a gap was written at " << i;
        continue;
      }
      const double expected = alpha * sums[i] + (accumulates ? beta * static_cast<double>(data.out[i]) : 0);
      // As many terms as any sum has; and the rounding of the result.
      const double slack =
          (sum_error<T>(kRun) + 1e-12 * u) * std::fabs(alpha) * sizes[i] + 1.01 * u * std::fabs(expected);
      ASSERT_NEAR(static_cast<double>(actual[i]), expected, integers ? 0 : slack) << line << " at " << i;
    }
  }
}

TEST(HostConvGemm, AgreesWithTheReference) {
  for (const std::string direction : {"conv fwd", "conv dgrad", "conv wgrad"}) {
    for (const char* const shape : kConvolutions) {
      for (const bool integers : {true, false}) {
        if (std::string(shape).find(" f64") == 0) {
          check_convolution<double>(direction + shape, integers);
        } else {
          check_convolution<float>(direction + shape, integers);
        }
      }
    }
  }
}

TEST(HostConvGemm, ThreadsDoNotChangeBits) {
  for (const std::string direction : {"conv fwd", "conv dgrad", "conv wgrad"}) {
    for (const char* const layout : {" f32 nchw", " f32 nhwc"}) {
      const conv::Problem problem = problem_of(direction + layout + " n5c24h17w19 k20r3s3 p1x1 t1x1 d1x1 g1");
      const ConvTensors<float> data(problem, false);
      std::vector<float> parallel(data.out.size(), std::numeric_limits<float>::quiet_NaN());
      std::vector<float> alone = parallel;
      const auto run = [&](std::vector<float>* out) {
        host::conv_gemm(problem, {.x = data.x.data(), .w = data.w.data(), .y = data.y.data(), .out = out->data()});
      };
      run(&parallel);
      // Within a body everything runs on one thread.
      parallel_for(2, 1, [&](std::int64_t begin, std::int64_t) {
        if (begin == 0) run(&alone);
      });
      EXPECT_EQ(std::memcmp(parallel.data(), alone.data(), alone.size() * sizeof(float)), 0) << direction << layout;
    }
  }
}

}  // namespace
}  // namespace gpudnn
