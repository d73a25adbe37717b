// The direct convolution's epilogue: fragments are combined, rounded, transposed into rows of a pixel's channels, and
// stored as a box by TMA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/conv/direct/direct_sm90.hpp"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"
#include "kernels/gemm/epilogue/with_number.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_5d.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::direct {

// Filter first: a product of all positions, rows are channels of the output. Positions first: 64 of them each, columns
// are channels.
template <class Element, int kShape>
struct Instance {
  using T = Element;
  static constexpr bool kIsTf32 = std::is_same_v<Element, float>;  // filter first alone
  static constexpr bool kFilterFirst = kShapes[kShape].filter_first;
  static constexpr int kPositions = kShapes[kShape].positions;
  static constexpr int kChannels = kShapes[kShape].channels;
  static constexpr int kN = kFilterFirst ? kPositions : kChannels;
  static constexpr int kBlocks = kFilterFirst ? 1 : kPositions / 64;
  static constexpr int kOctets = kFilterFirst ? 2 : kChannels / 8;  // of channels, of which a thread has some
  static constexpr int kPerOctet = kFilterFirst ? 1 : 2;            // that it has of each
};

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

// The block's channels of the output, and those that a thread has sums of.
template <class I>
struct Channels {
  std::int64_t first_byte;  // in a pixel
  std::uint32_t octets;     // that exist
  float bias[I::kOctets][I::kPerOctet];
};
template <class I>
__device__ __forceinline__ Channels<I> channels_of_thread(const Params& p, std::uint32_t group,
                                                          std::uint32_t row_block) {
  Channels<I> channels;
  const std::uint32_t first_of_group = row_block * p.m_octets;
  const std::uint32_t first = group * p.all_m_octets + first_of_group;
  channels.first_byte = static_cast<std::int64_t>(first) * 16;
  channels.octets = min(p.m_octets, p.all_m_octets - first_of_group);
  const std::uint32_t warp = threadIdx.x % 128 / 32;
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t i = 0; i < I::kOctets; ++i) {
#pragma unroll
    for (std::uint32_t j = 0; j < I::kPerOctet; ++j) {
      const std::uint32_t octet = I::kFilterFirst ? 2 * warp + i : i;
      const std::uint32_t inside = I::kFilterFirst ? lane / 4 : lane % 4 * 2 + j;
      const std::int64_t offset = (static_cast<std::int64_t>(first + octet) * 8 + inside) * p.bias_step;
      channels.bias[i][j] = p.has_bias && octet < channels.octets
                                ? gemm::channel_value<typename I::T>(p.bias, offset, p.float_vectors)
                                : 0.0f;
    }
  }
  return channels;
}

template <class T>
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  const float values[2] = {low, high};
  return tile::narrow_pack<T>(values).words[0];
}

// Where octet number `octet` of a pixel of the tile lies in the staging area: spread over the banks.
__device__ __forceinline__ std::uint32_t staged(const Params& p, std::uint32_t pixel, std::uint32_t octet) {
  return (pixel * p.m_octets + (octet ^ (pixel >> p.spread_shift & p.spread_mask))) << 4;
}

// The number of the tile's pixel at a position. Positions that are no pixels get the numbers behind the pixels.
__device__ __forceinline__ std::uint32_t pixel_at(const Params& p, std::uint32_t position) {
  std::uint32_t column = 0;
  const std::uint32_t row = p.pitch.divmod(position, &column);
  const auto width = static_cast<std::uint32_t>(p.tile_w);
  const auto height = static_cast<std::uint32_t>(p.tile_h);
  if (row >= height) return position;
  return column < width ? row * width + column : height * width + row * (p.pitch.divisor - width) + column - width;
}

template <class I>
__device__ __forceinline__ void fetch_addend(const Params& p, const Tile& tile, const Channels<I>& channels,
                                             unsigned char* staging) {
  const char* const from = static_cast<const char*>(p.addend) + channels.first_byte + tile.w * p.addend_step[0] +
                           tile.h * p.addend_step[1] + tile.d * p.addend_step[2] + tile.n * p.addend_step[3];
  const auto height = static_cast<std::uint32_t>(min(p.tile_h, p.extent[1] - tile.h));
  const auto width = static_cast<std::uint32_t>(min(p.tile_w, p.extent[0] - tile.w));
  const std::uint32_t count = height * p.tile_w_div.divisor * p.octets.divisor;
#pragma unroll 4
  for (std::uint32_t i = threadIdx.x % 128; i < count; i += 128) {
    std::uint32_t octet = 0;
    std::uint32_t column = 0;
    const std::uint32_t pixel = p.octets.divmod(i, &octet);
    const std::uint32_t row = p.tile_w_div.divmod(pixel, &column);
    if (column < width && octet < channels.octets) {
      *reinterpret_cast<uint4*>(staging + staged(p, pixel, octet)) =
          *reinterpret_cast<const uint4*>(from + row * p.addend_step[1] + column * p.addend_step[0] + octet * 16);
    }
  }
}

