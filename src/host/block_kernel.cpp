// A tile of R rows and two vectors of columns: each step of k loads two vectors of b, and multiplies them with R
// elements of a, each repeated over a vector. So R + 2 loads serve 2 R multiply-adds, and all 2 R sums stay in
// registers.
//
// The vectors are the compiler's own (GCC and Clang), as wide as the instruction set that the function is compiled for;
// the multiply-adds become fused ones where there are any. A processor of another kind has vectors of 16 bytes.
// SPDX-License-Identifier: Apache-2.0
#include "host/block_kernel.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gpudnn::host {
namespace {

template <class T, int kBytes>
struct VectorOf {
  using Type [[gnu::vector_size(kBytes)]] = T;
};

// Row i of a tile, for all i at once: `Row` is an index sequence, so that each of its rows has registers of its own.
template <class T, int kBytes, class Rows>
struct TileOf;

template <class T, int kBytes, std::size_t... kRow>
struct TileOf<T, kBytes, std::index_sequence<kRow...>> {
  using Vector = typename VectorOf<T, kBytes>::Type;
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  static constexpr int kColumns = 2 * kLanes;

  [[gnu::always_inline]] static void multiply(const Block<T>& block, const T* a, const T* b, double* sums) {
    Vector left[] = {((void)kRow, Vector{})...};
    Vector right[] = {((void)kRow, Vector{})...};
    const T* const rows[] = {a + static_cast<std::int64_t>(kRow) * block.a_row...};
    const std::int64_t a_k = block.a_k;
    const std::int64_t b_k = block.b_k;
    std::int64_t at = 0;
    for (std::int64_t k = 0; k < block.k; ++k) {
      Vector first;
      Vector second;
      std::memcpy(&first, b, sizeof first);
      std::memcpy(&second, b + kLanes, sizeof second);
      ((left[kRow] += rows[kRow][at] * first, right[kRow] += rows[kRow][at] * second), ...);
      at += a_k;
      b += b_k;
    }
    (add_row(block.add, left[kRow], right[kRow], sums + static_cast<std::int64_t>(kRow) * block.sums_row), ...);
  }

 private:
  [[gnu::always_inline]] static void add_row(bool add, const Vector& left, const Vector& right, double* sums) {
    T row[kColumns];
    std::memcpy(row, &left, sizeof left);
    std::memcpy(row + kLanes, &right, sizeof right);
    if (add) {
      for (int j = 0; j < kColumns; ++j) sums[j] += static_cast<double>(row[j]);
    } else {
      for (int j = 0; j < kColumns; ++j) sums[j] = static_cast<double>(row[j]);
    }
  }
};

template <class T, int kBytes, int kRows>
using Tile = TileOf<T, kBytes, std::make_index_sequence<kRows>>;

// The rows that are left over at the end have tiles of fewer rows.
template <class T, int kBytes, int kRows>
[[gnu::always_inline]] inline void multiply_rest(const Block<T>& block, std::int64_t rows, const T* a, const T* b,
                                                 double* sums) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return Tile<T, kBytes, kRows>::multiply(block, a, b, sums);
    multiply_rest<T, kBytes, kRows - 1>(block, rows, a, b, sums);
  }
}

// A panel of b, which stays in the first-level cache while all rows of a pass by.
template <class T, int kBytes, int kRows>
[[gnu::always_inline]] inline void multiply_block(const Block<T>& block) {
  constexpr int kColumns = Tile<T, kBytes, kRows>::kColumns;
  const T* b = block.b;
  for (std::int64_t column = 0; column < block.n; column += kColumns, b += block.b_panel) {
    const T* a = block.a;
    double* sums = block.sums + column;
    std::int64_t row = 0;
    for (; row + kRows <= block.m; row += kRows) {
      Tile<T, kBytes, kRows>::multiply(block, a, b, sums);
      a += kRows * block.a_row;
      sums += kRows * block.sums_row;
    }
    multiply_rest<T, kBytes, kRows - 1>(block, block.m - row, a, b, sums);
  }
}

template <class T>
void multiply_plain(const Block<T>& block) {
  multiply_block<T, 16, 6>(block);
}

#if defined(__x86_64__) && defined(__GNUC__)
#define GPUDNN_HOST_X86 1

template <class T>
[[gnu::target("avx2,fma")]] void multiply_avx2(const Block<T>& block) {
  multiply_block<T, 32, 6>(block);
}

template <class T>
[[gnu::target("avx512f,avx2,fma")]] void multiply_avx512(const Block<T>& block) {
  multiply_block<T, 64, 12>(block);
}
#endif

template <class T>
constexpr std::int64_t columns_of(int bytes) {
  return 2 * bytes / static_cast<int>(sizeof(T));
}

template <class T>
constexpr BlockKernel<T> kKernels[] = {
    {"plain", 6, columns_of<T>(16), &multiply_plain<T>},
#ifdef GPUDNN_HOST_X86
    {"avx2", 6, columns_of<T>(32), &multiply_avx2<T>},
    {"avx512", 12, columns_of<T>(64), &multiply_avx512<T>},
#endif
};

// How many of kKernels run here.
int runnable() noexcept {
#ifdef GPUDNN_HOST_X86
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
  return __builtin_cpu_supports("avx512f") ? 3 : 2;
#else
  return 1;
#endif
}

}  // namespace

template <class T>
int block_kernels(const BlockKernel<T>** kernels) noexcept {
  const int count = std::min(runnable(), kMaxBlockKernels);
  for (int i = 0; i < count; ++i) kernels[i] = &kKernels<T>[i];
  return count;
}

template <class T>
const BlockKernel<T>& block_kernel() noexcept {
  static const BlockKernel<T>& best = kKernels<T>[runnable() - 1];
  return best;
}

template int block_kernels<float>(const BlockKernel<float>** kernels) noexcept;
template int block_kernels<double>(const BlockKernel<double>** kernels) noexcept;
template const BlockKernel<float>& block_kernel<float>() noexcept;
template const BlockKernel<double>& block_kernel<double>() noexcept;

}  // namespace gpudnn::host
