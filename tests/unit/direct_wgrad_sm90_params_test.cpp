// The mapping of convolutions to the Hopper direct filter gradient, evaluated on the host: what TMA brings to
// the rings by the tensor maps, and what the products read there, is compared with the definition.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/direct/direct_wgrad_sm90_params.hpp"

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

namespace direct = kernels::direct_wgrad;
using test::ConvCase;
using test::in_memory;
using test::Memory;

constexpr double kStale = std::numeric_limits<double>::quiet_NaN();
constexpr int kMultiprocessors = 5;

// A box of one row, to consecutive pixels.
void load_row(const TmaBoxes& boxes, const Memory& memory, std::initializer_list<std::int64_t> at, Memory* to,
              std::size_t byte) {
  const Memory box = test::box_of(boxes, memory, at, 2);
  ASSERT_EQ(byte % static_cast<std::size_t>(direct::kOctet * 2 * boxes.box[0]), 0u) << "where the swizzle begins anew";
  ASSERT_LE(byte / 2 + box.size(), to->size());
  std::copy(box.begin(), box.end(), to->begin() + static_cast<std::ptrdiff_t>(byte / 2));
}

struct Part {
  std::int64_t channel, filter, in_group, channels, filters;
  std::int64_t t, r, s, taps_h, taps_w;
};
Part part_of(const direct::Params& p, std::uint32_t number) {
  std::uint32_t s = 0, r = 0, t = 0, channels = 0, filters = 0;
  number = p.tap_parts_w.divmod(number, &s);
  number = p.tap_parts_h.divmod(number, &r);
  number = p.taps_d.divmod(number, &t);
  number = p.channel_parts.divmod(number, &channels);
  const std::int64_t group = p.filter_parts.divmod(number, &filters);
  Part part{};
  part.in_group = channels * std::int64_t{p.part_channels};
  part.channel = group * p.group_channels + part.in_group;
  part.filter = group * p.group_filters + filters * 64;
  part.channels = std::min<std::int64_t>(p.part_channels, p.group_channels - part.in_group);
  part.filters = std::min<std::int64_t>(64, std::int64_t{p.group_filters} - filters * 64);
  part.t = t;
  part.r = r * p.part_rows;
  part.s = s * 3;
  part.taps_h = std::min<std::int64_t>(p.part_rows, p.taps[1] - part.r);
  part.taps_w = std::min<std::int64_t>(3, p.taps[0] - part.s);
  return part;
}

// One block of threads: its rings, filled as far ahead as the kernel's waits allow.
class Block {
 public:
  Block(const DirectWgradPlan& plan, const Memory& x, const Memory& dy, const Part& part, std::uint32_t split)
      : plan_(plan), p_(plan.params), x_(x), dy_(dy), part_(part) {
    unit_ = static_cast<std::uint32_t>(std::uint64_t{p_.units} * split / p_.splits);
    last_ = static_cast<std::uint32_t>(std::uint64_t{p_.units} * (split + 1) / p_.splits);
    shared_.assign(p_.shared_bytes / 2, kStale);
    for (std::size_t i = direct::kRingOffset / 2; i < p_.zero_end / 2; ++i) shared_.at(i) = 0;
    sums_.assign(static_cast<std::size_t>(3 * 64 * 192), 0.0);
  }

  // All of its stages in order, each with what is multiplied when it is there.
  void run() {
    plan_loads();
    std::size_t newest = 0;
    for (const Load& load : loads_) {
      while (filled_ < loads_.size() && filled_ < released_ + p_.stages) fill(loads_[filled_++]);
      ASSERT_LT(newest, filled_) << "the stage that is next waits for itself";
      if (load.dy_pair >= 0) {
        for (std::uint32_t row = 0; row < part_.taps_h; ++row) multiply(load, newest, row);
        ++released_;
      }
      ++newest;
      if (load.ends) released_ += p_.halo_pairs;
    }
    EXPECT_EQ(released_, loads_.size());
  }

  [[nodiscard]] const Memory& sums() const { return sums_; }

 private:
  struct Load {
    std::uint32_t stage = 0;
    std::int64_t pair = 0, dy_pair = -1;
    std::int64_t w = 0, depth = 0, image = 0;
    bool ends = false;
  };

