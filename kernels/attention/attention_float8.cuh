// Reading the numbers that come with attention in 8-bit floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpudnn::kernels {

__device__ __forceinline__ float number_or_one(const float* number) { return number == nullptr ? 1.0F : *number; }
__device__ __forceinline__ float product_of(const float* const (&numbers)[2]) {
  return number_or_one(numbers[0]) * number_or_one(numbers[1]);
}

}  // namespace gpudnn::kernels
