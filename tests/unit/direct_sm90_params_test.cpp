// The mapping of convolutions to the Hopper direct convolution, evaluated on the host: what TMA brings by the
// tensor map, and what the kernel makes of it, is compared with the definition of convolution.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/direct/direct_sm90_params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

namespace direct = kernels::direct;
using test::ConvCase;
using test::in_memory;
using test::Memory;

constexpr double kStale = std::numeric_limits<double>::quiet_NaN();

class Emulation {
 public:
  Emulation(const ConvCase& c, const test::Values& values, const DirectPlan& plan)
      : case_(c),
        plan_(plan),
        p_(plan.params),
        is_f32_(plan.type == direct::ElementType::f32),
        element_(is_f32_ ? 4 : 2),
        rows_(p_.m_octets * static_cast<std::size_t>(16 / element_)) {
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
    const int positions = direct::kShapes[plan_.shape].positions;
    for (std::uint32_t all = 0; all < p_.row_blocks.divisor; ++all) {
      std::uint32_t row_block = 0;
      group_ = p_.group_parts.divmod(all, &row_block);
      if (is_f32_) {
        load_filter_f32(row_block);
      } else {
        load_filter(row_block);
      }
      for (std::uint32_t index = 0; index < p_.tiles; ++index) {
        std::uint32_t w = 0;
        std::uint32_t h = 0;
        std::uint32_t d = 0;
        const std::uint32_t n = p_.depths.divmod(p_.tiles_h.divmod(p_.tiles_w.divmod(index, &w), &h), &d);
        const std::int64_t tile[4] = {std::int64_t{w} * p_.tile_w, std::int64_t{h} * p_.tile_h, d, n};
        store(row_block, tile, multiply(tile, positions));
      }
    }
  }

  void expect_convolution(const test::Values& values) const {
    test::expect_convolution(case_, values, result_, writes_);
  }

 private:
  // Of the core matrices: element [m][k] of a tap, before the transposition where there is one.
  [[nodiscard]] std::size_t place(std::uint32_t tap, std::uint32_t k_octet, std::uint32_t m_octet,
                                  std::size_t row) const {
    return ((std::size_t{tap} * p_.k_octets + k_octet) * p_.m_octets + m_octet) * 64 + row * 8;
  }

