// ReLU as a pair of values is rounded to 16 bits: no instruction for a value, and one for a pair where a NaN becomes 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/activation.hpp"
#include "kernels/ptx/cvt_relu.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::gemm {

enum class PairRelu : int { none, keeps_nan, drops_nan };

// Two neighbouring elements as they lie in memory.
template <class T, PairRelu kRelu>
__device__ __forceinline__ std::uint32_t round_pair(float low, float high) {
  static_assert(sizeof(T) == 2, "pairs of 16 bits");
  const float values[2] = {low, high};
  if constexpr (kRelu == PairRelu::none) {
    return tile::narrow_pack<T>(values).words[0];
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {
    if constexpr (kRelu == PairRelu::keeps_nan) return ptx::cvt_rn_relu_bf16x2_f32(high, low);
    return ptx::max_bf16x2(tile::narrow_pack<T>(values).words[0], 0);
  } else {
    if constexpr (kRelu == PairRelu::keeps_nan) return ptx::cvt_rn_relu_f16x2_f32(high, low);
    return ptx::max_f16x2(tile::narrow_pack<T>(values).words[0], 0);
  }
}

// Calls use(std::integral_constant<PairRelu, ...>()) for an activation that is_of_rounding.hpp names.
template <class Use>
__device__ __forceinline__ void with_pair_relu(const ActivationArgs<float>& a, Use use) {
  if (a.mode != Activation::relu) {
    use(std::integral_constant<PairRelu, PairRelu::none>());
  } else if (!a.drops_nan) {
    use(std::integral_constant<PairRelu, PairRelu::keeps_nan>());
  } else {
    use(std::integral_constant<PairRelu, PairRelu::drops_nan>());
  }
}

}  // namespace gpudnn::kernels::gemm
