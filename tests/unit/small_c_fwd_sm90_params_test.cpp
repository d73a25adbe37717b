// The mapping of convolutions to the Hopper forward convolution for few channels, evaluated on the host: what the copy
// engine brings by the tensor map, and what threads make of it, is compared with the definition of convolution.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_fwd_sm90_params.hpp"

#include <gtest/gtest.h>

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

namespace few = kernels::small_c_fwd;
using test::ConvCase;
using test::in_memory;
using test::Memory;

constexpr double kStale = std::numeric_limits<double>::quiet_NaN();

class Emulation {
 public:
  Emulation(const ConvCase& c, const test::Values& values, const SmallCFwdPlan& plan)
      : case_(c),
        plan_(plan),
        p_(plan.params),
        bytes_(static_cast<std::uint32_t>(tile::element_bytes(plan.type))),
        per_word_(few::elements_of_word(plan.type)),
        columns_(static_cast<std::uint32_t>(few::kShapes[plan.shape].filters)) {
    const Problem& problem = c.problem;
    input_ = in_memory(problem.x, values.x);
    filter_ = in_memory(problem.w, values.w);
    result_ = in_memory(problem.y, values.out);
    addend_ = problem.has_z != 0 ? in_memory(problem.z, values.z) : result_;
    addend_scale_ = problem.has_z != 0 ? c.alpha2 : c.beta;
    bias_ = values.bias;
    writes_.assign(result_.size(), 0);
  }

  void run() {
    for (std::uint32_t row_block = 0; row_block < p_.row_blocks.divisor; ++row_block) {
      pack_filter(row_block * columns_);
      for (std::uint32_t index = 0; index < p_.tiles; ++index) {
        std::uint32_t w = 0;
        std::uint32_t h = 0;
        const std::uint32_t n = p_.tiles_h.divmod(p_.tiles_w.divmod(index, &w), &h);
        const Memory patch = load_patch(static_cast<int>(w), static_cast<int>(h), static_cast<int>(n));
        for (std::uint32_t unit = 0; unit < p_.units; ++unit) {
          for (std::uint32_t row = 0; row < few::kUnit; ++row) {
            do_pixel(row_block, patch, few::unit_at(p_, unit),
                     few::position_in_unit(p_, row / 16, row % 8, row % 16 / 8),
                     {static_cast<int>(w) * p_.tile_w, static_cast<int>(h) * p_.tile_h, static_cast<int>(n)});
          }
        }
      }
    }
  }

  void expect_convolution(const test::Values& values) const {
    test::expect_convolution(case_, values, result_, writes_);
  }

 private:
  struct Tile {
    int w, h, n;
  };

  // The block's filter in shared memory, elements.
  void pack_filter(std::uint32_t first_filter) {
    shared_filter_.assign(std::size_t{p_.versions} * p_.version_bytes / bytes_, kStale);
    for (std::uint32_t version = 0; version < p_.versions; ++version) {
      for (std::uint32_t quad = 0; quad < p_.quads.divisor; ++quad) {
        for (std::uint32_t n = 0; n < columns_; ++n) {
          for (std::uint32_t t = 0; t < 4; ++t) pack_word(first_filter, version, quad, n, t);
        }
      }
    }
  }

  void pack_word(std::uint32_t first_filter, std::uint32_t version, std::uint32_t quad, std::uint32_t n,
                 std::uint32_t t) {
    std::uint32_t in_row = 0;
    const std::uint32_t row = p_.row_quads.divmod(quad, &in_row);
    const std::uint32_t filter = first_filter + few::filter_of_column(per_word_, n);
    for (int i = 0; i < per_word_; ++i) {
      const std::int32_t e = few::element_of_word(per_word_, in_row * 4 + t, i, few::shift_of_version(p_, version));
      double value = 0;
      if (filter < p_.filters && row < p_.rows && e >= 0 && e < static_cast<std::int32_t>(p_.row_elements)) {
        std::uint32_t channel = 0;
        const std::uint32_t s = p_.channels.divmod(static_cast<std::uint32_t>(e), &channel);
        value = filter_.at(static_cast<std::size_t>(p_.filter_base + filter * p_.filter_step + row * p_.tap_step_h +
                                                    s * p_.tap_step_w + channel * p_.channel_step));
      }
      const std::uint32_t at = version * p_.version_bytes + few::filter_word_offset(columns_, quad, n, t);
      shared_filter_.at(at / bytes_ + static_cast<std::size_t>(i)) = value;
    }
  }

