// One piece of an epilogue's code for all parts of a thread's sums: they lie in registers, which have no addresses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

namespace gpudnn::kernels::gemm {

// Calls use(std::integral_constant<int, number>()), 0 <= number < kCount. All lanes have the same number.
template <int kCount, class Use>
__device__ __forceinline__ void with_number(int number, Use use) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    ((number == kIndex ? use(std::integral_constant<int, kIndex>()) : void()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

}  // namespace gpudnn::kernels::gemm
