// The matrix product's text, its refusals, and its host reference against results worked out by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/float8.hpp"
#include "host/matmul.hpp"
#include "ops/matmul/problem.hpp"
#include "support/matmul.hpp"
#include "support/sweep.hpp"

namespace gpudnn {
namespace {

using matmul::Args;
using matmul::Problem;

Problem read(const std::string& line) {
  std::string why;
  const auto problem = matmul::from_text(line, &why);
  if (!problem) throw std::invalid_argument(line + ": " + why);
  return *problem;
}

TEST(MatmulText, LinesPrintAsTheyAreRead) {
  for (const char* line : {
           "matmul bf16 bf16->bf16 b16m512n512k64 ta=n tb=t acc=f32 epi=bias,gelu math=tensor",
           "matmul f32 f32->f32 m5n7k3 ta=t tb=n td=t acc=f32 math=default",
           "matmul i8 i8->i32 b2x3m4n5k6 ba=1x3 bb=2x1 ta=n tb=n acc=i32 math=default",
           "matmul f8e4m3 f8e5m2->f16 m16n32k64 ta=n tb=t acc=f32 epi=descale_a,descale_b,bias,relu,amax,scale_d "
           "bias:f32 math=default",
           "matmul f64 f64->f64 b4m3n2k9 ta=strides=28,1,3 tb=strides=0,2,1 td=strides=6,1,4 acc=f64 "
           "epi=c,rowbias,tanh "
           "c:f32 c:strides=0,2,1 math=fma",
           "matmul f16 f16->f16 b2m8n8k8 ta=n tb=n acc=f32 epi=bias bias:strides=16,0,2 over=mk:i64 pad math=default",
       }) {
    EXPECT_EQ(matmul::to_text(read(line)), line);
  }
}

TEST(MatmulText, RandomProblemsComeBack) {
  test::sweep(300, test::random_matmul, [](const test::MatmulCase& c, int) -> std::string {
    const std::string text = matmul::to_text(c.problem);
    std::string why;
    const auto again = matmul::from_text(text, &why);
    if (!again) return why;
    if (matmul::to_text(*again) != text) return "comes back as " + matmul::to_text(*again);
    // Strides of extents of 1 say nothing and need not come back.
    for (const auto& [a, b] :
         {std::pair{&again->a, &c.problem.a}, std::pair{&again->b, &c.problem.b}, std::pair{&again->c, &c.problem.c},
          std::pair{&again->d, &c.problem.d}, std::pair{&again->bias, &c.problem.bias}}) {
      if (a->type != b->type && b->rank > 0) return "a type is lost";
      if (!same_layout(*a, *b)) return "a layout is lost";
    }
    return {};
  });
}

TEST(MatmulText, SaysWhatItCannotRead) {
  const std::pair<const char*, const char*> rows[] = {
      {"matmul f33 f32->f32 m1n1k1", "'f33' names no data type"},
      {"matmul f32 f32 m1n1k1", "such as bf16->bf16"},
      {"matmul f32 f32->f32 m1k1", "expected extents"},
      {"matmul f32 f32->f32 b2x2x2m1n1k1", "expected extents"},
      {"matmul f32 f32->f32 m1n1k1 ta=x", "is none of n, t and strides="},
      {"matmul f32 f32->f32 b4m1n1k1 ba=2x2", "needs 1 batch extents"},
      {"matmul f32 f32->f32 m1n1k1 epi=bias,gell", "'gell' is no part of an epilogue"},
      {"matmul f32 f32->f32 m1n1k1 c:f16", "needs c in epi="},
      {"matmul f32 f32->f32 m1n1k1 over=q:i32", "is not like over=mnk:i32"},
      {"matmul f32 f32->f32 m1n1k1 math=fast", "is none of default"},
      {"matmul f32 f32->f32 m1n1k1 extra", "cannot read 'extra'"},
  };
  for (const auto& [line, part] : rows) {
    std::string why;
    EXPECT_FALSE(matmul::from_text(line, &why)) << line;
    EXPECT_NE(why.find(part), std::string::npos) << line << ": " << why;
  }
}

void expect_refused(const Problem& problem, Status status, const char* part) {
  clear_last_error();
  EXPECT_EQ(matmul::validate(problem), status) << part;
  EXPECT_NE(std::string(last_error_text()).find(part), std::string::npos) << last_error_text();
  clear_last_error();
}

TEST(MatmulValidation, RefusesAndSaysWhy) {
  const Problem good = read("matmul f16 f16->f16 b6m4n8k2 ta=n tb=n acc=f32 epi=c,bias math=default");
  EXPECT_EQ(matmul::validate(good), GPUDNN_STATUS_SUCCESS);
  Problem p = good;
  p.b.dims[1] = 3;
  expect_refused(p, GPUDNN_STATUS_BAD_PARAM, "a has 2 columns and b 3 rows");
  p = good;
  p.a.dims[1] = 5;
  expect_refused(p, GPUDNN_STATUS_BAD_PARAM, "a has 5 rows and d 4");
  p = good;
  p.b.dims[0] = 4;
  expect_refused(p, GPUDNN_STATUS_BAD_PARAM, "batch dimension 0 is 6 in a, 4 in b and 6 in d");
  p = good;
  p.a.rank = 2;
  expect_refused(p, GPUDNN_STATUS_BAD_PARAM, "a has 2 dimensions");
  p = good;
  p.b.type = GPUDNN_DATA_BFLOAT16;
  expect_refused(p, GPUDNN_STATUS_NOT_SUPPORTED, "b is bf16 and a is f16");
  p = good;
  p.d.type = GPUDNN_DATA_DOUBLE;
  expect_refused(p, GPUDNN_STATUS_NOT_SUPPORTED, "d is f64; with operands of f16");
  p = good;
  p.compute = GPUDNN_DATA_DOUBLE;
  expect_refused(p, GPUDNN_STATUS_NOT_SUPPORTED, "the compute type is f64");
  p = good;
  p.bias.dims[2] = 1;
  expect_refused(p, GPUDNN_STATUS_BAD_PARAM, "bias has dims");
  p = good;
  p.d.strides[2] = 0;
  expect_refused(p, GPUDNN_STATUS_BAD_PARAM, "d");
  p = good;
  p.activation = static_cast<matmul::Activation>(77);
  expect_refused(p, GPUDNN_STATUS_BAD_PARAM, "77");
  p = good;
  p.overrides = 1;
  p.override_type = GPUDNN_DATA_FLOAT;
  expect_refused(p, GPUDNN_STATUS_NOT_SUPPORTED, "the overrides are f32");
}

// --- the host reference ---------------------------------------------------------------------------------------------

std::vector<float> multiply(const std::string& line, const std::vector<float>& a, const std::vector<float>& b,
                            Args args = {}, std::vector<float> d = {}) {
  const Problem problem = read(line);
  EXPECT_EQ(matmul::validate(problem), GPUDNN_STATUS_SUCCESS) << last_error_text();
  if (d.empty()) {
    d.assign(static_cast<std::size_t>(element_span(problem.d)), std::numeric_limits<float>::quiet_NaN());
  }
  args.a = a.data();
  args.b = b.data();
  args.d = d.data();
  host::matmul(problem, args);
  return d;
}

using Values = std::vector<float>;

TEST(HostMatmul, PlainProducts) {
  // [1 2; 3 4] [5 6 7; 8 9 10]
  EXPECT_EQ(multiply("matmul f32 f32->f32 m2n3k2", {1, 2, 3, 4}, {5, 6, 7, 8, 9, 10}),
            (Values{21, 24, 27, 47, 54, 61}));
  // The same matrices, stored as columns; and the result as columns.
  EXPECT_EQ(multiply("matmul f32 f32->f32 m2n3k2 ta=t tb=t", {1, 3, 2, 4}, {5, 8, 6, 9, 7, 10}),
            (Values{21, 24, 27, 47, 54, 61}));
  EXPECT_EQ(multiply("matmul f32 f32->f32 m2n3k2 td=t", {1, 2, 3, 4}, {5, 6, 7, 8, 9, 10}),
            (Values{21, 47, 24, 54, 27, 61}));
}

TEST(HostMatmul, BatchesRepeat) {
  // Four batches of 1 x 1: a has two, each for two of d; b one.
  EXPECT_EQ(multiply("matmul f32 f32->f32 b4m1n1k1 ba=2 bb=1", {2, 3}, {10}), (Values{20, 20, 30, 30}));
  EXPECT_EQ(multiply("matmul f32 f32->f32 b2x2m1n1k1 ba=2x1 bb=1x2", {2, 3}, {10, 100}), (Values{20, 200, 30, 300}));
}

TEST(HostMatmul, Epilogue) {
  const Values bias = {1, -50};
  const Values c = {4, 8, 12, 16};
  Args args;
  args.alpha = 2;
  args.beta = 0.5;
  args.bias = bias.data();
  args.c = c.data();
  // [1 0; 0 1] [3 5; 7 9]: 2 * 3 + 2 + 1, 2 * 5 + 4 - 50, ...
  const Values a = {1, 0, 0, 1};
  const Values b = {3, 5, 7, 9};
  EXPECT_EQ(multiply("matmul f32 f32->f32 m2n2k2 epi=c,bias", a, b, args), (Values{9, -36, 21, -24}));
  EXPECT_EQ(multiply("matmul f32 f32->f32 m2n2k2 epi=c,rowbias", a, b, args), (Values{9, 15, -30, -24}));
  EXPECT_EQ(multiply("matmul f32 f32->f32 m2n2k2 epi=c,bias,relu", a, b, args), (Values{9, 0, 21, 0}));
  args.activation = {.lower = 0, .upper = 10, .slope = 0.25};
  EXPECT_EQ(multiply("matmul f32 f32->f32 m2n2k2 epi=c,bias,relu", a, b, args), (Values{9, -9, 10, -6}));
  // beta 0 reads no c.
  args.beta = 0;
  args.c = nullptr;
  EXPECT_EQ(multiply("matmul f32 f32->f32 m2n2k2 epi=c,bias", a, b, args), (Values{7, -40, 15, -32}));
}

TEST(HostMatmul, Activations) {
  const std::pair<const char*, std::vector<double>> rows[] = {
      {"gelu", {-0.15865525393145707, 0, 0.8413447460685429, 1.9544997361036416}},
      {"gelu_tanh", {-0.15880800939172324, 0, 0.8411919906082768, 1.954597694087775}},
      {"swish", {-0.2689414213699951, 0, 0.7310585786300049, 1.7615941559557649}},
      {"tanh", {-0.7615941559557649, 0, 0.7615941559557649, 0.9640275800758169}},
      {"sigmoid", {0.2689414213699951, 0.5, 0.7310585786300049, 0.8807970779778823}},
      {"elu", {-0.6321205588285577, 0, 1, 2}},
      {"softplus", {0.31326168751822286, 0.6931471805599453, 1.3132616875182228, 2.1269280110429727}},
  };
  for (const auto& [name, expected] : rows) {
    const Values d = multiply(std::string("matmul f32 f32->f32 m1n4k1 epi=") + name, {1}, {-1, 0, 1, 2});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(d[i]), expected[i], 1e-7) << name << ' ' << i;
    }
  }
}

