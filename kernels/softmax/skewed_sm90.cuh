// Softmax over columns whose rows begin anywhere (planes of 57 x 57), in packs that are aligned in memory.
//
// A row is the part of one element of the groups, a plane's pixels. Its packs of 16 bytes, N elements, begin at
// multiples of 16 bytes in memory, so which pixels they hold differs from row to row: a row that begins `skew` elements
// past such a multiple has the pixels l N - skew and on in pack l. Rows whose numbers differ by a multiple of N have
// the same skew, and a thread takes pack l of such rows only: its N pixels stay the same all the way. So nothing is
// ever shifted: packs come in by asynchronous copies, wait in shared memory in the thread's own places, and the results
// leave as packs. A warp has two rows, runs of 256 bytes, or four where a line is short.
//
// A tile owns `tile` pixels, rounded in each row up to the next pack in memory at both ends. For that its block knows
// the totals of N - 1 pixels more than it owns, which the next tile's block reads as well, at about the same time. At
// the ends of a plane, elements go one by one.
//
// Three passes over the thread's own elements: maximum, sum (backward: sum), result. Between sum and result the
// threads' maxima and sums meet in shared memory, in one order: over the rows of a warp, then over warps, then over the
// blocks of a cluster, which share the groups' elements where one block cannot hold them all.
//
// Least bytes: forward x and y, backward y, dy and dx, each once; 14 % of the inputs are read twice, from the L2.
// As neighbouring blocks read what a block writes, the output may be an input only where a line is one tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/softmax/softmax_math.cuh"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

constexpr int kSkewedThreads = 256;
constexpr int kSkewedWarps = kSkewedThreads / 32;  // a multiple of every N: the rows of a warp have one skew
constexpr int kSkewedBatch = 4;                    // rows that a thread takes at once
constexpr int kSkewedMostCluster = 8;

struct SkewedTiles {
  tile::FastDivmod of_line;   // tiles of a line
  std::int32_t line = 0;      // pixels of a line
  std::int32_t tile = 0;      // pixels that a tile owns, a multiple of a pack
  std::int32_t lanes = 0;     // packs of a row that a tile may need: 8 or 16
  std::int32_t rows = 0;      // elements of a group for each block of a cluster
  std::int64_t step[3] = {};  // from an element of a group to the next: a, b, out
  std::int64_t by[3] = {};    // from a row of a thread to its next one
  const void* begin[2] = {};  // of the inputs
  const void* end[2] = {};
  tile::LoopNest<3> lines;
};

// Totals of a warp for each pixel that its packs may hold. Pixel j stands at j + j / N: neighbouring lanes, N pixels
// apart, then use different banks.
template <int N>
constexpr int skewed_pitch(int lanes) {
  return (lanes + 1) * (N + 1);
}
// Shared memory of a block: the threads' packs, and the warps' maxima and sums.
template <int N, bool kBackward>
constexpr std::int64_t skewed_shared(int lanes, std::int64_t rows) {
  const std::int64_t at_once = kSkewedThreads / lanes;
  return (rows + at_once - 1) / at_once * kSkewedThreads * 16 * (kBackward ? 2 : 1) +
         std::int64_t{kBackward ? 1 : 2} * kSkewedWarps * skewed_pitch<N>(lanes) * static_cast<int>(sizeof(float));
}

// The thread's packs of one tensor: of `count` rows, `by` elements apart.
template <class T>
__device__ __forceinline__ void copy_packs(unsigned char* to, const T* from, std::int64_t by, int count,
                                           const void* begin, const void* end) {
  constexpr int N = tile::kPackWidth<T>;
  const auto* const low = static_cast<const T*>(begin);
  const auto* const high = static_cast<const T*>(end);
  if (count == 0) return;
  if (from < low || from + (count - 1) * by + N > high) {
    // A pack leaves the tensor: an element at a time.
#pragma unroll 1
    for (int k = 0; k < count; ++k, from += by, to += kSkewedThreads * 16) {
#pragma unroll 1
      for (int i = 0; i < N; ++i) {
        if (from + i >= low && from + i < high) reinterpret_cast<T*>(to)[i] = from[i];
      }
    }
    return;
  }
#pragma unroll 4
  for (int k = 0; k < count; ++k, from += by, to += kSkewedThreads * 16) {
    ptx::cp_async<16>(ptx::shared_address(to), from, 16);
  }
}

