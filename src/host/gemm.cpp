// A product is cut into strips of rows and columns whose packed factors have bounded size. Both factors of a strip are
// packed once: a in rows, b in panels of the kernel's columns. A unit of work is a tile of the strip; it runs through k
// in blocks of at most kRun terms and adds them to sums in double, which the caller gets in the end.
// SPDX-License-Identifier: Apache-2.0
#include "host/gemm.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "host/block_kernel.hpp"
#include "host/element.hpp"
#include "host/scratch.hpp"

namespace gpudnn::host {
namespace {

constexpr std::int64_t kTileRows = 144;
constexpr std::int64_t kTileColumns = 192;
constexpr std::int64_t kMaxPacked = std::int64_t{32} << 20;  // bytes of one factor

template <class Factor>
struct Strip {
  const BlockKernel<Factor>& kernel;
  std::int64_t k;
  std::int64_t rows;
  std::int64_t columns;
  Factor* a;  // [rows][k]
  Factor* b;  // a panel of kernel.columns columns after the other, each [k][kernel.columns]
  std::int64_t first_row;
  std::int64_t first_column;
};

template <class Factor>
const void* element_at(const GemmMatrix<Factor>& matrix, std::int64_t row, std::int64_t column) noexcept {
  return static_cast<const std::byte*>(matrix.data) +
         (row * matrix.row_stride + column * matrix.column_stride) * matrix.element;
}

template <class Factor>
void pack_rows(const Strip<Factor>& strip, const GemmMatrix<Factor>& a) {
  parallel_for(strip.rows, grain_for(2 * strip.k), [&](std::int64_t begin, std::int64_t end) {
    a.pack(element_at(a, strip.first_row + begin, 0), a.row_stride, a.column_stride, end - begin, strip.k,
           strip.a + begin * strip.k, strip.k, 1);
  });
}

template <class Factor>
void pack_panels(const Strip<Factor>& strip, const GemmMatrix<Factor>& b) {
  const std::int64_t width = strip.kernel.columns;
  parallel_for(parts_of(strip.columns, width), grain_for(2 * width * strip.k),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t panel = begin; panel < end; ++panel) {
                   const std::int64_t count = std::min(width, strip.columns - panel * width);
                   Factor* const to = strip.b + panel * width * strip.k;
                   b.pack(element_at(b, 0, strip.first_column + panel * width), b.row_stride, b.column_stride, strip.k,
                          count, to, width, 1);
                   for (std::int64_t j = count; j < width; ++j) zero_strided(to + j, width, strip.k);
                 }
               });
}

template <class Factor>
void multiply_tile(const Strip<Factor>& strip, std::int64_t row, std::int64_t column, const GemmWrite& write,
                   double* sums) {
  const std::int64_t width = strip.kernel.columns;
  const std::int64_t run = parts_of(strip.k, parts_of(strip.k, kRun));
  Block<Factor> block;
  block.m = std::min(kTileRows, strip.rows - row);
  block.n = std::min(kTileColumns, strip.columns - column);
  block.sums = sums;
  block.sums_row = rounded_up(block.n, width);
  block.a_row = strip.k;
  block.a_k = 1;
  block.b_panel = width * strip.k;
  block.b_k = width;
  for (std::int64_t first = 0; first < strip.k; first += run) {
    block.k = std::min(run, strip.k - first);
    block.a = strip.a + row * strip.k + first;
    block.b = strip.b + column * strip.k + first * width;
    block.add = first > 0;
    strip.kernel.multiply(block);
  }
  for (std::int64_t i = 0; i < block.m; ++i) {
    write(strip.first_row + row + i, strip.first_column + column, block.n, sums + i * block.sums_row);
  }
}

template <class Factor>
void multiply_strip(const Strip<Factor>& strip, const GemmWrite& write) {
  const std::int64_t down = parts_of(strip.rows, kTileRows);
  const std::int64_t across = parts_of(strip.columns, kTileColumns);
  const std::int64_t cost = std::min(strip.rows, kTileRows) * std::min(strip.columns, kTileColumns) * strip.k / 16;
  parallel_for(down * across, grain_for(cost), [&](std::int64_t begin, std::int64_t end) {
    Scratch scratch(Scratch::bytes_of<double>(kTileRows * kTileColumns));
    auto* const sums = scratch.take<double>(kTileRows * kTileColumns);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      multiply_tile(strip, tile / across * kTileRows, tile % across * kTileColumns, write, sums);
    }
  });
}

// As many as fit, in whole tiles or, of very long rows, in less than one.
std::int64_t whole_tiles(std::int64_t fitting, std::int64_t tile, std::int64_t least) noexcept {
  return fitting >= tile ? fitting / tile * tile : std::max(fitting / least, std::int64_t{1}) * least;
}

}  // namespace

template <class Factor>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const GemmMatrix<Factor>& a, const GemmMatrix<Factor>& b,
          const GemmWrite& write) {
  if (m <= 0 || n <= 0) return;
  const BlockKernel<Factor>& kernel = block_kernel<Factor>();
  const std::int64_t fitting = kMaxPacked / static_cast<std::int64_t>(sizeof(Factor)) / std::max<std::int64_t>(k, 1);
  const std::int64_t rows = std::min(m, whole_tiles(fitting, kTileRows, kernel.rows));
  const std::int64_t columns = std::min(n, whole_tiles(fitting, kTileColumns, kernel.columns));
  const std::int64_t padded = rounded_up(columns, kernel.columns);
  if (k <= 0) {
    Scratch zeros(Scratch::bytes_of<double>(n));
    auto* const sums = zeros.take<double>(n);
    std::fill_n(sums, n, 0.0);
    for (std::int64_t row = 0; row < m; ++row) write(row, 0, n, sums);
    return;
  }
  Scratch scratch(Scratch::bytes_of<Factor>(rows * k) + Scratch::bytes_of<Factor>(padded * k));
  Strip<Factor> strip{kernel, k, 0, 0, scratch.take<Factor>(rows * k), scratch.take<Factor>(padded * k), 0, 0};
  for (strip.first_column = 0; strip.first_column < n; strip.first_column += columns) {
    strip.columns = std::min(columns, n - strip.first_column);
    pack_panels(strip, b);
    for (strip.first_row = 0; strip.first_row < m; strip.first_row += rows) {
      strip.rows = std::min(rows, m - strip.first_row);
      pack_rows(strip, a);
      multiply_strip(strip, write);
    }
  }
}

template void gemm<float>(std::int64_t m, std::int64_t n, std::int64_t k, const GemmMatrix<float>& a,
                          const GemmMatrix<float>& b, const GemmWrite& write);
template void gemm<double>(std::int64_t m, std::int64_t n, std::int64_t k, const GemmMatrix<double>& a,
                           const GemmMatrix<double>& b, const GemmWrite& write);

}  // namespace gpudnn::host
