// What attention backward in 8-bit floats on Hopper adds to flash_fused_backward_sm90: copies of its operands in bf16,
// where that does not multiply the bytes themselves; lse and delta; the results from their copies.
//
// bf16 holds every number of e4m3 and e5m2, so the scores are those of the 8-bit operands; p and dS are rounded to bf16
// in place of 8 bits, and the scales before their rounding need no memory: they are factors of the results. Copies are
// 2 bytes an element, and pass through memory once each way, which is a fiftieth of the products' time at 8k.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/attention_float8.cuh"
#include "kernels/attention/flash_float8_sm90.hpp"
#include "kernels/attention/flash_sm90_tile.cuh"
#include "kernels/attention/score_range.hpp"
#include "kernels/ptx/cvt_f8.cuh"

namespace gpudnn::kernels {
namespace {

using namespace flash_sm90;

constexpr int kThreads = 256;

__device__ __forceinline__ float2 floats_of(tile::AnyType type, std::uint32_t pair) {
  const auto bits = static_cast<std::uint16_t>(pair);
  const std::uint32_t halves =
      type == tile::AnyType::e4m3 ? ptx::cvt_rn_f16x2_e4m3x2(bits) : ptx::cvt_rn_f16x2_e5m2x2(bits);
  return make_float2(tile::widen<float>(tile::half_of<tile::Half>(halves, 0)),
                     tile::widen<float>(tile::half_of<tile::Half>(halves, 1)));
}

// 8 neighbours of a row.
__device__ __forceinline__ void load_eight(tile::AnyType type, const void* data, std::int64_t at, float (&x)[8]) {
  if (type == tile::AnyType::e4m3 || type == tile::AnyType::e5m2) {
    const uint2 words = *reinterpret_cast<const uint2*>(static_cast<const unsigned char*>(data) + at);
    const std::uint32_t pairs[4] = {words.x, words.x >> 16, words.y, words.y >> 16};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = floats_of(type, pairs[i]);
      x[2 * i] = two.x, x[2 * i + 1] = two.y;
    }
  } else if (type == tile::AnyType::f16) {
    tile::widen_pack<float>(tile::load_pack<tile::Half, 8>(static_cast<const tile::Half*>(data) + at), x);
  } else if (type == tile::AnyType::bf16) {
    tile::widen_pack<float>(tile::load_pack<tile::BFloat16, 8>(static_cast<const tile::BFloat16*>(data) + at), x);
  } else {
    const auto* const four = reinterpret_cast<const float4*>(static_cast<const float*>(data) + at);
    const float4 a = four[0], b = four[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
  }
}

__device__ __forceinline__ void store_eight(tile::AnyType type, void* data, std::int64_t at, const float (&x)[8]) {
  if (type == tile::AnyType::e4m3 || type == tile::AnyType::e5m2) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = type == tile::AnyType::e4m3 ? ptx::cvt_rn_satfinite_e4m3x2_f32(x[2 * i + 1], x[2 * i])
                                             : ptx::cvt_rn_satfinite_e5m2x2_f32(x[2 * i + 1], x[2 * i]);
    }
    *reinterpret_cast<uint2*>(static_cast<unsigned char*>(data) + at) =
        make_uint2(pairs[0] | pairs[1] << 16, pairs[2] | pairs[3] << 16);
  } else if (type == tile::AnyType::f16) {
    tile::store_pack(static_cast<tile::Half*>(data) + at, tile::narrow_pack<tile::Half>(x));
  } else if (type == tile::AnyType::bf16) {
    tile::store_pack(static_cast<tile::BFloat16*>(data) + at, tile::narrow_pack<tile::BFloat16>(x));
  } else {
    auto* const four = reinterpret_cast<float4*>(static_cast<float*>(data) + at);
    four[0] = make_float4(x[0], x[1], x[2], x[3]);
    four[1] = make_float4(x[4], x[5], x[6], x[7]);
  }
}

// Where chunk `index`, of 16 elements of a row, lies in the tensor; the copy is packed.
__device__ __forceinline__ std::int64_t place_of(const FlashFloat8Copy& tensor, std::int64_t index) {
  const int chunks = tensor.dim / 16;
  const std::int64_t row = index / chunks;
  const std::int64_t batch_head = row / tensor.rows;
  return batch_head / tensor.heads * tensor.strides[0] + batch_head % tensor.heads * tensor.strides[1] +
         row % tensor.rows * tensor.strides[2] + index % chunks * 16;
}

// blockIdx.y: the tensor.
__global__ void __launch_bounds__(kThreads) flash_float8_widen_sm90(const __grid_constant__ FlashFloat8WidenParams p) {
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
    const AttentionFloat8& n = p.numbers;
    float* const all[] = {n.amax_s, n.amax_o, n.amax_ds, n.amax_dq, n.amax_dk, n.amax_dv};
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      if (all[i] != nullptr) *all[i] = 0.0F;
    }
  }
  const FlashFloat8Copy& tensor = p.tensors[blockIdx.y];
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < p.chunks[blockIdx.y];
       i += step) {
    const std::int64_t from = place_of(tensor, i);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float x[8];
      load_eight(tensor.type, tensor.data, from + 8 * half, x);
      tile::store_pack(static_cast<tile::BFloat16*>(tensor.copy) + 16 * i + 8 * half,
                       tile::narrow_pack<tile::BFloat16>(x));
    }
  }
}

