// The index arithmetic that kernels share, run on the host: division by multiplication, loop nests and their pieces,
// the cut of a row into packs, transpose tiles, pooling windows.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "kernels/attention/flash_sections.hpp"
#include "kernels/pooling/window_index.hpp"
#include "kernels/softmax/row_split.hpp"
#include "kernels/tensor/transpose_grid.hpp"
#include "ops/loop_nest.hpp"

namespace gpudnn {
namespace {

TensorGeometry strided(std::vector<std::int64_t> dims, std::vector<std::int64_t> strides) {
  TensorGeometry tensor;
  tensor.rank = static_cast<std::int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.dims);
  std::copy(strides.begin(), strides.end(), tensor.strides);
  return tensor;
}

// For each element of the last tensor, its offset and those of the others, by plain counting.
std::map<std::int64_t, std::vector<std::int64_t>> expected_offsets(const std::vector<TensorGeometry>& tensors) {
  std::map<std::int64_t, std::vector<std::int64_t>> expected;
  const TensorGeometry& leader = tensors.back();
  std::vector<std::int64_t> index(static_cast<std::size_t>(leader.rank));
  for (std::int64_t n = 0; n < element_count(leader); ++n) {
    std::vector<std::int64_t> offsets;
    for (const TensorGeometry& tensor : tensors) {
      std::int64_t offset = 0;
      for (int i = 0; i < leader.rank; ++i) offset += index[static_cast<std::size_t>(i)] * tensor.strides[i];
      offsets.push_back(offset);
    }
    expected[offsets.back()] = offsets;
    for (int i = leader.rank - 1; i >= 0; --i) {
      if (++index[static_cast<std::size_t>(i)] < leader.dims[i]) break;
      index[static_cast<std::size_t>(i)] = 0;
    }
  }
  return expected;
}

TEST(FastDivmod, EqualsDivisionAtTheEdges) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> divisors = {
      1, 2, 3, 5, 7, 11, 56, 3136, 65535, 65536, 65537, (1u << 30) - 1, 1u << 30, (1u << 30) + 1, (1u << 31) - 1};
  for (int i = 0; i < 2000; ++i) divisors.push_back((random() >> 1 >> random() % 31) + 1);
  for (const std::uint32_t d : divisors) {
    if (d >= (1u << 31)) continue;
    const tile::FastDivmod by(d);
    std::vector<std::uint32_t> values = {0, 1, d - 1, d, (1u << 31) - 1, (1u << 31) - 2};
    for (int i = 0; i < 50; ++i) {
      const std::uint32_t value = random() >> 1;
      values.push_back(value);
      values.push_back(value / d * d);
      if (value / d * d > 0) values.push_back(value / d * d - 1);
    }
    for (const std::uint32_t n : values) {
      std::uint32_t rest = 0;
      ASSERT_EQ(by.divmod(n, &rest), n / d) << n << " / " << d;
      ASSERT_EQ(rest, n % d) << n << " % " << d;
    }
  }
}

TEST(FlashSections, EachTileHasOnePlaceInItsOrder) {
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    const int batches = 1 + static_cast<int>(random() % 5);
    const int heads = 1 + static_cast<int>(random() % 9);
    const int tiles = 1 + static_cast<int>(random() % 7);
    const int all = batches * heads;
    const int together = 1 + static_cast<int>(random() % static_cast<unsigned>(all));
    const kernels::FlashSections sections(together, tiles, all, heads);
    int number = 0;
    for (int first = 0; first < all; first += together) {
      for (int tile = 0; tile < tiles; ++tile) {
        for (int head = first; head < std::min(first + together, all); ++head, ++number) {
          const kernels::FlashTilePlace place = kernels::place_of(sections, number);
          ASSERT_EQ(place.tile, tile) << number << " of " << together << " of " << all;
          ASSERT_EQ(place.batch_head, head);
          ASSERT_EQ(place.batch, head / heads);
          ASSERT_EQ(place.head, head % heads);
        }
      }
    }
  }
}

TEST(LoopNest, PackedTensorsOfOneLayoutAreFlat) {
  const std::int64_t dims[] = {4, 6, 5, 7};
  for (const auto format : {GPUDNN_TENSOR_NCHW, GPUDNN_TENSOR_NHWC}) {
    const TensorGeometry x = packed_tensor(GPUDNN_DATA_FLOAT, format, 4, dims);
    const tile::HostNest nest = make_loop_nest(std::array{x, x});
    EXPECT_TRUE(tile::is_flat(nest));
    EXPECT_EQ(nest.count(), 4 * 6 * 5 * 7);
  }
}

