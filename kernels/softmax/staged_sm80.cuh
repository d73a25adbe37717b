// Softmax of 16-bit types over columns through shared memory: tiles of 64 neighbouring groups, 128 bytes, and all of
// their elements. Forward, and backward where the rows of a tile begin anywhere.
//
// A block copies its tile with asynchronous 16-byte copies, so that nothing waits in registers and several blocks share
// a multiprocessor: while some load, others compute. Lane l of every warp stands on the pixels 2 l and 2 l + 1, and the
// warps share the elements of the groups: warp w takes w, w + warps, ... in three passes over shared memory (maximum,
// sum, result; backward sum and result), some 20 instructions an element where the copy rate leaves 28. Between the
// passes the warps' results meet in shared memory, in one order.
//
// A row, the tile's part of one element of the groups, may begin anywhere (a plane of 57 x 57): the copies start at the
// multiple of 16 bytes below and bring 16 bytes more, and the first pass moves the row to the beginning of its place,
// by words. How far that is is the same for all rows of a warp, because the number of warps is a multiple of 8. Only
// where a copy would leave the tensor do its elements come one by one.
//
// Each input is read once and the output written once, by a block that has all of the tile in shared memory by then:
// the output may be an input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/softmax/softmax_math.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

constexpr int kStagedMostThreads = 512;  // a multiple of 256 is launched
constexpr int kStagedPixels = 64;        // of a tile
constexpr int kStagedBatch = 4;          // rows that a warp takes at once
template <bool kAligned>
inline constexpr int kStagedPitch = kAligned ? 128 : 144;  // bytes of a row's place in shared memory

// Where the tiles lie and what may be read.
struct StagedTiles {
  tile::FastDivmod of_line;   // tiles of a line
  std::uint32_t line = 0;     // pixels of a line
  std::int64_t step[3] = {};  // from an element of a group to the next: a, b, out
  const void* begin[2] = {};  // of the inputs
  const void* end[2] = {};
  tile::LoopNest<3> lines;
};

// Dynamic shared memory: the rows of a, those of b, and each warp's maxima and sums.
template <bool kAligned, bool kBackward>
constexpr std::int64_t staged_shared(std::int64_t length, int threads) {
  return length * kStagedPitch<kAligned> * (kBackward ? 2 : 1) +
         std::int64_t{kBackward ? 1 : 2} * (threads / 32) * kStagedPixels * static_cast<int>(sizeof(float));
}

// Elements by which a row begins beyond a multiple of 16 bytes.
template <class T>
__device__ __forceinline__ int row_skew(const T* row) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / sizeof(T) % (16 / sizeof(T)));
}

// One 16-byte copy; element by element where it would leave the tensor.
template <class T>
__device__ __forceinline__ void copy_chunk(unsigned char* to, const T* from, bool at_edge, const T* begin,
                                           const T* end) {
  constexpr int N = 16 / sizeof(T);
  if (at_edge && (from < begin || from + N > end)) {
#pragma unroll 1
    for (int i = 0; i < N; ++i) {
      if (from + i >= begin && from + i < end) reinterpret_cast<T*>(to)[i] = from[i];
    }
    return;
  }
  ptx::cp_async<16>(ptx::shared_address(to), from, 16);
}

// Starts the copies of the warp's rows of one tensor: `row` is the first pixel of row 0.
template <class T, bool kAligned>
__device__ __forceinline__ void copy_rows(unsigned char* to, const T* row, std::int64_t step, int length, int pixels,
                                          const void* begin, const void* end) {
  constexpr int N = 16 / sizeof(T);
  constexpr int kPitch = kStagedPitch<kAligned>;
  const auto warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int skew = kAligned ? 0 : row_skew(row + warp * step);
  const auto* const low = static_cast<const T*>(begin);
  const auto* const high = static_cast<const T*>(end);
  const bool at_edge = !kAligned && (row - N < low || row + (length - 1) * step + pixels + N > high);
  const int chunks = (skew + pixels + N - 1) / N;
  // Eight lanes on a row, then a lane on the ninth chunk of each.
  const int chunk = lane % 8;
  const T* from = row + (warp + lane / 8 * warps) * step - skew + chunk * N;
  const std::int64_t by = 4 * warps * step;
  if (chunk < chunks) {
#pragma unroll 4
    for (int c = warp + lane / 8 * warps; c < length; c += 4 * warps) {
      copy_chunk(to + c * kPitch + chunk * 16, from, at_edge, low, high);
      from += by;
    }
  }
  if (!kAligned && chunks > 8) {
#pragma unroll 1
    for (int c = warp + lane * warps; c < length; c += 32 * warps) {
      copy_chunk(to + c * kPitch + 128, row + c * step - skew + 8 * N, at_edge, low, high);
    }
  }
}

