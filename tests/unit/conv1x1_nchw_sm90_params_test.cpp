// The mapping of pointwise convolutions to the Hopper kernels on planes, evaluated on the host: what TMA
// brings by the tensor maps, and what the kernels make of it, is compared with the definition of convolution. And the
// TF32 kernel's map of shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/conv1x1/conv1x1_nchw_sm90_params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "support/conv_emulation.hpp"
#include "support/naive.hpp"
#include "support/sweep.hpp"

namespace gpudnn::conv {
namespace {

namespace planes = kernels::sm90::planes;
using planes::Kind;
using test::ConvCase;
using test::in_memory;
using test::kGap;
using test::Memory;

class Emulation {
 public:
  Emulation(const ConvCase& c, const test::Values& values, const PlanesPlan& plan)
      : case_(c),
        values_(values),
        plan_(plan),
        p_(plan.params),
        shape_(planes::kTileShapes[plan.shape]),
        element_(tile::element_bytes(plan.type)),
        chunk_(static_cast<int>(kernels::sm90::kRowBytes / element_)),
        out_(in_memory(output(c.problem), values.out)),
        writes_(out_.size(), 0) {
    const bool by_data = c.problem.direction == Direction::dgrad;
    // Threads go by steps where TMA has a map.
    const std::int64_t images = c.problem.x.dims[0];
    const bool along = shape_.kind == Kind::along;
    in_map_ =
        plan.in_has_map ? plan.in : PlaneMap{{p_.pixels, p_.in_planes, images}, {p_.in_step[0], p_.in_step[1]}, 0};
    const auto& out_step = along ? p_.out_step : p_.c_step;
    out_map_ =
        plan.out_has_map ? plan.out : PlaneMap{{p_.pixels, p_.out_planes, images}, {out_step[0], out_step[1]}, 0};
    in_ = by_data ? in_memory(c.problem.y, values.y) : in_memory(c.problem.x, values.x);
    if (shape_.kind == Kind::along) rows_ = in_memory(c.problem.y, values.y);
    if (plan.has_filter) filter_ = copied(in_memory(c.problem.w, values.w));
  }

  void run() {
    const std::uint32_t works = p_.works.divisor * p_.splits;
    const auto cluster = static_cast<std::uint32_t>(shape_.cluster);
    const std::uint32_t tiles = p_.works.divisor * cluster;
    std::vector<Memory> sums(tiles, Memory(static_cast<std::size_t>(shape_.bm * shape_.bn), 0.0));
    for (std::uint32_t index = 0; index < works; ++index) {
      std::uint32_t tile = 0;
      const std::uint32_t split = p_.works.divmod(index, &tile);
      const std::uint32_t begin = std::min(split * p_.k_blocks_per_split, p_.k_blocks);
      const std::uint32_t end = std::min(begin + p_.k_blocks_per_split, p_.k_blocks);
      for (std::uint32_t k = begin; k < end; ++k) {
        for (std::uint32_t rank = 0; rank < cluster; ++rank) {
          multiply(tile * cluster + rank, k, &sums[tile * cluster + rank]);
        }
      }
    }
    for (std::uint32_t tile = 0; tile < tiles; ++tile) store(tile, sums[tile]);
  }

  void expect_convolution() const { test::expect_convolution(case_, values_, out_, writes_); }

 private:
  // The filter as its tensor map sees it.
  [[nodiscard]] Memory copied(const Memory& from) const {
    if (!plan_.copies_filter) return from;
    const FilterCopy& copy = plan_.copy;
    Memory to(static_cast<std::size_t>(copy.rows * copy.pitch), kGap);
    EXPECT_LE(to.size() * static_cast<std::size_t>(element_), plan_.filter_bytes);
    for (std::int64_t r = 0; r < copy.rows; ++r) {
      for (std::int64_t c = 0; c < copy.columns; ++c) {
        to[static_cast<std::size_t>(r * copy.pitch + c)] =
            from.at(static_cast<std::size_t>(r * copy.row_step + c * copy.column_step));
      }
    }
    return to;
  }

