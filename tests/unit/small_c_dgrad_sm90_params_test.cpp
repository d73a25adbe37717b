// The mapping of data gradients to the Hopper kernel for images of few channels, evaluated on the host: what the copy
// engine brings by the tensor map, the filter's places and the walk of the sums through their slots are compared with
// the definition of convolution.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_dgrad_sm90_params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/conv_emulation.hpp"
#include "support/naive.hpp"
#include "support/random.hpp"
#include "support/sweep.hpp"

namespace gpudnn::conv {
namespace {

namespace data = kernels::small_c_dgrad;
using test::ConvCase;
using test::in_memory;
using test::Memory;

constexpr double kStale = std::numeric_limits<double>::quiet_NaN();
constexpr int kMultiprocessors = 132;

struct Segment {
  int n, column, i_begin, i_end;
};

class Emulation {
 public:
  Emulation(const ConvCase& c, const test::Values& values, const SmallCDgradPlan& plan)
      : case_(c),
        plan_(plan),
        p_(plan.params),
        element_bytes_(tile::element_bytes(plan.type)),
        dy_(in_memory(c.problem.y, values.y)),
        w_(in_memory(c.problem.w, values.w)),
        dx_(in_memory(c.problem.x, values.out)),
        writes_(dx_.size(), 0) {}

  void run() {
    build_filter();
    const std::uint64_t streams = std::uint64_t{plan_.blocks} * p_.warpgroups;
    for (std::uint64_t stream = 0; stream < streams; ++stream) {
      walk(static_cast<std::uint32_t>(stream * p_.all_rows / streams),
           static_cast<std::uint32_t>((stream + 1) * p_.all_rows / streams));
    }
  }

  void expect_convolution(const test::Values& values) const { test::expect_convolution(case_, values, dx_, writes_); }

 private:
  [[nodiscard]] std::size_t filters_of_block() const { return data::kRowBytes / element_bytes_; }

  // Element k of a row of a panel, where the swizzle puts it.
  [[nodiscard]] std::size_t place(std::size_t panel, std::size_t row, std::size_t k) const {
    const std::size_t byte = k * element_bytes_;
    return (panel * p_.panel_bytes + row * data::kRowBytes + ((byte / 16) ^ (row & 7)) * 16 + byte % 16) /
           element_bytes_;
  }

  void build_filter() {
    filter_.assign(
        std::size_t{p_.filter_blocks} * static_cast<std::size_t>(p_.taps_v) * p_.panel_bytes / element_bytes_, 0);
    const std::size_t group = static_cast<std::size_t>(p_.group);
    for (std::uint32_t index = 0; index < p_.filter_taps * static_cast<std::uint32_t>(p_.filters); ++index) {
      std::uint32_t c = 0, s = 0, r = 0, a = 0, b = 0;
      const std::uint32_t k = p_.taps_h_div.divmod(p_.taps_w_div.divmod(p_.channel_div.divmod(index, &c), &s), &r);
      const std::uint32_t u = p_.stride_h_div.divmod(r, &a);
      const std::uint32_t v = p_.stride_w_div.divmod(s, &b);
      const std::size_t e = a * p_.class_pitch + b * p_.channel_div.divisor + c;
      const std::size_t panel = k / filters_of_block() * static_cast<std::size_t>(p_.taps_v) + v;
      const double value = w_.at(static_cast<std::size_t>(p_.w_base + k * p_.ws.n + std::int64_t{c} * p_.ws.c +
                                                          std::int64_t{r} * p_.ws.h + std::int64_t{s} * p_.ws.w));
      const std::size_t row = u * group + e;
      filter_.at(place(panel, row, k % filters_of_block())) = value;
      if (u + 1 < static_cast<std::uint32_t>(p_.taps_u)) {
        filter_.at(place(panel, row + static_cast<std::size_t>(p_.taps_u) * group, k % filters_of_block())) = value;
      }
    }
  }

