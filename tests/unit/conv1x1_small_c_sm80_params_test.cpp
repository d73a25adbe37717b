// The mapping of convolutions to the pointwise convolution of few channels, evaluated on the host: what lanes load,
// what the matrix instruction makes of it, and where they store, is compared with the definition of convolution.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/conv1x1/conv1x1_small_c_sm80_params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/conv_emulation.hpp"
#include "support/devices.hpp"
#include "support/naive.hpp"
#include "support/random.hpp"
#include "support/sweep.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::conv1x1_small_c;
using test::ConvCase;
using test::in_memory;
using test::Memory;
using Eight = std::array<double, 8>;

class Emulation {
 public:
  Emulation(const ConvCase& c, const test::Values& values) : case_(c), p_(conv1x1_small_c_params(c.problem)) {
    const Problem& problem = c.problem;
    const bool forward = problem.direction == Direction::forward;
    input_ = forward ? in_memory(problem.x, values.x) : in_memory(problem.y, values.y);
    filter_ = in_memory(problem.w, values.w);
    result_ = in_memory(output(problem), values.out);
    addend_ = problem.has_z != 0 ? in_memory(problem.z, values.z) : result_;
    addend_scale_ = problem.has_z != 0 ? c.alpha2 : c.beta;
    bias_ = values.bias;
    writes_.assign(result_.size(), 0);
  }

  void run() {
    load_filter();
    for (std::uint32_t tile = 0; tile < p_.tiles; ++tile) {
      for (std::uint32_t group = 0; group < p_.groups; ++group) multiply_and_store(tile, group);
    }
  }

  void expect_convolution(const test::Values& values) const {
    test::expect_convolution(case_, values, result_, writes_);
  }

 private:
  void load_filter() {
    shared_.resize(std::size_t{p_.groups} * p_.steps * few::kEntriesPerStep);
    for (std::uint32_t i = 0; i < shared_.size(); ++i) {
      const std::uint32_t rest = i / 32 / p_.steps;
      const few::Entry entry = few::entry_of(rest / 4, rest % 4, i / 32 % p_.steps, i % 32);
      shared_[i].fill(0);
      if (entry.m >= p_.m || entry.first_k >= p_.k) continue;
      for (std::uint32_t j = 0; j < 8; ++j) {
        const std::int64_t from = entry.m * p_.filter_m_step + (entry.first_k + j) * p_.filter_k_step;
        shared_[i].at(j) = filter_.at(static_cast<std::size_t>(from));
      }
    }
  }

  // What a lane holds of a pixel.
  [[nodiscard]] Eight pixel(std::uint32_t number, std::uint32_t step, std::uint32_t lane) const {
    Eight eight = {};
    const std::uint32_t first = step * few::kStepChannels + lane % 4 * 8;
    if (number >= p_.pixels || first >= p_.k) return eight;
    for (std::uint32_t j = 0; j < 8; ++j) {
      eight.at(j) = input_.at(static_cast<std::size_t>(number * p_.in_step / 2 + first + j));
    }
    return eight;
  }

  // The instruction as kernels/ptx/mma_sync.cuh describes it: 16 pixels, 8 columns, and the k of a lane's pairs.
  void multiply(std::uint32_t first_pixel, std::uint32_t step, std::uint32_t part, const Eight* filter,
                double (&sums)[16][8]) const {
    double a[16][16];
    double b[16][8];
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const std::uint32_t g = lane / 4;
      const std::uint32_t t = lane % 4;
      const Eight upper = pixel(first_pixel + g, step, lane);
      const Eight lower = pixel(first_pixel + g + 8, step, lane);
      for (std::uint32_t e = 0; e < 2; ++e) {
        a[g][2 * t + e] = upper.at(4 * part + e);
        a[g + 8][2 * t + e] = lower.at(4 * part + e);
        a[g][2 * t + 8 + e] = upper.at(4 * part + 2 + e);
        a[g + 8][2 * t + 8 + e] = lower.at(4 * part + 2 + e);
        b[2 * t + e][g] = filter[lane].at(4 * part + e);
        b[2 * t + 8 + e][g] = filter[lane].at(4 * part + 2 + e);
      }
    }
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        for (int k = 0; k < 16; ++k) sums[i][j] += a[i][k] * b[k][j];
      }
    }
  }

  void multiply_and_store(std::uint32_t tile, std::uint32_t group) {
    const std::uint32_t first_pixel = tile * few::kTilePixels;
    double sums[4][16][8] = {};
    for (std::uint32_t t = 0; t < 4; ++t) {
      for (std::uint32_t step = 0; step < p_.steps; ++step) {
        const Eight* const filter =
            &shared_[std::size_t{group} * p_.steps * few::kEntriesPerStep + std::size_t{t * p_.steps + step} * 32];
        for (std::uint32_t part = 0; part < 2; ++part) multiply(first_pixel, step, part, filter, sums[t]);
      }
    }
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const std::uint32_t first = group * few::kGroupChannels + lane % 4 * 8;
      if (first >= p_.m) continue;
      for (std::uint32_t r = 0; r < 2; ++r) {
        const std::uint32_t number = first_pixel + r * 8 + lane / 4;
        if (number >= p_.pixels) continue;
        for (std::uint32_t i = 0; i < 8; ++i) {
          store(number, first + i, sums[i / 2][r * 8 + lane / 4][2 * (lane % 4) + i % 2]);
        }
      }
    }
  }

  void store(std::uint32_t number, std::uint32_t m, double sum) {
    double value = case_.alpha * sum;
    if (addend_scale_ != 0)
      value += addend_scale_ * addend_.at(static_cast<std::size_t>(number * p_.addend_step / 2 + m));
    if (p_.has_bias) value += bias_.at(m);
    if (p_.activation.mode != kernels::gemm::Activation::identity) {
      value = test::activation_at(case_.problem.activation, case_.coef, value).f;
    }
    const auto to = static_cast<std::size_t>(number * p_.out_step / 2 + m);
    result_.at(to) = value;
    ++writes_.at(to);
  }

  const ConvCase& case_;
  few::Params p_;
  Memory input_, filter_, addend_, result_, bias_;
  std::vector<Eight> shared_;
  double addend_scale_ = 0;
  std::vector<int> writes_;
};

