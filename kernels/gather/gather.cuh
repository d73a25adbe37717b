// out = alpha * in[map] + beta * out: padding, cropping, folding, vector formats and column buffers, in any layouts and
// types.
//
// Each thread makes kGatherLoads elements of the output, neighbours in its memory order. From an element's number come
// the loops' coordinates (two multiplications each for the divisions), from them the place in the output and the
// positions along the input's axes. Bytes: the output once, and of the input what it needs; where the two run in other
// orders the caches gather the sectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gather/gather.hpp"
#include "kernels/tile/any_type.cuh"

namespace gpudnn::kernels {

constexpr int kGatherThreads = 256;
constexpr int kGatherLoads = 4;

struct GatherTerm {
  tile::FastDivmod under;  // iterations of all faster loops
  tile::FastDivmod extent;
  std::int32_t in_step;
  std::int64_t out_step;
  std::int64_t out_channel_step;
};
struct GatherPlace {
  std::int32_t first_term;  // those of an axis are neighbours
  std::int32_t terms;
  std::int64_t base;
  std::uint32_t extent;
  tile::FastDivmod fold;
  std::int64_t stride;
  std::int64_t channel_step;
};
struct GatherLanes {
  std::int64_t stride;
  std::int32_t shift;
  std::int32_t mask;
  __device__ __forceinline__ std::int64_t offset(std::int64_t channel) const {
    return (channel >> shift) * stride + (channel & mask);
  }
};

template <class C>
struct GatherArgs {
  tile::AnyType in_type;
  tile::AnyType out_type;
  const void* in;
  void* out;
  C alpha;
  C beta;
  std::uint32_t count;
  std::int32_t axes;
  GatherPlace axis[kGatherAxes];
  GatherTerm term[kGatherLoops];
  GatherLanes in_channel;
  GatherLanes out_channel;
};

template <class C>
__global__ void __launch_bounds__(kGatherThreads) gather(const __grid_constant__ GatherArgs<C> args) {
  const std::uint32_t first = blockIdx.x * (kGatherThreads * kGatherLoads) + threadIdx.x;
#pragma unroll 1
  for (int u = 0; u < kGatherLoads; ++u) {
    const std::uint32_t index = first + u * kGatherThreads;
    if (index >= args.count) return;
    std::int64_t to = 0;
    std::int64_t to_channel = 0;
    std::int64_t from = 0;
    std::int64_t from_channel = 0;
    bool inside = true;
#pragma unroll 1
    for (int j = 0; j < args.axes; ++j) {
      const GatherPlace& axis = args.axis[j];
      std::int64_t position = axis.base;
#pragma unroll 1
      for (int t = axis.first_term; t < axis.first_term + axis.terms; ++t) {
        const GatherTerm& term = args.term[t];
        std::uint32_t coordinate;
        (void)term.extent.divmod(term.under.quotient(index), &coordinate);
        position += static_cast<std::int64_t>(coordinate) * term.in_step;
        to += coordinate * term.out_step;
        to_channel += coordinate * term.out_channel_step;
      }
      if (position < 0 || position >= axis.extent) {
        inside = false;
        continue;
      }
      std::uint32_t within;
      const std::uint32_t outer = axis.fold.divmod(static_cast<std::uint32_t>(position), &within);
      from += outer * axis.stride;
      from_channel += within * axis.channel_step;
    }
    to += args.out_channel.offset(to_channel);
    C value = C(0);
    if (inside) {
      value = args.alpha * tile::load_any<C>(args.in_type, args.in, from + args.in_channel.offset(from_channel));
    }
    if (args.beta != C(0)) value += args.beta * tile::load_any<C>(args.out_type, args.out, to);
    tile::store_any<C>(args.out_type, args.out, to, value);
  }
}

}  // namespace gpudnn::kernels