// What all warps together have for the lane's two pixels; `memory` has room for the values of all.
template <class Op>
__device__ __forceinline__ void meet_warps(float* memory, float (&values)[2], Op op) {
  constexpr int kAtOnce = 7;
  const auto warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
#pragma unroll
  for (int i = 0; i < 2; ++i) memory[(warp * 2 + i) * 32 + lane] = values[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; ++i) values[i] = memory[i * 32 + lane];
#pragma unroll 1
  for (int first = 1; first < warps; first += kAtOnce) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k >= warps) break;
#pragma unroll
      for (int i = 0; i < 2; ++i) values[i] = op(values[i], memory[((first + k) * 2 + i) * 32 + lane]);
    }
  }
}

// Calls body(count, c) for the warp's rows c, c + warps, ...: `count` of them at a time, then one by one.
template <class Body>
__device__ __forceinline__ void for_each_row(int length, const Body& body) {
  const auto warps = static_cast<int>(blockDim.x / 32);
  auto c = static_cast<int>(threadIdx.x / 32);
#pragma unroll 1
  for (; c + (kStagedBatch - 1) * warps < length; c += kStagedBatch * warps) {
    body(std::integral_constant<int, kStagedBatch>(), c);
  }
#pragma unroll 1
  for (; c < length; c += warps) body(std::integral_constant<int, 1>(), c);
}

// Rows c, c + warps, ... as the first pass finds them: moved to the beginning of their places where they stand `skew`
// elements off. A lane reads from others' places, and then owns its own.
template <bool kAligned, class Two, int kCount>
__device__ __forceinline__ void take_rows(unsigned char* stage, int skew, int c, Two (&packs)[kCount]) {
  const auto lane = static_cast<int>(threadIdx.x % 32), warps = static_cast<int>(blockDim.x / 32);
  const auto words_of = [&](int k) {
    return reinterpret_cast<std::uint32_t*>(stage + (c + k * warps) * kStagedPitch<kAligned>) + lane;
  };
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const std::uint32_t* const from = words_of(k) + skew / 2;
    packs[k].words[0] = kAligned ? from[0] : __funnelshift_r(from[0], from[1], skew % 2 * 16);
  }
  if constexpr (!kAligned) {
    __syncwarp();
#pragma unroll
    for (int k = 0; k < kCount; ++k) *words_of(k) = packs[k].words[0];
  }
}

