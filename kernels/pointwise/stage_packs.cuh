// What kernels of pointwise programs copy to shared memory: their parameters, and each thread its own packs of inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/pointwise/vector_tensor.hpp"
#include "kernels/ptx/cp_async.cuh"

namespace gpudnn::kernels {

// Parameters in shared memory, copied there by all threads of the block. Bytes: shared memory takes no constructors.
template <class T>
struct alignas(16) SharedCopy {
  unsigned char bytes[sizeof(T)];
  __device__ __forceinline__ const T& get() const { return *reinterpret_cast<const T*>(bytes); }
};
template <class T>
__device__ __forceinline__ void copy_to_shared(const T& from, SharedCopy<T>* to) {
  static_assert(sizeof(T) % 4 == 0 && alignof(T) % 4 == 0, "it goes in words");
  const auto* const words = reinterpret_cast<const std::uint32_t*>(&from);
  auto* const copy = reinterpret_cast<std::uint32_t*>(to->bytes);
  for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(sizeof(T) / 4); i += kProgramThreads)
    copy[i] = words[i];
  __syncthreads();
}

// A thread's own bytes: no other thread reads or writes them.
__device__ __forceinline__ void copy_chunk(void* shared, const void* global, int chunk, bool is_reused) {
#if __CUDA_ARCH__ >= 800
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  if (chunk == 16 && !is_reused) {
    ptx::cp_async<16>(to, global, 16);
  } else if (chunk == 16) {
    ptx::cp_async_ca_16(to, global);
  } else if (chunk == 8) {
    ptx::cp_async<8>(to, global, 8);
  } else {
    ptx::cp_async<4>(to, global, 4);
  }
#else
  if (chunk == 16) {
    *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
  } else if (chunk == 8) {
    *static_cast<uint2*>(shared) = *static_cast<const uint2*>(global);
  } else {
    *static_cast<std::uint32_t*>(shared) = *static_cast<const std::uint32_t*>(global);
  }
#endif
}
__device__ __forceinline__ void end_of_copies() {
#if __CUDA_ARCH__ >= 800
  ptx::cp_async_commit_group();
#endif
}
// All copies but those since the last end_of_copies() have arrived.
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  ptx::cp_async_wait_group<1>();
#endif
}

}  // namespace gpudnn::kernels
