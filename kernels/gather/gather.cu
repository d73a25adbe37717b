// Instances and launch of the gather kernel.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include "kernels/gather/gather.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {
namespace {

GatherLanes make_lanes(const GatherChannel& channel) {
  GatherLanes lanes{channel.stride, 0, channel.lanes - 1};
  while (1 << lanes.shift < channel.lanes) ++lanes.shift;
  return lanes;
}

template <class C>
GatherArgs<C> make_args(const GatherParams& params) {
  const GatherMap& map = params.map;
  GatherArgs<C> args{};
  args.in_type = params.in_type;
  args.out_type = params.out_type;
  args.in = params.in;
  args.out = params.out;
  args.alpha = static_cast<C>(params.alpha);
  args.beta = static_cast<C>(params.beta);
  args.count = static_cast<std::uint32_t>(map.count());
  args.in_channel = make_lanes(map.in_channel);
  args.out_channel = make_lanes(map.out_channel);
  int by_order[kGatherLoops];
  for (int i = 0; i < map.loops; ++i) by_order[i] = i;
  std::stable_sort(by_order, by_order + map.loops, [&](int a, int b) { return map.loop[a].order < map.loop[b].order; });
  std::uint32_t under[kGatherLoops];
  std::uint32_t faster = 1;
  for (int i = 0; i < map.loops; ++i) {
    under[by_order[i]] = faster;
    faster *= static_cast<std::uint32_t>(map.loop[by_order[i]].extent);
  }
  int terms = 0;
  args.axes = map.axes;
  for (int j = 0; j < map.axes; ++j) {
    const GatherAxis& axis = map.axis[j];
    GatherPlace& place = args.axis[j];
    place = {terms,
             0,
             axis.base,
             static_cast<std::uint32_t>(axis.extent),
             tile::FastDivmod(static_cast<std::uint32_t>(axis.fold)),
             axis.stride,
             axis.channel_step};
    for (int i = 0; i < map.loops; ++i) {
      const GatherLoop& loop = map.loop[i];
      if (loop.axis != j) continue;
      args.term[terms++] = {tile::FastDivmod(under[i]), tile::FastDivmod(static_cast<std::uint32_t>(loop.extent)),
                            static_cast<std::int32_t>(loop.in_step), loop.out_step, loop.out_channel_step};
      ++place.terms;
    }
  }
  return args;
}

template <class C>
void launch_typed(const GatherParams& params, cudaStream_t stream) {
  const GatherArgs<C> args = make_args<C>(params);
  constexpr std::uint32_t kPerBlock = kGatherThreads * kGatherLoads;
  gather<C><<<(args.count + kPerBlock - 1) / kPerBlock, kGatherThreads, 0, stream>>>(args);
}

}  // namespace

void launch_gather(const GatherParams& params, CUstream_st* stream) {
  const std::int64_t count = params.map.count();
  if (count == 0) return;
  if (count > tile::kMostIterations) {
    // In two halves of the longest loop that moves the output by whole elements.
    int longest = -1;
    for (int i = 0; i < params.map.loops; ++i) {
      const GatherLoop& loop = params.map.loop[i];
      const bool plain = loop.out_channel_step % params.map.out_channel.lanes == 0;
      if (plain && (longest < 0 || loop.extent > params.map.loop[longest].extent)) longest = i;
    }
    GatherParams low = params;
    GatherParams high = params;
    const GatherLoop& loop = params.map.loop[longest];
    const std::int64_t half = loop.extent / 2;
    low.map.loop[longest].extent = half;
    high.map.loop[longest].extent = loop.extent - half;
    high.map.axis[loop.axis].base += half * loop.in_step;
    const std::int64_t moved =
        half * (loop.out_step + loop.out_channel_step / params.map.out_channel.lanes * params.map.out_channel.stride);
    high.out = static_cast<std::byte*>(params.out) + moved * any_type_bytes(params.out_type);
    launch_gather(low, stream);
    launch_gather(high, stream);
    return;
  }
  const auto needs_double = [](tile::AnyType type) {
    return type == tile::AnyType::f64 || type == tile::AnyType::i32;  // 32-bit integers have more digits than float
  };
  needs_double(params.in_type) || needs_double(params.out_type) ? launch_typed<double>(params, stream)
                                                                : launch_typed<float>(params, stream);
}

}  // namespace gpudnn::kernels