  [[nodiscard]] std::int64_t offset_in(const PlaneMap& map, std::int64_t x, std::int64_t y, std::int64_t z) const {
    const bool exists = x >= 0 && x < map.dims[0] && y >= 0 && y < map.dims[1] && z >= 0 && z < map.dims[2];
    return exists ? (y * map.steps[0] + z * map.steps[1]) / element_ + x : -1;
  }
  [[nodiscard]] double element(const PlaneMap& map, const Memory& memory, std::int64_t x, std::int64_t y,
                               std::int64_t z) const {
    const std::int64_t offset = offset_in(map, x, y, z);
    return offset < 0 ? 0.0 : memory.at(static_cast<std::size_t>(offset));
  }

  struct Chunk {
    std::int64_t pixel, image;
  };
  [[nodiscard]] Chunk chunk_at(std::uint32_t index) const {
    std::uint32_t inside = 0;
    const std::uint32_t image = p_.chunks_of_image.divmod(index, &inside);
    return {std::int64_t{inside} * chunk_, image};
  }

  // The first row and column of a tile.
  struct Corner {
    std::uint32_t m, n;
  };
  [[nodiscard]] Corner corner_of(std::uint32_t tile) const {
    std::uint32_t inner = 0;
    const auto cluster = static_cast<std::uint32_t>(shape_.cluster);
    const std::uint32_t outer = p_.inner_tiles.divmod(tile / cluster, &inner);
    inner = inner * cluster + tile % cluster;
    return {(shape_.kind == Kind::across ? inner : outer) * static_cast<std::uint32_t>(shape_.bm),
            (shape_.kind == Kind::across ? outer : inner) * static_cast<std::uint32_t>(shape_.bn)};
  }

  // Rows and columns of the tile, and the block k of the sum.
  void multiply(std::uint32_t tile, std::uint32_t k, Memory* sum) const {
    const auto [m, n] = corner_of(tile);
    const auto depth = static_cast<std::uint32_t>(chunk_);
    Memory a(static_cast<std::size_t>(shape_.bm * chunk_));
    Memory b(static_cast<std::size_t>(shape_.bn * chunk_));
    const auto fill = [&](Memory* operand, int count, auto value) {
      for (int i = 0; i < count; ++i) {
        for (int j = 0; j < chunk_; ++j) {
          (*operand)[static_cast<std::size_t>(i * chunk_ + j)] =
              value(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j));
        }
      }
    };
    const auto pixels = [&](std::uint32_t first) {
      return [&, first](std::uint32_t i, std::uint32_t j) {
        const Chunk chunk = chunk_at((first + i) / depth);
        return element(in_map_, in_, chunk.pixel + (first + i) % depth, k * depth + j, chunk.image);
      };
    };
    const bool filter_is_across =
        shape_.kind == Kind::across && plan_.direction == kernels::sm90::Direction::data_gradient;
    const auto filters = [&](std::uint32_t first) {
      return [&, first](std::uint32_t i, std::uint32_t j) {
        const std::uint32_t row = filter_is_across ? k * depth + j : first + i;
        const std::uint32_t column = filter_is_across ? first + i : k * depth + j;
        return element(plan_.filter, filter_, column, row, 0);
      };
    };
    if (shape_.kind == Kind::along) {
      const Chunk chunk = chunk_at(k);
      fill(&a, shape_.bm, [&](std::uint32_t i, std::uint32_t j) {
        return element(out_map_, rows_, chunk.pixel + j, m + i, chunk.image);
      });
      fill(&b, shape_.bn, [&](std::uint32_t i, std::uint32_t j) {
        return element(in_map_, in_, chunk.pixel + j, n + i, chunk.image);
      });
    } else if (shape_.kind == Kind::across) {
      fill(&a, shape_.bm, filters(m));
      fill(&b, shape_.bn, pixels(n));
    } else {
      fill(&a, shape_.bm, pixels(m));
      fill(&b, shape_.bn, filters(n));
    }
    for (int i = 0; i < shape_.bm; ++i) {
      for (int j = 0; j < shape_.bn; ++j) {
        double total = 0;
        for (int l = 0; l < chunk_; ++l) {
          total += a[static_cast<std::size_t>(i * chunk_ + l)] * b[static_cast<std::size_t>(j * chunk_ + l)];
        }
        (*sum)[static_cast<std::size_t>(i * shape_.bn + j)] += total;
      }
    }
  }

