// The matrix product of the host: any types and strides, blocked, packed, on all threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "host/conv_gather.hpp"

namespace gpudnn::host {

// Copies rows x columns elements of a matrix, element (i, j) at data[i * row_stride + j * column_stride], to
// to[i * to_row + j * to_column], in the type that is multiplied in.
template <class Factor>
using PackMatrix = void (*)(const void* data, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
                            std::int64_t columns, Factor* to, std::int64_t to_row, std::int64_t to_column);

// Of elements of type T, which converts to Factor by static_cast.
template <class T, class Factor = FactorOf<T>>
void pack_matrix(const void* data, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
                 std::int64_t columns, Factor* to, std::int64_t to_row, std::int64_t to_column) {
  const auto* const from = static_cast<const T*>(data);
  // The inner loop goes along whichever direction is contiguous where it is written, or else where it is read.
  if (to_row == 1 || (to_column != 1 && row_stride == 1)) {
    for (std::int64_t j = 0; j < columns; ++j) {
      copy_strided(to + j * to_column, to_row, from + j * column_stride, row_stride, rows);
    }
  } else {
    for (std::int64_t i = 0; i < rows; ++i) {
      copy_strided(to + i * to_row, to_column, from + i * row_stride, column_stride, columns);
    }
  }
}

template <class Factor>
struct GemmMatrix {
  const void* data = nullptr;
  std::int64_t element = 0;  // bytes
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  PackMatrix<Factor> pack = nullptr;
};
template <class T>
[[nodiscard]] GemmMatrix<FactorOf<T>> gemm_matrix(const T* data, std::int64_t row_stride, std::int64_t column_stride) {
  return {data, sizeof(T), row_stride, column_stride, &pack_matrix<T>};
}

// A finished part of the product: the sums of row `row` in columns [column, column + count). Called from several
// threads, once for each element.
using GemmWrite = std::function<void(std::int64_t row, std::int64_t column, std::int64_t count, const double* sums)>;

// sums[m][n] = the sum over k of a[m][k] * b[k][n], factors multiplied and added in Factor (float or double) in runs of
// at most kRun terms, the runs joined in double in their order. The same bits whatever the number of threads. Needs up
// to 64 MiB of memory; more where k is above some hundred thousand.
template <class Factor>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const GemmMatrix<Factor>& a, const GemmMatrix<Factor>& b,
          const GemmWrite& write);

}  // namespace gpudnn::host
