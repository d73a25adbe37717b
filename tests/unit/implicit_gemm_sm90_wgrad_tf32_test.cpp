// The TF32 filter gradient on wgmma, a k tile at a time: what TMA lays down, what the transposers make
// of it and what the matrix unit takes for its operands, evaluated on the host with the kernel's index maps.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_wgrad_tf32_layout.hpp"
#include "support/random.hpp"

namespace gpudnn::conv {
namespace {

namespace sm90 = kernels::sm90;
namespace layout = kernels::sm90::wgrad_tf32;

constexpr int kPixels = 32;
constexpr int kBoxBytes = 32 * 128;
using Bytes = std::vector<int>;  // shared memory: an element for each 4 bytes
using Matrix = std::vector<std::vector<int>>;

// The swizzle of 128 bytes as hardware defines it, on byte addresses: bits 4 to 6 are flipped by bits 7 to 9.
int hardware_swizzle(int address) { return address ^ (address >> 7 & 7) << 4; }

// rows[pixel][column], as boxes of 32 columns.
Bytes copied(const Matrix& rows) {
  const auto columns = static_cast<int>(rows[0].size());
  Bytes shared(static_cast<std::size_t>(columns * kPixels));
  for (int pixel = 0; pixel < kPixels; ++pixel) {
    for (int c = 0; c < columns; ++c) {
      const int address = c / 32 * kBoxBytes + pixel * 128 + c % 32 * 4;
      shared[static_cast<std::size_t>(hardware_swizzle(address) / 4)] =
          rows[static_cast<std::size_t>(pixel)][static_cast<std::size_t>(c)];
    }
  }
  return shared;
}

// A warp's transposition of a box in place: all of it is read before any of it is written.
void transpose_box(int* box) {
  int held[32][2][4][4];
  for (int lane = 0; lane < 32; ++lane) {
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 4; ++i) {
        const int at = layout::from_at(layout::square_of(lane, round), i) / 4;
        for (int j = 0; j < 4; ++j) held[lane][round][i][j] = box[at + j];
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 4; ++i) {
        const int at = layout::to_at(layout::square_of(lane, round), i) / 4;
        for (int j = 0; j < 4; ++j) box[at + j] = held[lane][round][j][i];
      }
    }
  }
}

// d[row][n] += of a product of 64 rows and 8 positions of k: the fragments of 128 threads, and B K-major from `b` on.
void multiply_64_rows(const int (&a)[128][4], const Bytes& shared, int b, int columns, std::vector<long>* d) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 4; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
      const int k = thread % 4 + i / 2 * 4;
      for (int n = 0; n < columns; ++n) {
        const int address = hardware_swizzle(b + n * 128 + k * 4);
        (*d)[static_cast<std::size_t>(row * columns + n)] +=
            long{a[thread][i]} * shared[static_cast<std::size_t>(address / 4)];
      }
    }
  }
}

// C[filter][column] of a k tile, through the fragments of each consumer.
std::vector<std::vector<long>> product(const sm90::TileShape& shape, const Bytes& a, const Bytes& b) {
  const int row_blocks = shape.bm / 64 / shape.consumers;
  std::vector<std::vector<long>> c(static_cast<std::size_t>(shape.bm));
  for (int consumer = 0; consumer < shape.consumers; ++consumer) {
    for (int block = 0; block < row_blocks; ++block) {
      std::vector<long> d(static_cast<std::size_t>(64 * shape.bn));
      for (int step = 0; step < 4; ++step) {
        int fragments[128][4];
        for (int thread = 0; thread < 128; ++thread) {
          for (int i = 0; i < 4; ++i) {
            const int from = layout::fragment_at(row_blocks, consumer * 4 + thread / 32, thread % 32, i / 2);
            EXPECT_EQ(from % (8 * row_blocks), 0) << "a vector's alignment";
            const int element = from / 4 + step * 8 * 32 + 2 * block + i % 2;
            fragments[thread][i] = a[static_cast<std::size_t>(element)];
          }
        }
        multiply_64_rows(fragments, b, step * 32, shape.bn, &d);
      }
      for (int thread = 0; thread < 128; ++thread) {
        for (int half = 0; half < 2; ++half) {
          const int filter =
              layout::filter_of_fragment(row_blocks, consumer * 4 + thread / 32, thread % 32, block, half);
          const auto* row = &d[static_cast<std::size_t>((thread / 32 * 16 + thread % 32 / 4 + half * 8) * shape.bn)];
          // Four threads share a row.
          if (thread % 4 == 0) {
            EXPECT_TRUE(c.at(static_cast<std::size_t>(filter)).empty()) << "two rows of filter " << filter;
            c.at(static_cast<std::size_t>(filter)).assign(row, row + shape.bn);
          }
        }
      }
    }
  }
  return c;
}

Matrix random_rows(test::Random& random, int columns) {
  Matrix rows(kPixels, std::vector<int>(static_cast<std::size_t>(columns)));
  for (auto& row : rows)
    for (int& value : row) value = static_cast<int>(random.between(-50, 50));
  return rows;
}

TEST(ImplicitGemmSm90WgradTf32, ABlockOfKIsTheSumOverItsPixels) {
  int shapes = 0;
  for (const sm90::TileShape& shape : sm90::kShapes) {
    if (!shape.transposes) continue;
    ++shapes;
    test::Random random = test::case_random(20260917, static_cast<std::uint64_t>(shapes));
    const Matrix dy = random_rows(random, shape.bm);
    const Matrix x = random_rows(random, shape.bn);
    Bytes b = copied(x);
    for (int box = 0; box < shape.bn / 32; ++box) transpose_box(b.data() + box * kBoxBytes / 4);
    const auto c = product(shape, copied(dy), b);
    for (std::size_t m = 0; m < c.size(); ++m) {
      ASSERT_EQ(c[m].size(), static_cast<std::size_t>(shape.bn));
      for (std::size_t n = 0; n < c[m].size(); ++n) {
        long sum = 0;
        for (std::size_t pixel = 0; pixel < kPixels; ++pixel) sum += long{dy[pixel][m]} * x[pixel][n];
        ASSERT_EQ(c[m][n], sum) << shape.bm << " x " << shape.bn << ", filter " << m << ", column " << n;
      }
    }
  }
  EXPECT_EQ(shapes, 3);
}

// The lanes that an access of `vector` bytes serves at once touch each bank once.
template <class Address>
void expect_no_conflict(int vector, Address address) {
  const int together = 128 / vector;
  for (int first = 0; first < 32; first += together) {
    std::set<int> places;
    for (int lane = first; lane < first + together; ++lane) places.insert(address(lane) % 128 / vector);
    EXPECT_EQ(static_cast<int>(places.size()), together) << "from lane " << first;
  }
}

TEST(ImplicitGemmSm90WgradTf32, AccessesMeetDifferentBanks) {
  for (int half = 0; half < 2; ++half) {
    for (int warp = 0; warp < 8; ++warp) {
      expect_no_conflict(16, [&](int lane) { return layout::fragment_at(2, warp, lane, half); });
      expect_no_conflict(8, [&](int lane) { return layout::fragment_at(1, warp, lane, half); });
    }
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 4; ++i) {
      expect_no_conflict(16, [&](int lane) { return layout::from_at(layout::square_of(lane, round), i); });
      expect_no_conflict(16, [&](int lane) { return layout::to_at(layout::square_of(lane, round), i); });
    }
  }
}

}  // namespace
}  // namespace gpudnn::conv
