// Local response normalization with windows of 5 channels, neighbouring pixels contiguous (NCHW).
//
// Bytes: forward x and y, backward x, dy and dx, each once; a chunk of channels reads 4 (8 backward) channels beside
// its own a second time, from the L2.
//
// A thread takes a pack of kLanes pixels (4, of 16-bit types forward 8, or 1 where packs do not fit: odd widths, odd
// strides) and walks down a
// chunk of channels, whose number fills the device in whole rounds of blocks. The window lives in registers: x of five
// channels, and backward t of five channels and dy s^-e of three. Step c takes in channel c + 4 of x; then
//   forward    the window of channel c + 2 is complete: y of c + 2 goes out
//   backward   s of channel c + 2 is known, so is its t; the five t around channel c are complete: dx of c goes out
// A batch of channels is loaded ahead of those that are worked on: with four lanes 80 bytes a thread and tensor.
// Channels beyond either end count as zeros, so they add nothing anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/lrn/lrn_math.cuh"

namespace gpudnn::kernels {

constexpr int kLrnThreads = 256;
constexpr int kLrnLanes = 4;
constexpr int kLrnWindow = 5;

struct LrnColumns {
  tile::LoopNest<3> pixels;  // packs of pixels
  std::uint32_t chunks;
  std::int32_t chunk;  // channels of a thread
};

// Blocks that should share a multiprocessor, where the compiler would take a few registers too many for them.
template <int kLanes, bool kBackward>
inline constexpr int kLrnBlocks = kLanes == 1                 ? 4
                                  : kLanes == 4 && !kBackward ? 3
                                                              : 0;

// Channels in a batch of loads. As many as the window has, or twice that: then the window moves by renaming registers.
// The four lanes of a backward pass have no registers left for that.
template <int kLanes, bool kBackward>
inline constexpr int kLrnBatch = kBackward    ? (kLanes > 1 ? 4 : kLrnWindow)
                                 : kLanes > 1 ? kLrnWindow
                                              : 2 * kLrnWindow;

template <class T, int kLanes, bool kBackward>
__global__ void __launch_bounds__(kLrnThreads, kLrnBlocks<kLanes, kBackward>)
    lrn_columns(LrnArgs<T> args, LrnColumns columns) {
  using C = tile::Compute<T>;
  using Pack = tile::Pack<T, kLanes>;
  constexpr int kBatch = kLrnBatch<kLanes, kBackward>;
  const std::uint32_t chunk = blockIdx.x % columns.chunks;
  const std::uint32_t pack = blockIdx.x / columns.chunks * kLrnThreads + threadIdx.x;
  if (pack >= columns.pixels.count) return;
  std::int64_t offset[3];
  columns.pixels.offsets(pack, offset);
  const T* __restrict__ const x = args.x + offset[0];
  const T* __restrict__ const dy = args.dy + offset[1];
  T* __restrict__ const out = args.out + offset[2];
  const auto channels = static_cast<std::int32_t>(args.channels);
  const std::int32_t begin = static_cast<std::int32_t>(chunk) * columns.chunk;
  const std::int32_t end = min(begin + columns.chunk, channels);
  // The first step is that whose window first holds a channel that matters: of channel begin, or of channel begin - 2.
  const std::int32_t first = begin - (kBackward ? 4 : 2);

  Pack next_x[kBatch], next_dy[kBatch];
  const auto inside = [&](std::int32_t c) {
    return static_cast<std::uint32_t>(c) < static_cast<std::uint32_t>(channels);
  };
  // Each load is a step further than the last. The four lanes of a backward pass have no registers for its address.
  constexpr bool kWalks = !kBackward || kLanes == 1;
  const T* ahead_x = x + (first + 4) * args.steps[0];
  const T* ahead_dy = dy + (first + 2) * args.steps[1];
  const auto load = [&](std::int32_t step) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      next_x[b].fill(tile::narrow<T>(C(0)));
      if (!kWalks) ahead_x = x + (step + b + 4) * args.steps[0];
      if (inside(step + b + 4)) next_x[b] = tile::load_pack<T, kLanes>(ahead_x);
      ahead_x += args.steps[0];
      if constexpr (kBackward) {
        next_dy[b].fill(tile::narrow<T>(C(0)));
        if (!kWalks) ahead_dy = dy + (step + b + 2) * args.steps[1];
        if (inside(step + b + 2)) next_dy[b] = tile::load_pack<T, kLanes>(ahead_dy);
        ahead_dy += args.steps[1];
      }
    }
  };
  C window[kLrnWindow][kLanes];       // x of channels step to step + 4
  C terms[kLrnWindow][kLanes] = {};   // t of channels step - 2 to step + 2
  C powers[kLrnWindow][kLanes] = {};  // dy s^-e of channels step - 2 to step + 2