  void plan_loads() {
    while (unit_ < last_) {
      Load load;
      std::uint32_t first = 0, strip = 0, depth = 0;
      load.image = p_.depths.divmod(p_.strips.divmod(p_.pairs.divmod(unit_, &first), &strip), &depth);
      load.depth = depth;
      load.w = std::int64_t{strip} * p_.tile_w;
      const std::uint32_t count = std::min(last_ - unit_, p_.pairs.divisor - first);
      for (std::uint32_t j = 0; j < count + p_.halo_pairs; ++j) {
        load.stage = static_cast<std::uint32_t>(loads_.size() % p_.stages);
        load.pair = first + j;
        load.dy_pair = j < p_.halo_pairs ? -1 : std::int64_t{first} + j - p_.halo_pairs;
        load.ends = j + 1 == count + p_.halo_pairs;
        loads_.push_back(load);
      }
      unit_ += count;
    }
  }

  [[nodiscard]] std::int64_t octets(const Load& load) const {
    return std::min<std::int64_t>(p_.tile_w, p_.out_w - load.w) / 8;
  }
  [[nodiscard]] bool has_rest(const Load& load) const { return p_.out_w - load.w < p_.tile_w && p_.out_w % 8 != 0; }

  [[nodiscard]] std::size_t octet_bytes() const { return std::size_t{8} * 2 * p_.part_channels; }

  void load_x(const Load& load, std::int64_t row, std::size_t slot) {
    const std::size_t byte = direct::kRingOffset + slot * p_.x_row_bytes;
    const std::int64_t w = load.w + part_.s * p_.dilation[0] - p_.pad[0];
    const std::int64_t h = row + part_.r * p_.dilation[1] - p_.pad[1];
    const std::int64_t d = load.depth + part_.t * p_.dilation[2] - p_.pad[2];
    load_row(plan_.x, x_, {part_.channel, w, h, d, load.image}, &shared_, byte);
    if (!has_rest(load)) return;
    for (std::int64_t s = 0; s < part_.taps_w; ++s) {
      load_row(plan_.x_rest, x_, {part_.channel, w + octets(load) * 8 + s * p_.dilation[0], h, d, load.image}, &shared_,
               byte + p_.rest_offset + static_cast<std::size_t>(s) * octet_bytes());
    }
  }

  void fill(const Load& load) {
    for (std::uint32_t i = 0; i < 2; ++i) load_x(load, 2 * load.pair + i, load.stage * 2 + i);
    if (load.stage == 0) load_x(load, 2 * load.pair, std::size_t{p_.stages} * 2);
    if (load.dy_pair < 0) return;
    for (std::uint32_t i = 0; i < 2; ++i) {
      load_row(plan_.dy, dy_, {part_.filter, load.w, 2 * load.dy_pair + i, load.depth, load.image}, &shared_,
               p_.dy_offset + std::size_t{load.stage * 2 + i} * p_.dy_row_bytes);
    }
  }

  // The products of one row of taps.
  void multiply(const Load& load, std::size_t newest, std::uint32_t row) {
    const std::uint32_t ahead = row * static_cast<std::uint32_t>(p_.dilation[1]);
    const std::size_t oldest = newest - p_.halo_pairs;
    const std::size_t slot = (oldest + ahead / 2) % p_.stages;
    const std::size_t x = direct::kRingOffset + (2 * slot + ahead % 2) * p_.x_row_bytes;
    const bool single = p_.last_row_is_single && load.dy_pair + 1 == p_.pairs.divisor;
    const std::size_t stride = single ? p_.zero_offset - x : p_.x_row_bytes;
    EXPECT_LT(x, p_.zero_offset);
    const std::size_t dy = p_.dy_offset + std::size_t{load.stage} * 2 * p_.dy_row_bytes;
    const std::size_t width = p_.part_channels;
    const std::size_t pixel = 2 * width;
    const std::int64_t all = octets(load) + (has_rest(load) ? 1 : 0);
    for (std::int64_t octet = 0; octet < all; ++octet) {
      const bool rest = octet == octets(load);
      const std::size_t leading = rest ? octet_bytes() : static_cast<std::size_t>(p_.dilation[0]) * pixel;
      const std::size_t x_first = x + (rest ? p_.rest_offset : static_cast<std::size_t>(octet) * octet_bytes());
      for (std::size_t k = 0; k < 16; ++k) {
        const std::size_t dy_pixel =
            dy + static_cast<std::size_t>(octet) * 1024 + k / 8 * p_.dy_row_bytes + k % 8 * 128;
        const std::size_t x_pixel = x_first + k / 8 * stride + k % 8 * pixel;
        for (std::size_t m = 0; m < 64; ++m) {
          const double gradient = shared_.at(dy_pixel / 2 + m);
          for (std::size_t n = 0; n < static_cast<std::size_t>(part_.taps_w) * width; ++n) {
            sums_[(row * 64 + m) * 192 + n] += gradient * shared_.at((x_pixel + n / width * leading) / 2 + n % width);
          }
        }
      }
    }
  }