// Calls body(number, k) for the rows k of a thread: kSkewedBatch of them at a time, then one by one.
template <class Body>
__device__ __forceinline__ void for_each_batch(int count, const Body& body) {
  int k = 0;
#pragma unroll 1
  for (; k + kSkewedBatch <= count; k += kSkewedBatch) body(std::integral_constant<int, kSkewedBatch>(), k);
#pragma unroll 1
  for (; k < count; ++k) body(std::integral_constant<int, 1>(), k);
}

template <class T, bool kBackward>
__device__ __forceinline__ void merge_totals(float& most, float& sum, float other_most, float other_sum) {
  if constexpr (kBackward) {
    sum += other_sum;
  } else {
    const float larger = tile::Max{}(most, other_most);
    sum = sum * softmax_exp<T>(most - larger) + other_sum * softmax_exp<T>(other_most - larger);
    most = larger;
  }
}

// What all threads of the cluster together have for the thread's pixels, the first of which is `place` at shared
// memory. Forward `most` and `sum` turn into what the results are made with.
template <class T, bool kBackward, int N, class Finish>
__device__ __forceinline__ void meet(float* memory, int lanes, int pixel, int blocks, float (&most)[N], float (&sum)[N],
                                     const Finish& finish) {
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const int pitch = skewed_pitch<N>(lanes);
  float* const sums = memory;
  float* const maxima = memory + (kBackward ? 0 : kSkewedWarps * pitch);
  for (int step = lanes; step < 32; step *= 2) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float other_most = kBackward ? 0.0f : __shfl_xor_sync(0xffffffffu, most[i], step);
      const float other_sum = __shfl_xor_sync(0xffffffffu, sum[i], step);
      merge_totals<T, kBackward>(most[i], sum[i], other_most, other_sum);
    }
  }
  const auto place = [](int j) { return j + j / N; };
  pixel += N - 1;  // a pack may begin that far before the tile
  if (static_cast<int>(threadIdx.x % 32) < lanes) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[warp * pitch + place(pixel + i)] = sum[i];
      if (!kBackward) maxima[warp * pitch + place(pixel + i)] = most[i];
    }
  }
  __syncthreads();
  const auto j = static_cast<int>(threadIdx.x);
  const bool joins = j < (lanes + 1) * N - 1;
  float all_most = 0.0f, all_sum = 0.0f;
  if (joins) {
    float held_most[kSkewedWarps], held_sum[kSkewedWarps];
    all_most = kLowest<float>;
#pragma unroll
    for (int w = 0; w < kSkewedWarps; ++w) {
      held_sum[w] = sums[w * pitch + place(j)];
      if (!kBackward) held_most[w] = maxima[w * pitch + place(j)];
      if (!kBackward) all_most = tile::Max{}(all_most, held_most[w]);
    }
#pragma unroll
    for (int w = 0; w < kSkewedWarps; ++w) {
      all_sum += kBackward ? held_sum[w] : held_sum[w] * softmax_exp<T>(held_most[w] - all_most);
    }
  }
  // Only this thread has read place j, so the first warp's takes what the block has, the second's what all have.
  if (blocks > 1) {
    if (joins) {
      sums[place(j)] = all_sum;
      if (!kBackward) maxima[place(j)] = all_most;
    }
    tile::cluster_sync(blocks);
    if (joins) {
      all_sum = 0.0f;
      all_most = kLowest<float>;
      for (int rank = 0; rank < blocks; ++rank) {
        const float other_sum = *tile::cluster_shared(&sums[place(j)], rank, blocks);
        const float other_most = kBackward ? 0.0f : *tile::cluster_shared(&maxima[place(j)], rank, blocks);
        merge_totals<T, kBackward>(all_most, all_sum, other_most, other_sum);
      }
    }
    ptx::cluster_arrive();  // waited for before the block ends
  }
  if (joins) {
    sums[pitch + place(j)] = finish(all_most, all_sum);
    if (!kBackward) maxima[pitch + place(j)] = all_most;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; ++i) {
    sum[i] = sums[pitch + place(pixel + i)];
    if (!kBackward) most[i] = maxima[pitch + place(pixel + i)];
  }
}