  // A box of TMA, elements.
  [[nodiscard]] Memory load_patch(int w, int h, int n) const {
    Memory patch =
        test::box_of(plan_.input, input_,
                     {std::int64_t{w} * p_.tile_words + p_.corner_w, std::int64_t{h} * p_.tile_rows + p_.corner_h, n},
                     bytes_, per_word_);
    EXPECT_EQ(patch.size() * bytes_, p_.load_bytes);
    return patch;
  }

  void do_pixel(std::uint32_t row_block, const Memory& patch, const few::Unit& unit, std::uint32_t position,
                const Tile& tile) {
    std::uint32_t column = 0;
    const std::uint32_t row = p_.tile_w_div.divmod(position, &column);
    const int w = tile.w + static_cast<int>(column) + unit.column;
    const int h = tile.h + static_cast<int>(row) + unit.row;
    const std::uint32_t window = few::window_offset(p_, per_word_, row, column) + unit.bytes;
    const std::uint32_t shift = per_word_ == 2 ? unit.shift : 0;
    // Words that threads load must lie in shared memory, even those that count for nothing.
    const std::uint32_t last = window + (p_.rows - 1) * p_.pitch + p_.row_quads.divisor * few::kQuadBytes;
    ASSERT_LE(last, p_.stage_bytes + p_.versions * p_.version_bytes);
    if (w >= p_.out_w || h >= p_.out_h) return;
    for (std::uint32_t n = 0; n < columns_; ++n) {
      const std::uint32_t filter = row_block * columns_ + few::filter_of_column(per_word_, n);
      if (filter < p_.filters) store(filter, w, h, tile.n, dot(patch, window, shift, n));
    }
  }

  [[nodiscard]] double dot(const Memory& patch, std::uint32_t window, std::uint32_t shift, std::uint32_t n) const {
    double sum = 0;
    for (std::uint32_t quad = 0; quad < p_.quads.divisor; ++quad) {
      std::uint32_t in_row = 0;
      const std::uint32_t row = p_.row_quads.divmod(quad, &in_row);
      if (row >= p_.rows) continue;
      for (std::uint32_t t = 0; t < 4; ++t) {
        std::uint32_t mask = 0xffffffffu;
        if (in_row == 0) mask &= few::word_mask(p_, per_word_, t, shift);
        if (in_row + 1 == p_.row_quads.divisor) mask &= few::word_mask(p_, per_word_, in_row * 4 + t, shift);
        const std::uint32_t from = window + row * p_.pitch + in_row * few::kQuadBytes + t * 4;
        const std::uint32_t version = p_.by_parity ? shift : 0;
        const std::uint32_t factor = version * p_.version_bytes + few::filter_word_offset(columns_, quad, n, t);
        for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(per_word_); ++i) {
          const bool counts = per_word_ == 1 ? mask != 0 : (mask >> (16 * i) & 0xffffu) != 0;
          const double weight = shared_filter_.at(factor / bytes_ + i);
          if (counts) {
            sum += weight * patch.at(from / bytes_ + i);
          } else if (weight != 0) {
            return kStale;
          }
        }
      }
    }
    return sum;
  }

  void store(std::uint32_t filter, int w, int h, int n, double sum) {
    const auto offset = [&](const std::int64_t(&step)[3]) {
      return static_cast<std::size_t>((w * step[0] + h * step[1] + n * step[2]) / bytes_ + filter);
    };
    double value = case_.alpha * sum;
    if (addend_scale_ != 0) value += addend_scale_ * addend_.at(offset(p_.addend_step));
    if (p_.has_bias) value += bias_.at(filter);
    if (p_.activation.mode != kernels::gemm::Activation::identity) {
      value = test::activation_at(case_.problem.activation, case_.coef, value).f;
    }
    result_.at(offset(p_.out_step)) = value;
    ++writes_.at(offset(p_.out_step));
  }

  const ConvCase& case_;
  const SmallCFwdPlan& plan_;
  const few::Params& p_;
  std::uint32_t bytes_;
  int per_word_;
  std::uint32_t columns_;
  Memory input_, filter_, shared_filter_, addend_, result_, bias_;
  double addend_scale_ = 0;
  std::vector<int> writes_;
};