TEST(HostMatmul, ScalesAndAmax) {
  const float descale_a = 0.5f, descale_b = 4, scale_d = 0.125f;
  float amax = -1;
  Args args;
  args.descale_a = &descale_a;
  args.descale_b = &descale_b;
  args.scale_d = &scale_d;
  args.amax = &amax;
  EXPECT_EQ(multiply("matmul f32 f32->f32 m2n1k1 epi=descale_a,descale_b,amax,scale_d", {3, -5}, {2}, args),
            (Values{1.5, -2.5}));
  EXPECT_EQ(amax, 20);  // before scale_d
}

TEST(HostMatmul, Overrides) {
  const std::int32_t m[] = {1, 2}, k[] = {2, 1};
  Args args;
  args.m_override = m;
  args.k_override = k;
  args.padding = 7;
  const Values a = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(multiply("matmul f32 f32->f32 b2m2n1k2 over=mk:i32 pad", a, {1, 10, 1, 10}, args), (Values{21, 7, 5, 7}));
  // Without padding the rest stays as it is.
  EXPECT_EQ(multiply("matmul f32 f32->f32 b2m2n1k2 over=mk:i32", a, {1, 10, 1, 10}, args, {-1, -2, -3, -4}),
            (Values{21, -2, 5, 7}));
}