template <class T, bool kBackward>
__global__ void __launch_bounds__(kSkewedThreads, 3)
    softmax_skewed(const __grid_constant__ SoftmaxArgs<T> args, const __grid_constant__ SkewedTiles tiles) {
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  const auto thread = static_cast<int>(threadIdx.x);
  const int blocks = args.cluster;
  std::uint32_t tile_of_line = 0;
  const std::uint32_t line = tiles.of_line.divmod(blockIdx.x / static_cast<unsigned>(blocks), &tile_of_line);
  const int first = static_cast<int>(tile_of_line) * tiles.tile;
  const int pixels = tiles.line - first;  // to the end of the line
  const bool is_last = tile_of_line + 1 == tiles.of_line.divisor;

  // The thread's rows and pixels.
  const int at_once = kSkewedThreads / tiles.lanes;
  const int begin = static_cast<int>(blockIdx.x) % blocks * tiles.rows;
  const int end = min(begin + tiles.rows, static_cast<int>(args.length));
  const int row = begin + thread / 32 + thread % 32 / tiles.lanes * kSkewedWarps;
  const auto place_in = [&](int tensor) {
    return tiles.lines.offset_in(tensor, line) + first + row * tiles.step[tensor];
  };
  const T* const a = args.a + place_in(0);
  const auto skew = static_cast<int>(reinterpret_cast<std::uintptr_t>(a) / sizeof(T) % N);
  const int pixel = thread % tiles.lanes * N - skew;  // the thread's first
  const bool reads = pixel < min(pixels, tiles.tile + N - 1);
  const int count = reads && row < end ? (end - row + at_once - 1) / at_once : 0;

  unsigned char* const stage_a = tile::dynamic_shared() + thread * 16;
  const int stage_bytes = (tiles.rows + at_once - 1) / at_once * kSkewedThreads * 16;
  unsigned char* const stage_b = stage_a + stage_bytes;
  auto* const memory = reinterpret_cast<float*>(tile::dynamic_shared() + stage_bytes * (kBackward ? 2 : 1));
  copy_packs(stage_a, a + pixel, tiles.by[0], count, tiles.begin[0], tiles.end[0]);
  if constexpr (kBackward) {
    copy_packs(stage_b, args.b + place_in(1) + pixel, tiles.by[1], count, tiles.begin[1], tiles.end[1]);
  }
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();

  const auto load = [&](const unsigned char* stage, int k) {
    return tile::load_pack<T, N>(reinterpret_cast<const T*>(stage + k * kSkewedThreads * 16));
  };
  float most[N], sum[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    most[i] = kLowest<float>;
    sum[i] = 0.0f;
  }
  if constexpr (kBackward) {
    for_each_batch(count, [&](auto number, int first_k) {
      Pack y[number()], dy[number()];
#pragma unroll
      for (int k = 0; k < number(); ++k) {
        y[k] = load(stage_a, first_k + k);
        dy[k] = load(stage_b, first_k + k);
      }
#pragma unroll
      for (int k = 0; k < number(); ++k) {
        float wide_y[N], wide_dy[N];
        tile::widen_pack<float>(y[k], wide_y);
        tile::widen_pack<float>(dy[k], wide_dy);
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += SoftmaxBackward<T>::term(wide_y[i], wide_dy[i], args.logarithm);
      }
    });
  } else {
    Pack largest;
    largest.fill(tile::narrow<T>(-INFINITY));
    for_each_batch(count, [&](auto number, int first_k) {
      Pack packs[number()];
#pragma unroll
      for (int k = 0; k < number(); ++k) packs[k] = load(stage_a, first_k + k);
#pragma unroll
      for (int k = 0; k < number(); ++k) largest = larger_of<T, N>(largest, packs[k]);
    });
    float wide[N];
    tile::widen_pack<float>(largest, wide);
#pragma unroll
    for (int i = 0; i < N; ++i) most[i] = tile::Max{}(most[i], wide[i]);
    for_each_batch(count, [&](auto number, int first_k) {
      Pack packs[number()];
#pragma unroll
      for (int k = 0; k < number(); ++k) packs[k] = load(stage_a, first_k + k);
#pragma unroll
      for (int k = 0; k < number(); ++k) {
        float x[N];
        tile::widen_pack<float>(packs[k], x);
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += softmax_exp<T>(x[i] - most[i]);
      }
    });
  }
  // In 16-bit types the factor goes into the exponent; see SoftmaxFolded.
  meet<T, kBackward>(memory, tiles.lanes, pixel, blocks, most, sum, [&](float all_most, float all_sum) {
    if constexpr (kBackward) return all_sum;
    if (args.logarithm) return softmax_log<T>(all_sum);
    return sizeof(T) == 2 ? SoftmaxFolded<T>(args, all_most, all_sum).shift : args.alpha / all_sum;
  });

  // The output's place is worked out here, where registers are free again.
  const bool owns = (pixel >= 0 || first == 0) && (is_last || pixel < tiles.tile);
  T* const out = args.out + place_in(2) + pixel;
  const bool whole = pixel >= 0 && pixel + N <= pixels;
  const auto write = [&](const auto& finish) {
    for_each_batch(owns ? count : 0, [&](auto number, int first_k) {
      Pack y[number()], dy[number()];
#pragma unroll
      for (int k = 0; k < number(); ++k) {
        y[k] = load(stage_a, first_k + k);
        if (kBackward) dy[k] = load(stage_b, first_k + k);
      }
      T* target = out + first_k * tiles.by[2];
#pragma unroll
      for (int k = 0; k < number(); ++k, target += tiles.by[2]) {
        float wide[N], gradient[N] = {}, result[N];
        tile::widen_pack<float>(y[k], wide);
        if (kBackward) tile::widen_pack<float>(dy[k], gradient);
#pragma unroll
        for (int i = 0; i < N; ++i) result[i] = finish(i, wide[i], gradient[i]);
        if (whole) {
          if (args.beta != 0.0f) {
            float old[N];
            tile::widen_pack<float>(tile::load_pack<T, N>(target), old);
#pragma unroll
            for (int i = 0; i < N; ++i) result[i] += args.beta * old[i];
          }
          tile::store_pack<T, N>(target, tile::narrow_pack<T>(result));
        } else {
#pragma unroll
          for (int i = 0; i < N; ++i) {
            if (pixel + i < 0 || pixel + i >= pixels) continue;
            if (args.beta != 0.0f) result[i] += args.beta * tile::widen<float>(target[i]);
            target[i] = tile::narrow<T>(result[i]);
          }
        }
      }
    });
  };
  if constexpr (kBackward) {
    if (args.logarithm) {
      write([&](int i, float y, float dy) { return args.alpha * (dy - softmax_exp<T>(y) * sum[i]); });
    } else {
      write([&](int i, float y, float dy) { return args.alpha * (y * (dy - sum[i])); });
    }
  } else if (args.logarithm) {
    write([&](int i, float x, float) { return args.alpha * (x - most[i] - sum[i]); });
  } else if constexpr (sizeof(T) == 2) {
    write([&](int i, float x, float) { return ptx::ex2_approx_ftz(fmaf(x - most[i], 1.44269504f, sum[i])); });
  } else {
    write([&](int i, float x, float) { return sum[i] * softmax_exp<T>(x - most[i]); });
  }
  if (blocks > 1) ptx::cluster_wait();  // the others have read what this block holds
}

}  // namespace gpudnn::kernels
