// The halo convolution's way out: fragments are blended, rounded, transposed into rows of a position's channels, and
// stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/halo_sm90.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::halo {

// A tile's first pixel.
struct Tile {
  std::int32_t w, h, d, n;
};
__device__ __forceinline__ Tile tile_at(const Params& p, std::uint32_t index) {
  std::uint32_t w = 0;
  std::uint32_t h = 0;
  std::uint32_t d = 0;
  index = p.tiles_w.divmod(index, &w);
  index = p.tiles_h.divmod(index, &h);
  index = p.depths.divmod(index, &d);
  return {static_cast<std::int32_t>(w) * p.tile_w, static_cast<std::int32_t>(h) * p.tile_h,
          static_cast<std::int32_t>(d), static_cast<std::int32_t>(index)};
}

// The rows of sums that a thread has, and what they mean.
struct Rows {
  std::int64_t first_byte;  // of the block's channels in a pixel
  std::uint32_t octets;     // of the block that exist
  float bias[2];            // of the thread's rows, lane / 4 of 16 for each warp, and 8 further
};
template <class T>
__device__ __forceinline__ Rows rows_of_thread(const Params& p, std::uint32_t row_block) {
  Rows rows;
  const std::uint32_t first = row_block * p.m_octets;
  rows.first_byte = static_cast<std::int64_t>(first) * 16;
  rows.octets = min(p.m_octets, p.all_m_octets - first);
  const std::uint32_t warp = threadIdx.x % 128 / 32;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::uint32_t octet = 2 * warp + half;
    const std::int64_t m = (first + octet) * 8 + threadIdx.x % 32 / 4;
    rows.bias[half] =
        p.has_bias && octet < rows.octets
            ? tile::widen<float>(*reinterpret_cast<const T*>(static_cast<const char*>(p.bias) + m * p.bias_step))
            : 0.0f;
  }
  return rows;
}

template <class T>
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  const float values[2] = {low, high};
  return tile::narrow_pack<T>(values).words[0];
}

__device__ __forceinline__ float rectify(const Params& p, float value) {
  const float positive = p.clipped ? fminf(fmaxf(value, 0.0f), p.ceiling) : fmaxf(value, 0.0f);
  return p.propagate_nan && value != value ? value : positive;
}

// Where 16 bytes number `octet` of a position lie in the staging area: spread over the banks.
__device__ __forceinline__ std::uint32_t staged(const Params& p, std::uint32_t position, std::uint32_t octet) {
  const std::uint32_t spread = p.staging_pitch == 128 ? position & 7u : position >> 1 & 3u;
  return position * p.staging_pitch + ((octet ^ spread) << 4);
}

// Calls visit(place in the staging area, pixel's offset from the tile's first along h and w, octet) for each 16 bytes
// of the tile that exist.
template <class Visit>
__device__ __forceinline__ void for_each_vector(const Params& p, const Tile& tile, const Rows& rows, Visit visit) {
  const std::uint32_t height = min(p.tile_h, p.extent[1] - tile.h);
  const std::int32_t width = min(p.tile_w, p.extent[0] - tile.w);
  const std::uint32_t count = height * p.tile_w_div.divisor * p.chunks.divisor;
#pragma unroll 4
  for (std::uint32_t i = threadIdx.x % 128; i < count; i += 128) {
    std::uint32_t octet = 0;
    std::uint32_t column = 0;
    const std::uint32_t row = p.tile_w_div.divmod(p.chunks.divmod(i, &octet), &column);
    if (static_cast<std::int32_t>(column) < width && octet < rows.octets) {
      visit(staged(p, row * p.pitch + column, octet), row, column, octet);
    }
  }
}

__device__ __forceinline__ std::int64_t offset_of_tile(const Tile& tile, const Rows& rows,
                                                       const std::int64_t (&step)[4]) {
  return rows.first_byte + tile.w * step[0] + tile.h * step[1] + tile.d * step[2] + tile.n * step[3];
}