template <class T, bool kAligned, bool kBackward>
__global__ void __launch_bounds__(kStagedMostThreads, kBackward ? 2 : 3)
    softmax_staged(SoftmaxArgs<T> args, StagedTiles tiles) {
  constexpr int kPitch = kStagedPitch<kAligned>;
  using Two = tile::Pack<T, 2>;
  const auto warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const auto length = static_cast<int>(args.length);
  std::uint32_t tile_of_line = 0;
  const std::uint32_t line = tiles.of_line.divmod(blockIdx.x, &tile_of_line);
  std::int64_t offset[3];
  tiles.lines.offsets(line, offset);
  const std::uint32_t first = tile_of_line * kStagedPixels;
  const int pixels = static_cast<int>(min(tiles.line - first, static_cast<std::uint32_t>(kStagedPixels)));
  const T* const a = args.a + offset[0] + first;
  const T* const b = args.b + offset[1] + first;
  unsigned char* const stage_a = tile::dynamic_shared();
  unsigned char* const stage_b = stage_a + length * kPitch;
  auto* const maxima = reinterpret_cast<float*>(stage_a + length * kPitch * (kBackward ? 2 : 1));
  float* const sums = kBackward ? maxima : maxima + warps * kStagedPixels;

  copy_rows<T, kAligned>(stage_a, a, tiles.step[0], length, pixels, tiles.begin[0], tiles.end[0]);
  if constexpr (kBackward) {
    copy_rows<T, kAligned>(stage_b, b, tiles.step[1], length, pixels, tiles.begin[1], tiles.end[1]);
  }
  ptx::cp_async_commit_group();
  const int skew_a = kAligned ? 0 : row_skew(a + warp * tiles.step[0]);
  const int skew_b = kAligned || !kBackward ? 0 : row_skew(b + warp * tiles.step[1]);
  ptx::cp_async_wait_group<0>();
  __syncwarp();  // a warp reads the rows that it has copied

  const auto load = [&](const unsigned char* stage, int c, auto& packs) {
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof packs / sizeof packs[0]); ++k) {
      packs[k] = tile::load_pack<T, 2>(reinterpret_cast<const T*>(stage + (c + k * warps) * kPitch) + 2 * lane);
    }
  };
  float most[2] = {kLowest<float>, kLowest<float>}, sum[2] = {};
  if constexpr (kBackward) {
    for_each_row(length, [&](auto count, int c) {
      Two y[count()], dy[count()];
      take_rows<kAligned>(stage_a, skew_a, c, y);
      take_rows<kAligned>(stage_b, skew_b, c, dy);
#pragma unroll
      for (int k = 0; k < count(); ++k) {
        float wide_y[2], wide_dy[2];
        tile::widen_pack<float>(y[k], wide_y);
        tile::widen_pack<float>(dy[k], wide_dy);
#pragma unroll
        for (int i = 0; i < 2; ++i) sum[i] += SoftmaxBackward<T>::term(wide_y[i], wide_dy[i], args.logarithm);
      }
    });
  } else {
    for_each_row(length, [&](auto count, int c) {
      Two packs[count()];
      take_rows<kAligned>(stage_a, skew_a, c, packs);
#pragma unroll
      for (int k = 1; k < count(); ++k) packs[0] = larger_of<T, 2>(packs[0], packs[k]);
      float wide[2];
      tile::widen_pack<float>(packs[0], wide);
#pragma unroll
      for (int i = 0; i < 2; ++i) most[i] = tile::Max{}(most[i], wide[i]);
    });
    meet_warps(maxima, most, tile::Max{});
    for_each_row(length, [&](auto count, int c) {
      Two packs[count()];
      load(stage_a, c, packs);
#pragma unroll
      for (int k = 0; k < count(); ++k) {
        float x[2];
        tile::widen_pack<float>(packs[k], x);
#pragma unroll
        for (int i = 0; i < 2; ++i) sum[i] += softmax_exp<T>(x[i] - most[i]);
      }
    });
  }
  meet_warps(sums, sum, tile::Sum{});

  T* const out = args.out + offset[2] + first + 2 * lane;
  const bool inside[2] = {2 * lane < pixels, 2 * lane + 1 < pixels};
  // Rows of the output that begin at a multiple of 4 bytes go in words, where the tile is whole.
  const bool in_words = kAligned || (pixels == kStagedPixels && row_skew(out + warp * tiles.step[2]) % 2 == 0);
  const auto write = [&](const auto& finish) {
    for_each_row(length, [&](auto count, int c) {
      Two y[count()], dy[count()];
      load(stage_a, c, y);
      if (kBackward) load(stage_b, c, dy);
      float result[count()][2];
#pragma unroll
      for (int k = 0; k < count(); ++k) {
        float wide[2], gradient[2] = {};
        tile::widen_pack<float>(y[k], wide);
        if (kBackward) tile::widen_pack<float>(dy[k], gradient);
#pragma unroll
        for (int i = 0; i < 2; ++i) result[k][i] = finish(i, wide[i], gradient[i]);
      }
      T* target = out + c * tiles.step[2];
      const std::int64_t by = warps * tiles.step[2];
      if (args.beta != 0.0f) {
#pragma unroll
        for (int k = 0; k < count(); ++k) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if (inside[i]) result[k][i] += args.beta * tile::widen<float>(target[k * by + i]);
          }
        }
      }
      if (in_words) {
#pragma unroll
        for (int k = 0; k < count(); ++k, target += by) {
          if (inside[0]) tile::store_pack<T, 2>(target, tile::narrow_pack<T>(result[k]));
        }
        return;
      }
#pragma unroll
      for (int k = 0; k < count(); ++k, target += by) {
        const Two both = tile::narrow_pack<T>(result[k]);
        if (inside[0]) target[0] = both.get(0);
        if (inside[1]) target[1] = both.get(1);
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
#pragma unroll
    for (int i = 0; i < 2; ++i) sum[i] = softmax_log<T>(sum[i]);
    write([&](int i, float x, float) { return args.alpha * (x - most[i] - sum[i]); });
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) sum[i] = SoftmaxFolded<T>(args, most[i], sum[i]).shift;
    write([&](int i, float x, float) { return ptx::ex2_approx_ftz(fmaf(x - most[i], 1.44269504f, sum[i])); });
  }
}

}  // namespace gpudnn::kernels