  // A box of dy: columns of a block's filters each.
  [[nodiscard]] Memory load(int n, int row, std::int64_t column, std::uint32_t block) const {
    return test::box_of(plan_.dy, dy_, {std::int64_t{block} * p_.filters_of_block, column, row, 0, n},
                        static_cast<std::int64_t>(element_bytes_));
  }

  // sums[row of the product][position] of the tile's positions.
  void multiply_row(const Segment& s, int row, std::size_t start, Memory* sums) const {
    const auto positions = static_cast<std::size_t>(p_.tile_w);
    const std::size_t rows = sums->size() / positions;
    for (std::uint32_t block = 0; block < p_.filter_blocks; ++block) {
      const Memory box = load(s.n, row, p_.first_j + std::int64_t{s.column} * p_.tile_w - (p_.taps_v - 1), block);
      EXPECT_EQ(box.size() * element_bytes_, p_.load_bytes);
      const std::uint32_t steps = block + 1 == p_.filter_blocks ? p_.last_steps : 4;
      for (std::size_t v = 0; v < static_cast<std::size_t>(p_.taps_v); ++v) {
        for (std::size_t k = 0; k < steps * (32 / element_bytes_); ++k) {
          for (std::size_t m = 0; m < rows; ++m) {
            const double factor = filter_.at(place(block * static_cast<std::size_t>(p_.taps_v) + v, start + m, k));
            if (factor == 0) continue;
            for (std::size_t j = 0; j < positions; ++j) {
              const std::size_t at = j + static_cast<std::size_t>(p_.taps_v) - 1 - v;
              (*sums)[m * positions + j] += factor * box.at(at * filters_of_block() + k);
            }
          }
        }
      }
    }
  }

  void walk(std::uint32_t begin, std::uint32_t end) {
    const auto positions = static_cast<std::size_t>(p_.tile_w);
    const std::size_t group = static_cast<std::size_t>(p_.group);
    const std::size_t all_slots = group * static_cast<std::size_t>(p_.taps_u);
    const std::size_t rows = static_cast<std::size_t>(data::kShapes[plan_.shape].row_blocks) * 64;
    ASSERT_LE(all_slots, rows);
    while (begin < end) {
      std::uint32_t first = 0;
      std::uint32_t column = 0;
      const std::uint32_t n = p_.column_tiles.divmod(p_.rows.divmod(begin, &first), &column);
      const std::uint32_t count = std::min(p_.rows.divisor - first, end - begin);
      begin += count;
      const int i_begin = p_.first_i + static_cast<int>(first);
      const Segment s = {static_cast<int>(n), static_cast<int>(column), i_begin, i_begin + static_cast<int>(count)};
      Memory sums(rows * positions, 0);
      std::size_t slot = 0;
      for (int row = std::max(s.i_begin - (p_.taps_u - 1), 0); row < s.i_end; ++row) {
        multiply_row(s, row, slot == 0 ? 0 : all_slots - slot, &sums);
        for (std::size_t e = 0; e < group; ++e) {
          for (std::size_t j = 0; j < positions; ++j) {
            double& sum = sums[(slot + e) * positions + j];
            if (row >= s.i_begin) store(s, row, static_cast<std::uint32_t>(e), static_cast<int>(j), sum);
            sum = 0;
          }
        }
        slot = slot + group == all_slots ? 0 : slot + group;
      }
    }
  }