  const DirectWgradPlan& plan_;
  const direct::Params& p_;
  const Memory& x_;
  const Memory& dy_;
  Part part_;
  std::uint32_t unit_ = 0, last_ = 0;
  std::vector<Load> loads_;
  std::size_t filled_ = 0, released_ = 0;
  Memory shared_;
  Memory sums_;
};

// Adds a block's sums to dw where the kernel's second one does.
void add_sums(const direct::Params& p, const Part& part, const Memory& sums, test::FilterSums* dw) {
  for (std::int64_t row = 0; row < part.taps_h; ++row) {
    for (std::int64_t k = 0; k < part.filters; ++k) {
      for (std::int64_t s = 0; s < part.taps_w; ++s) {
        for (std::int64_t c = 0; c < part.channels; ++c) {
          const std::int64_t tap[3] = {part.s + s, part.r + row, part.t};
          std::int64_t at = (part.filter + k) * p.step_k + (part.in_group + c) * p.step_c;
          for (int a = 0; a < 3; ++a) at += (p.mirrored ? p.taps[a] - 1 - tap[a] : tap[a]) * p.step_tap[a];
          dw->add(at, sums[static_cast<std::size_t>((row * 64 + k) * 192 + s * p.part_channels + c)]);
        }
      }
    }
  }
}

void expect_convolution(const ConvCase& c, const test::Values& values, const DirectWgradPlan& plan) {
  const direct::Params& p = plan.params;
  const Memory x = in_memory(c.problem.x, values.x);
  const Memory dy = in_memory(c.problem.y, values.y);
  test::FilterSums dw(c, values);
  for (std::uint32_t number = 0; number < p.parts.divisor * p.splits; ++number) {
    std::uint32_t part_number = 0;
    const std::uint32_t split = p.parts.divmod(number, &part_number);
    const Part part = part_of(p, part_number);
    Block block(plan, x, dy, part, split);
    block.run();
    if (testing::Test::HasFatalFailure()) return;
    add_sums(p, part, block.sums(), &dw);
  }
  dw.expect_convolution(p.splits);
}

// What the driver, the instructions and shared memory take.
void expect_invariants(const DirectWgradPlan& plan) {
  const direct::Params& p = plan.params;
  EXPECT_LE(p.shared_bytes, 227u * 1024);
  EXPECT_GE(p.stages, p.halo_pairs + 2);
  EXPECT_LE(p.stages, static_cast<std::uint32_t>(direct::kMaxStages));
  EXPECT_EQ(p.x_row_bytes % (16 * p.part_channels), 0u);
  EXPECT_EQ(p.dy_row_bytes % direct::kAlignment, 0u);
  EXPECT_EQ(p.rest_offset % (16 * p.part_channels), 0u);
  EXPECT_EQ(p.dy_offset % direct::kAlignment, 0u);
  EXPECT_LE(p.zero_end, p.dy_offset);
  EXPECT_LE((p.part_rows - 1) * static_cast<std::uint32_t>(p.dilation[1]), 2 * p.halo_pairs);
  EXPECT_LE(3 * (p.x_box_bytes + 3 * p.rest_box_bytes) + 2 * p.dy_row_bytes, 1u << 20) << "a barrier counts no more";
  EXPECT_TRUE(plan.x.box[1] >= 1 && plan.x.box[1] <= 256 && plan.dy.box[1] >= 8 && plan.dy.box[1] <= 256);
  EXPECT_EQ(plan.x.box[0], static_cast<std::int32_t>(p.part_channels));
  for (int a = 0; a < 4; ++a) {
    EXPECT_EQ(plan.x.step[a] % 16, 0);
    EXPECT_EQ(plan.dy.step[a] % 16, 0);
  }
}