  void write(std::int64_t offset, double sum) {
    const auto at = static_cast<std::size_t>(offset);
    out_.at(at) = case_.alpha * sum + (case_.beta != 0 ? case_.beta * out_.at(at) : 0);
    ++writes_.at(at);
  }

  void store(std::uint32_t tile, const Memory& sum) {
    const auto [m, n] = corner_of(tile);
    for (int i = 0; i < shape_.bm; ++i) {
      for (int j = 0; j < shape_.bn; ++j) {
        const double value = sum[static_cast<std::size_t>(i * shape_.bn + j)];
        const std::uint32_t row = m + static_cast<std::uint32_t>(i);
        const std::uint32_t column = n + static_cast<std::uint32_t>(j);
        if (shape_.kind == Kind::along) {
          if (row >= p_.out_planes || column >= p_.in_planes) continue;
          write((row * p_.c_step[0] + column * p_.c_step[1]) / element_, value);
          continue;
        }
        const std::uint32_t position = shape_.kind == Kind::across ? row : column;
        const std::uint32_t pixel = shape_.kind == Kind::across ? column : row;
        const auto depth = static_cast<std::uint32_t>(chunk_);
        if (pixel / depth >= p_.chunks) continue;
        const Chunk chunk = chunk_at(pixel / depth);
        if (shape_.kind == Kind::across) {
          const std::int64_t offset = offset_in(out_map_, chunk.pixel + pixel % depth, position, chunk.image);
          if (offset >= 0) write(offset, value);
        } else {
          const std::int64_t inside = chunk.pixel + pixel % depth;
          if (position >= p_.out_planes || inside >= p_.pixels) continue;
          write((position * p_.c_step[0] + chunk.image * p_.c_step[1]) / element_ + inside, value);
        }
      }
    }
  }