  void load_filter(std::uint32_t row_block) {
    const std::size_t cores = std::size_t{p_.all_taps} * p_.k_octets * p_.m_octets;
    shared_filter_.assign(cores * 64, kStale);
    for (std::uint32_t item = 0; item < p_.filter_items; ++item) {
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        std::uint32_t quad = 0;
        const std::uint32_t filter_octet = p_.filter_quads.divmod(item, &quad);
        const std::uint32_t channel_octet = quad * 4 + lane / 8;
        if (channel_octet >= (p_.transposed ? p_.m_octets : p_.k_octets)) continue;
        const std::uint32_t m = p_.transposed ? channel_octet : filter_octet;
        const std::uint32_t k = p_.transposed ? filter_octet : channel_octet;
        const std::uint32_t first_m = row_block * p_.m_octets;
        const std::uint32_t channel = channel_octet + (p_.transposed ? first_m : 0);
        const std::uint32_t filter = (filter_octet + (p_.transposed ? 0 : first_m)) * 8 + lane % 8;
        const bool exists = channel < p_.filter_channels && filter < p_.filter_count;
        for (std::uint32_t tap = 0; tap < p_.all_taps; ++tap) {
          const std::uint32_t number = p_.mirrored ? p_.all_taps - 1 - tap : tap;
          const std::size_t from = static_cast<std::size_t>(group_ * p_.group_filter_bytes / 2) +
                                   ((std::size_t{filter} * p_.all_taps + number) * p_.filter_channels + channel) * 8;
          for (std::size_t i = 0; i < 8; ++i) {
            shared_filter_.at(place(tap, k, m, lane % 8) + i) = exists ? filter_.at(from + i) : 0;
          }
        }
      }
    }
    if (!p_.transposed) return;
    for (std::size_t core = 0; core < cores; ++core) {
      for (std::size_t i = 0; i < 8; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          std::swap(shared_filter_[core * 64 + i * 8 + j], shared_filter_[core * 64 + j * 8 + i]);
        }
      }
    }
  }

  // Of f32: blocks of 64 rows of 32, swizzled by 16 bytes over 128.
  static std::size_t swizzled(std::size_t row, std::size_t column) {
    return row * 32 + ((column / 4) ^ (row % 8)) * 4 + column % 4;
  }

  // A box of 32 channels of 32 filters, at this channel, tap and filter.
  void load_filter_box(double* to, std::int64_t channel, std::int64_t tap, std::int64_t filter) const {
    const Memory box = test::box_of(plan_.filter, filter_, {channel, tap, filter}, 4);
    for (std::size_t i = 0; i < box.size(); ++i) to[swizzled(i / 32, i % 32)] = box[i];
  }

  void load_filter_f32(std::uint32_t row_block) {
    const std::size_t block = direct::kFilterBlockBytes / 4;
    shared_filter_.assign(std::size_t{p_.all_taps} * p_.k_blocks * block, kStale);
    const std::int64_t first_m = std::int64_t{row_block} * p_.m_octets * 4;
    for (std::uint32_t tap = 0; tap < p_.all_taps; ++tap) {
      for (std::uint32_t k_block = 0; k_block < p_.k_blocks; ++k_block) {
        const std::int64_t number = p_.mirrored ? p_.all_taps - 1 - tap : tap;
        for (std::int64_t half = 0; half < 2; ++half) {
          double* const box = &shared_filter_[(std::size_t{tap} * p_.k_blocks + k_block) * block +
                                              static_cast<std::size_t>(half) * block / 2];
          const std::int64_t m = first_m + 32 * half;
          const std::int64_t k = std::int64_t{k_block} * 32;
          load_filter_box(box, p_.transposed ? m : k, number, p_.transposed ? k : m);
          if (p_.transposed) transpose(box);
        }
      }
    }
  }

  // As the lanes of a warp do: each reads a column, then each writes it as a row.
  static void transpose(double* box) {
    double column[32][32];
    for (std::size_t lane = 0; lane < 32; ++lane) {
      for (std::size_t k = 0; k < 32; ++k) column[lane][k] = box[k * 32 + ((lane / 4) ^ (k % 8)) * 4 + lane % 4];
    }
    for (std::size_t lane = 0; lane < 32; ++lane) {
      for (std::size_t k = 0; k < 32; ++k) box[lane * 32 + ((k / 4) ^ (lane % 8)) * 4 + k % 4] = column[lane][k];
    }
  }

  // What a product finds: step number `step` along k, of as many k as are 32 bytes.
  [[nodiscard]] double factor(std::uint32_t tap, std::uint32_t step, std::uint32_t k, std::size_t m) const {
    if (!is_f32_)
      return shared_filter_.at(place(tap, 2 * step + k / 8, static_cast<std::uint32_t>(m / 8), m % 8) + k % 8);
    const std::size_t block = direct::kFilterBlockBytes / 4;
    return shared_filter_.at((std::size_t{tap} * p_.k_blocks + step / 4) * block + swizzled(m, step % 4 * 8 + k));
  }

  // sums[m][position], by the walk over filter and patch that the kernel makes.
  [[nodiscard]] Memory multiply(const std::int64_t (&tile)[4], int positions) const {
    const std::size_t rows = rows_;
    const auto step_channels = static_cast<std::uint32_t>(32 / element_);
    Memory sums(rows * static_cast<std::size_t>(positions), 0.0);
    for (std::uint32_t t = 0; t < p_.taps[2]; ++t) {
      for (std::uint32_t block = 0; block < p_.channel_blocks; ++block) {
        const Memory patch =
            test::box_of(plan_.input, input_,
                         {std::int64_t{group_} * p_.group_channels + block * p_.block_channels, tile[0] + p_.corner[0],
                          tile[1] + p_.corner[1], tile[2] + p_.corner[2] + t, tile[3]},
                         element_);
        EXPECT_EQ(patch.size() * static_cast<std::size_t>(element_), p_.load_bytes);
        const std::uint32_t steps = block + 1 == p_.channel_blocks ? p_.last_steps : p_.block_steps;
        for (std::uint32_t tap = 0; tap < p_.taps[0] * p_.taps[1]; ++tap) {
          const std::size_t shift = std::size_t{tap / p_.taps[0]} * p_.pitch.divisor + tap % p_.taps[0];
          for (std::uint32_t k = 0; k < steps * step_channels; ++k) {
            const std::uint32_t step = block * p_.block_steps + k / step_channels;
            for (std::size_t m = 0; m < rows; ++m) {
              const double f = factor(t * p_.taps[0] * p_.taps[1] + tap, step, k % step_channels, m);
              if (f == 0) continue;
              for (std::size_t i = 0; i < static_cast<std::size_t>(positions); ++i) {
                const std::size_t from = (i + shift) * p_.block_channels + k;
                sums[m * static_cast<std::size_t>(positions) + i] += f * (from < patch.size() ? patch[from] : kStale);
              }
            }
          }
        }
      }
    }
    return sums;
  }

  // The number of the tile's pixel at a position, as the kernel finds it.
  [[nodiscard]] std::size_t pixel_at(std::size_t position) const {
    const std::size_t pitch = p_.pitch.divisor;
    const std::size_t row = position / pitch;
    const std::size_t column = position % pitch;
    const auto width = static_cast<std::size_t>(p_.tile_w);
    const auto height = static_cast<std::size_t>(p_.tile_h);
    if (row >= height) return position;
    return column < width ? row * width + column : height * width + row * (pitch - width) + column - width;
  }

  void store(std::uint32_t row_block, const std::int64_t (&tile)[4], const Memory& sums) {
    const auto positions = static_cast<std::size_t>(direct::kShapes[plan_.shape].positions);
    const std::size_t rows = rows_;
    Memory staging(positions * rows, kStale);
    for (std::size_t position = 0; position < positions; ++position) {
      const std::size_t pixel = pixel_at(position);
      ASSERT_LT(pixel, positions);
      for (std::size_t m = 0; m < rows; ++m) staging[pixel * rows + m] = sums[m * positions + position];
    }
    const TmaBoxes& map = plan_.output;
    ASSERT_TRUE(map.box[0] == static_cast<std::int32_t>(rows) && map.box[1] == p_.tile_w && map.box[2] == p_.tile_h);
    const std::int64_t first = group_ * (p_.all_m_octets * 16 / element_) + row_block * static_cast<std::int64_t>(rows);
    for (std::int64_t h = tile[1]; h < std::min(tile[1] + p_.tile_h, map.extent[2]); ++h) {
      for (std::int64_t w = tile[0]; w < std::min(tile[0] + p_.tile_w, map.extent[1]); ++w) {
        for (std::int64_t m = first; m < std::min(first + map.box[0], map.extent[0]); ++m) {
          const auto offset = [&](const std::int64_t(&step)[4]) {
            return static_cast<std::size_t>(
                (w * step[0] + h * step[1] + tile[2] * step[2] + tile[3] * step[3]) / element_ + m);
          };
          const std::int64_t pixel = (h - tile[1]) * p_.tile_w + w - tile[0];
          double value =
              case_.alpha * staging.at(static_cast<std::size_t>(pixel) * rows + static_cast<std::size_t>(m - first));
          if (addend_scale_ != 0) value += addend_scale_ * addend_.at(offset(p_.addend_step));
          if (p_.has_bias) value += bias_.at(static_cast<std::size_t>(m));
          if (p_.activation.mode != kernels::gemm::Activation::identity) {
            value = test::activation_at(case_.problem.activation, case_.coef, value).f;
          }
          result_.at(offset(is_f32_ ? p_.out_step : map.step)) = value;
          ++writes_.at(offset(is_f32_ ? p_.out_step : map.step));
        }
      }
    }
  }

  const ConvCase& case_;
  const DirectPlan& plan_;
  const direct::Params& p_;
  std::uint32_t group_ = 0;
  bool is_f32_;
  std::int64_t element_;  // bytes
  std::size_t rows_;      // channels of a block
  Memory input_, filter_, shared_filter_, addend_, result_, bias_;
  double addend_scale_ = 0;
  std::vector<int> writes_;
};

