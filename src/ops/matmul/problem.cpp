// The matrix product's problem and its numbers.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/problem.hpp"

#include <type_traits>

namespace gpudnn::matmul {

static_assert(std::has_unique_object_representations_v<Problem>, "problems are hashed as bytes");

std::int64_t batches(const Problem& problem) noexcept {
  std::int64_t count = 1;
  for (int i = 0; i < problem.d.rank - 2; ++i) count *= problem.d.dims[i];
  return count;
}

Batched batched(const TensorGeometry& tensor) noexcept {
  Batched whole;
  const int missing = kMaxBatchDims + 2 - tensor.rank;
  for (int i = 0; i < tensor.rank; ++i) {
    whole.dims[missing + i] = tensor.dims[i];
    whole.strides[missing + i] = tensor.strides[i];
  }
  return whole;
}

bool is_columnwise(const TensorGeometry& d) noexcept {
  const int n = d.rank - 1;
  return d.strides[n - 1] < d.strides[n] && d.dims[n - 1] > 1 && d.dims[n] > 1;
}

double flops(const Problem& problem) noexcept {
  return 2.0 * static_cast<double>(element_count(problem.d)) * static_cast<double>(depth(problem));
}

double bytes_of_tensors(const Problem& problem) noexcept {
  double bytes = 0;
  for (const TensorGeometry* tensor : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    if (tensor->rank > 0) bytes += static_cast<double>(element_count(*tensor)) * data_type_bits(tensor->type) / 8;
  }
  return bytes;
}

}  // namespace gpudnn::matmul
