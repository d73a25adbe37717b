// The mma.sync implicit GEMM's products: fragments out of shared memory, and the sums that a thread holds. See
// implicit_gemm_sm80.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm80_loads.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma_sync.cuh"

namespace gpudnn::kernels::sm80 {

// To nearest, ties away from zero: half of TF32's last place is added, and the matrix units read what stands above.
// Infinities and NaNs stay what they are.
__device__ __forceinline__ std::uint32_t round_to_tf32(std::uint32_t bits) {
  constexpr std::uint32_t kHalfOfLastPlace = 1u << 12;
  return fabsf(__uint_as_float(bits)) < __int_as_float(0x7f800000) ? bits + kHalfOfLastPlace : bits;
}

__device__ __forceinline__ std::uint32_t load_shared_word(const unsigned char* tile, std::uint32_t offset) {
  return *reinterpret_cast<const std::uint32_t*>(tile + offset);
}

// The fragments of one step (32 bytes of k) of a warp's rows, in 8 rows x 16 bytes: words[i] are those of 16 rows,
// {rows 0-7, rows 8-15} x {first, second half of the step}, in the order that kRowsFirst says.
template <class I, class S, int kGroups, bool kRowsFirst>
struct Fragments {
  std::uint32_t words[kGroups][4];

  // `first` is the warp's first m or n.
  __device__ __forceinline__ void load(const unsigned char* tile, int first, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Of the matrix j = lane / 8 whose rows' addresses this lane gives.
    const int high_rows = kRowsFirst ? lane >> 3 & 1 : lane >> 4;
    const int high_k = kRowsFirst ? lane >> 4 : lane >> 3 & 1;
    if constexpr (S::kPlainLoads) {
      const int g = lane >> 2;
      const int t = lane & 3;
      const std::uint32_t base = S::place(t, (first + g) >> 2) + static_cast<std::uint32_t>((g & 3) * 4);
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int rows_up = kRowsFirst ? j & 1 : j >> 1;
          const int k_up = kRowsFirst ? j >> 1 : j & 1;
          const auto chunks = static_cast<std::uint32_t>(4 * i + 2 * rows_up) << 4;
          words[i][j] = round_to_tf32(load_shared_word(
              tile, (base ^ chunks) + static_cast<std::uint32_t>((step * 8 + k_up * 4) * S::kRowBytes)));
        }
      }
    } else {
      const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));
      if constexpr (S::kKMajor) {
        const std::uint32_t base = shared + S::place(first + (lane & 7) + 8 * high_rows, high_k);
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
          ptx::ldmatrix_x4((base ^ static_cast<std::uint32_t>(step << 5)) + static_cast<std::uint32_t>(i * 16 * 64),
                           words[i]);
        }
      } else {
        const std::uint32_t base = shared + S::place((lane & 7) + 8 * high_k, first / 8 + high_rows);
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
          ptx::ldmatrix_x4_trans(
              (base ^ static_cast<std::uint32_t>(2 * i << 4)) + static_cast<std::uint32_t>(step * 16 * S::kRowBytes),
              words[i]);
        }
      }
      if constexpr (S::kElement == 4) {
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) words[i][j] = round_to_tf32(words[i][j]);
        }
      }
    }
  }
};
template <class I>
using FragmentsOfA = Fragments<I, TileOfA<I>, I::kFragmentsM, true>;
template <class I>
using FragmentsOfB = Fragments<I, TileOfB<I>, I::kFragmentsN / 2, false>;

template <ElementType kType>
__device__ __forceinline__ void mma(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (kType == ElementType::f16)
    ptx::mma_m16n8k16_f16(sums, a, b0, b1);
  else if constexpr (kType == ElementType::bf16)
    ptx::mma_m16n8k16_bf16(sums, a, b0, b1);
  else
    ptx::mma_m16n8k8_tf32(sums, a, b0, b1);
}

template <class I>
using Sums = float[I::kFragmentsM][I::kFragmentsN][4];

template <class I>
__device__ __forceinline__ void multiply(const FragmentsOfA<I>& a, const FragmentsOfB<I>& b, Sums<I>& sums) {
#pragma unroll
  for (int i = 0; i < I::kFragmentsM; ++i) {
#pragma unroll
    for (int j = 0; j < I::kFragmentsN; ++j) {
      mma<I::kType>(sums[i][j], a.words[i], b.words[j / 2][j % 2 * 2], b.words[j / 2][j % 2 * 2 + 1]);
    }
  }
}

// The place of a warp's sums in the block's tile.
template <class I>
struct Place {
  int m0, n0;

  __device__ __forceinline__ Place() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    m0 = warp % I::kWarpsM * I::kWarpM;
    n0 = warp / I::kWarpsM * I::kWarpN;
  }
};

}  // namespace gpudnn::kernels::sm80