constexpr test::Planner<DirectWgradPlan> kPlanner = {&direct_wgrad_candidates, &direct_wgrad_plan,
                                                     &direct_wgrad_workspace};

void check(const ConvCase& c) {
  test::check_plans(kPlanner, c, kMultiprocessors, [&](const test::Values& values, const DirectWgradPlan& plan) {
    expect_invariants(plan);
    expect_convolution(c, values, plan);
  });
}

TEST(DirectWgradSm90Params, RowsStripsAndParts) {
  for (const char* line : {
           "wgrad f16 nhwc n2c16h8w8 k16r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n9c8h20w16 k8r3s3 p1x1 t1x1 d1x1 g1 flip",
           "wgrad f16 nhwc n5c8h9w9 k8r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n5c8h7w7 k16r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c8h5w100 k8r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n1c8h5w301 k8r3s3 p1x0 t1x1 d1x1 g1",
           "wgrad f16 nhwc n1c72h5w8 k136r2s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c8h9w12 k8r5s5 p2x2 t1x1 d1x1 g1 flip",
           "wgrad f16 nhwc n2c8h9w12 k8r4s7 p2x2 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c8h19w12 k8r1s3 p0x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c8h19w12 k8r7s1 p3x0 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c8h5w6 k8r3s3 p4x5 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c8h19w17 k8r3s3 p2x2 t1x1 d2x2 g1",
           "wgrad f16 nhwc n2c8h23w17 k8r3s3 p3x5 t1x1 d3x5 g1",
           "wgrad f16 nhwc n2c32h6w9 k48r3s3 p1x1 t1x1 d1x1 g2",
           "wgrad f16 nhwc n1c8d4h5w6 k8t3r3s3 p1x1x1 t1x1x1 d1x1x1 g1 flip",
           "wgrad f16 nhwc n5c8w45 k8s3 p1 t1 d1 g1",
           "wgrad f16 strides=2560,1,160,16 n2c8h12w10 k16r3s3 p1x1 t1x1 d1x1 g1 w:nchw y:nhwc",
       }) {
    ConvCase c = test::conv_case(line);
    ASSERT_EQ(direct_wgrad_unsupported_reason(c.problem), nullptr) << line;
    check(c);
  }
}

TEST(DirectWgradSm90Params, RandomProblems) {
  test::check_random_convs(30, &direct_wgrad_unsupported_reason, [](const ConvCase& c) { check(c); });
}

// What it must leave to others.
TEST(DirectWgradSm90Params, Refusals) {
  for (const char* line : {
           "fwd f16 nhwc n2c16h8w8 k16r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f32 nhwc n2c16h8w8 k16r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "wgrad f16 nhwc n2c16h8w8 k16r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma",
           "wgrad f16 nchw n2c16h8w8 k16r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c16h8w8 k16r3s3 p1x1 t2x1 d1x1 g1",
           "wgrad f16 nhwc n2c16h8w8 k16r1s1 p0x0 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c12h8w8 k16r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c16h8w8 k12r3s3 p1x1 t1x1 d1x1 g1",
           "wgrad f16 nhwc n2c24h8w8 k16r3s3 p1x1 t1x1 d1x1 g2",
           "wgrad f16 nhwc n2c16h80w8 k16r3s3 p40x1 t1x1 d40x1 g1",
           "wgrad f16 nhwc n2c16h8w400 k16r3s3 p1x130 t1x1 d1x130 g1",
           "wgrad f16 nhwc n1c4096h8w8 k4104r3s3 p1x1 t1x1 d1x1 g1",
       }) {
    EXPECT_NE(direct_wgrad_unsupported_reason(test::conv_case(line).problem), nullptr) << line;
  }
}

// The layer that the engine is for: a strip is a row of the image, and the rings hold several pairs of them.
TEST(DirectWgradSm90Params, WholeRows) {
  const ConvCase c = test::conv_case("wgrad f16 nhwc n256c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1");
  std::vector<Candidate> candidates;
  direct_wgrad_candidates(c.problem, 132, &candidates);
  ASSERT_FALSE(candidates.empty());
  EXPECT_EQ(candidates[0].config.split_k, 132);
  const auto plan = direct_wgrad_plan(c.problem, candidates[0].config, 132);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->params.tile_w, 56u);
  EXPECT_GE(plan->params.stages, 6u);
  EXPECT_FALSE(plan->has_rest);
}

}  // namespace
}  // namespace gpudnn::conv
