// What the gather engines and the kernel that combines their splits do with a row's maximum and sum of exponentials.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"
#include "kernels/attention/flash_tile.cuh"

namespace gpudnn::kernels::flash {

struct RowSums {
  float most, sum;
};
// With the sink's share; `factor` is what the row's sums of v are multiplied by.
__device__ __forceinline__ RowSums add_sink(const AttentionParams& a, int head, RowSums sums, float* factor) {
  *factor = 1.0F;
  if (a.sink != nullptr) {
    const float sink = a.sink[head];
    const float greater = fmaxf(sums.most, sink);
    if (greater == -INFINITY) {
      *factor = 0.0F;
      return sums;
    }
    *factor = expf(sums.most - greater);
    sums = {greater, sums.sum * *factor + expf(sink - greater)};
  }
  *factor = sums.sum == 0.0F ? 0.0F : *factor / sums.sum;
  return sums;
}
// Rows beyond a sequence are written where the tensor is not ragged.
__device__ __forceinline__ void write_sums(const AttentionParams& a, int batch, int head, int row, bool inside,
                                           const RowSums& sums) {
  const auto put = [&](const AttentionTensor& tensor, float value) {
    if (tensor.data == nullptr || (!inside && tensor.offset_bits != 0)) return;
    const std::int64_t offset = ragged_start(tensor, batch) + head * tensor.strides[1] + row * tensor.strides[2];
    static_cast<float*>(tensor.data)[offset] = value;
  };
  put(a.stats, inside && sums.sum != 0.0F ? sums.most + logf(sums.sum) : -INFINITY);
  put(a.max, inside ? sums.most : -INFINITY);
  put(a.sum_exp, inside ? sums.sum : 0.0F);
}

}  // namespace gpudnn::kernels::flash