// Fragments of 16 positions and 16 channels (8 where the others do not exist), pairs in the order of the matrices that
// the addresses name: alpha * sum + addend_scale * addend + bias, and the activation; rounded, and staged. bias_of(i)
// is that of fragment element i.
template <class I, bool kFour, bool kPlain, class BiasOf>
__device__ __forceinline__ void stage_fragments(const Params& p, std::uint32_t address, float (&v)[8], BiasOf bias_of) {
  using T = typename I::T;
  if constexpr (!kPlain) {
#pragma unroll
    for (float& each : v) each *= p.alpha;
    if (p.addend_scale != 0.0f) {
      std::uint32_t words[4];
      if constexpr (I::kFilterFirst) {
        ptx::ldmatrix_x4_trans(address, words);
      } else {
        ptx::ldmatrix_x4(address, words);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[i] += p.addend_scale * tile::widen<float>(tile::half_of<T>(words[i / 2], i % 2));
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] += bias_of(i);
    gemm::activate<kFour ? 8 : 1>(p.activation, true, v);
  }
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = pack_pair<T>(v[2 * i], v[2 * i + 1]);
  if constexpr (I::kFilterFirst && kFour) {
    ptx::stmatrix_x4_trans(address, words[0], words[1], words[2], words[3]);
  } else if constexpr (I::kFilterFirst) {
    ptx::stmatrix_x2_trans(address, words[0], words[1]);
  } else if constexpr (kFour) {
    ptx::stmatrix_x4(address, words[0], words[1], words[2], words[3]);
  } else {
    ptx::stmatrix_x2(address, words[0], words[1]);
  }
}

// Sums of the warp's 16 channels and all positions. Lanes 8i to 8i + 7 address matrix i: channels 0-7 and 8-15 of the
// first eight positions, then of the next eight.
template <class I, bool kPlain>
__device__ __forceinline__ void stage_filter_first(const Params& p, const Channels<I>& channels, std::uint32_t staging,
                                                   const float (&sum)[I::kN / 2]) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t first = threadIdx.x % 128 / 32 * 2;
  if (first >= p.m_octets) return;
  const std::uint32_t octet = first + lane / 8 % 2;
  const std::uint32_t position = lane / 16 * 8 + lane % 8;
  const auto bias_of = [&](int i) { return channels.bias[i / 2 % 2][0]; };
  constexpr int kGroups = I::kN / 8;
  constexpr int kPairs = kGroups / 2;
  const auto stage_pair = [&](int pair, float(&v)[8]) {
    const std::uint32_t pixel = pixel_at(p, static_cast<std::uint32_t>(pair) * 16 + position);
    stage_fragments<I, true, kPlain>(p, staging + staged(p, pixel, octet), v, bias_of);
  };
  if constexpr (kPlain) {
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = sum[8 * pair + i];
      stage_pair(pair, v);
    }
  } else {
    // One piece of code serves all: the functions of the epilogue stand in it once.
#pragma unroll 1
    for (int pair = 0; pair < kPairs; ++pair) {
      float v[8];
      gemm::with_number<kPairs>(pair, [&](auto number) {
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = sum[8 * number + i];
      });
      stage_pair(pair, v);
    }
  }
  if constexpr (kGroups % 2 != 0) {
    float v[8] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = sum[4 * (kGroups - 1) + i];
    // All lanes have an address of the last eight positions.
    const std::uint32_t pixel = pixel_at(p, (kGroups - 1) * 8 + lane % 8);
    stage_fragments<I, false, kPlain>(p, staging + staged(p, pixel, octet), v, bias_of);
  }
}

