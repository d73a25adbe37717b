// Dropout: y = mask * x / (1 - p), with a mask of one bit an element that forward makes and backward reads.
// SPDX-License-Identifier: Apache-2.0
//
// The work is in tiles of 256 elements, in the order of the output's memory, for one warp each. Lane l is responsible
// for byte l of the tile's mask: forward computes it by one Philox block (mask.hpp) and stores it, backward loads it;
// a warp's bytes are one sector of 32. The elements move in packs of 16 bytes, pack l of each round of 32 in lane l,
// and each lane gets the bits of its pack from the lane that has them by one shuffle. f16: 1 round a tile, f32: 2.
//
// Bytes: forward reads x and writes y and an eighth of a byte an element; backward the same. For 256 elements of f16
// that is 1056 bytes, about 230 cycles of a quarter of an H200 multiprocessor at the copy rate; Philox takes 20 wide
// multiplications and 20 exclusive ors, the comparisons 28, scaling and selecting about 40 instructions: some 120 issue
// slots, below the memory's time, if a thread makes the keys of the rounds once for all of its tiles and nothing else
// comes on top. So forward's blocks stay, whole tiles go a way without conditions, and the next ones' elements are on
// their way meanwhile. f32 has twice the bytes for the same integer work.
//
// The number of calls is advanced on the device, so that a replayed graph draws new masks: each block reads it first,
// counts itself once it has, and the block that is counted last writes the next number at its end. The counter wraps to
// 0 by itself. That order decides nothing but who writes, so results do not depend on it.
#pragma once

#include "kernels/dropout/dropout.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

constexpr int kDropoutThreads = 256;
constexpr int kDropoutTile = 256;  // elements: 32 bytes of mask

// The type is known at run time only, and computed in double. Tensors with gaps move an element at a time, so that one
// kernel for all types is as good as four.
struct AnyElement {};
template <class T>
using DropoutCompute = std::conditional_t<std::is_same_v<T, AnyElement>, double, tile::Compute<T>>;

template <class T>
struct DropoutArgs {
  const T* in;
  T* out;
  unsigned char* reserve;
  DropoutStates* states;
  std::uint64_t count;
  DropoutCompute<T> scale;
  std::uint32_t threshold;
  tile::ElementType type;
  MaskOrder order;

  template <class As>
  __device__ __forceinline__ void copy_as(std::int64_t from, std::int64_t to, bool kept) const {
    const auto value = tile::widen<DropoutCompute<T>>(reinterpret_cast<const As*>(in)[from]);
    reinterpret_cast<As*>(out)[to] = tile::narrow<As>(kept ? value * scale : DropoutCompute<T>(0));
  }
  __device__ __forceinline__ void copy(std::int64_t from, std::int64_t to, bool kept) const {
    if constexpr (!std::is_same_v<T, AnyElement>) {
      copy_as<T>(from, to, kept);
    } else {
      switch (type) {
        case tile::ElementType::f64:
          return copy_as<double>(from, to, kept);
        case tile::ElementType::f32:
          return copy_as<float>(from, to, kept);
        case tile::ElementType::f16:
          return copy_as<tile::Half>(from, to, kept);
        case tile::ElementType::bf16:
          return copy_as<tile::BFloat16>(from, to, kept);
      }
    }
  }
};

// For tensors that are not one gapless block in one order: `nest` below 2^31 elements, else the plain dims.
struct DropoutLoops {
  bool wide = false;
  std::int32_t rank = 0;
  tile::LoopNest<2> nest;
  std::uint64_t dims[tile::kMaxLoops] = {};  // from the fastest
  std::int64_t strides[2][tile::kMaxLoops] = {};

  __device__ __forceinline__ void offsets(std::uint64_t index, std::int64_t (&offset)[2]) const {
    if (!wide) return nest.offsets(static_cast<std::uint32_t>(index), offset);
    offset[0] = offset[1] = 0;
#pragma unroll 1
    for (int i = 0; i < rank; ++i) {
      const auto coordinate = static_cast<std::int64_t>(i + 1 < rank ? index % dims[i] : index);
      index /= dims[i];
      offset[0] += coordinate * strides[0][i];
      offset[1] += coordinate * strides[1][i];
    }
  }
};