TEST(HostMatmul, Integers) {
  const std::int8_t a[] = {127, -128, 100, 100};
  const std::int8_t b[] = {127, 127};
  std::int32_t wide[2] = {};
  std::int8_t narrow[2] = {};
  Args args;
  args.a = a;
  args.b = b;
  args.d = wide;
  host::matmul(read("matmul i8 i8->i32 m2n1k2"), args);
  EXPECT_EQ(wide[0], -127);
  EXPECT_EQ(wide[1], 25400);
  args.d = narrow;
  args.alpha = 0.01;
  host::matmul(read("matmul i8 i8->i8 m2n1k2"), args);
  EXPECT_EQ(narrow[0], -1);   // -1.27
  EXPECT_EQ(narrow[1], 127);  // 254, held
}

TEST(Float8, RoundsToNearestEvenAndHolds) {
  const std::pair<double, int> e4m3[] = {
      {0, 0x00},      {1, 0x38},       {-1, 0xb8},       {448, 0x7e},    {464, 0x7e},    {1e9, 0x7e}, {-1e9, 0xfe},
      {0x1p-9, 0x01}, {0x1p-10, 0x00}, {0x1.8p-9, 0x02}, {1.0625, 0x38}, {1.1875, 0x3a}, {240, 0x77}};
  for (const auto& [value, bits] : e4m3) EXPECT_EQ(round_to<Float8E4M3>(value).bits, bits) << value;
  const std::pair<double, int> e5m2[] = {{1, 0x3c},       {57344, 0x7b},   {61440, 0x7b}, {1e9, 0x7b},
                                         {0x1p-16, 0x01}, {0x1p-17, 0x00}, {1.125, 0x3c}, {1.375, 0x3e}};
  for (const auto& [value, bits] : e5m2) EXPECT_EQ(round_to<Float8E5M2>(value).bits, bits) << value;
  EXPECT_TRUE(std::isnan(to_double(round_to<Float8E4M3>(std::nan("")))));
  EXPECT_TRUE(std::isinf(to_double(Float8E5M2{0x7c})));
  for (int bits = 0; bits < 256; ++bits) {
    const double a = to_double(Float8E4M3{static_cast<std::uint8_t>(bits)});
    if (!std::isnan(a)) {
      EXPECT_EQ(round_to<Float8E4M3>(a).bits, bits);
    }
    const double b = to_double(Float8E5M2{static_cast<std::uint8_t>(bits)});
    if (std::isfinite(b)) {
      EXPECT_EQ(round_to<Float8E5M2>(b).bits, bits);
    }
  }
}

}  // namespace
}  // namespace gpudnn