// 16 lanes for each row.
__global__ void __launch_bounds__(kThreads) flash_float8_delta_sm90(const __grid_constant__ FlashFloat8DeltaParams p) {
  const std::int64_t index = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 16;
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int batch_head = static_cast<int>(index / p.pitch);
  const int row = static_cast<int>(index % p.pitch);
  const bool exists = batch_head < p.batch_heads;
  const int batch = exists ? batch_head / p.heads : 0;
  const int head = batch_head % p.heads;
  const bool inside = exists && row < sequence_of(p.mask, batch).length_q;
  float sum = 0.0F;
  if (inside) {
    const std::int64_t o = batch * p.o.strides[0] + head * p.o.strides[1] + row * p.o.strides[2];
    const std::int64_t d_o = batch * p.d_o.strides[0] + head * p.d_o.strides[1] + row * p.d_o.strides[2];
    for (int column = 8 * lane; column < p.o.dim; column += 128) {
      float a[8], b[8];
      load_eight(p.o.type, p.o.data, o + column, a);
      load_eight(p.d_o.type, p.d_o.data, d_o + column, b);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum = fmaf(a[e], b[e], sum);
    }
  }
#pragma unroll
  for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane != 0 || !exists) return;
  float lse = INFINITY;
  if (inside) {
    const float stats = p.stats.data[batch * p.stats.strides[0] + head * p.stats.strides[1] + row * p.stats.strides[2]];
    if (holds_sum(stats)) lse = stats * 1.4426950408889634F;
  }
  const float dp = product_of(p.numbers.dp);
  p.lse[index] = lse;
  p.delta[index] = inside && dp != 0.0F ? sum * product_of(p.numbers.delta) / dp : 0.0F;
}

// blockIdx.y: dq, dk or dv.
__global__ void __launch_bounds__(kThreads)
    flash_float8_narrow_sm90(const __grid_constant__ FlashFloat8NarrowParams p) {
  const AttentionFloat8& n = p.numbers;
  const int which = static_cast<int>(blockIdx.y);
  const FlashFloat8Copy& tensor = p.tensors[which];
  const float of_scores = p.has_factors ? 1.0F : product_of(n.dp) * number_or_one(n.scale_ds);
  const float factor = which == 0   ? of_scores * product_of(n.dq)
                       : which == 1 ? of_scores * product_of(n.dk)
                                    : (p.has_factors ? 1.0F : number_or_one(n.scale_s)) * product_of(n.dv);
  const float scale = number_or_one(which == 0 ? n.scale_dq : which == 1 ? n.scale_dk : n.scale_dv);
  float* const amax = which == 0 ? n.amax_dq : which == 1 ? n.amax_dk : n.amax_dv;
  std::uint32_t most = 0;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < p.chunks[which];
       i += step) {
    const std::int64_t to = place_of(tensor, i);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float x[8];
      load_eight(tile::AnyType::bf16, tensor.copy, 16 * i + 8 * half, x);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        x[e] *= factor;
        most = max(most, __float_as_uint(x[e]) & 0x7fffffffu);
        x[e] *= scale;
      }
      store_eight(tensor.type, tensor.data, to + 8 * half, x);
    }
  }
  if (amax == nullptr) return;
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, lane));
  if (threadIdx.x % 32 == 0 && most != 0) atomicMax(reinterpret_cast<unsigned int*>(amax), most);
}

template <class Chunks>
unsigned blocks_for(const Chunks& chunks) {
  std::int64_t most = 1;
  for (const std::int64_t count : chunks) most = count > most ? count : most;
  const std::int64_t blocks = (most + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 4096 ? blocks : 4096);
}

}  // namespace

void launch_flash_float8_widen_sm90(const FlashFloat8WidenParams& params, CUstream_st* stream) {
  cuda::launch_kernel(flash_float8_widen_sm90, {dim3(blocks_for(params.chunks), 4), kThreads}, stream, params);
}

void launch_flash_float8_delta_sm90(const FlashFloat8DeltaParams& params, CUstream_st* stream) {
  const std::int64_t rows = params.pitch * params.batch_heads;
  cuda::launch_kernel(flash_float8_delta_sm90, {static_cast<unsigned>((rows + 15) / 16), kThreads}, stream, params);
}

void launch_flash_float8_narrow_sm90(const FlashFloat8NarrowParams& params, CUstream_st* stream) {
  cuda::launch_kernel(flash_float8_narrow_sm90, {dim3(blocks_for(params.chunks), 3), kThreads}, stream, params);
}

}  // namespace gpudnn::kernels