// The order that the mask in the reserve space was written in.
__device__ __forceinline__ std::uint32_t mask_code(const unsigned char* reserve) {
  return reserve[0] | reserve[1] << 8 | reserve[2] << 16 | static_cast<std::uint32_t>(reserve[3]) << 24;
}

// The byte of a group from a mask that is in another order.
template <class T>
__device__ __noinline__ unsigned gathered_mask(const DropoutArgs<T>& args, std::uint32_t code, std::uint64_t group) {
  unsigned mask = 0;
#pragma unroll 1
  for (int j = 0; j < kMaskGroup; ++j) {
    const std::uint64_t index = group * kMaskGroup + j;
    if (index >= args.count) break;
    const std::uint64_t place = position_in(code, args.order, index);
    mask |= (args.reserve[kMaskHeader + place / 8] >> (place % 8) & 1u) << j;
  }
  return mask;
}

// The state that a call draws from. Its first thread reads it for a block, and then counts the block among those that
// have: the block that is counted last writes the next number of calls.
struct CallState {
  std::uint64_t seed = 0;
  std::uint64_t calls = 0;
};

// All threads of the block take part. `counted` is the first thread's: blocks before this one.
template <class T>
__device__ __forceinline__ CallState begin_call(const DropoutArgs<T>& args, std::uint32_t* counted) {
  __shared__ CallState state;
  if (threadIdx.x == 0) {
    state = {};
    if (args.states != nullptr) state = {args.states->seed, args.states->calls};
  }
  if (blockIdx.x == 0 && threadIdx.x < 4) {
    args.reserve[threadIdx.x] = static_cast<unsigned char>(args.order.code >> (8 * threadIdx.x));
  }
  __syncthreads();
  const CallState result = state;
  if (threadIdx.x == 0 && args.states != nullptr) {  // no other thread waits for it
    __threadfence();
    *counted = atomicInc(&args.states->finished, gridDim.x - 1);
  }
  return result;
}
template <class T>
__device__ __forceinline__ void end_call(const DropoutArgs<T>& args, std::uint64_t calls, std::uint32_t counted) {
  if (threadIdx.x == 0 && args.states != nullptr && counted == gridDim.x - 1) args.states->calls = calls + 1;
}

// The x of kTiles whole tiles of a warp.
template <class T, int N, int kTiles>
struct DropoutPacks {
  static constexpr int kRounds = kMaskGroup / N;
  tile::Pack<T, N> packs[kTiles][kRounds];

  __device__ __forceinline__ void load(const T* in) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int u = 0; u < kRounds; ++u) packs[t][u] = tile::load_pack<T, N>(in + t * kDropoutTile + u * 32 * N);
    }
  }
};

// kTiles whole tiles of a warp, forward.
template <class T, int N, int kTiles>
__device__ __forceinline__ void drop_whole_tiles(const DropoutArgs<T>& args, const DropoutPacks<T, N, kTiles>& x,
                                                 std::uint64_t begin, const CallState& state) {
  using C = DropoutCompute<T>;
  constexpr int kRounds = kMaskGroup / N;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  T* const out = args.out + begin + lane * N;
  unsigned char* const reserve = args.reserve + kMaskHeader + begin / kMaskGroup + lane;
  PhiloxBlock random[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    random[t] = counter_of_group(begin / kMaskGroup + static_cast<unsigned>(t * 32 + lane), state.calls);
  }
  philox(random, static_cast<std::uint32_t>(state.seed), static_cast<std::uint32_t>(state.seed >> 32));
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    unsigned mask = 0;
    bool kept[kMaskGroup];
#pragma unroll
    for (int i = 0; i < kMaskGroup; ++i) {
      kept[i] = is_kept(random[t], i, args.threshold);
      mask |= kept[i] ? 1u << i : 0u;
    }
    reserve[t * 32] = static_cast<unsigned char>(mask);
#pragma unroll
    for (int u = 0; u < kRounds; ++u) {
      if constexpr (kRounds > 1) {  // else a pack is the lane's own group
        const int first = (u * 32 + lane) * N;
        const unsigned bits = __shfl_sync(0xffffffffu, mask, first / kMaskGroup) >> (first % kMaskGroup);
#pragma unroll
        for (int i = 0; i < N; ++i) kept[i] = (bits >> i & 1u) != 0;
      }
      C values[N];
      tile::widen_pack<C>(x.packs[t][u], values);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = kept[i] ? values[i] * args.scale : C(0);
      tile::store_pack<T, N>(out + t * kDropoutTile + u * 32 * N, tile::narrow_pack<T>(values));
    }
  }
}

