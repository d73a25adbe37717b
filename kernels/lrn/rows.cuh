// Local response normalization with windows of 5 channels, channels innermost (NHWC) in packs of 16 bytes.
//
// Bytes: forward x and y, backward x, dy and dx, each once.
//
// A thread takes a pack of N channels of a pixel; the threads beside it have the packs beside it, so the packs to the
// left and right that a window reaches into come from the L1. Forward needs 2 channels on each side, backward 4 of x
// and 2 of dy: it finds s and t of N + 4 channels. Channels beyond either end count as zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/lrn/lrn_math.cuh"

namespace gpudnn::kernels {

constexpr int kLrnRowThreads = 256;
constexpr int kLrnReach = 2;  // channels of a window on each side of its own

// `kSide` elements to the left of the pack, the pack, `kSide` to its right, widened.
template <int kSide, class T, int N, class C>
__device__ __forceinline__ void load_with_sides(const T* pack, bool has_left, bool has_right,
                                                C (&values)[N + 2 * kSide]) {
  static_assert(kSide <= N, "a window may reach into one pack on each side");
  tile::Pack<T, N> left, right;
  left.fill(tile::narrow<T>(C(0)));
  right = left;
  const tile::Pack<T, N> own = tile::load_pack<T, N>(pack);
  if (has_left) left = tile::load_pack<T, N>(pack - N);
  if (has_right) right = tile::load_pack<T, N>(pack + N);
#pragma unroll
  for (int i = 0; i < kSide; ++i) values[i] = tile::widen<C>(left.get(N - kSide + i));
#pragma unroll
  for (int i = 0; i < N; ++i) values[kSide + i] = tile::widen<C>(own.get(i));
#pragma unroll
  for (int i = 0; i < kSide; ++i) values[kSide + N + i] = tile::widen<C>(right.get(i));
}

template <class T, bool kBackward>
__global__ void __launch_bounds__(kLrnRowThreads)
    lrn_rows(LrnArgs<T> args, tile::LoopNest<3> pixels, tile::FastDivmod by_packs, std::uint32_t count) {
  using C = tile::Compute<T>;
  constexpr int N = tile::kPackWidth<T>;
  constexpr int kSide = kBackward ? 2 * kLrnReach : kLrnReach;
  const std::uint32_t index = blockIdx.x * kLrnRowThreads + threadIdx.x;
  if (index >= count) return;
  std::uint32_t pack;
  const std::uint32_t pixel = by_packs.divmod(index, &pack);
  std::int64_t offset[3];
  pixels.offsets(pixel, offset);
  const bool has_left = pack > 0, has_right = pack + 1 < by_packs.divisor;
  const std::int64_t channel = static_cast<std::int64_t>(pack) * N;
  C x[N + 2 * kSide];
  load_with_sides<kSide, T, N>(args.x + offset[0] + channel, has_left, has_right, x);
  C result[N];
  // s of the channel whose window begins at x[first].
  const auto base = [&](int first) {
    C sum = C(0);
#pragma unroll
    for (int j = 0; j <= 2 * kLrnReach; ++j) sum += x[first + j] * x[first + j];
    return args.k + args.weight * sum;
  };
  if constexpr (kBackward) {
    C dy[N + 2 * kLrnReach];
    load_with_sides<kLrnReach, T, N>(args.dy + offset[1] + channel, has_left, has_right, dy);
    C terms[N + 2 * kLrnReach];
#pragma unroll
    for (int i = 0; i < N + 2 * kLrnReach; ++i) {
      const C logarithm = lrn_log2<T>(base(i));
      terms[i] = dy[i] * (x[kLrnReach + i] * lrn_exp2<T>(-(args.exponent + C(1)) * logarithm));
      if (i >= kLrnReach && i < N + kLrnReach) result[i - kLrnReach] = dy[i] * lrn_exp2<T>(-args.exponent * logarithm);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      C around = C(0);
#pragma unroll
      for (int j = 0; j <= 2 * kLrnReach; ++j) around += terms[i + j];
      result[i] -= C(2) * args.exponent * args.weight * x[kSide + i] * around;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) result[i] = x[kSide + i] * lrn_exp2<T>(-args.exponent * lrn_log2<T>(base(i)));
  }
  lrn_store<T, N>(result, args.alpha, args.beta, args.out + offset[2] + channel);
}

}  // namespace gpudnn::kernels
