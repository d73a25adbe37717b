// The parameters of the kernels for images of few channels: the words that a pixel's window is gathered from are
// exactly its elements, tiles cover the output, shared memory and workspace are what was promised, refusals have
// reasons.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/conv/small_c/small_c_sm80_params.hpp"
#include "support/devices.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::small_c;
using few::Kernel;
using few::Params;

Problem parse(const std::string& line) {
  std::string why;
  const auto problem = from_text(line, &why);
  EXPECT_TRUE(problem) << line << ": " << why;
  return problem.value_or(Problem{});
}

Device device_with(std::size_t shared_bytes) {
  Device device = test::h200();
  device.shared_memory_per_block = shared_bytes;
  device.shared_memory_per_multiprocessor = shared_bytes + 1024;
  return device;
}

std::vector<int> rows_of(const Problem& problem) {
  std::vector<int> rows;
  for (int row = 0; row < few::kTileCount; ++row) {
    const few::TileRow& tile = few::kTiles[row];
    if (tile.kernel == small_c_kernel(problem.direction) && tile.type == small_c_type(problem)) {
      rows.push_back(row);
    }
  }
  return rows;
}

// Elements (row of the patch, element of the row, with the lead) that the words of pixel m's window select.
std::multiset<std::pair<int, int>> selected(const Params& p, int per_word, int m) {
  std::multiset<std::pair<int, int>> elements;
  for (int word = 0; word < p.k_steps * 8; ++word) {
    const few::Word at = few::word_of_window(p, per_word, word);
    if (at.mask == 0) continue;
    int bytes = few::window_begin(p, per_word, m) + static_cast<int>(at.offset);
    EXPECT_EQ(bytes % 4, 0);
    EXPECT_LE(bytes + 4, p.patch.bytes);
    int shift = 0;
    if (p.patch.copy_bytes != 0 && bytes >= p.patch.copy_bytes) {
      bytes -= p.patch.copy_bytes;
      shift = 1;  // the copy lies one element earlier
    }
    for (int half = 0; half < per_word; ++half) {
      const std::uint32_t bits = per_word == 1 ? 0xffffffffu : 0xffffu << (16 * half);
      if ((at.mask & bits) == 0) continue;
      elements.insert({bytes / p.patch.pitch, bytes % p.patch.pitch / 4 * per_word + half + shift});
    }
  }
  return elements;
}

void check_windows(const Params& p, int per_word, const std::string& line) {
  for (int m = 0; m < p.tile_h * p.tile_w; ++m) {
    std::multiset<std::pair<int, int>> expected;
    for (int r = 0; r < p.taps_h; ++r) {
      for (int e = 0; e < p.taps_w * p.channels; ++e) {
        expected.insert({m / p.tile_w * p.stride_h + r, p.patch.lead + m % p.tile_w * p.stride_w * p.channels + e});
      }
    }
    ASSERT_EQ(selected(p, per_word, m), expected) << line << " pixel " << m << " of " << p.tile_h << "x" << p.tile_w;
  }
}

std::string random_line(std::mt19937* random, const char* direction, const char* type) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>((*random)() % static_cast<unsigned>(high - low + 1));
  };
  const int r = pick(1, 9);
  const int s = pick(1, 11);
  return std::string("conv ") + direction + " " + type + " nhwc n" + std::to_string(pick(1, 4)) + "c" +
         std::to_string(pick(1, 8)) + "h" + std::to_string(pick(r, 40)) + "w" + std::to_string(pick(s, 60)) + " k" +
         std::to_string(pick(1, 150)) + "r" + std::to_string(r) + "s" + std::to_string(s) + " p" +
         std::to_string(pick(0, r)) + "x" + std::to_string(pick(0, s)) + " t" + std::to_string(pick(1, 4)) + "x" +
         std::to_string(pick(1, 4)) + " d1x1 g1 math=tensor";
}

TEST(SmallCParams, WordsOfAWindowAreItsElements) {
  std::mt19937 random(7);
  int with_vectors = 0;
  int with_copies = 0;
  for (int i = 0; i < 120; ++i) {
    const std::string line = random_line(&random, "fwd", i % 2 != 0 ? "f32" : "f16");
    const Problem problem = parse(line);
    const int per_word = few::elements_of_word(small_c_type(problem));
    for (const int row : rows_of(problem)) {
      Params p = small_c_params(problem);
      if (!set_small_c_tile(row, 0, device_with(227 << 10), &p)) continue;
      set_small_c_patch(row, false, &p);
      check_windows(p, per_word, line);
      with_copies += p.patch.copy_bytes != 0 ? 1 : 0;
      if (!image_allows_vectors(p, small_c_type(problem), Kernel::forward)) continue;
      set_small_c_patch(row, true, &p);
      // A row of the patch begins where a vector does.
      const int vector = 16 / tile::element_bytes(small_c_type(problem));
      EXPECT_EQ((p.pad_w * p.channels + p.patch.lead) % vector, 0) << line;
      check_windows(p, per_word, line);
      ++with_vectors;
    }
  }
  EXPECT_GT(with_vectors, 0);
  EXPECT_GT(with_copies, 0);
}

