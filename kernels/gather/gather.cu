// Instances and launch of the gather kernel.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "kernels/gather/gather.cuh"
#include "kernels/gather/interleave.hpp"
#include "kernels/gather/move.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {
namespace {

// The loops from the fastest on.
struct LoopOrder {
  int by_order[kGatherLoops] = {};
  explicit LoopOrder(const GatherMap& map) {
    for (int i = 0; i < map.loops; ++i) {
      int at = i;
      for (; at > 0 && map.loop[i].order < map.loop[by_order[at - 1]].order; --at) by_order[at] = by_order[at - 1];
      by_order[at] = i;
    }
  }
};

GatherLanes make_lanes(const GatherChannel& channel) {
  GatherLanes lanes{channel.stride, 0, channel.lanes - 1};
  while (1 << lanes.shift < channel.lanes) ++lanes.shift;
  return lanes;
}

// How often each loop runs, all that run faster than it, and all together.
struct Iterations {
  std::uint32_t of[kGatherLoops];
  std::uint32_t under[kGatherLoops];
  std::uint32_t all = 1;

  // `width` iterations of the fastest loop are one, and kMoveRun of loop `run`, if it is one.
  Iterations(const GatherMap& map, const LoopOrder& order, int run = -1, int width = 1) {
    for (int i = 0; i < map.loops; ++i) {
      const int loop = order.by_order[i];
      of[loop] = static_cast<std::uint32_t>(map.loop[loop].extent);
      if (loop == run) of[loop] = (of[loop] + kMoveRun - 1) / kMoveRun;
      if (i == 0) of[loop] /= static_cast<std::uint32_t>(width);
      under[loop] = all;
      all *= of[loop];
    }
  }
};

// Sets the terms, one a loop, such that those of an axis are neighbours: term(loop, index) makes one.
template <class Args, class Term>
void group_by_axis(const GatherMap& map, Args* args, Term&& term) {
  int terms = 0;
  for (int j = 0; j < map.axes; ++j) {
    args->axis[j].first_term = terms;
    for (int i = 0; i < map.loops; ++i) {
      if (map.loop[i].axis != j) continue;
      args->term[terms] = term(i, terms);
      ++terms;
    }
    args->axis[j].terms = terms - args->axis[j].first_term;
  }
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
  args.axes = map.axes;
  for (int j = 0; j < map.axes; ++j) {
    const GatherAxis& axis = map.axis[j];
    GatherPlace& place = args.axis[j];
    place.base = axis.base;
    place.extent = static_cast<std::uint32_t>(axis.extent);
    place.fold = tile::FastDivmod(static_cast<std::uint32_t>(axis.fold));
    place.stride = axis.stride;
    place.channel_step = axis.channel_step;
  }
  const Iterations iterations(map, LoopOrder(map));
  group_by_axis(map, &args, [&](int i, int) -> GatherTerm {
    const GatherLoop& loop = map.loop[i];
    return {tile::FastDivmod(iterations.under[i]), tile::FastDivmod(iterations.of[i]),
            static_cast<std::int32_t>(loop.in_step), loop.out_step, loop.out_channel_step};
  });
  return args;
}

template <class C>
void launch_typed(const GatherParams& params, cudaStream_t stream) {
  const GatherArgs<C> args = make_args<C>(params);
  constexpr std::uint32_t kPerBlock = kGatherThreads * kGatherLoads;
  gather<C><<<(args.count + kPerBlock - 1) / kPerBlock, kGatherThreads, 0, stream>>>(args);
}

// The loop that a thread runs along, or -1: the first with a warp's worth of iterations below it, words of `width`.
int run_loop(const GatherMap& map, const LoopOrder& order, int width) {
  std::int64_t faster = 1;
  for (int i = 0; i < map.loops; ++i) {
    const int loop = order.by_order[i];
    if (faster >= 32 * width) return loop;
    faster *= map.loop[loop].extent;
  }
  return -1;
}

bool changes_nothing(const GatherParams& params) {
  return params.in_type == params.out_type && params.alpha == 1 && params.beta == 0 &&
         params.map.in_channel.lanes == 1 && params.map.out_channel.lanes == 1;
}

// Whether the output consists of whole words of `width` elements along the fastest loop, and the run goes along another
// axis of the input.
bool has_words(const GatherParams& params, const LoopOrder& order, int run, int width) {
  const GatherMap& map = params.map;
  const int fastest = order.by_order[0];
  if (run < 0 || map.loop[fastest].axis == map.loop[run].axis) return false;
  bool words = tile::is_aligned(params.out, static_cast<std::size_t>(width) * any_type_bytes(params.out_type));
  for (int i = 0; i < map.loops; ++i) {
    const GatherLoop& loop = map.loop[i];
    const std::int64_t step = loop.out_step + loop.out_channel_step * map.out_channel.stride;
    words = words && (i == fastest ? step == 1 && loop.extent % width == 0 : step % width == 0);
  }
  return words;
}

// `width` elements of the fastest loop are one iteration.
MoveArgs make_move_args(const GatherParams& params, const LoopOrder& order, int run, int width) {
  const GatherMap& map = params.map;
  const Iterations iterations(map, order, run, width);
  MoveArgs args{};
  args.in = params.in;
  args.out = params.out;
  args.threads = iterations.all;
  args.axes = map.axes;
  args.run_axis = map.loop[run].axis;
  args.run_extent = static_cast<std::uint32_t>(map.loop[run].extent);
  args.word_axis = map.loop[order.by_order[0]].axis;
  for (int j = 0; j < map.axes; ++j) {
    const GatherAxis& axis = map.axis[j];
    MoveAxis& move = args.axis[j];
    move.base = axis.base;
    move.extent = axis.extent;
    move.stride = axis.stride;
    move.within_step = axis.channel_step * map.in_channel.stride;
    if (axis.fold == GatherMap::kAllOneFold) {  // every position is below it
      move.stride = move.within_step;
      move.fold = tile::FastDivmod(1);
    } else {
      move.fold = tile::FastDivmod(static_cast<std::uint32_t>(axis.fold));
    }
  }
  group_by_axis(map, &args, [&](int i, int index) -> MoveTerm {
    if (i == run) args.run_term = index;
    if (i == order.by_order[0]) args.word_term = index;
    const GatherLoop& loop = map.loop[i];
    return {tile::FastDivmod(iterations.under[i]), tile::FastDivmod(iterations.of[i]), loop.in_step,
            loop.out_step + loop.out_channel_step * map.out_channel.stride};
  });
  return args;
}

template <class Word, int V>
void launch_move(const GatherParams& params, const LoopOrder& order, int run, cudaStream_t stream) {
  const MoveArgs args = make_move_args(params, order, run, V);
  gather_move<Word, V><<<(args.threads + kMoveThreads - 1) / kMoveThreads, kMoveThreads, 0, stream>>>(args);
}

// By words of V elements where it can be. False where the general kernel must do it.
template <class Word, int V>
bool moved_typed(const GatherParams& params, cudaStream_t stream) {
  const LoopOrder order(params.map);
  if constexpr (V > 1) {
    const int run = run_loop(params.map, order, V);
    if (has_words(params, order, run, V)) {
      launch_move<Word, V>(params, order, run, stream);
      return true;
    }
  }
  const int run = run_loop(params.map, order, 1);
  if (run < 0) return false;
  launch_move<Word, 1>(params, order, run, stream);
  return true;
}

bool moved(const GatherParams& params, cudaStream_t stream) {
  if (!changes_nothing(params)) return false;
  if (launch_interleave(params, stream)) return true;
  switch (any_type_bytes(params.out_type)) {
    case 1:
      return moved_typed<std::uint8_t, 4>(params, stream);
    case 2:
      return moved_typed<std::uint16_t, 2>(params, stream);
    case 4:
      return moved_typed<std::uint32_t, 2>(params, stream);
    default:
      return moved_typed<std::uint64_t, 1>(params, stream);
  }
}

}  // namespace

void launch_gather(const GatherParams& params, CUstream_st* stream) {
  const std::int64_t count = params.map.count();
  if (count == 0) return;
  if (count > tile::kMaxIterations) {
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
  if (moved(params, stream)) return;
  const auto needs_double = [](tile::AnyType type) {
    return type == tile::AnyType::f64 || type == tile::AnyType::i32;  // 32-bit integers have more digits than float
  };
  needs_double(params.in_type) || needs_double(params.out_type) ? launch_typed<double>(params, stream)
                                                                : launch_typed<float>(params, stream);
}

}  // namespace gpudnn::kernels
