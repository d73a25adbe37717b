// Instances and launch of the interleaving kernel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gather/interleave.cuh"
#include "kernels/gather/interleave.hpp"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

struct Loop {
  std::int64_t extent;
  std::int64_t in;  // elements
  std::int64_t out;
};

// The map as loops over plain strides, if it is no more than that: nothing outside the input, folds loops of their own.
struct LinearMap {
  int loops = 0;
  Loop loop[kGatherLoops + kGatherAxes];

  bool add(const GatherMap& map, int axis_number) {
    const GatherAxis& axis = map.axis[axis_number];
    if (axis.base != 0) return false;
    std::int64_t farthest = 0;
    for (int i = 0; i < map.loops; ++i) {
      const GatherLoop& from = map.loop[i];
      if (from.axis != axis_number) continue;
      if (from.in_step < 0) return false;
      farthest += (from.extent - 1) * from.in_step;
      const std::int64_t out = from.out_step + from.out_channel_step * map.out_channel.stride;
      const std::int64_t within = axis.channel_step * map.in_channel.stride;
      if (axis.fold == 1) {
        loop[loops++] = {from.extent, from.in_step * axis.stride, out};
      } else if (axis.fold == GatherMap::kAllOneFold) {
        loop[loops++] = {from.extent, from.in_step * within, out};
      } else {
        if (farthest != from.extent - 1 || from.extent % axis.fold != 0) return false;  // more than one loop, or steps
        loop[loops++] = {axis.fold, within, out};
        if (from.extent > axis.fold) loop[loops++] = {from.extent / axis.fold, axis.stride, out * axis.fold};
      }
    }
    return farthest < axis.extent;
  }
};

// The kernel's loops, in elements.
struct Interleaving {
  bool split = false;
  std::int64_t line_step = 0;
  std::int64_t length = 0;  // of a line
  tile::HostNest rest;      // lines, pairs

  [[nodiscard]] bool is_whole(std::int64_t pack) const {
    bool whole = length % pack == 0 && line_step % pack == 0;
    for (int i = 0; i < rest.rank; ++i) {
      whole = whole && rest.strides[0][i] % pack == 0 && rest.strides[1][i] % pack == 0;
    }
    return whole;
  }
};

// The first loop that `is` true of; `end` if none.
template <class Is>
const Loop* first_of(const Loop* loop, const Loop* end, Is is) {
  while (loop != end && !is(*loop)) ++loop;
  return loop;
}

// False where the map is none.
bool find_interleaving(const GatherMap& map, Interleaving* found) {
  LinearMap linear;
  for (int axis = 0; axis < map.axes; ++axis) {
    if (!linear.add(map, axis)) return false;
  }
  const Loop* const begin = linear.loop;
  const Loop* const end = begin + linear.loops;
  for (const bool split : {true, false}) {
    const Loop* const along = first_of(begin, end, [=](const Loop& loop) {
      return (split ? loop.out : loop.in) == 1 && (split ? loop.in : loop.out) == 2;
    });
    const Loop* const across =
        first_of(begin, end, [=](const Loop& loop) { return loop.extent == 2 && (split ? loop.in : loop.out) == 1; });
    if (along == end || across == end || linear.loops - 2 > tile::kMaxLoops) continue;
    Interleaving& result = *found;
    result.split = split;
    result.line_step = split ? across->out : across->in;
    result.length = along->extent;
    Loop rest[kGatherLoops + kGatherAxes];
    int count = 0;
    for (const Loop* loop = begin; loop != end; ++loop) {  // from the slowest along the lines on
      if (loop == along || loop == across) continue;
      int at = count++;
      const auto step = [=](const Loop& of) { return split ? of.out : of.in; };
      for (; at > 0 && step(rest[at - 1]) < step(*loop); --at) rest[at] = rest[at - 1];
      rest[at] = *loop;
    }
    if (count == 0) rest[count++] = {1, 0, 0};
    result.rest.rank = count;
    result.rest.tensors = 2;
    for (int i = 0; i < count; ++i) {
      result.rest.dims[i] = rest[i].extent;
      result.rest.strides[0][i] = split ? rest[i].out : rest[i].in;
      result.rest.strides[1][i] = split ? rest[i].in : rest[i].out;
    }
    return true;
  }
  return false;
}

template <int kWords>
bool launch_words(const GatherParams& params, const Interleaving& found, cudaStream_t stream) {
  const std::int64_t of_word = 4 / any_type_bytes(params.out_type);
  const std::int64_t pack = kWords * of_word;  // elements
  if (!found.is_whole(pack) || !tile::is_aligned(params.in, 4 * kWords) || !tile::is_aligned(params.out, 4 * kWords)) {
    return false;
  }
  const std::int64_t packs = found.length / pack;
  const std::int64_t threads = packs * found.rest.count();
  if (threads > tile::kMaxIterations) return false;
  InterleaveArgs args{};
  args.in = static_cast<const std::uint32_t*>(params.in);
  args.out = static_cast<std::uint32_t*>(params.out);
  args.threads = static_cast<std::uint32_t>(threads);
  args.split = found.split;
  args.selectors[0] = of_word == 1 ? 0x3210 : 0x5410;
  args.selectors[1] = of_word == 1 ? 0x7654 : 0x7632;
  args.line_step = found.line_step / of_word;
  args.packs = tile::FastDivmod(static_cast<std::uint32_t>(packs));
  tile::HostNest rest = found.rest;
  for (int t = 0; t < 2; ++t) {
    for (int i = 0; i < rest.rank; ++i) rest.strides[t][i] /= of_word;
  }
  args.rest = tile::LoopNest<2>(rest);
  const auto blocks = static_cast<unsigned>((threads + kInterleaveThreads - 1) / kInterleaveThreads);
  interleave<kWords><<<blocks, kInterleaveThreads, 0, stream>>>(args);
  return true;
}

}  // namespace

bool launch_interleave(const GatherParams& params, CUstream_st* stream) {
  const int bytes = any_type_bytes(params.out_type);
  if (bytes != 2 && bytes != 4) return false;
  Interleaving found;
  return find_interleaving(params.map, &found) &&
         (launch_words<4>(params, found, stream) || launch_words<2>(params, found, stream));
}

}  // namespace gpudnn::kernels