__device__ __forceinline__ void fetch_addend(const Params& p, const Tile& tile, const Rows& rows,
                                             unsigned char* staging) {
  const char* const from = static_cast<const char*>(p.addend) + offset_of_tile(tile, rows, p.addend_step);
  for_each_vector(
      p, tile, rows, [&](std::uint32_t place, std::uint32_t row, std::uint32_t column, std::uint32_t octet) {
        *reinterpret_cast<uint4*>(staging + place) =
            *reinterpret_cast<const uint4*>(from + row * p.addend_step[1] + column * p.addend_step[0] + octet * 16);
      });
}

// alpha * sum + addend_scale * addend + bias, and the activation, of 16 rows and 16 positions (8 where the others do
// not exist): `v` are the sums of two column groups.
template <class T>
__device__ __forceinline__ void finish(const Params& p, const Rows& rows, std::uint32_t address, float (&v)[8]) {
#pragma unroll
  for (float& each : v) each *= p.alpha;
  if (p.addend_scale != 0.0f) {
    std::uint32_t words[4];
    ptx::ldmatrix_x4_trans(address, words);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[2 * i] += p.addend_scale * tile::widen<float>(tile::half_of<T>(words[i], 0));
      v[2 * i + 1] += p.addend_scale * tile::widen<float>(tile::half_of<T>(words[i], 1));
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] += rows.bias[i / 2 % 2];
  if (p.relu) {
#pragma unroll
    for (float& each : v) each = rectify(p, each);
  }
}

// Sums of the warp's 16 rows into the staging area, all positions.
template <class T, int kN>
__device__ __forceinline__ void stage_sums(const Params& p, const Rows& rows, unsigned char* staging,
                                           const float (&sum)[kN / 2]) {
  const std::uint32_t warp = threadIdx.x % 128 / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  if (2 * warp >= p.m_octets) return;
  // Lanes 8i to 8i + 7 address matrix i: rows 0-7 and 8-15 of the first eight positions, then of the next eight. An odd
  // number of octets leaves the last warp 8 rows that do not exist; they have room, as the pitch is even.
  const std::uint32_t address =
      ptx::shared_address(staging) + staged(p, lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2);
  const std::uint32_t of_last = ptx::shared_address(staging) + staged(p, lane % 8, 2 * warp + lane / 8 % 2);
#pragma unroll
  for (int j = 0; j < kN / 8; j += 2) {
    const bool has_two = j + 1 < kN / 8;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = has_two || i < 4 ? sum[4 * j + (has_two || i < 4 ? i : 0)] : 0;
    const std::uint32_t to = (has_two ? address : of_last) + static_cast<std::uint32_t>(j) * 8 * p.staging_pitch;
    if (!p.is_plain) finish<T>(p, rows, to, v);
    if (has_two) {
      ptx::stmatrix_x4_trans(to, pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]), pack_pair<T>(v[4], v[5]),
                             pack_pair<T>(v[6], v[7]));
    } else {
      ptx::stmatrix_x2_trans(to, pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]));
    }
  }
}

template <class T, int kN>
__device__ __forceinline__ void store_tile(const Params& p, const Tile& tile, const Rows& rows, unsigned char* staging,
                                           int barrier, const float (&sum)[kN / 2]) {
  ptx::barrier_sync(barrier, 128);  // the tile before has left the staging area
  if (p.addend_scale != 0.0f) {
    fetch_addend(p, tile, rows, staging);
    ptx::barrier_sync(barrier, 128);
  }
  stage_sums<T, kN>(p, rows, staging, sum);
  ptx::barrier_sync(barrier, 128);
  char* const to = static_cast<char*>(p.out) + offset_of_tile(tile, rows, p.out_step);
  for_each_vector(
      p, tile, rows, [&](std::uint32_t place, std::uint32_t row, std::uint32_t column, std::uint32_t octet) {
        const uint4 bits = *reinterpret_cast<const uint4*>(staging + place);
        ptx::st_global(reinterpret_cast<uint4*>(to + row * p.out_step[1] + column * p.out_step[0] + octet * 16), bits);
      });
}

}  // namespace gpudnn::kernels::halo
