// The mapping of convolutions to the Hopper filter gradient of images with few channels, evaluated on the host: what
// TMA brings to the rings by the tensor maps, and what the kernel reads there, is compared with the
// definition.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_wgrad_sm90_params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "support/conv_emulation.hpp"
#include "support/wgrad_emulation.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::small_c_wgrad;
using test::ConvCase;
using test::in_memory;
using test::Memory;

constexpr double kStale = std::numeric_limits<double>::quiet_NaN();
constexpr int kMultiprocessors = 7;

// One block of threads: its rings, filled as far ahead as the kernel's waits allow.
class Block {
 public:
  Block(const SmallCWgradPlan& plan, const Memory& x, const Memory& dy, std::uint32_t number)
      : plan_(plan), p_(plan.params), shape_(few::kShapes[plan.shape]), x_(x), dy_(dy) {
    const std::uint32_t split = p_.parts.divmod(number, &part_);
    first_ = static_cast<std::uint32_t>(std::uint64_t{p_.units} * split / p_.splits);
    count_ = static_cast<std::uint32_t>(std::uint64_t{p_.units} * (split + 1) / p_.splits) - first_;
    stages_.assign(std::size_t{p_.stages.divisor} * p_.stage_bytes / 2, kStale);
    slots_.assign(std::size_t{p_.slots} * p_.slot_bytes / 2, kStale);
    sums_.assign(static_cast<std::size_t>(shape_.blocks) * 64 * static_cast<std::size_t>(shape_.filters), 0.0);
  }