// What the driver, the instructions and shared memory take.
void expect_invariants(const DirectPlan& plan) {
  const direct::Params& p = plan.params;
  EXPECT_LE(p.shared_bytes, 227u * 1024);
  EXPECT_GE(p.stages.divisor, 2u);
  EXPECT_LE(p.stages.divisor, static_cast<std::uint32_t>(direct::kMaxStages));
  EXPECT_EQ(p.stage_bytes % direct::kAlignment, 0u);
  EXPECT_GE(p.stage_bytes, p.load_bytes);
  const bool is_f32 = plan.type == direct::ElementType::f32;
  EXPECT_LE(p.m_octets, is_f32 ? 16u : 8u);
  EXPECT_EQ(p.k_octets % 2, 0u);
  EXPECT_EQ(plan.input.box[0] * (is_f32 ? 4 : 2), static_cast<std::int32_t>(p.position_bytes));
  EXPECT_EQ(p.filter_offset % direct::kAlignment, 0u);
  EXPECT_LE(p.k_blocks, is_f32 ? static_cast<std::uint32_t>(direct::kMaxFilterBlocks) : p.k_blocks);
  for (const TmaBoxes* map : {&plan.input, &plan.output}) {
    for (int i = 1; i < 5; ++i) {
      EXPECT_TRUE(map->box[i] >= 1 && map->box[i] <= 256);
      EXPECT_EQ(map->step[i - 1] % 16, 0);
    }
  }
  EXPECT_EQ(p.staging_offset % direct::kAlignment, 0u);
  EXPECT_EQ(p.staging_bytes % direct::kAlignment, 0u);
  // Products read positions beyond the last patch and rows beyond the filter: all inside the block's memory.
  const std::uint32_t positions = static_cast<std::uint32_t>(direct::kShapes[plan.shape].positions);
  const std::uint32_t last_patch = direct::kBarrierBytes + (p.stages.divisor - 1) * p.stage_bytes;
  const std::uint32_t farthest = (p.taps[1] - 1) * p.pitch.divisor + p.taps[0] - 1 + positions;
  EXPECT_LE(last_patch + farthest * p.position_bytes, p.shared_bytes);
  const std::uint32_t filter_bytes =
      p.all_taps * (is_f32 ? p.k_blocks * direct::kFilterBlockBytes : p.k_octets * p.m_octets * direct::kCoreBytes);
  EXPECT_LE(p.filter_offset + filter_bytes + (is_f32 ? 0 : (8 - p.m_octets) * 256), p.shared_bytes);
  EXPECT_LE((p.tile_h - 1) * static_cast<int>(p.pitch.divisor) + p.tile_w, static_cast<int>(positions));
}

