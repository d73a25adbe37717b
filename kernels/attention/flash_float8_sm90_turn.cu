// v turned for flash_float8_sm90: 8-bit operands of wgmma have the summed dimension, here keys, side by side.
//
// A block turns 128 keys of one head in shared memory: rows in by 16 bytes, 4 x 4 bytes exchanged in registers, 16 keys
// of an element out at once. 2 dim bytes for each key pass through memory.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/flash_float8_sm90.hpp"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kKeys = kFlashFloat8Keys;

__global__ void __launch_bounds__(kThreads) flash_float8_turn_sm90(const __grid_constant__ FlashFloat8TurnParams p) {
  auto* const words = reinterpret_cast<std::uint32_t*>(tile::dynamic_shared());
  ptx::griddepcontrol_launch_dependents();
  if (blockIdx.x == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < p.counter_words; i += kThreads) p.counters[i] = 0;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    const AttentionFloat8& n = p.numbers;
    float* const all[] = {n.amax_s, n.amax_o, n.amax_ds, n.amax_dq, n.amax_dk, n.amax_dv};
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      if (all[i] != nullptr) *all[i] = 0.0F;
    }
  }
  const int tiles = p.padded / kKeys;
  const int first = static_cast<int>(blockIdx.x) % tiles * kKeys;
  const int batch_head = static_cast<int>(blockIdx.x) / tiles;
  const int batch = batch_head / p.heads;
  int length = p.length_kv;
  if (p.lengths_kv != nullptr) length = min(max(p.lengths_kv[batch], 0), length);
  const auto* const v =
      static_cast<const unsigned char*>(p.v) + batch * p.strides[0] + batch_head % p.heads * p.strides[1];
  const int pitch = p.dim / 4 + 1;  // words of a key's row: odd, so that keys 16 apart are 16 banks apart
  const int chunks = p.dim / 16;
  // Four loads of a thread at once.
  for (int i = static_cast<int>(threadIdx.x); i < kKeys * chunks; i += 4 * kThreads) {
    uint4 fours[4] = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = (i + e * kThreads) / chunks;
      const int chunk = (i + e * kThreads) % chunks;
      if (key < kKeys && first + key < length) {
        fours[e] = *reinterpret_cast<const uint4*>(v + (first + key) * p.strides[2] + 16 * chunk);
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = (i + e * kThreads) / chunks;
      if (key >= kKeys) continue;
      std::uint32_t* const to = words + key * pitch + (i + e * kThreads) % chunks * 4;
      to[0] = fours[e].x, to[1] = fours[e].y, to[2] = fours[e].z, to[3] = fours[e].w;
    }
  }
  __syncthreads();
  const int quads = p.dim / 4;
  auto* const out = static_cast<unsigned char*>(p.turned) + static_cast<std::int64_t>(batch_head) * p.dim * p.padded;
  for (int i = static_cast<int>(threadIdx.x); i < kKeys / 16 * quads; i += kThreads) {
    // Neighbouring lanes: two groups of 16 keys, then elements.
    const int quad = i / 2 % quads;
    const int group = i / 2 / quads * 2 + i % 2;
    std::uint32_t rows[4][4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const std::uint32_t* const from = words + 16 * group * pitch + quad;
      const std::uint32_t a = from[2 * w * pitch], b = from[(2 * w + (p.is_paired ? 8 : 1)) * pitch];
      const std::uint32_t c = from[(2 * w + (p.is_paired ? 1 : 8)) * pitch], d = from[(2 * w + 9) * pitch];
      const std::uint32_t ab_low = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);
      const std::uint32_t cd_low = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);
      rows[0][w] = __byte_perm(ab_low, cd_low, 0x5410);
      rows[1][w] = __byte_perm(ab_low, cd_low, 0x7632);
      rows[2][w] = __byte_perm(ab_high, cd_high, 0x5410);
      rows[3][w] = __byte_perm(ab_high, cd_high, 0x7632);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = p.is_straight ? 4 * quad + e : quad / 4 * 16 + e / 2 * 8 + quad % 4 * 2 + e % 2;
      *reinterpret_cast<uint4*>(out + static_cast<std::int64_t>(row) * p.padded + first + 16 * group) =
          make_uint4(rows[e][0], rows[e][1], rows[e][2], rows[e][3]);
    }
  }
}

}  // namespace

void launch_flash_float8_turn_sm90(const FlashFloat8TurnParams& params, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(params.padded / kKeys * params.batch_heads);
  const auto bytes = static_cast<std::size_t>(kKeys * (params.dim / 4 + 1) * 4);
  cuda::launch_kernel(flash_float8_turn_sm90, {blocks, kThreads, bytes}, stream, params);
}

}  // namespace gpudnn::kernels
