// Local response normalization with any window and any strides: a thread for each pixel and chunk of channels, an
// element at a time. The window's elements stand in a ring in shared memory, n slots for each thread:
//   x of channels c to c + n - 1, from which s of channel c + before follows; backward besides
//   t of channels c - after to c + before, and dy s^-e of channels c to c + before
// A slot belongs to one thread alone, so no thread waits for another. Channels beyond either end count as zeros.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/lrn/lrn_math.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kChunk = 64;  // channels of a thread
constexpr int kMaxSlots = 16;

extern __shared__ __align__(16) unsigned char lrn_shared[];

// The sum over a thread's ring, in the order of the slots.
template <bool kSquares, class C>
__device__ __forceinline__ C ring_sum(const C* ring, int n) {
  C sum = C(0);
  for (int j = 0; j < n; ++j) {
    const C value = ring[j * kThreads];
    sum += kSquares ? value * value : value;
  }
  return sum;
}

template <class T, bool kBackward>
__global__ void __launch_bounds__(kThreads) lrn_ring(LrnArgs<T> args, tile::LoopNest<3> pixels, std::uint32_t chunks) {
  using C = tile::Compute<T>;
  const int n = args.n;
  C* const window = reinterpret_cast<C*>(lrn_shared) + threadIdx.x;
  C* const terms = window + n * kThreads;
  C* const powers = terms + n * kThreads;
  const std::uint32_t pixel = blockIdx.x / chunks * kThreads + threadIdx.x;
  if (pixel >= pixels.count) return;
  std::int64_t offset[3];
  pixels.offsets(pixel, offset);
  const T* const x = args.x + offset[0];
  const T* const dy = args.dy + offset[1];
  T* const out = args.out + offset[2];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x % chunks) * kChunk;
  const std::int64_t end = min(begin + kChunk, args.channels);
  const auto at = [&](const T* data, std::int64_t c, std::int64_t step) {
    return c >= 0 && c < args.channels ? tile::widen<C>(data[c * step]) : C(0);
  };
  // Step c works on the window of channel c + before.
  const std::int64_t first = begin - (kBackward ? n - 1 : args.before);
  const std::int64_t last = kBackward ? end : end - args.before;
  for (int j = 0; j + 1 < n; ++j) window[j * kThreads] = at(x, first + j, args.steps[0]);
  if constexpr (kBackward) {
    for (int j = 0; j < n; ++j) terms[j * kThreads] = powers[j * kThreads] = C(0);
  }
  int slot = n - 1;  // of channel c + n - 1; that of channel c is the next one
  for (std::int64_t c = first; c < last; ++c) {
    window[slot * kThreads] = at(x, c + n - 1, args.steps[0]);
    const int oldest = slot + 1 == n ? 0 : slot + 1;
    const int centre = oldest + args.before < n ? oldest + args.before : oldest + args.before - n;
    const C logarithm = log2_of(args.k + args.weight * ring_sum<true>(window, n));
    if constexpr (kBackward) {
      const C gradient = at(dy, c + args.before, args.steps[1]);
      // These rings turn with the window's: channel c + before has its slot there.
      powers[centre * kThreads] = gradient * exp2_of(-args.exponent * logarithm);
      terms[centre * kThreads] = gradient * (window[centre * kThreads] * exp2_of(-(args.exponent + C(1)) * logarithm));
      if (c >= begin) {
        C result[1] = {powers[oldest * kThreads] -
                       C(2) * args.exponent * args.weight * window[oldest * kThreads] * ring_sum<false>(terms, n)};
        lrn_store<T, 1>(result, args.alpha, args.beta, out + c * args.steps[2]);
      }
    } else {
      C result[1] = {window[centre * kThreads] * exp2_of(-args.exponent * logarithm)};
      lrn_store<T, 1>(result, args.alpha, args.beta, out + (c + args.before) * args.steps[2]);
    }
    slot = oldest;
  }
}

}  // namespace

void launch_lrn_ring(const LrnParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    static_assert(3 * kMaxSlots * kThreads * sizeof(tile::Compute<T>) <= 48 * 1024, "what every block may have");
    const std::int64_t chunks = (params.channels + kChunk - 1) / kChunk;
    const std::int64_t most = tile::kMaxIterations / (chunks > kThreads ? chunks / kThreads + 1 : 1);
    tile::for_each_piece(
        params.pixels, most, {}, [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
          LrnArgs<T> args = lrn_args<T>(params);
          args.x += offsets[0];
          args.dy += offsets[1];
          args.out += offsets[2];
          const tile::LoopNest<3> pixels(piece);
          const auto blocks = static_cast<unsigned>((pixels.count + kThreads - 1) / kThreads * chunks);
          const std::size_t bytes =
              (params.backward ? 3 : 1) * static_cast<std::size_t>(params.n) * kThreads * sizeof(tile::Compute<T>);
          if (params.backward) {
            lrn_ring<T, true><<<blocks, kThreads, bytes, stream>>>(args, pixels, static_cast<std::uint32_t>(chunks));
          } else {
            lrn_ring<T, false><<<blocks, kThreads, bytes, stream>>>(args, pixels, static_cast<std::uint32_t>(chunks));
          }
        });
  });
}

}  // namespace gpudnn::kernels