TEST(SmallCParams, TilesCoverAndFit) {
  std::mt19937 random(8);
  int fitting = 0;
  for (int i = 0; i < 300; ++i) {
    const char* const directions[] = {"fwd", "dgrad", "wgrad"};
    const char* const types[] = {"f16", "bf16", "f32"};
    const std::string line = random_line(&random, directions[i % 3], types[i / 3 % 3]);
    const Problem problem = parse(line);
    const Device device = device_with((i % 2 != 0 ? 227 : 99) << 10);
    for (const int row : rows_of(problem)) {
      Params p = small_c_params(problem);
      if (!set_small_c_tile(row, 0, device, &p)) continue;
      ++fitting;
      EXPECT_LE(p.shared_bytes, device.shared_memory_per_block) << line;
      const bool data = few::kTiles[row].kernel == Kernel::dgrad;
      const std::int64_t h = static_cast<std::int64_t>(p.tiles_h.divisor) * p.tile_h;
      const std::int64_t w = static_cast<std::int64_t>(p.tiles_w.divisor) * p.tile_w;
      if (data) {
        // The last position's pixels reach beyond the image's end, the first one's its beginning.
        EXPECT_GE((p.first_i + h) * p.stride_h - p.pad_h, p.image_h) << line;
        EXPECT_GE((p.first_j + w) * p.stride_w - p.pad_w, p.image_w) << line;
        EXPECT_LE(p.first_i * p.stride_h - p.pad_h, 0) << line;
        EXPECT_GE(p.taps_u * p.stride_h, p.taps_h) << line;
        EXPECT_GE(p.taps_v * p.stride_w, p.taps_w) << line;
      } else {
        EXPECT_GE(h, p.out_h) << line;
        EXPECT_GE(w, p.out_w) << line;
      }
      EXPECT_EQ(p.tiles, static_cast<std::int64_t>(p.tiles_h.divisor) * p.tiles_w.divisor * p.images) << line;
      // Each block has a tile to begin with.
      EXPECT_LE(p.blocks / (p.n_tiles * p.m_tiles), p.tiles) << line;
      EXPECT_GE(p.blocks, 1u) << line;
    }
    std::vector<Candidate> candidates;
    small_c_candidates(problem, device, &candidates);
    for (const Candidate& candidate : candidates) {
      EXPECT_GT(candidate.seconds, 0) << line;
      EXPECT_LT(candidate.seconds, 1) << line;
    }
  }
  EXPECT_GT(fitting, 300);
}

TEST(SmallCParams, WorkspaceHoldsTheSumsOfEachSplit) {
  const Problem problem = parse("conv wgrad f16 nhwc n64c3h224w224 k100r7s7 p3x3 t2x2 d1x1 g1");
  for (const int row : rows_of(problem)) {
    Params p = small_c_params(problem);
    ASSERT_TRUE(set_small_c_tile(row, 0, device_with(227 << 10), &p));
    EXPECT_GT(p.splits, 1u);
    const std::size_t sums = static_cast<std::size_t>(p.blocks) * few::kFilterRows *
                             static_cast<std::size_t>(few::kTiles[row].columns) * sizeof(float);
    EXPECT_EQ(small_c_workspace_bytes(row, p, static_cast<int>(p.splits)), sums + few::kWorkspaceAlignment);
    EXPECT_EQ(small_c_workspace_bytes(row, p, 1), 0u);
    ASSERT_TRUE(set_small_c_tile(row, 1, device_with(227 << 10), &p));
    EXPECT_EQ(p.blocks, p.n_tiles * p.m_tiles);
  }
}

TEST(SmallCParams, RefusalsHaveReasons) {
  const auto reason = [](const char* line) {
    const char* const text = small_c_shape_unsupported_reason(parse(line));
    return std::string(text == nullptr ? "" : text);
  };
  EXPECT_EQ(reason("conv fwd f16 nhwc n1c8h9w9 k8r3s3 p1x1 t1x1 d1x1 g1"), "");
  EXPECT_EQ(reason("conv fwd f16 nhwc n1c8w9 k8s3 p1 t1 d1 g1"), "");
  EXPECT_EQ(reason("conv fwd f16 nhwc n1c8h9w9 k8r1s3 p1x1 t1x1 d2x1 g1"), "");  // one tap is not dilated
  EXPECT_NE(reason("conv fwd f16 nhwc n1c9h9w9 k8r3s3 p1x1 t1x1 d1x1 g1").find("8 channels"), std::string::npos);
  EXPECT_NE(reason("conv fwd f16 nhwc n1c8h9w9 k8r3s3 p1x1 t1x1 d1x2 g1").find("dilation"), std::string::npos);
  EXPECT_NE(reason("conv fwd f16 nhwc n1c8h9w9 k8r3s3 p1x1 t1x1 d1x1 g2").find("group"), std::string::npos);
  EXPECT_NE(reason("conv fwd f16 nhwc n1c4d3h9w9 k8t1r3s3 p0x1x1 t1x1x1 d1x1x1 g1").find("spatial"), std::string::npos);
}

}  // namespace
}  // namespace gpudnn::conv
