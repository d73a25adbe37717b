// The epilogue of a matrix product on 8 neighbouring columns of a row:
//   v = alpha * sum + beta * c + bias;  v = f(v);  amax = max(amax, |v|);  d = convert(scale_d * v)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/elements.cuh"
#include "kernels/ptx/gpu_scope.cuh"

namespace gpudnn::kernels::gemm {

// What a thread knows before its first element.
struct EpilogueState {
  float alpha;  // with the factors of a and b
  float scale_d;
  std::uint32_t amax = 0;  // the bits of a magnitude

  __device__ __forceinline__ explicit EpilogueState(const Epilogue& e)
      : alpha(e.alpha), scale_d(e.scale_d != nullptr ? *e.scale_d : 1.0f) {
    if (e.descale_a != nullptr) alpha *= *e.descale_a;
    if (e.descale_b != nullptr) alpha *= *e.descale_b;
  }
};

__device__ __forceinline__ std::int64_t element_at(const Matrix& x, const std::uint32_t (&batch)[2], std::uint32_t m,
                                                   std::uint32_t n) {
  return m * x.m_stride + n * x.n_stride + batch[0] * x.batch_stride[0] + batch[1] * x.batch_stride[1];
}

// From 8 sums, of which `count` exist, to what d gets.
__device__ __forceinline__ void chain8(const Epilogue& e, EpilogueState* state, const std::uint32_t (&batch)[2],
                                       std::uint32_t m, std::uint32_t n, int count, float (&v)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] *= state->alpha;
  if (e.beta != 0.0f) {
    float c[8] = {};
    load8(e.c, element_at(e.c, batch, m, n), count, c);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] += e.beta * c[i];
  }
  if (e.bias.data != nullptr) {
    float bias[8] = {};
    load8(e.bias, element_at(e.bias, batch, m, n), count, bias);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] += bias[i];
  }
  activate(e.activation, e.d.type != Element::f32, v);
  if (e.amax != nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) state->amax = max(state->amax, __float_as_uint(v[i]) & 0x7fffffffu);
    }
  }
  if (e.scale_d != nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= state->scale_d;
  }
}

// By whole warps, after the last element: the greatest magnitude of all. Its order does not matter, so it is
// deterministic.
__device__ __forceinline__ void finish_amax(const Epilogue& e, const EpilogueState& state) {
  if (e.amax == nullptr) return;
  const std::uint32_t amax = __reduce_max_sync(0xffffffffu, state.amax);
  if (threadIdx.x % 32 == 0 && amax != 0) {
    ptx::red_relaxed_gpu_max(reinterpret_cast<std::uint32_t*>(e.amax), amax);
  }
}

}  // namespace gpudnn::kernels::gemm