std::string check(const ConvCase& c) {
  if (direct_unsupported_reason(c.problem) != nullptr) return "not taken";
  const test::Values values = test::make_values(c);
  for (int i = 0; i < direct::kShapeCount; ++i) {
    SCOPED_TRACE(to_text(c.problem) + ", shape " + std::to_string(i));
    const auto plan = direct_plan(c.problem, {i, 1}, test::h200());
    if (!plan) continue;
    expect_invariants(*plan);
    Emulation emulation(c, values, *plan);
    emulation.run();
    emulation.expect_convolution(values);
    if (testing::Test::HasFailure()) break;
  }
  return {};
}

TEST(DirectSm90Params, TilesAndTaps) {
  for (const char* line : {
           "fwd f16 nhwc n2c64h9w11 k64r3s3 p1x1 t1x1 d1x1 g1",
           "fwd f16 nhwc n1c24h9w11 k144r3s3 p1x1 t1x1 d1x1 g1",
           "fwd f16 nhwc n1c72h5w30 k40r3s3 p1x1 t1x1 d1x1 g1",
           "dgrad f16 nhwc n2c32h9w11 k64r3s3 p1x1 t1x1 d1x1 g1",
           "dgrad f16 nhwc n1c72h9w11 k24r3s3 p0x2 t1x1 d1x1 g1",
           "dgrad f16 nhwc n1c16h8w10 k16r3s3 p4x3 t1x1 d1x1 g1",
           "fwd f16 nhwc n1c16h13w17 k16r2s4 p1x1 t1x1 d1x1 g1",
           "fwd f16 nhwc n1c16w700 k8s3 p1 t1 d1 g1",
           "fwd f16 nhwc n2c16d5h6w7 k16t3r3s3 p1x1x1 t1x1x1 d1x1x1 g1",
           "dgrad f16 nhwc n2c16d5h6w7 k16t3r2s3 p1x0x1 t1x1x1 d1x1x1 g1",
           "fwd f16 nhwc n2c144d7h6w9 k64t3r1s1 p1x0x0 t1x1x1 d1x1x1 g1",
           "fwd f16 nhwc n1c8h300w3 k8r3s3 p1x1 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c16h5w5 k24r3s3 p1x1 t1x1 d1x1 g1 act=relu bias z",
       }) {
    EXPECT_EQ(check(test::conv_case(line)), "") << line;
  }
}