TEST(LoopNest, BiasBecomesPacksWithABroadcast) {
  const std::int64_t dims[] = {4, 8, 4, 4};
  const std::int64_t bias_dims[] = {1, 8, 1, 1};
  const TensorGeometry bias = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, 4, bias_dims);
  const TensorGeometry nchw = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, 4, dims);
  tile::HostNest nest = make_loop_nest(std::array{broadcast_to(bias, nchw), nchw});
  EXPECT_EQ(nest.rank, 3);
  EXPECT_TRUE(tile::can_pack(nest, 8, 1));
  EXPECT_EQ(nest.strides[0][2], 0);
  const TensorGeometry nhwc = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NHWC, 4, dims);
  nest = make_loop_nest(std::array{broadcast_to(bias, nhwc), nhwc});
  EXPECT_EQ(nest.rank, 2);
  EXPECT_TRUE(tile::can_pack(nest, 8, 1));
  EXPECT_EQ(nest.strides[0][1], 1);
  EXPECT_FALSE(tile::can_pack(nest, 16, 1));
}

// Every element once, at the right offsets, whole, in packs and in pieces.
TEST(LoopNest, VisitsEachElementOnce) {
  const std::vector<std::vector<TensorGeometry>> cases = {
      {strided({3, 4, 5, 8}, {160, 40, 8, 1}), strided({3, 4, 5, 8}, {160, 40, 8, 1})},
      {strided({3, 4, 5, 8}, {160, 1, 32, 4}), strided({3, 4, 5, 8}, {160, 40, 8, 1})},
      {strided({3, 4, 5, 8}, {0, 1, 0, 0}), strided({3, 4, 5, 8}, {200, 50, 10, 1})},
      {strided({2, 3, 1, 5, 2, 2, 1, 4}, {240, 80, 7, 16, 8, 4, 9, 1}),
       strided({2, 3, 1, 5, 2, 2, 1, 4}, {500, 4, 1, 12, 60, 120, 3, 1}),
       strided({2, 3, 1, 5, 2, 2, 1, 4}, {240, 80, 1, 16, 8, 4, 4, 1})},
      {strided({1}, {1}), strided({1}, {7})},
      {strided({6}, {0}), strided({6}, {2})},
  };
  for (const auto& tensors : cases) {
    const auto expected = expected_offsets(tensors);
    const tile::HostNest whole = make_loop_nest(tensors);
    const int output = whole.tensors - 1;
    for (const int width : {1, 2, 4}) {
      if (width > 1 && !tile::can_pack(whole, width, output)) continue;
      const tile::HostNest nest = width > 1 ? tile::packed_nest(whole, width) : whole;
      for (const std::int64_t most : {std::int64_t{1}, std::int64_t{7}, std::int64_t{60}, tile::kMaxIterations}) {
        std::set<std::int64_t> seen;
        tile::for_each_piece(
            nest, most, {}, [&](const tile::HostNest& piece, const std::int64_t(&starts)[tile::kMaxTensors]) {
              ASSERT_LE(piece.count(), most);
              const tile::LoopNest<3> loops(piece);
              for (std::uint32_t i = 0; i < loops.count; ++i) {
                std::int64_t at[3], wide[3];
                loops.offsets(i, at);
                loops.offsets_wide(i, wide);
                for (int t = 0; t <= output; ++t) ASSERT_EQ(at[t], wide[t]);
                for (int lane = 0; lane < width; ++lane) {
                  const std::int64_t target = starts[output] + at[output] + lane;
                  ASSERT_TRUE(seen.insert(target).second);
                  const auto found = expected.find(target);
                  ASSERT_NE(found, expected.end());
                  for (int t = 0; t < output; ++t) {
                    const bool still = whole.strides[t][whole.rank - 1] == 0;
                    ASSERT_EQ(starts[t] + at[t] + (still ? 0 : lane), found->second[static_cast<std::size_t>(t)]);
                  }
                }
              }
            });
        EXPECT_EQ(seen.size(), expected.size());
      }
    }
  }
}

TEST(LoopNest, PiecesOfAHugeTensorStayBelowTheLimit) {
  const TensorGeometry x = strided({3, std::int64_t{1} << 33, 5}, {std::int64_t{1} << 40, 8, 1});
  const tile::HostNest nest = make_loop_nest(std::array{x});
  std::int64_t sum = 0;
  tile::for_each_piece(nest, tile::kMaxIterations, {},
                       [&](const tile::HostNest& piece, const std::int64_t(&)[tile::kMaxTensors]) {
                         EXPECT_LE(piece.count(), tile::kMaxIterations);
                         sum += piece.count();
                       });
  EXPECT_EQ(sum, nest.count());
}

TEST(RowSplit, CoversEachElementOnce) {
  for (const int width : {2, 4, 8}) {
    for (std::int64_t length = 1; length < 70; ++length) {
      for (int skew = 0; skew < width; ++skew) {
        const kernels::RowSplit split(length, skew, width);
        std::vector<int> seen(static_cast<std::size_t>(length));
        for (std::int64_t thread = 0; thread < 32; ++thread) {
          const std::int64_t single = split.single(thread, width);
          if (single >= 0) ++seen.at(static_cast<std::size_t>(single));
        }
        for (std::int64_t i = split.head; i < split.head + split.packs * width; ++i) {
          ++seen.at(static_cast<std::size_t>(i));
        }
        if (split.packs > 0) {
          EXPECT_EQ((skew + split.head) % width, 0);
        }
        for (const int count : seen) ASSERT_EQ(count, 1) << length << " elements, skew " << skew << ", width " << width;
      }
    }
  }
}

