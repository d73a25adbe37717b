// The mapping of convolutions to the Hopper filter gradient by rows of patches, evaluated on the host: what the copy
// engine brings by the tensor maps, what the expanders make of it and what a product reads there is compared with the
// definition, in the order that the kernel's waits allow.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/smem_im2col_wgrad_sm90_params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/conv_emulation.hpp"
#include "support/wgrad_emulation.hpp"

namespace gpudnn::conv {
namespace {

namespace rows = kernels::smem_im2col_wgrad;
using test::ConvCase;
using test::in_memory;
using test::Memory;

constexpr double kStale = std::numeric_limits<double>::quiet_NaN();
constexpr int kMultiprocessors = 7;

// One block of threads: its rings, filled as far ahead as the kernel's waits allow.
class Block {
 public:
  Block(const SmemIm2colWgradPlan& plan, const Memory& x, const Memory& dy, std::uint32_t number)
      : plan_(plan),
        p_(plan.params),
        shape_(rows::kShapes[plan.shape]),
        bytes_(rows::bytes_of(plan.type)),
        x_(x),
        dy_(dy) {
    const std::uint32_t split = p_.parts.divmod(number, &part_);
    first_ = static_cast<std::uint32_t>(std::uint64_t{p_.units} * split / p_.splits);
    count_ = static_cast<std::uint32_t>(std::uint64_t{p_.units} * (split + 1) / p_.splits) - first_;
    stages_.resize(p_.stages);
    raws_.resize(p_.raws);
    slots_.assign((p_.shared_bytes - p_.slot_offset) / static_cast<std::uint32_t>(bytes_), kStale);
    sums_.assign(static_cast<std::size_t>(shape_.taps) * rows::kFilters, 0.0);
  }

