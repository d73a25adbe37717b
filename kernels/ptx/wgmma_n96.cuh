// wgmma.mma_async of 64 x 96. See wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

// clang-format off
#define GPUDNN_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define GPUDNN_D48 GPUDNN_D8(0), GPUDNN_D8(8), GPUDNN_D8(16), GPUDNN_D8(24), GPUDNN_D8(32), GPUDNN_D8(40)
#define GPUDNN_LIST_48 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}"

// Transposed operands are MN-major in shared memory.
template <class T, int kTransposeA, int kTransposeB>
__device__ __forceinline__ void wgmma_n96(float (&d)[48], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 " GPUDNN_LIST_48 ", %48, %49, 1, 1, 1, %50, %51;"
                 : GPUDNN_D48 : "l"(a), "l"(b), "n"(kTransposeA), "n"(kTransposeB));
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 " GPUDNN_LIST_48 ", %48, %49, 1, 1, 1, %50, %51;"
                 : GPUDNN_D48 : "l"(a), "l"(b), "n"(kTransposeA), "n"(kTransposeB));
  } else {
    static_assert(std::is_same_v<T, float> && kTransposeA == 0 && kTransposeB == 0, "TF32 operands are K-major");
    asm volatile("wgmma.mma_async.sync.aligned.m64n96k8.f32.tf32.tf32 " GPUDNN_LIST_48 ", %48, %49, 1, 1, 1;"
                 : GPUDNN_D48 : "l"(a), "l"(b));
  }
}

#undef GPUDNN_LIST_48
#undef GPUDNN_D48
#undef GPUDNN_D8
// clang-format on

}  // namespace gpudnn::ptx
