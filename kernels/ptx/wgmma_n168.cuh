// wgmma.mma_async of 64 x 168, of 16-bit elements, both operands MN-major. See wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

// clang-format off
#define GPUDNN_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define GPUDNN_D12(i) GPUDNN_D4(i), GPUDNN_D4(i + 4), GPUDNN_D4(i + 8)
#define GPUDNN_D84 GPUDNN_D12(0), GPUDNN_D12(12), GPUDNN_D12(24), GPUDNN_D12(36), GPUDNN_D12(48), GPUDNN_D12(60), GPUDNN_D12(72)
#define GPUDNN_LIST_84 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26," \
  "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
  "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
  "%80,%81,%82,%83}"

template <class T>
__device__ __forceinline__ void wgmma_n168(float (&d)[84], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n168k16.f32.f16.f16 " GPUDNN_LIST_84 ", %84, %85, 1, 1, 1, 1, 1;"
                 : GPUDNN_D84 : "l"(a), "l"(b));
  } else {
    static_assert(std::is_same_v<T, tile::BFloat16>, "16-bit elements");
    asm volatile("wgmma.mma_async.sync.aligned.m64n168k16.f32.bf16.bf16 " GPUDNN_LIST_84 ", %84, %85, 1, 1, 1, 1, 1;"
                 : GPUDNN_D84 : "l"(a), "l"(b));
  }
}

#undef GPUDNN_LIST_84
#undef GPUDNN_D84
#undef GPUDNN_D12
#undef GPUDNN_D4
// clang-format on

}  // namespace gpudnn::ptx
