// Mean and squares of values that a warp reads from shared memory, and what they make of a value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/row_groups_sm90.cuh"

namespace gpudnn::kernels {

// The mean of the packs from `from` to `to`, of one at least, and the squares of the deviations from it, by all lanes.
// Halves are added by the tensor cores, floats in double.
// kOnce: they are no more than kAtOnce for each lane, and are read once.
template <class T, int kAtOnce = 4, bool kOnce = false>
__device__ __forceinline__ float2 held_moments(const T* values, int from, int to, bool rms) {
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  using Sum = std::conditional_t<std::is_same_v<T, float>, double, float>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Pack packs[kAtOnce];
  const auto read = [&](int first) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int pack = first + lane + k * 32;
      packs[k].fill(T{0});
      if (pack < to) packs[k] = tile::load_pack<T, N>(values + pack * N);
    }
  };
  // body(pack, its number) for all.
  const auto for_packs = [&](bool again, const auto& body) {
#pragma unroll 1
    for (int first = from; first < to; first += kAtOnce * 32) {
      if (!kOnce || !again) read(first);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (k > 0 && first + k * 32 >= to) break;
        body(packs[k], first + lane + k * 32);
      }
      if constexpr (kOnce) break;
    }
  };
  float2 moments = {0, 0};
  if (!rms) {
    float sums[4] = {0, 0, 0, 0};
    Sum sum = 0;
    for_packs(false, [&](const Pack& pack, int) {
      if constexpr (std::is_same_v<T, float>) {
        float part = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) part += pack.get(i);
        sum += static_cast<double>(part);
      } else {
        add_pack<T>(pack, sums);
      }
    });
    const auto number = static_cast<float>((to - from) * N);
    if constexpr (std::is_same_v<T, float>) {
      moments.x = static_cast<float>(tile::warp_reduce(sum, tile::Sum{}) / static_cast<double>(number));
    } else {
      // With the remainder, it is exact for equal values.
      const float all = warp_sum_of_products(sums);
      const float one_over = ptx::rcp_approx_ftz(number);
      const float quotient = all * one_over;
      moments.x = fmaf(fmaf(-quotient, number, all), one_over, quotient);
    }
  }
  for_packs(!rms, [&](const Pack& pack, int number) {
    float wide[N];
    tile::widen_pack<float>(pack, wide);
    float part = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) part += (wide[i] - moments.x) * (wide[i] - moments.x);
    moments.y += number < to ? part : 0.0f;
  });
  moments.y = tile::warp_reduce(moments.y, tile::Sum{});
  return moments;
}

// The packs from `from` to `to` times 2^-80, each lane the same packs as in held_moments.
template <class T>
__device__ __forceinline__ void scale_held(T* values, int from, int to) {
  constexpr int N = tile::kPackWidth<T>;
#pragma unroll 1
  for (int pack = from + static_cast<int>(threadIdx.x) % 32; pack < to; pack += 32) {
    float wide[N];
    tile::widen_pack<float>(tile::load_pack<T, N>(values + pack * N), wide);
#pragma unroll
    for (float& value : wide) value *= kLnDown;
    *reinterpret_cast<tile::Pack<T, N>*>(values + pack * N) = tile::narrow_pack<T>(wide);
  }
}

// Writes a row's mean and 1 / sqrt(variance + epsilon) where they are asked for, and returns the latter and what is
// added to a value that it has multiplied. `scaled`: the values have been scaled by 2^-80, and are so when multiplied.
__device__ __forceinline__ float2 keep_moments(const LayerNormResidentArgs& args, std::uint32_t row, float mean,
                                               float variance, bool scaled, bool writes) {
  const float inverse = rsqrtf(variance + (scaled ? 0.0f : args.epsilon));
  if (writes && args.mean != nullptr)
    tile::store_any(args.mean_type, args.mean, row * args.mean_row, scaled ? mean * kLnUp : mean);
  if (writes && args.inverse != nullptr)
    tile::store_any(args.inverse_type, args.inverse, row * args.inverse_row, scaled ? inverse * kLnDown : inverse);
  return make_float2(inverse, -mean * inverse);
}

}  // namespace gpudnn::kernels