TEST(Transpose, SquaresOfABlockFillItsTile) {
  std::set<std::pair<int, int>> seen;
  for (int thread = 0; thread < kernels::kTransposeThreads; ++thread) {
    int i = -1, j = -1;
    kernels::transpose_square(thread, &i, &j);
    EXPECT_TRUE(i >= 0 && i < kernels::kSquares && j >= 0 && j < kernels::kSquares);
    EXPECT_TRUE(seen.insert({i, j}).second);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kernels::kSquares * kernels::kSquares));
}

TEST(Transpose, TilesReachEachElementOnce) {
  const std::int64_t dims[] = {3, 10, 6, 7};
  const TensorGeometry nchw = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, 4, dims);
  const TensorGeometry nhwc = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NHWC, 4, dims);
  for (const auto& [in, out] : {std::pair{nchw, nhwc}, std::pair{nhwc, nchw}}) {
    const auto expected = expected_offsets({in, out});
    const tile::HostNest nest = make_loop_nest(std::array{in, out});
    const int in_loop = nest.strides[0][1] == 1 ? 1 : 0;
    ASSERT_EQ(nest.rank, 3);
    ASSERT_EQ(nest.strides[0][in_loop], 1);
    constexpr int kEdge = 4;
    kernels::TransposeGrid grid;
    const std::int64_t blocks = kernels::make_transpose_grid(nest, in_loop, kEdge, &grid);
    std::set<std::int64_t> seen;
    for (std::uint32_t block = 0; block < static_cast<std::uint32_t>(blocks); ++block) {
      std::uint32_t tile_i = 0, tile_j = 0;
      std::int64_t offset[2];
      grid.locate(block, &tile_i, &tile_j, offset);
      for (std::uint32_t i = tile_i * kEdge; i < tile_i * kEdge + kEdge && i < grid.extent_i; ++i) {
        for (std::uint32_t j = tile_j * kEdge; j < tile_j * kEdge + kEdge && j < grid.extent_j; ++j) {
          const std::int64_t target = offset[1] + i * grid.out_step_i + j;
          ASSERT_TRUE(seen.insert(target).second);
          ASSERT_EQ(offset[0] + j * grid.in_step_j + i, expected.at(target)[0]);
        }
      }
    }
    EXPECT_EQ(seen.size(), expected.size());
  }
}

TEST(WindowShape, WindowsAndElementsAgree) {
  for (int x = 1; x <= 9; ++x) {
    for (int window = 1; window <= 5; ++window) {
      for (int pad = 0; pad <= 6; ++pad) {
        for (int stride = 1; stride <= 7; ++stride) {
          if (x + 2 * pad < window) continue;
          kernels::WindowShape shape;
          shape.x[1] = x;
          shape.window[1] = window;
          shape.pad[1] = pad;
          shape.stride[1] = stride;
          const int whole = (x + 2 * pad - window) / stride + 1;
          EXPECT_EQ(shape.whole_windows(1), whole);
          shape.y[1] = whole + 3;  // the last ones reach past the padded image, or lie behind it
          shape.finish();
          for (int index = 0; index < shape.y[1]; ++index) {
            int padded = 0;
            for (int i = 0; i < window; ++i) padded += index * stride - pad + i < x + pad ? 1 : 0;
            EXPECT_EQ(shape.padded_extent(1, index), padded);
            if (index < whole) {
              EXPECT_EQ(padded, window);
            }
          }
          for (int position = 0; position < x; ++position) {
            const kernels::Range covering = shape.windows(1, position);
            for (int index = 0; index < shape.y[1]; ++index) {
              const int start = index * stride - pad;
              const bool covers = position >= start && position < start + window;
              EXPECT_EQ(covers, index >= covering.begin && index < covering.end);
              const kernels::Range elements = shape.elements(1, index);
              EXPECT_EQ(covers, position >= elements.begin && position < elements.end)
                  << "x " << x << " window " << window << " pad " << pad << " stride " << stride;
            }
          }
        }
      }
    }
  }
}

TEST(WindowShape, HugePaddingDoesNotOverflow) {
  kernels::WindowShape shape;
  shape.x[2] = 5;
  shape.window[2] = 2147483647;
  shape.pad[2] = 2147483647;
  shape.stride[2] = 2147483647;
  shape.y[2] = 2;
  shape.finish();
  EXPECT_EQ(shape.elements(2, 1).begin, 0);
  EXPECT_EQ(shape.elements(2, 1).end, 5);
  EXPECT_LE(shape.elements(2, 0).end, shape.elements(2, 0).begin);
  EXPECT_EQ(shape.windows(2, 3).begin, 1);
  EXPECT_EQ(shape.windows(2, 3).end, 2);
  shape.y[2] = 2147483647;
  EXPECT_EQ(shape.elements(2, 2147483646).begin, 5);
  EXPECT_EQ(shape.elements(2, 2147483646).end, 5);
  EXPECT_EQ(shape.padded_extent(2, 2147483646), 0);
  EXPECT_EQ(shape.padded_extent(2, 0), 2147483647);
}

}  // namespace
}  // namespace gpudnn