// Sums of the warp's 16 positions of each 64 and all channels. Matrices: positions 0-7 and 8-15 of the first eight
// channels, then of the next eight.
template <class I, bool kPlain>
__device__ __forceinline__ void stage_positions_first(const Params& p, const Channels<I>& channels,
                                                      std::uint32_t staging,
                                                      const float (&sum)[I::kBlocks][I::kN / 2]) {
  constexpr bool kFour = I::kOctets > 1;
  constexpr int kPairs = (I::kOctets + 1) / 2;  // of octets
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t position = threadIdx.x % 128 / 32 * 16 + lane % 16;
  // The sums and biases of octets 2 * (number % kPairs) and the next of block number / kPairs.
  const auto take = [&](auto number, float(&v)[8], float(&bias)[4]) {
    constexpr int kOctet = number % kPairs * 2;
#pragma unroll
    for (int i = 0; i < (kFour ? 8 : 4); ++i) v[i] = sum[number / kPairs][4 * kOctet + i];
#pragma unroll
    for (int i = 0; i < (kFour ? 4 : 2); ++i) bias[i] = channels.bias[kOctet + i / 2][i % 2];
  };
  const auto stage = [&](int number, float(&v)[8], const float(&bias)[4]) {
    const std::uint32_t pixel = pixel_at(p, static_cast<std::uint32_t>(number / kPairs) * 64 + position);
    const std::uint32_t my_octet = static_cast<std::uint32_t>(number % kPairs * 2) + (kFour ? lane / 16 : 0);
    stage_fragments<I, kFour, kPlain>(p, staging + staged(p, pixel, my_octet), v,
                                      [&](int i) { return bias[(kFour ? i / 4 * 2 : 0) + i % 2]; });
  };
  if constexpr (kPlain) {
    [&]<int... kNumber>(std::integer_sequence<int, kNumber...>) {
      const auto one = [&](auto number) {
        if (number % kPairs * 2 >= static_cast<int>(p.m_octets)) return;
        float v[8] = {};
        float bias[4] = {};
        take(number, v, bias);
        stage(number, v, bias);
      };
      (one(std::integral_constant<int, kNumber>()), ...);
    }
    (std::make_integer_sequence<int, I::kBlocks * kPairs>());
  } else {
    // One piece of code serves all: the functions of the epilogue stand in it once.
#pragma unroll 1
    for (int number = 0; number < I::kBlocks * kPairs; ++number) {
      if (number % kPairs * 2 >= static_cast<int>(p.m_octets)) continue;
      float v[8] = {};
      float bias[4] = {};
      gemm::with_number<I::kBlocks * kPairs>(number, [&](auto known) { take(known, v, bias); });
      stage(number, v, bias);
    }
  }
}

template <class I, bool kPlain>
__device__ __forceinline__ void stage_sums(const Params& p, const Channels<I>& channels, std::uint32_t staging,
                                           const float (&sum)[I::kBlocks][I::kN / 2]) {
  if constexpr (I::kFilterFirst) {
    stage_filter_first<I, kPlain>(p, channels, staging, sum[0]);
  } else {
    stage_positions_first<I, kPlain>(p, channels, staging, sum);
  }
}

// One thread, before the tile's products: its addend, once TMA has read the staging area.
template <class I>
__device__ __forceinline__ void fetch_addend_box(const Params& p, const Tile& tile, const Channels<I>& channels,
                                                 unsigned char* staging, std::uint64_t* arrived) {
  ptx::bulk_wait_group_read<0>();
  const auto pixels = static_cast<std::uint32_t>(p.tile_w * p.tile_h);
  ptx::mbarrier_arrive_expect_tx(arrived, pixels * p.m_octets * 16);
  ptx::tma_tile_5d(staging, &p.addend_map, arrived, static_cast<std::int32_t>(channels.first_byte / 2), tile.w, tile.h,
                   tile.d, tile.n);
}

// The addend of 16 positions and 16 channels, where stage_fragments will put their results. kFour: of all 16 positions
// or channels.
template <class I, bool kFour>
__device__ __forceinline__ void add_staged(const Params& p, std::uint32_t address, float* v) {
  std::uint32_t words[4];
  if constexpr (I::kFilterFirst) {
    ptx::ldmatrix_x4_trans(address, words);
  } else {
    ptx::ldmatrix_x4(address, words);
  }
#pragma unroll
  for (int i = 0; i < (kFour ? 8 : 4); ++i) {
    v[i] = fmaf(p.addend_scale, tile::widen<float>(tile::half_of<typename I::T>(words[i / 2], i % 2)), v[i]);
  }
}