  const ConvCase& case_;
  const test::Values& values_;
  const PlanesPlan& plan_;
  const planes::Params& p_;
  const planes::TileShape& shape_;
  std::int64_t element_;
  int chunk_;
  PlaneMap in_map_, out_map_;
  Memory in_, rows_, filter_, out_;
  std::vector<int> writes_;
};

// Of all tiles, those with nothing included.
double products_of(const PlanesPlan& plan) {
  const planes::TileShape& shape = planes::kTileShapes[plan.shape];
  return static_cast<double>(plan.params.works.divisor) * shape.cluster * plan.params.k_blocks * shape.bm * shape.bn *
         kernels::sm90::kRowBytes / tile::element_bytes(plan.type);
}

// Larger problems are for the device.
TEST(Conv1x1NchwSm90, ComputesConvolutions) {
  constexpr double kMaxProducts = 6e6;
  int runs = 0;
  for (ConvCase& c : test::cases_from_file<Problem>("conv/conv1x1_nchw.txt", from_text)) {
    if (c.problem.has_bias != 0 || conv1x1_nchw_unsupported_reason(c.problem) != nullptr) continue;
    c.integers = true;
    const test::Values values = test::make_values(c);
    std::vector<Candidate> candidates;
    planes_candidates(c.problem, 132, &candidates);
    ASSERT_FALSE(candidates.empty());
    for (const Candidate& candidate : candidates) {
      EXPECT_GT(candidate.seconds, 0);
      const PlanesPlan plan = planes_plan(c.problem, candidate.config);
      EXPECT_EQ(plan.workspace, candidate.workspace);
      if (products_of(plan) > kMaxProducts) continue;
      ++runs;
      SCOPED_TRACE(test::describe(c) + " tile=" + std::to_string(candidate.config.tile) +
                   " split_k=" + std::to_string(candidate.config.split_k));
      Emulation emulation(c, values, plan);
      emulation.run();
      emulation.expect_convolution();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(runs, 40);
}

// TMA takes no other map.
TEST(Conv1x1NchwSm90, MapsAreLegal) {
  for (ConvCase& c : test::cases_from_file<Problem>("conv/conv1x1_nchw.txt", from_text)) {
    if (conv1x1_nchw_unsupported_reason(c.problem) != nullptr) continue;
    std::vector<Candidate> candidates;
    planes_candidates(c.problem, 132, &candidates);
    for (const Candidate& candidate : candidates) {
      const PlanesPlan plan = planes_plan(c.problem, candidate.config);
      const auto check = [&](const PlaneMap& map) {
        EXPECT_EQ(map.steps[0] % 16, 0) << test::describe(c);
        EXPECT_EQ(map.steps[1] % 16, 0) << test::describe(c);
        EXPECT_GT(map.steps[0], 0) << test::describe(c);
        EXPECT_GT(map.dims[0] * map.dims[1] * map.dims[2], 0) << test::describe(c);
        EXPECT_TRUE(map.box_rows > 0 && map.box_rows <= 256) << test::describe(c);
      };
      if (plan.in_has_map) check(plan.in);
      if (plan.out_has_map) check(plan.out);
      if (plan.has_filter) check(plan.filter);
    }
  }
}

TEST(Conv1x1NchwSm90, WhatItLeavesToOthers) {
  const char* const lines[] = {
      "conv fwd f16 nchw n2c64h8w8 k64r1s1 p0x0 t2x2 d1x1 g1",
      "conv fwd f16 nchw n2c64h8w8 k64r1s1 p1x1 t1x1 d1x1 g1",
      "conv fwd f16 nchw n2c64h8w8 k64r1s3 p0x1 t1x1 d1x1 g1",
      "conv fwd f16 nchw n2c64h8w8 k64r1s1 p0x0 t1x1 d1x1 g2",
      "conv fwd f32 nchw n2c64h8w8 k64r1s1 p0x0 t1x1 d1x1 g1",
      "conv fwd f16 nhwc n2c64h8w8 k64r1s1 p0x0 t1x1 d1x1 g1",
      "conv fwd f16 nchw n2c63h7w7 k64r1s1 p0x0 t1x1 d1x1 g1",
      "conv dgrad f16 nchw n2c64h7w7 k62r1s1 p0x0 t1x1 d1x1 g1",
      "conv wgrad bf16 nchw n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1",
  };
  for (const char* line : lines) {
    std::string why;
    const auto problem = from_text(line, &why);
    ASSERT_TRUE(problem) << why;
    EXPECT_NE(conv1x1_nchw_unsupported_reason(*problem), nullptr) << line;
  }
}

// Fragments of TF32: what a thread loads is what the product wants of it, and 8 lanes never meet in a bank.
TEST(Conv1x1NchwSm90, FragmentsOfTf32) {
  for (int column_half = 0; column_half < 2; ++column_half) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane % 4 + 4 * column_half;
      const int address = row * 128 + 16 * planes::vector_of_group(lane / 4);
      EXPECT_EQ(planes::fragment_at(lane, column_half), address ^ (address >> 7 & 7) << 4);
    }
    for (int first = 0; first < 32; first += 8) {
      std::set<int> places;
      for (int lane = first; lane < first + 8; ++lane) places.insert(planes::fragment_at(lane, column_half) % 128);
      EXPECT_EQ(places.size(), 8u);
    }
  }
  std::set<int> vectors;
  for (int group = 0; group < 8; ++group) vectors.insert(planes::vector_of_group(group));
  EXPECT_EQ(vectors.size(), 8u);
  EXPECT_EQ(*vectors.rbegin(), 7);
}

}  // namespace
}  // namespace gpudnn::conv