// A tile of a warp that the tensor ends in, forward.
template <class T>
__device__ __forceinline__ void drop_last_tile(const DropoutArgs<T>& args, std::uint64_t begin,
                                               const CallState& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint64_t group = begin / kMaskGroup + static_cast<unsigned>(lane);
  unsigned mask = 0;
  if (group * kMaskGroup < args.count) {
    mask = mask_of_group(group, state.seed, state.calls, args.threshold);
    const std::uint64_t left = args.count - group * kMaskGroup;
    if (left < kMaskGroup) mask &= (1u << left) - 1u;
    args.reserve[kMaskHeader + group] = static_cast<unsigned char>(mask);
  }
  T values[kMaskGroup];
#pragma unroll
  for (int u = 0; u < kMaskGroup; ++u) {
    if (begin + u * 32 + lane < args.count) values[u] = args.in[begin + u * 32 + lane];
  }
#pragma unroll
  for (int u = 0; u < kMaskGroup; ++u) {
    const int place = u * 32 + lane;
    const unsigned bits = __shfl_sync(0xffffffffu, mask, place / kMaskGroup) >> (place % kMaskGroup);
    if (begin + place < args.count) {
      using C = DropoutCompute<T>;
      args.out[begin + place] = tile::narrow<T>((bits & 1u) != 0 ? tile::widen<C>(values[u]) * args.scale : C(0));
    }
  }
}

// Tiles that a warp takes at a time (two keep the multipliers of Philox busy), and blocks of a multiprocessor, as many
// as the registers allow.
template <int N>
inline constexpr int kForwardTiles = N >= 4 ? 2 : 1;
template <int N>
inline constexpr int kForwardBlocks = N == kMaskGroup ? 4 : 3;

// Forward, in and out gapless and aligned to packs. The blocks stay: a warp takes tiles a grid's width apart, and
// fetches its next ones before it makes the random bits of those at hand.
template <class T, int N>
__global__ void __launch_bounds__(kDropoutThreads, kForwardBlocks<N>)
    dropout_forward_flat(const __grid_constant__ DropoutArgs<T> args) {
  constexpr int kTiles = kForwardTiles<N>;
  constexpr unsigned kStep = kTiles * kDropoutTile;
  constexpr unsigned kWarps = kDropoutThreads / 32;
  const T* const in = args.in + threadIdx.x % 32 * N;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * (kWarps * kStep);
  std::uint64_t begin = (std::uint64_t{blockIdx.x} * kWarps + threadIdx.x / 32) * kStep;
  bool whole = begin + kStep <= args.count;
  DropoutPacks<T, N, kTiles> x;
  if (whole) x.load(in + begin);
  std::uint32_t counted = 0;
  const CallState state = begin_call(args, &counted);
#pragma unroll 1
  while (whole) {
    DropoutPacks<T, N, kTiles> next;
    whole = begin + stride + kStep <= args.count;
    if (whole) next.load(in + begin + stride);
    drop_whole_tiles<T, N, kTiles>(args, x, begin, state);
    x = next;
    begin += stride;
  }
#pragma unroll 1
  for (; begin < args.count; begin += kDropoutTile) drop_last_tile(args, begin, state);
  end_call(args, state.calls, counted);
}