template <class I>
__device__ __forceinline__ void add_all_staged(const Params& p, std::uint32_t staging,
                                               float (&sum)[I::kBlocks][I::kN / 2]) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x % 128 / 32;
  if constexpr (I::kFilterFirst) {
    constexpr int kGroups = I::kN / 8;
    const std::uint32_t octet = warp * 2 + lane / 8 % 2;
    if (warp * 2 >= p.m_octets) return;
#pragma unroll
    for (int group = 0; group < kGroups; group += 2) {
      const bool four = group + 1 < kGroups;
      const std::uint32_t position = static_cast<std::uint32_t>(group) * 8 + (four ? lane / 16 * 8 : 0) + lane % 8;
      const std::uint32_t address = staging + staged(p, pixel_at(p, position), octet);
      if (group + 1 < kGroups) {
        add_staged<I, true>(p, address, sum[0] + 4 * group);
      } else {
        add_staged<I, false>(p, address, sum[0] + 4 * group);
      }
    }
  } else {
    constexpr bool kFour = I::kOctets > 1;
    const std::uint32_t position = warp * 16 + lane % 16;
#pragma unroll
    for (int block = 0; block < I::kBlocks; ++block) {
      const std::uint32_t pixel = pixel_at(p, static_cast<std::uint32_t>(block) * 64 + position);
#pragma unroll
      for (int octet = 0; octet < I::kOctets; octet += 2) {
        if (octet >= static_cast<int>(p.m_octets)) continue;
        const std::uint32_t my_octet = static_cast<std::uint32_t>(octet) + (kFour ? lane / 16 : 0);
        add_staged<I, kFour>(p, staging + staged(p, pixel, my_octet), sum[block] + 4 * octet);
      }
    }
  }
}

// The sums become f(alpha * sum + addend_scale * addend + bias), in place.
template <class I>
__device__ __forceinline__ void combine_sums(const Params& p, const Channels<I>& channels, std::uint32_t staging,
                                             float (&sum)[I::kBlocks][I::kN / 2]) {
#pragma unroll
  for (int block = 0; block < I::kBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < I::kN / 2; ++i) {
      const float bias =
          I::kFilterFirst ? channels.bias[i / 2 % 2][0] : channels.bias[i / 4 % I::kOctets][i % 2 % I::kPerOctet];
      sum[block][i] = fmaf(p.alpha, sum[block][i], bias);
    }
  }
  if (p.addend_scale != 0.0f) add_all_staged<I>(p, staging, sum);
#pragma unroll
  for (int block = 0; block < I::kBlocks; ++block) gemm::activate_common(p.activation, sum[block]);
}

template <class I>
__device__ __forceinline__ void store_tile(const Params& p, const Tile& tile, const Channels<I>& channels,
                                           unsigned char* staging, int barrier, float (&sum)[I::kBlocks][I::kN / 2]) {
  // The tile before has left the staging area. An addend in boxes, which has arrived by now, says so too.
  const bool adds_box = p.is_common && p.addend_scale != 0.0f;
  if (threadIdx.x % 128 == 0 && !adds_box) ptx::bulk_wait_group_read<0>();
  ptx::barrier_sync(barrier, 128);
  if (p.is_common) {
    combine_sums<I>(p, channels, ptx::shared_address(staging), sum);
  } else if (p.addend_scale != 0.0f) {
    fetch_addend<I>(p, tile, channels, staging);
    ptx::barrier_sync(barrier, 128);
  }
  // Plain ones are apart: a branch for each fragment keeps the compiler from doing several at a time.
  if (p.is_plain || p.is_common) {
    stage_sums<I, true>(p, channels, ptx::shared_address(staging), sum);
  } else {
    stage_sums<I, false>(p, channels, ptx::shared_address(staging), sum);
  }
  ptx::fence_proxy_async();
  ptx::barrier_sync(barrier, 128);
  if (threadIdx.x % 128 == 0) {
    ptx::tma_store_tile_5d(&p.output, staging, static_cast<std::int32_t>(channels.first_byte / 2), tile.w, tile.h,
                           tile.d, tile.n);
    ptx::bulk_commit_group();
  }
}

}  // namespace gpudnn::kernels::direct
