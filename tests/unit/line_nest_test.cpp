// The loops over lines that reductions index with, run on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tile/line_nest.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace gpudnn {
namespace {

tile::HostNest nest_of(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& strides) {
  tile::HostNest nest;
  nest.rank = static_cast<int>(dims.size());
  nest.tensors = 1;
  for (int i = 0; i < nest.rank; ++i) {
    nest.dims[i] = dims[static_cast<std::size_t>(i)];
    nest.strides[0][i] = strides[static_cast<std::size_t>(i)];
  }
  return nest;
}

// Where step `index` of all lies, as a kernel finds it.
std::int64_t offset_of(const tile::LineNest& nest, std::int64_t index) {
  const std::int64_t window = index / nest.window;
  std::uint32_t at = static_cast<std::uint32_t>(index - window * nest.window);
  std::int64_t offset = nest.windows.offset_in(0, static_cast<std::uint32_t>(window));
  std::uint32_t line = 0;
  if (nest.lines > 1) line = nest.steps.divmod(at, &at);
  offset += nest.nested ? nest.outer.offset_in(0, line) : line * nest.line_step;
  return offset + at * nest.step;
}

// The same by division.
std::int64_t expected_offset(const tile::HostNest& nest, int width, std::int64_t index) {
  std::int64_t offset = 0;
  for (int i = nest.rank - 1; i >= 0; --i) {
    const bool fastest = i == nest.rank - 1;
    const std::int64_t extent = fastest ? nest.dims[i] / width : nest.dims[i];
    offset += index % extent * nest.strides[0][i] * (fastest ? width : 1);
    index /= extent;
  }
  return offset;
}

struct Shape {
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> strides;
  int width;
};

TEST(LineNest, FindsEveryStep) {
  for (const Shape& shape : std::vector<Shape>{{{3136}, {1}, 8},
                                               {{1}, {1}, 1},
                                               {{64, 3136}, {802816, 1}, 8},
                                               {{7, 33}, {50, 1}, 4},
                                               {{5, 3, 7, 9}, {1000, 301, 41, 1}, 1},
                                               {{4, 6, 57}, {9999, 1234, 1}, 8}}) {
    const tile::HostNest host = nest_of(shape.dims, shape.strides);
    const tile::LineNest nest = tile::make_line_nest(host, shape.width, false);
    std::int64_t count = host.dims[host.rank - 1] / shape.width;
    for (int i = 0; i + 1 < host.rank; ++i) count *= host.dims[i];
    ASSERT_EQ(nest.count, count);
    for (std::int64_t n = 0; n < count; ++n) ASSERT_EQ(offset_of(nest, n), expected_offset(host, shape.width, n)) << n;
  }
}

// More steps than 31 bits count are cut into windows; a window has as many steps as the others or fewer.
TEST(LineNest, WindowsOfHugeLoopsFitTogether) {
  std::mt19937_64 random(5);
  for (const Shape& shape : std::vector<Shape>{{{5000, 1000, 3000}, {3000000, 3000, 1}, 1},
                                               {{3, 2000000000}, {2000000000, 1}, 1},
                                               {{70000, 70000}, {70000, 1}, 8},
                                               {{3, 100000, 50000, 7}, {35000000000, 350000, 7, 1}, 1},
                                               {{2, 2147483647}, {4294967296, 2}, 1}}) {
    const tile::HostNest host = nest_of(shape.dims, shape.strides);
    const tile::LineNest nest = tile::make_line_nest(host, shape.width, false);
    EXPECT_LE(nest.window, INT32_MAX);
    EXPECT_GE(nest.window * static_cast<std::int64_t>(nest.windows.count), nest.count);
    EXPECT_LT(nest.window * (static_cast<std::int64_t>(nest.windows.count) - 1), nest.count);
    for (int i = 0; i < 2000; ++i) {
      const auto n = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(nest.count));
      ASSERT_EQ(offset_of(nest, n), expected_offset(host, shape.width, n)) << n;
    }
    EXPECT_EQ(offset_of(nest, nest.count - 1), expected_offset(host, shape.width, nest.count - 1));
  }
}

}  // namespace
}  // namespace gpudnn