  void store(const Segment& s, int i, std::uint32_t e, int j, double sum) {
    const int from = ((p_.first_j + s.column * p_.tile_w) * p_.stride_w - p_.pad_w) * p_.channels;
    const int begin = std::max(from, 0);
    const int end = std::min(from + p_.tile_w * static_cast<int>(p_.class_row.divisor), p_.image_w * p_.channels);
    const std::uint32_t rest = e % p_.class_pitch;
    if (rest >= p_.class_row.divisor) return;  // a row of the product that is nobody's
    const int a = static_cast<int>(e / p_.class_pitch);
    const int h = i * p_.stride_h + a - p_.pad_h;
    const int x = from + j * static_cast<int>(p_.class_row.divisor) + static_cast<int>(rest);
    if (h < 0 || h >= p_.image_h || x < begin || x >= end) return;
    const std::int64_t offset = s.n * p_.xs.n + std::int64_t{h} * p_.xs.h + std::int64_t{x / p_.channels} * p_.xs.w +
                                std::int64_t{x % p_.channels} * p_.xs.c;
    double& to = dx_.at(static_cast<std::size_t>(offset));
    to = case_.alpha * sum + (case_.beta != 0 ? case_.beta * to : 0);
    ++writes_.at(static_cast<std::size_t>(offset));
  }