  void run() {
    for (std::uint32_t i = 0; i < count_; ++i) {
      while (filled_ < count_ && may_fill(i)) fill();
      while (expanded_ < filled_ && may_expand(i)) expand();
      ASSERT_GT(expanded_, i) << "the row that is next waits for itself";
      multiply(i);
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

  // Rows before `done` are done.
  [[nodiscard]] bool may_fill(std::uint32_t done) const {
    return filled_ < p_.stages.divisor || filled_ - p_.stages.divisor < done;
  }
  [[nodiscard]] bool may_expand(std::uint32_t done) const {
    constexpr auto kAhead = static_cast<std::uint32_t>(few::kRowsAhead);
    if (expanded_ >= kAhead && expanded_ - kAhead >= done) return false;
    return !(begins(expanded_) && strip_begin_ > 0 && strip_begin_ - 1 >= done);
  }

  void fill() {
    const Place at = place(filled_);
    std::uint32_t octet_part = 0;
    const std::int64_t filter = std::int64_t{p_.octet_parts.divmod(part_, &octet_part)} * shape_.filters;
    const std::int64_t column = std::int64_t{at.strip} * p_.tile_w;
    const auto box = static_cast<std::size_t>(few::box_filters(shape_.filters));
    for (std::size_t b = 0; b < static_cast<std::size_t>(few::dy_boxes(shape_.filters)); ++b) {
      const Memory loaded =
          test::box_of(plan_.dy, dy_, {filter + static_cast<std::int64_t>(b * box), column, at.row, at.image}, 2);
      std::copy(
          loaded.begin(), loaded.end(),
          stages_.begin() + static_cast<std::ptrdiff_t>(std::size_t{filled_ % p_.stages.divisor} * p_.stage_bytes / 2 +
                                                        b * p_.tile_w * box));
    }
    ++filled_;
  }

  // Element `i` of the vectors that a strip touches of an image row, as copied and filled with zeros.
  [[nodiscard]] double raw(const Place& at, std::int64_t row, std::int64_t i) const {
    const std::int64_t vector = p_.first_vector + std::int64_t{at.strip} * p_.tile_w * p_.pixel_elements / 8 + i / 8;
    if (i / 8 >= p_.strip_vectors.divisor) return 0;
    if (row < 0 || row >= p_.image_rows || vector < 0 || vector >= p_.row_vectors) return 0;
    const std::int64_t byte = at.image * p_.image_step + row * p_.row_step;
    EXPECT_EQ(byte % 16, 0);
    return x_.at(static_cast<std::size_t>(byte / 2 + vector * 8 + i % 8));
  }

  void expand() {
    const Place at = place(expanded_);
    const bool all = begins(expanded_);
    if (all) strip_begin_ = expanded_;
    for (std::uint32_t g = all ? 0 : p_.groups - 1; g < p_.groups; ++g) {
      const std::size_t slot = std::size_t{fill_slot_} * p_.slot_bytes;
      for (std::size_t i = 0; i < p_.slot_bytes / 2; ++i) slots_.at(slot / 2 + i) = kStale;
      for (std::uint32_t r = 0; r < p_.group_rows; ++r) {
        const std::int64_t row = std::int64_t{at.row + g} * p_.stride_h - p_.pad_h + r;
        for (std::uint32_t i = 0; i < p_.strip_vectors.divisor; ++i) {
          for (std::uint32_t c = 0; c < p_.copies; ++c) {
            const std::uint32_t begin = p_.first_shift + c * p_.pixel_elements;
            const std::uint32_t to = i - begin / 8;
            if (to >= p_.copy_vectors) continue;
            const std::size_t first = slot + c * p_.copy_bytes + (r * p_.copy_vectors + to) * 16;
            for (std::uint32_t e = 0; e < 8; ++e) slots_.at(first / 2 + e) = raw(at, row, i * 8 + begin % 8 + e);
          }
        }
      }
      fill_slot_ = (fill_slot_ + 1) % p_.slots;
    }
    ++expanded_;
  }

  void multiply(std::uint32_t i) {
    const Place at = place(i);
    if (i > 0 && begins(i)) slot_ = (slot_ + p_.groups - 1) % p_.slots;
    std::uint32_t octet_part = 0;
    p_.octet_parts.divmod(part_, &octet_part);
    const std::uint32_t columns = std::min(p_.tile_w, p_.out_w - at.strip * p_.tile_w);
    for (std::uint32_t o = 0; o < static_cast<std::uint32_t>(shape_.blocks) * 8; ++o) {
      std::uint32_t inside = 0;
      const std::uint32_t r =
          p_.taps.row_octets.divmod(octet_part * static_cast<std::uint32_t>(shape_.blocks) * 8 + o, &inside);
      if (r >= p_.taps.height) continue;  // its sums are not stored
      const std::uint32_t group = r / p_.group_rows;
      std::set<std::uint32_t> banks;
      for (std::uint32_t q = 0; q < columns; ++q) {
        const std::uint32_t copy = q & (p_.copies - 1);
        const std::uint32_t in_slot = copy * p_.copy_bytes + (r % p_.group_rows * p_.copy_vectors + inside) * 16 +
                                      (q - copy) * p_.pixel_elements * 2;
        ASSERT_EQ(in_slot % 16, 0u);
        ASSERT_LE(in_slot + 16, p_.slot_bytes);
        if (p_.copies > 1) {
          if (q % 8 == 0) banks.clear();
          ASSERT_TRUE(banks.insert(in_slot / 16 % 8).second) << "two of eight pixels share banks";
        }
        const std::size_t taps = (std::size_t{(slot_ + group) % p_.slots} * p_.slot_bytes + in_slot) / 2;
        const auto box = static_cast<std::size_t>(few::box_filters(shape_.filters));
        const std::size_t pixel = std::size_t{i % p_.stages.divisor} * p_.stage_bytes / 2 + q * box;
        for (std::size_t t = 0; t < 8; ++t) {
          for (std::size_t f = 0; f < static_cast<std::size_t>(shape_.filters); ++f) {
            sums_.at((o * 8 + t) * static_cast<std::size_t>(shape_.filters) + f) +=
                slots_.at(taps + t) * stages_.at(pixel + f / box * p_.tile_w * box + f % box);
          }
        }
      }
    }
    slot_ = (slot_ + 1) % p_.slots;
  }

  const SmallCWgradPlan& plan_;
  const few::Params& p_;
  const few::Shape& shape_;
  const Memory& x_;
  const Memory& dy_;
  std::uint32_t part_ = 0, first_ = 0, count_ = 0;
  std::uint32_t filled_ = 0, expanded_ = 0, fill_slot_ = 0, strip_begin_ = 0;
  std::uint32_t slot_ = 0;
  Memory stages_, slots_;
  Memory sums_;
};

void expect_convolution(const ConvCase& c, const test::Values& values, const SmallCWgradPlan& plan) {
  const few::Params& p = plan.params;
  const auto octets = static_cast<std::uint32_t>(few::kShapes[plan.shape].blocks) * 8;
  const auto filters = static_cast<std::uint32_t>(few::kShapes[plan.shape].filters);
  const Memory x = in_memory(c.problem.x, values.x);
  const Memory dy = in_memory(c.problem.y, values.y);
  test::FilterSums dw(c, values);
  for (std::uint32_t number = 0; number < p.parts.divisor * p.splits; ++number) {
    Block block(plan, x, dy, number);
    block.run();
    if (testing::Test::HasFatalFailure()) return;
    std::uint32_t octet_part = 0;
    const std::uint32_t filter_part = p.octet_parts.divmod(block.part(), &octet_part);
    for (std::uint32_t tap = 0; tap < octets * 8; ++tap) {
      for (std::uint32_t f = 0; f < filters; ++f) {
        dw.add(p.taps, octet_part * octets + tap / 8, tap % 8, filter_part * filters + f,
               block.sums().at(std::size_t{tap} * filters + f));
      }
    }
  }
  dw.expect_convolution(p.splits);
}

// What the driver, the instructions and shared memory take.
void expect_invariants(const SmallCWgradPlan& plan) {
  const few::Params& p = plan.params;
  EXPECT_LE(p.shared_bytes, 227u * 1024);
  EXPECT_GE(p.stages.divisor, static_cast<std::uint32_t>(few::kRowsAhead));
  EXPECT_LE(p.stages.divisor, static_cast<std::uint32_t>(few::kMaxStages));
  EXPECT_EQ(p.stage_bytes % few::kAlignment, 0u);
  EXPECT_LE(p.slot_offset + p.slots * p.slot_bytes, p.shared_bytes);
  EXPECT_LE(p.raw_offset + p.raws * p.raw_bytes, p.slot_offset);
  EXPECT_LE(p.raws, static_cast<std::uint32_t>(few::kMaxStages));
  EXPECT_LT(std::max(p.raw_bytes, p.stage_bytes), 1u << 20) << "a barrier counts no more";
  EXPECT_EQ(few::kStepPixels % p.copies, 0u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(plan.dy.box[i] >= 1 && plan.dy.box[i] <= 256);
    EXPECT_EQ(i > 0 ? plan.dy.step[i - 1] % 16 : 0, 0);
  }
}

constexpr test::Planner<SmallCWgradPlan> kPlanner = {&small_c_wgrad_candidates, &small_c_wgrad_plan,
                                                     &small_c_wgrad_workspace};

// How many plans were checked.
int check(const ConvCase& c) {
  bool has_plain_one = false;  // that needs no workspace
  const int plans =
      test::check_plans(kPlanner, c, kMultiprocessors, [&](const test::Values& values, const SmallCWgradPlan& plan) {
        has_plain_one = has_plain_one || plan.workspace == 0;
        expect_invariants(plan);
        expect_convolution(c, values, plan);
      });
  EXPECT_TRUE(has_plain_one);
  return plans;
}

TEST(SmallCWgradSm90Params, CopiesTapsAndStrips) {
  for (const char* line : {
           "wgrad f16 nhwc n2c3h24w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f16 nhwc n2c1h12w24 k8r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c2h12w24 k8r3s3 p1x1 t3x3 d1x1 g1",
           "wgrad f16 nhwc n2c3h12w24 k72r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c4h12w24 k32r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c5h12w24 k40r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c7h12w24 k16r3s3 p1x1 t2x2 d1x1 g1",
           "wgrad f16 nhwc n2c8h12w23 k16r3s3 p1x1 t1x1 d1x1 g1 flip",
           "wgrad f16 nhwc n1c3h24w24 k64r11s11 p2x2 t4x4 d1x1 g1",
           "wgrad f16 nhwc n1c8h6w60 k32r1s40 p0x20 t1x1 d1x1 g1",
           "wgrad f16 nhwc n3c3h13w24 k16r2s3 p0x1 t5x1 d1x1 g1",
           "wgrad f16 nhwc n2c3h3w8 k16r3s3 p5x9 t1x1 d1x1 g1",
           "wgrad f16 nhwc n40c3h3w8 k64r3s3 p0x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n90c3h5w8 k8r5s5 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c1w4000 k8s25 p12 t4 d1 g1",
           "wgrad f16 nhwc n2c3h10w520 k8r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n1c8h5w600 k8r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 strides=960,1,80,3 n2c3h12w24 k16r3s3 p1x1 t1x1 d1x1 g1 w:nhwc y:nhwc",
       }) {
    const ConvCase c = test::conv_case(line);
    ASSERT_EQ(small_c_wgrad_unsupported_reason(c.problem), nullptr) << line;
    EXPECT_GT(check(c), 1) << line;
  }
}

TEST(SmallCWgradSm90Params, RandomProblems) {
  test::check_random_convs(30, &small_c_wgrad_unsupported_reason, [](const ConvCase& c) { check(c); });
}

// What it must leave to others.
TEST(SmallCWgradSm90Params, Refusals) {
  for (const char* line : {
           "fwd f16 nhwc n2c3h24w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f32 nhwc n2c4h24w40 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=tensor",
           "wgrad f16 nhwc n2c3h24w40 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=fma",
           "wgrad f16 nchw n2c3h24w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f16 nhwc n2c3h24w41 k64r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f16 nhwc n2c3h24w40 k63r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f16 nhwc n2c16h24w40 k64r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c3h24w40 k64r3s3 p1x1 t1x1 d2x2 g1",
           "wgrad f16 nhwc n2c6h24w40 k64r3s3 p1x1 t1x1 d1x1 g2",
           "wgrad f16 nhwc n1c4d5h6w8 k8t3r3s3 p1x1x1 t1x1x1 d1x1x1 g1",
           "wgrad f16 nhwc n1c8h9w600 k64r600s3 p300x1 t1x1 d1x1 g1",
       }) {
    EXPECT_NE(small_c_wgrad_unsupported_reason(test::conv_case(line).problem), nullptr) << line;
  }
}

// The model, and the sizes that it stands on, for the layers that the engine was made for.
TEST(SmallCWgradSm90Params, FirstLayers) {
  const Problem problem = test::conv_case("wgrad f16 nhwc n64c3h224w224 k64r7s7 p3x3 t2x2 d1x1 g1").problem;
  std::vector<Candidate> candidates;
  small_c_wgrad_candidates(problem, 132, &candidates);
  ASSERT_FALSE(candidates.empty());
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  EXPECT_EQ(best->config.split_k, 132);
  EXPECT_EQ(best->workspace, std::size_t{132} * 192 * 64 * 4 + 256);
  const auto plan = small_c_wgrad_plan(problem, best->config, 132);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->params.copies, 4u);
  EXPECT_EQ(plan->params.groups, 4u);
  EXPECT_EQ(plan->params.group_rows, 2u);
  EXPECT_EQ(plan->params.tile_w * plan->params.strips.divisor, 112u);
}

}  // namespace
}  // namespace gpudnn::conv