// What the driver, the instructions and shared memory take.
void expect_invariants(const SmallCFwdPlan& plan) {
  const few::Params& p = plan.params;
  EXPECT_LE(p.shared_bytes, 227u * 1024);
  EXPECT_EQ(p.stage_bytes % few::kAlignment, 0u);
  EXPECT_GE(p.stage_bytes, p.load_bytes);
  EXPECT_EQ(p.filter_offset % 16, 0u);
  EXPECT_EQ(p.bias_offset % 16, 0u);
  EXPECT_EQ(p.quads.divisor % 2, 0u);
  EXPECT_EQ(plan.blocks % p.row_blocks.divisor, 0u);
  EXPECT_TRUE(!p.by_parity || (p.units % 2 == 0 && p.tile_w % 2 == 0));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(plan.input.box[i] >= 1 && plan.input.box[i] <= 256);
  // TMA takes boxes that begin at multiples of 16 bytes; elsewhere it stops the kernel.
  EXPECT_EQ(plan.input.box[0] % 4, 0);
  EXPECT_EQ(p.corner_w % 4, 0);
  EXPECT_TRUE(p.tile_words % 4 == 0 || p.tiles_w.divisor == 1);
  for (const std::int64_t step : plan.input.step) EXPECT_EQ(step % 16, 0);
  EXPECT_EQ(p.units * few::kUnit, static_cast<std::uint32_t>(p.tile_w * p.tile_h));
}

void check_shape(const ConvCase& c, const test::Values& values, int shape) {
  SCOPED_TRACE(to_text(c.problem) + ", shape " + std::to_string(shape));
  const auto plan = small_c_fwd_plan(c.problem, {shape, 1}, test::h200());
  if (!plan) return;
  expect_invariants(*plan);
  Emulation emulation(c, values, *plan);
  emulation.run();
  emulation.expect_convolution(values);
}

// Each problem in one shape, the next in the next one.
TEST(SmallCFwdSm90Params, CaseFile) {
  int number = 0;
  for (ConvCase& c : test::cases_from_file<Problem>("conv/small_c_fwd.txt", from_text)) {
    if (!c.integers || c.alpha == 1) continue;  // one of three variants of a problem
    c.coef = 6;
    if (c.problem.has_bias != 0) c.beta = 0;
    ASSERT_EQ(small_c_fwd_unsupported_reason(c.problem), nullptr) << to_text(c.problem);
    check_shape(c, test::make_values(c), number++ % few::kShapeCount);
    if (HasFailure()) break;
  }
}

TEST(SmallCFwdSm90Params, RandomProblems) {
  test::check_random_convs(30, &small_c_fwd_unsupported_reason, [](const ConvCase& c) {
    const test::Values values = test::make_values(c);
    for (int shape = 0; shape < few::kShapeCount; ++shape) check_shape(c, values, shape);
  });
}

// What it must leave to others.
TEST(SmallCFwdSm90Params, Refusals) {
  for (const char* line : {
           "dgrad f16 nhwc n2c3h40w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f16 nhwc n2c3h40w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "fwd f32 nhwc n2c3h40w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "fwd f16 nchw n2c3h40w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "fwd f16 nhwc n2c3h40w39 k64r7s7 p3x3 t2x2 d1x1 g1",
           "fwd f16 nhwc n2c3h40w40 k60r7s7 p3x3 t2x2 d1x1 g1",
           "fwd f16 nhwc n2c9h40w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "fwd f16 nhwc n2c3h40w40 k64r7s7 p3x3 t2x2 d2x1 g1",
           "fwd f16 nhwc n2c3h40w40 k64r7s7 p3x3 t2x2 d1x1 g1 act=tanh bias scale",
           "fwd f16 nhwc n2c8h400w400 k64r99s7 p3x3 t2x2 d1x1 g1",
       }) {
    EXPECT_NE(small_c_fwd_unsupported_reason(test::conv_case(line).problem), nullptr) << line;
  }
}

}  // namespace
}  // namespace gpudnn::conv