  void run() {
    while (multiplied_ < count_) {
      while (produce()) {
      }
      bool moved = false;
      while (expand()) moved = true;
      if (!consume() && !moved) FAIL() << "the rings wait for one another at row " << multiplied_;
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  [[nodiscard]] const Memory& sums() const { return sums_; }
  [[nodiscard]] std::uint32_t part() const { return part_; }

 private:
  struct Place {
    std::uint32_t row, strip, image;
  };
  [[nodiscard]] Place place(std::uint32_t i) const {
    Place at{};
    at.image = p_.strips.divmod(p_.rows.divmod(first_ + i, &at.row), &at.strip);
    return at;
  }
  [[nodiscard]] bool begins(std::uint32_t i) const { return i == 0 || place(i).row == 0; }
  [[nodiscard]] std::uint32_t groups_of(std::uint32_t i) const { return begins(i) ? p_.groups : 1; }
  [[nodiscard]] std::uint32_t columns(std::uint32_t i) const {
    return std::min(p_.tile_w.divisor, p_.out_w - place(i).strip * p_.tile_w.divisor);
  }

  // The next of a row's groups, or its row of dy.
  bool produce() {
    if (produced_ == count_) return false;
    const Place at = place(produced_);
    if (brought_ < groups_of(produced_)) {
      if (raw_filled_ - expanded_ >= p_.raws) return false;
      const std::uint32_t g = p_.groups - groups_of(produced_) + brought_;
      const std::int64_t column = 2 * (p_.first_vector + std::int64_t{at.strip} * p_.strip_vectors);
      EXPECT_EQ(column % 2, 0) << "a box that does not begin at a multiple of 16 bytes";
      raws_[raw_filled_ % p_.raws] = test::box_of(
          plan_.x, x_, {column, std::int64_t{at.row + g} * p_.stride_h - p_.pad_h, at.image}, bytes_, 8 / bytes_);
      EXPECT_EQ(raws_[raw_filled_ % p_.raws].size() * static_cast<std::size_t>(bytes_), p_.raw_copy_bytes);
      ++raw_filled_;
      ++brought_;
      return true;
    }
    if (produced_ - rows_released_ >= p_.stages) return false;
    std::vector<double>& stage = stages_[produced_ % p_.stages];
    stage.clear();
    for (std::int64_t f = 0; f < rows::kFilters; f += plan_.dy.box[0]) {
      const std::vector<double> box = test::box_of(
          plan_.dy, dy_,
          {std::int64_t{part_} * rows::kFilters + f, std::int64_t{at.strip} * p_.tile_w.divisor, at.row, at.image},
          bytes_);
      stage.insert(stage.end(), box.begin(), box.end());
    }
    EXPECT_EQ(stage.size() * static_cast<std::size_t>(bytes_), p_.stage_bytes);
    ++produced_;
    brought_ = 0;
    return true;
  }

  // The next group in patches.
  bool expand() {
    if (expanded_ == raw_filled_ || expanded_ - groups_released_ >= p_.slots) return false;
    if (expanded_in_row_ == groups_of(expanded_row_)) {
      ++expanded_row_;
      expanded_in_row_ = 0;
    }
    if (bytes_ == 2) {
      write_patches();
    } else {
      write_patches_tf32();
    }
    ++expanded_;
    ++expanded_in_row_;
    return true;
  }

  void put(std::size_t byte, std::uint32_t slot, std::uint32_t r, double value) {
    slots_.at(byte / static_cast<std::size_t>(bytes_)) = value;
    if ((slot + 1) * p_.group_rows + r >= p_.taps.height) return;
    slots_.at((byte + p_.slots * p_.slot_bytes) / static_cast<std::size_t>(bytes_)) = value;
  }

  void write_patches() {
    const std::vector<double>& raw = raws_[expanded_ % p_.raws];
    const std::uint32_t slot = expanded_ % p_.slots;
    const std::uint32_t width = p_.tile_w.divisor;
    for (std::uint32_t item = 0; item < p_.group_rows * width; ++item) {
      const std::uint32_t r = item / width;
      const std::uint32_t q = item % width;
      const std::uint32_t element = p_.first_shift + q * p_.pixel_elements;
      const std::uint32_t to = slot * p_.slot_bytes + r * p_.taps.row_octets.divisor * p_.plane_bytes + q * 16;
      for (std::uint32_t o = 0; o < p_.taps.row_octets.divisor; ++o) {
        const std::size_t word = std::size_t{r} * p_.raw_row_words + element / 2 + std::size_t{4} * o;
        EXPECT_LE(2 * (word + 5), raw.size());
        EXPECT_LE(element / 2 + 4 * o + 5, p_.raw_row_words);
        for (std::uint32_t e = 0; e < 8; ++e) {
          const double value = q < columns(expanded_row_) ? raw.at(2 * word + element % 2 + e) : 0;
          put(to + o * p_.plane_bytes + 2 * e, slot, r, value);
        }
      }
    }
  }

  void write_patches_tf32() {
    const std::vector<double>& raw = raws_[expanded_ % p_.raws];
    const std::uint32_t slot = expanded_ % p_.slots;
    const std::uint32_t items = p_.group_rows * p_.tile_groups.divisor * 2 * p_.row_columns.divisor;
    for (std::uint32_t item = 0; item < items; ++item) {
      std::uint32_t tap = 0;
      std::uint32_t group = 0;
      const std::uint32_t place = p_.row_columns.divmod(item, &tap);
      const std::uint32_t r = p_.tile_groups.divmod(place / 2, &group);
      const std::uint32_t q = group * 8 + place % 2;
      const std::uint32_t to = slot * p_.slot_bytes + r * p_.taps.row_octets.divisor * p_.plane_bytes +
                               tap / 8 * p_.plane_bytes + (group * 2 + place % 2) * 128 + tap % 8 * 16;
      for (std::uint32_t j = 0; j < 4; ++j) {
        const std::uint32_t element = p_.first_shift + (q + 2 * j) * p_.pixel_elements + tap;
        EXPECT_LT(element, p_.raw_row_words);
        const double value = raw.at(std::size_t{r} * p_.raw_row_words + element);
        put(to + 4 * j, slot, r, q + 2 * j < columns(expanded_row_) ? value : 0);
      }
    }
  }

  bool consume() {
    const std::uint32_t i = multiplied_;
    if (begins(i) && i > 0 && rows_released_ < i) {
      rows_released_ = i;  // all of the window before
      groups_released_ = window_end_;
      return true;
    }
    if (produced_ <= i || expanded_ < window_end_ + groups_of(i)) return false;
    window_end_ += groups_of(i);
    multiply(i, (window_end_ - p_.groups) % p_.slots);
    ++multiplied_;
    if (!begins(i)) {
      ++rows_released_;
      ++groups_released_;
    }
    return true;
  }

  void multiply(std::uint32_t i, std::uint32_t window) {
    const std::vector<double>& dy = stages_[i % p_.stages];
    const auto step = static_cast<std::uint32_t>(rows::step_pixels(plan_.type));
    const std::uint32_t pixels = (columns(i) + step - 1) / step * step;
    for (std::uint32_t o = 0; o < static_cast<std::uint32_t>(shape_.taps) / 8; ++o) {
      const bool stored = o < p_.taps.height * p_.taps.row_octets.divisor;
      for (std::uint32_t q = 0; q < pixels; ++q) {
        for (std::uint32_t t = 0; t < 8; ++t) {
          const std::uint32_t in_plane =
              bytes_ == 2 ? q * 16 + t * 2 : q / 8 * 256 + q % 2 * 128 + t * 16 + q % 8 / 2 * 4;
          const std::size_t at =
              (std::size_t{window} * p_.slot_bytes + o * p_.plane_bytes + in_plane) / static_cast<std::size_t>(bytes_);
          ASSERT_LT(at, slots_.size()) << "a product reads behind the ring";
          for (std::size_t f = 0; stored && f < rows::kFilters; ++f) {
            const auto box = static_cast<std::size_t>(plan_.dy.box[0]);
            const double factor = dy.at((f / box * p_.tile_w.divisor + q) * box + f % box);
            sums_.at((o * 8 + t) * rows::kFilters + f) += slots_[at] * factor;
          }
        }
      }
    }
  }

  const SmemIm2colWgradPlan& plan_;
  const rows::Params& p_;
  const rows::Shape& shape_;
  const int bytes_;
  const Memory& x_;
  const Memory& dy_;
  std::uint32_t part_ = 0, first_ = 0, count_ = 0;
  std::uint32_t produced_ = 0, brought_ = 0, raw_filled_ = 0;
  std::uint32_t expanded_ = 0, expanded_row_ = 0, expanded_in_row_ = 0;
  std::uint32_t multiplied_ = 0, window_end_ = 0, rows_released_ = 0, groups_released_ = 0;
  std::vector<std::vector<double>> stages_, raws_;
  Memory slots_;
  Memory sums_;
};

void expect_convolution(const ConvCase& c, const test::Values& values, const SmemIm2colWgradPlan& plan) {
  const rows::Params& p = plan.params;
  const Memory x = in_memory(c.problem.x, values.x);
  const Memory dy = in_memory(c.problem.y, values.y);
  test::FilterSums dw(c, values);
  for (std::uint32_t number = 0; number < p.parts.divisor * p.splits; ++number) {
    Block block(plan, x, dy, number);
    block.run();
    if (testing::Test::HasFatalFailure()) return;
    for (std::uint32_t tap = 0; tap < static_cast<std::uint32_t>(rows::kShapes[plan.shape].taps); ++tap) {
      for (std::uint32_t f = 0; f < rows::kFilters; ++f) {
        dw.add(p.taps, tap / 8, tap % 8, block.part() * rows::kFilters + f,
               block.sums().at(tap * std::size_t{rows::kFilters} + f));
      }
    }
  }
  dw.expect_convolution(p.splits);
}

// What the driver, the instructions and shared memory take.
void expect_invariants(const SmemIm2colWgradPlan& plan) {
  const rows::Params& p = plan.params;
  EXPECT_LE(p.shared_bytes, 227u * 1024);
  for (const std::uint32_t length : {p.stages, p.raws, p.slots}) {
    EXPECT_TRUE(length >= 2 && length <= static_cast<std::uint32_t>(rows::kMaxStages));
  }
  EXPECT_GT(p.slots, p.groups);
  EXPECT_EQ(p.stage_bytes % rows::kAlignment, 0u);
  EXPECT_EQ(p.raw_offset % rows::kRawAlignment + p.raw_bytes % rows::kRawAlignment, 0u);
  EXPECT_LE(p.raw_offset + p.raws * p.raw_bytes, p.slot_offset);
  EXPECT_EQ(p.slot_offset % 16, 0u);
  EXPECT_LT(std::max(p.raw_bytes, p.stage_bytes), 1u << 20) << "a barrier counts no more";
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(plan.dy.box[i] >= 1 && plan.dy.box[i] <= 256);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(plan.x.box[i] >= 1 && plan.x.box[i] <= 256);
  EXPECT_EQ(plan.x.box[0] % 2, 0);
  for (const std::int64_t step : plan.dy.step) EXPECT_EQ(step % 16, 0);
  for (const std::int64_t step : plan.x.step) EXPECT_EQ(step % 16, 0);
}

constexpr test::Planner<SmemIm2colWgradPlan> kPlanner = {&smem_im2col_wgrad_candidates, &smem_im2col_wgrad_plan,
                                                         &smem_im2col_wgrad_workspace};

// How many plans were checked.
int check(const ConvCase& c) {
  bool has_plain_one = false;  // that needs no workspace
  const int plans = test::check_plans(kPlanner, c, kMultiprocessors,
                                      [&](const test::Values& values, const SmemIm2colWgradPlan& plan) {
                                        has_plain_one = has_plain_one || plan.workspace == 0;
                                        expect_invariants(plan);
                                        expect_convolution(c, values, plan);
                                      });
  EXPECT_TRUE(has_plain_one);
  return plans;
}

TEST(SmemIm2colWgradSm90Params, TapsAndStrips) {
  for (const char* line : {
           "wgrad f16 nhwc n2c3h24w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f16 nhwc n2c1h12w24 k8r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c2h12w24 k8r3s3 p1x1 t3x3 d1x1 g1",
           "wgrad f16 nhwc n2c3h12w24 k72r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c4h12w24 k32r4s4 p3x3 t2x2 d1x1 g1",
           "wgrad f16 nhwc n2c5h12w24 k40r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c8h12w23 k16r3s3 p1x1 t1x1 d1x1 g1 flip",
           "wgrad f16 nhwc n1c3h24w24 k64r5s8 p2x2 t4x4 d1x1 g1",
           "wgrad f16 nhwc n1c3h6w64 k32r1s20 p0x10 t1x1 d1x1 g1",
           "wgrad f16 nhwc n3c3h13w24 k16r2s3 p0x1 t5x1 d1x1 g1",
           "wgrad f16 nhwc n2c3h3w8 k16r3s3 p5x9 t1x1 d1x1 g1",
           "wgrad f16 nhwc n40c3h3w8 k64r3s3 p0x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n90c1h5w8 k8r5s5 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c1w4000 k8s25 p12 t4 d1 g1",
           "wgrad f16 nhwc n2c3h10w520 k8r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n1c8h5w600 k8r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f32 nhwc n2c3h24w40 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=tensor",
           "wgrad f32 nhwc n2c3h12w24 k72r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "wgrad f32 nhwc n2c4h24w100 k36r5s5 p2x2 t3x1 d1x1 g1 acc=f32 math=tensor",
           "wgrad f32 nhwc n90c3h5w8 k8r5s5 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "wgrad f32 nhwc n2c8h12w19 k20r2s3 p1x1 t5x1 d1x1 g1 acc=f32 math=tensor flip",
           "wgrad f16 strides=960,1,80,3 n2c3h12w24 k16r3s3 p1x1 t1x1 d1x1 g1 w:nhwc y:nhwc",
       }) {
    const ConvCase c = test::conv_case(line);
    ASSERT_EQ(smem_im2col_wgrad_unsupported_reason(c.problem), nullptr) << line;
    EXPECT_GT(check(c), 1) << line;
  }
}

TEST(SmemIm2colWgradSm90Params, RandomProblems) {
  test::check_random_convs(30, &smem_im2col_wgrad_unsupported_reason, [](const ConvCase& c) { check(c); });
}

// What it must leave to others.
TEST(SmemIm2colWgradSm90Params, Refusals) {
  for (const char* line : {
           "fwd f16 nhwc n2c3h24w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f32 nhwc n2c4h24w40 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=tensor",
           "wgrad f32 nhwc n2c3h24w40 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=fma",
           "wgrad f16 nhwc n2c3h24w41 k64r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f16 nhwc n2c3h24w40 k64r3s3 p1x1 t1x1 d2x2 g1",
           "wgrad f16 nhwc n1c3h24w24 k64r11s11 p2x2 t4x4 d1x1 g1",
           "wgrad f16 nhwc n2c1h40w40 k64r17s3 p1x1 t1x1 d1x1 g1",
       }) {
    EXPECT_NE(smem_im2col_wgrad_unsupported_reason(test::conv_case(line).problem), nullptr) << line;
  }
}

// The model, and the sizes that it stands on, for the layer that the engine was made for.
TEST(SmemIm2colWgradSm90Params, FirstLayer) {
  const Problem problem = test::conv_case("wgrad f16 nhwc n64c3h224w224 k64r7s7 p3x3 t2x2 d1x1 g1").problem;
  std::vector<Candidate> candidates;
  smem_im2col_wgrad_candidates(problem, 132, &candidates);
  ASSERT_EQ(candidates.size(), 2u);
  EXPECT_EQ(candidates[0].config.split_k, 132);
  EXPECT_EQ(candidates[0].workspace, std::size_t{132} * 168 * 64 * 4 + 256);
  const auto plan = smem_im2col_wgrad_plan(problem, candidates[0].config, 132);
  ASSERT_TRUE(plan);
  EXPECT_EQ(rows::kShapes[plan->shape].taps, 168);
  EXPECT_EQ(plan->params.groups, 4u);
  EXPECT_EQ(plan->params.group_rows, 2u);
  EXPECT_EQ(plan->params.tile_w.divisor, 112u);
}

}  // namespace
}  // namespace gpudnn::conv