#pragma unroll
  for (int j = 1; j < kLrnWindow; ++j) {
    Pack values;
    values.fill(tile::narrow<T>(C(0)));
    const std::int32_t c = first - 1 + j;
    if (inside(c)) values = tile::load_pack<T, kLanes>(x + c * args.steps[0]);
    tile::widen_pack<C>(values, window[j]);
  }
  const std::int32_t last = kBackward ? end : end - 2;  // steps
  T* target = out + (kBackward ? first : first + 2) * args.steps[2];
  load(first);
#pragma unroll 1
  for (std::int32_t batch = first; batch < last; batch += kBatch) {
    Pack now_x[kBatch], now_dy[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      now_x[b] = next_x[b];
      now_dy[b] = next_dy[b];
    }
    if (batch + kBatch < last) load(batch + kBatch);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const std::int32_t step = batch + b;
#pragma unroll
      for (int j = 0; j + 1 < kLrnWindow; ++j) {
#pragma unroll
        for (int i = 0; i < kLanes; ++i) window[j][i] = window[j + 1][i];
      }
      tile::widen_pack<C>(now_x[b], window[kLrnWindow - 1]);
      C result[kLanes];
      if constexpr (kBackward) {
        C gradient[kLanes];
        tile::widen_pack<C>(now_dy[b], gradient);
#pragma unroll
        for (int i = 0; i < kLanes; ++i) {
          C sum = C(0);
#pragma unroll
          for (int j = 0; j < kLrnWindow; ++j) sum += window[j][i] * window[j][i];
          const C s = args.k + args.weight * sum;
          const C logarithm = lrn_log2<T>(s);
#pragma unroll
          for (int j = 0; j + 1 < kLrnWindow; ++j) terms[j][i] = terms[j + 1][i];
#pragma unroll
          for (int j = 0; j + 1 < kLrnWindow; ++j) powers[j][i] = powers[j + 1][i];
          powers[4][i] = gradient[i] * lrn_exp2<T>(-args.exponent * logarithm);
          terms[4][i] = gradient[i] * (window[2][i] * lrn_exp2<T>(-(args.exponent + C(1)) * logarithm));
          C around = C(0);
#pragma unroll
          for (int j = 0; j < kLrnWindow; ++j) around += terms[j][i];
          result[i] = powers[2][i] - C(2) * args.exponent * args.weight * window[0][i] * around;
        }
      } else {
#pragma unroll
        for (int i = 0; i < kLanes; ++i) {
          C sum = C(0);
#pragma unroll
          for (int j = 0; j < kLrnWindow; ++j) sum += window[j][i] * window[j][i];
          result[i] = window[2][i] * lrn_exp2<T>(-args.exponent * lrn_log2<T>(args.k + args.weight * sum));
        }
      }
      const std::int32_t c = kBackward ? step : step + 2;
      if (!kWalks) target = out + c * args.steps[2];
      if (c >= begin && c < end) lrn_store<T, kLanes>(result, args.alpha, args.beta, target);
      target += args.steps[2];
    }
  }
}

}  // namespace gpudnn::kernels
