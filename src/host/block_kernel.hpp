// The inner kernel of every matrix product on the host: a small tile of the result is kept in registers while its
// factors pass by. Compiled for several vector widths; the processor's features choose once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::host {

// The longest sum that is formed in T before it goes into a double. It bounds the error of every product: see
// docs/numerics.md.
constexpr std::int64_t kRun = 256;

// sums[m][n] = or += the sum over k of a[m][k] * b[k][n], for k <= kRun terms, which are added in T in the order of k.
//
// Element (i, k) of a is a[i * a_row + k * a_k]. The columns of b come in panels of `columns` (of the kernel): element
// (k, j) is b[j / columns * b_panel + k * b_k + j % columns]. The last panel is read and its sums are written in full,
// so `b` and the rows of `sums` have room up to the next multiple of `columns`.
template <class T>
struct Block {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const T* a = nullptr;
  std::int64_t a_row = 0;
  std::int64_t a_k = 0;
  const T* b = nullptr;
  std::int64_t b_panel = 0;
  std::int64_t b_k = 0;
  double* sums = nullptr;
  std::int64_t sums_row = 0;
  bool add = false;
};

template <class T>
struct BlockKernel {
  const char* name;      // of the instruction set
  std::int64_t rows;     // of the tile in registers
  std::int64_t columns;  // of a panel
  void (*multiply)(const Block<T>& block);
};

// The kernel for this processor; T is float or double.
template <class T>
[[nodiscard]] const BlockKernel<T>& block_kernel() noexcept;

// Every kernel that this processor can run, the plainest first; for tests.
constexpr int kMaxBlockKernels = 3;
template <class T>
int block_kernels(const BlockKernel<T>** kernels) noexcept;

}  // namespace gpudnn::host