// Backward, and tensors with gaps. N elements a pack. kFlat: in and out are gapless and aligned to packs; else T is
// AnyElement, N is 1 and `loops` says where the elements are.
template <class T, int N, bool kFlat, bool kBackward>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_kernel(const __grid_constant__ DropoutArgs<T> args, const __grid_constant__ DropoutLoops loops) {
  using C = DropoutCompute<T>;
  constexpr int kRounds = kMaskGroup / N;                         // of 32 packs in a tile
  constexpr int kTiles = kFlat && kRounds < 4 ? 4 / kRounds : 1;  // a thread has four packs in flight
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // From the end of the tensor on: its last tile, which goes an element at a time, does not come last.
  const std::uint64_t block = gridDim.x - 1 - blockIdx.x;
  const std::uint64_t warp = block * (kDropoutThreads / 32) + threadIdx.x / 32;

  CallState state;
  std::uint32_t counted = 0;
  std::uint32_t code = args.order.code;
  if constexpr (kBackward) {
    code = mask_code(args.reserve);
  } else {
    state = begin_call(args, &counted);
  }
  tile::Pack<T, N> packs[kTiles][kRounds];
  unsigned masks[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const std::uint64_t begin = (warp * kTiles + t) * kDropoutTile;
    if constexpr (kFlat) {
      if (begin + kDropoutTile <= args.count) {
#pragma unroll
        for (int u = 0; u < kRounds; ++u) packs[t][u] = tile::load_pack<T, N>(args.in + begin + (u * 32 + lane) * N);
      }
    }
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const std::uint64_t begin = (warp * kTiles + t) * kDropoutTile;
    const std::uint64_t group = begin / kMaskGroup + lane;
    masks[t] = 0;
    if (group * kMaskGroup < args.count) {
      if constexpr (kBackward) {
        masks[t] = code == args.order.code ? args.reserve[kMaskHeader + group] : gathered_mask(args, code, group);
      } else {
        masks[t] = mask_of_group(group, state.seed, state.calls, args.threshold);
        const std::uint64_t left = args.count - group * kMaskGroup;
        if (left < kMaskGroup) masks[t] &= (1u << left) - 1u;
        args.reserve[kMaskHeader + group] = static_cast<unsigned char>(masks[t]);
      }
    }
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const std::uint64_t begin = (warp * kTiles + t) * kDropoutTile;
    if (begin >= args.count) break;
    if constexpr (kFlat) {
      if (begin + kDropoutTile <= args.count) {
#pragma unroll
        for (int u = 0; u < kRounds; ++u) {
          const int first = (u * 32 + lane) * N;
          const unsigned bits = __shfl_sync(0xffffffffu, masks[t], first / kMaskGroup) >> (first % kMaskGroup);
          C values[N];
          tile::widen_pack<C>(packs[t][u], values);
#pragma unroll
          for (int i = 0; i < N; ++i) values[i] = (bits >> i & 1u) != 0 ? values[i] * args.scale : C(0);
          tile::store_pack<T, N>(args.out + begin + first, tile::narrow_pack<T>(values));
        }
        continue;
      }
    }
    // The tensor's last tile, or any tile of a tensor with gaps.
#pragma unroll 1
    for (int u = 0; u < kMaskGroup; ++u) {
      const int place = u * 32 + lane;
      const unsigned bits = __shfl_sync(0xffffffffu, masks[t], place / kMaskGroup) >> (place % kMaskGroup);
      const std::uint64_t index = begin + place;
      if (index < args.count) {
        std::int64_t offset[2] = {static_cast<std::int64_t>(index), static_cast<std::int64_t>(index)};
        if constexpr (!kFlat) loops.offsets(index, offset);
        args.copy(offset[0], offset[1], (bits & 1u) != 0);
      }
    }
  }

  if constexpr (!kBackward) end_call(args, state.calls, counted);
}

}  // namespace gpudnn::kernels
