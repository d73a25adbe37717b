// wgmma.mma_async of 64 x 160, of 16-bit elements, both operands K-major. See wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

// clang-format off
#define GPUDNN_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define GPUDNN_D80 GPUDNN_D8(0), GPUDNN_D8(8), GPUDNN_D8(16), GPUDNN_D8(24), GPUDNN_D8(32), GPUDNN_D8(40), GPUDNN_D8(48), GPUDNN_D8(56), GPUDNN_D8(64), GPUDNN_D8(72)
#define GPUDNN_LIST_80 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26," \
  "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
  "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79}"

template <class T>
__device__ __forceinline__ void wgmma_n160(float (&d)[80], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n160k16.f32.f16.f16 " GPUDNN_LIST_80 ", %80, %81, 1, 1, 1, 0, 0;"
                 : GPUDNN_D80 : "l"(a), "l"(b));
  } else {
    static_assert(std::is_same_v<T, tile::BFloat16>, "16-bit elements");
    asm volatile("wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 " GPUDNN_LIST_80 ", %80, %81, 1, 1, 1, 0, 0;"
                 : GPUDNN_D80 : "l"(a), "l"(b));
  }
}

#undef GPUDNN_LIST_80
#undef GPUDNN_D80
#undef GPUDNN_D8
// clang-format on

}  // namespace gpudnn::ptx