std::string check(const ConvCase& c) {
  if (conv1x1_small_c_unsupported_reason(c.problem) != nullptr) return "not taken";
  SCOPED_TRACE(to_text(c.problem));
  const test::Values values = test::make_values(c);
  const few::Params p = conv1x1_small_c_params(c.problem);
  EXPECT_LE(p.shared_bytes, 48u * 1024);
  EXPECT_TRUE(p.steps == 1 || p.steps == 2);
  EXPECT_TRUE(p.in_step % 16 == 0 && p.out_step % 16 == 0 && p.addend_step % 16 == 0);
  std::vector<Candidate> candidates;
  conv1x1_small_c_candidates(c.problem, test::h200(), &candidates);
  EXPECT_EQ(candidates.size(), 1u);
  EXPECT_GT(candidates.at(0).seconds, 0);
  Emulation emulation(c, values);
  emulation.run();
  emulation.expect_convolution(values);
  return {};
}

TEST(Conv1x1SmallCParams, HandPicked) {
  for (const char* line : {
           "fwd f16 nhwc n2c24h9w11 k144r1s1 p0x0 t1x1 d1x1 g1",
           "fwd bf16 nhwc n1c8h1w3 k8r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f16 nhwc n1c64h5w7 k40r1s1 p0x0 t1x1 d1x1 g1",
           "dgrad f16 nhwc n2c144h9w11 k24r1s1 p0x0 t1x1 d1x1 g1",
           "dgrad f16 nhwc n1c40h3w11 k56r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c16d3h4w5 k24t1r1s1 p0x0x0 t1x1x1 d1x1x1 g1",
           "fwd f16 nhwc n2c16h5w5 k24r1s1 p0x0 t1x1 d1x1 g1 act=relu bias z",
           "fwd f16 nhwc n2c48h5w5 k24r1s1 p0x0 t1x1 d1x1 g1 act=clipped_relu bias",
       }) {
    EXPECT_EQ(check(test::conv_case(line)), "") << line;
  }
}

TEST(Conv1x1SmallCParams, RandomProblems) {
  test::check_random_convs(30, &conv1x1_small_c_unsupported_reason, [](const ConvCase& c) { EXPECT_EQ(check(c), ""); });
}

// What it must leave to others.
TEST(Conv1x1SmallCParams, Refusals) {
  for (const char* line : {
           "wgrad f16 nhwc n2c24h9w11 k64r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f32 nhwc n2c24h9w11 k64r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f16 nchw n2c24h9w11 k64r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c24h9w11 k64r1s2 p0x0 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c24h9w11 k64r1s1 p0x0 t1x2 d1x1 g1",
           "fwd f16 nhwc n2c24h9w11 k64r1s1 p0x1 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c48h9w11 k64r1s1 p0x0 t1x1 d1x1 g2",
           "fwd f16 nhwc n2c72h9w11 k64r1s1 p0x0 t1x1 d1x1 g1",
           "dgrad f16 nhwc n2c24h9w11 k72r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c20h9w11 k64r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c24h9w11 k60r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c24h9w11 k8192r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c24h9w11 k64r1s1 p0x0 t1x1 d1x1 g1 act=tanh bias scale",
           "fwd f16 nhwc n2c24h9w11 k64r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=fma",
       }) {
    EXPECT_NE(conv1x1_small_c_unsupported_reason(test::conv_case(line).problem), nullptr) << line;
  }
}

}  // namespace
}  // namespace gpudnn::conv