TEST(DirectSm90Params, Groups) {
  for (const char* line : {
           "fwd f16 nhwc n3c64h7w7 k64r3s3 p1x1 t1x1 d1x1 g2",
           "dgrad f16 nhwc n3c64h7w7 k64r3s3 p1x1 t1x1 d1x1 g2",
           "fwd f16 nhwc n2c48h9w11 k96r3s3 p1x1 t1x1 d1x1 g3",
           "dgrad f16 nhwc n2c96h9w11 k48r3s3 p1x1 t1x1 d1x1 g3",
           "fwd f16 nhwc n1c128h5w7 k256r3s3 p1x1 t1x1 d1x1 g2",
           "dgrad f16 nhwc n1c384h5w7 k128r3s3 p1x1 t1x1 d1x1 g2",
           "fwd f16 nhwc n1c256h5w7 k32r1s3 p1x1 t1x1 d1x1 g2 act=relu bias z",
       }) {
    EXPECT_EQ(check(test::conv_case(line)), "") << line;
  }
}

TEST(DirectSm90Params, Tf32) {
  for (const char* line : {
           "fwd f32 nhwc n2c64h9w11 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "fwd f32 nhwc n1c4h9w11 k4r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "fwd f32 nhwc n1c20h9w11 k76r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "fwd f32 nhwc n1c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "fwd f32 nhwc n1c72h5w30 k40r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "dgrad f32 nhwc n2c64h9w11 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "dgrad f32 nhwc n1c76h9w11 k20r3s3 p0x2 t1x1 d1x1 g1 acc=f32 math=tensor",
           "dgrad f32 nhwc n1c8h8w10 k36r3s3 p4x3 t1x1 d1x1 g1 acc=f32 math=tensor",
           "fwd f32 nhwc n1c16h13w17 k16r2s4 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "fwd f32 nhwc n1c16w700 k8s3 p1 t1 d1 g1 acc=f32 math=tensor",
           "dgrad f32 nhwc n2c16d5h6w7 k16t3r2s3 p1x0x1 t1x1x1 d1x1x1 g1 acc=f32 math=tensor",
           "fwd f32 nhwc n2c144d7h6w9 k64t3r1s1 p1x0x0 t1x1x1 d1x1x1 g1 acc=f32 math=tensor",
           "fwd f32 nhwc n2c16h5w5 k24r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor act=relu bias z",
       }) {
    EXPECT_EQ(check(test::conv_case(line)), "") << line;
  }
}

TEST(DirectSm90Params, RandomProblems) {
  test::check_random_convs(30, &direct_unsupported_reason, [](const ConvCase& c) { EXPECT_EQ(check(c), ""); });
}

// What it must leave to others.
TEST(DirectSm90Params, Refusals) {
  for (const char* line : {
           "wgrad f16 nhwc n2c64h9w11 k64r3s3 p1x1 t1x1 d1x1 g1",
           "fwd f32 nhwc n2c64h9w11 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=default",
           "fwd f32 nhwc n2c62h9w11 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "fwd f32 nhwc n2c128h9w11 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "fwd f64 nhwc n2c64h9w11 k64r3s3 p1x1 t1x1 d1x1 g1",
           "fwd f16 nchw n2c64h9w11 k64r3s3 p1x1 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c64h9w11 k64r1s1 p0x0 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c64h9w11 k64r3s3 p1x1 t2x1 d1x1 g1",
           "fwd f16 nhwc n2c64h9w11 k64r3s3 p1x1 t1x1 d1x2 g1",
           "fwd f16 nhwc n2c16h9w11 k16r3s3 p1x1 t1x1 d1x1 g2",
           "fwd f16 nhwc n2c96h9w11 k96r3s3 p1x1 t1x1 d1x1 g2",
           "fwd f16 nhwc n2c64h9w11 k48r3s3 p1x1 t1x1 d1x1 g2",
           "fwd f32 nhwc n2c64h9w11 k64r3s3 p1x1 t1x1 d1x1 g2 acc=f32 math=tensor",
           "fwd f16 nhwc n2c60h9w11 k64r3s3 p1x1 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c64h9w11 k60r3s3 p1x1 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c256h9w11 k256r3s3 p1x1 t1x1 d1x1 g1",
           "fwd f16 nhwc n2c64h9w11 k64r3s3 p1x1 t1x1 d1x1 g1 act=tanh bias scale",
       }) {
    EXPECT_NE(direct_unsupported_reason(test::conv_case(line).problem), nullptr) << line;
  }
}

}  // namespace
}  // namespace gpudnn::conv
