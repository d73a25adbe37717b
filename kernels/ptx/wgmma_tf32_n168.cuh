// wgmma.mma_async of 64 x 168 in TF32 with A in registers. See wgmma.cuh and its wgmma_tf32_registers.
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

__device__ __forceinline__ void wgmma_tf32_n168(float (&d)[84], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n168k8.f32.tf32.tf32 " GPUDNN_LIST_84 ", {%84,%85,%86,%87}, %88, 1, 1, 1;"
               : GPUDNN_D84 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef GPUDNN_LIST_84
#undef GPUDNN_D84
#undef GPUDNN_D12
#undef GPUDNN_D4
// clang-format on

}  // namespace gpudnn::ptx