  const ConvCase& case_;
  const SmallCDgradPlan& plan_;
  const data::Params& p_;
  std::size_t element_bytes_;
  Memory dy_, w_, dx_, filter_;
  std::vector<int> writes_;
};

// What the driver, the instructions and shared memory take.
void expect_invariants(const SmallCDgradPlan& plan) {
  const data::Params& p = plan.params;
  const data::Shape& shape = data::kShapes[plan.shape];
  EXPECT_LE(p.shared_bytes, 227u * 1024);
  EXPECT_GE(p.stages, std::max(2u, p.filter_blocks));
  EXPECT_LE(p.stages, static_cast<std::uint32_t>(data::kMaxStages));
  EXPECT_EQ(p.stage_bytes % data::kAlignment, 0u);
  EXPECT_EQ(p.filter_offset % data::kAlignment, 0u);
  EXPECT_EQ(p.panel_bytes % data::kAlignment, 0u);
  EXPECT_EQ(p.staging_bytes % 16, 0u);
  EXPECT_TRUE(p.class_pitch % 8 == 0 && p.class_pitch >= p.class_row.divisor);
  EXPECT_GE(p.stage_bytes, p.load_bytes);
  EXPECT_TRUE(p.last_steps >= 1 && p.last_steps <= 4);
  EXPECT_TRUE(plan.dy.box[1] >= 1 && plan.dy.box[1] <= 256);
  for (const std::int64_t step : plan.dy.step) EXPECT_EQ(step % 16, 0);
  EXPECT_LE(static_cast<int>(p.warpgroups), shape.most_warpgroups);
  EXPECT_LE(p.tile_w, shape.positions);
  EXPECT_GE(static_cast<std::int64_t>(p.tile_w) * p.column_tiles.divisor, plan.dy.extent[1] > 0 ? 1 : 0);
  // The filter's rows of the last slot's start, and the columns of all positions: inside the block's memory.
  const std::uint32_t start = static_cast<std::uint32_t>((p.taps_u - 1) * p.group);
  EXPECT_LE((start + static_cast<std::uint32_t>(shape.row_blocks) * 64) * data::kRowBytes, p.panel_bytes);
  const std::uint32_t last_stage = data::kBarrierBytes + (p.warpgroups * p.stages - 1) * p.stage_bytes;
  EXPECT_LE(last_stage + static_cast<std::uint32_t>(shape.positions + p.taps_v - 1) * data::kRowBytes, p.shared_bytes);
  // The staging area holds the octets of a slot. A row of dx has its vectors, the first of them up to one element
  // before the tile, the last up to one element of it.
  const std::uint32_t octet =
      std::max(data::halves_octet_bytes(shape.positions), data::floats_octet_bytes(shape.positions));
  EXPECT_LE(static_cast<std::uint32_t>(p.group) / 8 * octet, p.staging_bytes);
  const std::uint32_t vector = 16 / static_cast<std::uint32_t>(tile::element_bytes(plan.type));
  const std::uint32_t elements = static_cast<std::uint32_t>(p.tile_w) * p.class_row.divisor;
  EXPECT_GE(p.row_vectors.divisor * vector, elements + vector - 1);
  EXPECT_TRUE(p.raw_filters > 0 && p.raw_filters % 8 == 0);
  EXPECT_LE(p.raw_filters * p.filter_taps * static_cast<std::uint32_t>(tile::element_bytes(plan.type)),
            p.warpgroups * p.staging_bytes);
  const std::uint32_t last = data::kGuard + (elements + vector - 2) / p.class_row.divisor;
  EXPECT_LE((last + 1) * 16, data::halves_octet_bytes(shape.positions));
  EXPECT_LE((last + last / 4 + 1) * 32, data::floats_octet_bytes(shape.positions));
  EXPECT_LE(p.staging_offset + p.warpgroups * p.staging_bytes, p.shared_bytes);
}

std::string check(const ConvCase& c) {
  if (const char* reason = small_c_dgrad_unsupported_reason(c.problem)) return reason;
  const test::Values values = test::make_values(c);
  std::vector<Candidate> candidates;
  small_c_dgrad_candidates(c.problem, kMultiprocessors, &candidates);
  if (candidates.empty()) return "no candidates";
  int shapes_seen = 0;
  for (const Candidate& candidate : candidates) {
    const int shape = 1 << (candidate.config.tile >> 2);
    SCOPED_TRACE(to_text(c.problem) + ", tile " + std::to_string(candidate.config.tile));
    const auto plan = small_c_dgrad_plan(c.problem, candidate.config, kMultiprocessors);
    if (!plan) return "a candidate without a plan";
    EXPECT_GT(candidate.seconds, 0);
    expect_invariants(*plan);
    if ((shapes_seen & shape) != 0) continue;  // other warpgroups share the rows in other ways, once is enough
    shapes_seen |= shape;
    Emulation emulation(c, values, *plan);
    emulation.run();
    emulation.expect_convolution(values);
    if (testing::Test::HasFailure()) break;
  }
  return {};
}

TEST(SmallCDgradSm90Params, CaseFile) {
  for (ConvCase& c : test::cases_from_file<Problem>("conv/small_c_dgrad.txt", from_text)) {
    if (!c.integers || c.alpha != 1) continue;
    EXPECT_EQ(check(c), "") << to_text(c.problem);
    if (HasFailure()) break;
  }
}

TEST(SmallCDgradSm90Params, RandomProblems) {
  test::check_random_convs(60, &small_c_dgrad_unsupported_reason, [](const ConvCase& c) { EXPECT_EQ(check(c), ""); });
}

// What it must leave to others.
TEST(SmallCDgradSm90Params, Refusals) {
  for (const char* line : {
           "fwd f16 nhwc n1c3h40w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "wgrad f16 nhwc n1c3h40w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "dgrad f32 nhwc n1c3h40w40 k64r7s7 p3x3 t2x2 d1x1 g1 math=fma",
           "dgrad f16 nhwc n1c9h40w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "dgrad f16 nhwc n1c3h40w40 k60r7s7 p3x3 t2x2 d1x1 g1",
           "dgrad f32 nhwc n1c3h40w40 k66r7s7 p3x3 t2x2 d1x1 g1 math=tensor",
           "dgrad f16 nchw n1c3h40w40 k64r7s7 p3x3 t2x2 d1x1 g1",
           "dgrad f16 nhwc n1c3h40w40 k64r3s3 p1x1 t2x2 d2x2 g1",
           "dgrad f16 nhwc n1c4h40w40 k64r3s3 p1x1 t2x2 d1x1 g2",
           "dgrad f16 nhwc n1c3h40w40 k96r11s11 p2x2 t4x4 d1x1 g1",
           "dgrad f16 nhwc n1c3h40w40 k1024r7s7 p3x3 t2x2 d1x1 g1",
           "dgrad f16 nhwc n1c3d8h40w40 k64t3r3s3 p1x1x1 t1x1x1 d1x1x1 g1",
       }) {
    EXPECT_NE(small_c_dgrad_unsupported_reason(test::conv_case(line).problem), nullptr) << line;
  }
}

}  // namespace
}  // namespace gpudnn::conv
