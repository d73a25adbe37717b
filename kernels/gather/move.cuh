// out = in[map] where no element changes: equal types, alpha 1, beta 0, no vectors of channels. The general kernel
// (gather.cuh) spends some 200 instructions on an element's place; here they are spent once for kMoveRun elements.
//
// The loops over the output are taken in memory order. A run goes along one of them, the first that at least a warp's
// worth of faster iterations lies under, so that neighbouring threads still write neighbouring elements; the thread
// finds its place by divisions, and from there each step of the run adds a step in the output, one in the input, and a
// comparison of the position along one axis. Where the fastest loop is contiguous in the output and comes in whole
// words of V elements, a thread makes V neighbours at each step of its run: their places along the fastest loop's axis
// are the same for the whole run, so they too are found once. 8 V loads are in flight. Bytes: the output once, and of
// the input what it needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/gather/gather.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

constexpr int kMoveThreads = 256;
constexpr int kMoveRun = 8;

struct MoveTerm {
  tile::FastDivmod under;   // iterations of all faster loops
  tile::FastDivmod extent;  // iterations of this one: of the run's loop, whole runs
  std::int64_t in_step;
  std::int64_t out_step;
};
// A position p inside moves the input by p / fold * stride + p % fold * within_step.
struct MoveAxis {
  std::int32_t first_term;  // those of an axis are neighbours
  std::int32_t terms;
  std::int64_t base;
  std::int64_t extent;
  tile::FastDivmod fold;
  std::int64_t stride;
  std::int64_t within_step;

  __device__ __forceinline__ bool holds(std::int64_t position) const {
    return static_cast<std::uint64_t>(position) < static_cast<std::uint64_t>(extent);
  }
  __device__ __forceinline__ std::int64_t offset(std::int64_t position) const {
    if (fold.divisor == 1) return position * stride;
    std::uint32_t within;
    const std::uint32_t outer = fold.divmod(static_cast<std::uint32_t>(position), &within);
    return outer * stride + within * within_step;
  }
};

struct MoveArgs {
  const void* in;
  void* out;
  std::uint32_t threads;
  std::int32_t axes;
  std::int32_t run_axis;
  std::int32_t run_term;
  std::uint32_t run_extent;  // iterations of the run's loop
  std::int32_t word_axis;    // of the fastest loop
  std::int32_t word_term;
  MoveAxis axis[kGatherAxes];
  MoveTerm term[kGatherLoops];
};

// Neighbours as one pack; narrow ones by shifts, not by way of memory.
template <class Word, int V>
__device__ __forceinline__ tile::Pack<Word, V> joined(const Word (&values)[V]) {
  tile::Pack<Word, V> pack;
  if constexpr (V > 1 && sizeof(Word) < 4) {
    static_assert(V * sizeof(Word) % 4 == 0);
    constexpr int kOfWord = 4 / sizeof(Word);
    std::uint32_t words[V / kOfWord] = {};
#pragma unroll
    for (int v = 0; v < V; ++v) {
      words[v / kOfWord] |= static_cast<std::uint32_t>(values[v]) << (32 / kOfWord * (v % kOfWord));
    }
    memcpy(&pack, words, sizeof pack);
  } else {
    memcpy(&pack, values, sizeof pack);
  }
  return pack;
}

template <class Word, int V>
__global__ void __launch_bounds__(kMoveThreads) gather_move(const __grid_constant__ MoveArgs args) {
  const std::uint32_t index = blockIdx.x * kMoveThreads + threadIdx.x;
  if (index >= args.threads) return;
  std::int64_t to = 0;
  std::int64_t from = 0;
  std::int64_t run_position = 0;
  std::int64_t word_position = 0;
  std::uint32_t run_first = 0;
  bool inside = true;
#pragma unroll 1
  for (int j = 0; j < args.axes; ++j) {
    const MoveAxis& axis = args.axis[j];
    std::int64_t position = axis.base;
#pragma unroll 1
    for (int t = axis.first_term; t < axis.first_term + axis.terms; ++t) {
      const MoveTerm& term = args.term[t];
      std::uint32_t coordinate;
      (void)term.extent.divmod(term.under.quotient(index), &coordinate);
      if (t == args.run_term) run_first = coordinate = coordinate * kMoveRun;
      if (V > 1 && t == args.word_term) coordinate *= V;
      position += coordinate * term.in_step;
      to += coordinate * term.out_step;
    }
    if (j == args.run_axis) {
      run_position = position;
    } else if (V > 1 && j == args.word_axis) {
      word_position = position;
    } else if (axis.holds(position)) {
      from += axis.offset(position);
    } else {
      inside = false;
    }
  }
  const MoveAxis& axis = args.axis[args.run_axis];
  const std::int64_t in_step = args.term[args.run_term].in_step;
  const std::int64_t out_step = args.term[args.run_term].out_step;
  const Word* const in = static_cast<const Word*>(args.in) + from;
  Word* const out = static_cast<Word*>(args.out) + to;
  const auto left = static_cast<int>(args.run_extent - run_first < kMoveRun ? args.run_extent - run_first : kMoveRun);
  std::int64_t within[V] = {};
  bool there[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    there[v] = inside;
    if constexpr (V > 1) {
      const MoveAxis& words = args.axis[args.word_axis];
      const std::int64_t position = word_position + v * args.term[args.word_term].in_step;
      there[v] = inside && words.holds(position);
      if (there[v]) within[v] = words.offset(position);
    }
  }
  Word values[kMoveRun][V];
#pragma unroll
  for (int i = 0; i < kMoveRun; ++i) {
    const std::int64_t position = run_position + i * in_step;
    const bool holds = i < left && axis.holds(position);
    const Word* const line = in + (holds ? axis.offset(position) : 0);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      values[i][v] = 0;
      if (holds && there[v]) values[i][v] = line[within[v]];
    }
  }
  // Joined only now, so that no load waits for the one before it.
#pragma unroll
  for (int i = 0; i < kMoveRun; ++i) {
    if (i < left) tile::store_pack<Word, V>(out + i * out_step, joined<Word, V>(values[i]));
  }
}

}  // namespace gpudnn::kernels
