// The Hopper implicit GEMM's producer: a warp that keeps the stages full through TMA. All its threads find
// out what is next, one of them starts the copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_addend.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::sm90 {

struct Window {
  std::int32_t w, h, d, n;
};
struct TapOffset {
  std::uint16_t w, h, d;
};

// An im2col box.
__device__ __forceinline__ void load_pixels(const Params& p, void* shared, const TensorMap& map, std::uint64_t* barrier,
                                            std::int32_t channel, const Window& at, const TapOffset& tap) {
  if (p.three_dimensional) {
    ptx::tma_im2col_5d(shared, &map, barrier, channel, at.w, at.h, at.d, at.n, tap.w, tap.h, tap.d);
  } else {
    ptx::tma_im2col_4d(shared, &map, barrier, channel, at.w, at.h, at.n, tap.w, tap.h);
  }
}

__device__ __forceinline__ Window window_at(const Params& p, const DenseProblem& problem, std::uint32_t pixel) {
  const Pixel at = pixel_at(problem, pixel);
  return {static_cast<std::int32_t>(at.w) * p.stride[0] + problem.corner[0],
          static_cast<std::int32_t>(at.h) * p.stride[1] + problem.corner[1],
          static_cast<std::int32_t>(at.d) * p.stride[2] + problem.corner[2], static_cast<std::int32_t>(at.n)};
}

// Any pixels: by the window, or by the number of the pixel where they are rows of a matrix.
template <bool kIsMatrix>
__device__ __forceinline__ void load_rows(const Params& p, void* shared, const TensorMap& map, std::uint64_t* barrier,
                                          std::int32_t channel, std::uint32_t pixel, const Window& at,
                                          const TapOffset& tap) {
  if constexpr (kIsMatrix) {
    ptx::tma_tile_3d(shared, &map, barrier, channel, 0, static_cast<std::int32_t>(pixel));
  } else {
    load_pixels(p, shared, map, barrier, channel, at, tap);
  }
}

template <class I, bool kAIsMatrix>
__device__ __forceinline__ void produce_pixels_by_filters(const Params& p, Shared<I>& shared, const Work& work,
                                                          tile::PipelineState<I::kStages>* turn) {
  const DenseProblem& problem = p.problem[work.stride_phase];
  const std::uint32_t first_pixel = work.m * I::kRowsOfC;
  const Window window = kAIsMatrix ? Window{} : window_at(p, problem, first_pixel);
  const auto first_channel = static_cast<std::int32_t>(work.group * p.a_channels);
  const auto first_filter = static_cast<std::int32_t>(work.group * p.b_channels);
  const auto n = static_cast<std::int32_t>(work.n * I::kColumnsOfC);

  // A K-major filter has no rows in its box beyond those that there are (set_filter_rows).
  constexpr std::uint32_t kRowOfFilter = I::kBK * sizeof(typename I::T);
  const std::uint32_t filter_rows = p.n_count < I::kColumnsOfC ? p.n_count : I::kColumnsOfC;
  const std::uint32_t bytes =
      I::kFilterIsMnMajor ? I::kABytes + I::kBBytes : (I::kRowsOfC + filter_rows) * kRowOfFilter;

  // k counts taps fastest, in the order s, r, t, then chunks of channels: neighbouring taps share pixels, which the L2
  // still has if they are read soon.
  std::uint32_t chunk = 0;
  std::uint32_t s = 0;
  std::uint32_t r = 0;
  std::uint32_t t = 0;
  if (work.k_begin > 0) {  // divisions that a tile of one k tile would wait for
    s = work.k_begin % problem.taps[0];
    std::uint32_t rest = work.k_begin / problem.taps[0];
    r = rest % problem.taps[1];
    rest /= problem.taps[1];
    t = rest % problem.taps[2];
    chunk = rest / problem.taps[2];
  }

  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    tile::wait(&shared.empty[turn->stage], turn->parity ^ 1);
    std::uint64_t* const full = &shared.full[turn->stage];
    const auto channel = static_cast<std::int32_t>(chunk * I::kBK);
    const TapOffset offset = {static_cast<std::uint16_t>(s * static_cast<std::uint32_t>(p.tap_offset[0])),
                              static_cast<std::uint16_t>(r * static_cast<std::uint32_t>(p.tap_offset[1])),
                              static_cast<std::uint16_t>(t * static_cast<std::uint32_t>(p.tap_offset[2]))};
    const std::int32_t filter_tap = problem.first_tap + static_cast<std::int32_t>(s) * problem.tap_step[0] +
                                    static_cast<std::int32_t>(r) * problem.tap_step[1] +
                                    static_cast<std::int32_t>(t) * problem.tap_step[2];
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(full, bytes);
      unsigned char* const pixels = I::kSwapped ? shared.b[turn->stage] : shared.a[turn->stage];
      unsigned char* const filters = I::kSwapped ? shared.a[turn->stage] : shared.b[turn->stage];
      load_rows<kAIsMatrix>(p, pixels, p.a[work.stride_phase], full, first_channel + channel, first_pixel, window,
                            offset);
      if constexpr (I::kFilterIsMnMajor) {
        // Rows are filters, 64 channels long.
#pragma unroll
        for (int box = 0; box < I::kColumnsOfC / I::kRowElements; ++box) {
          ptx::tma_tile_3d(filters + box * I::kBoxBytes, &p.b, full, n + box * I::kRowElements, filter_tap,
                           first_filter + channel);
        }
      } else {
        ptx::tma_tile_3d(filters, &p.b, full, channel, filter_tap, first_filter + n);
      }
    }
    turn->next();
    if constexpr (kAIsMatrix) {
      ++chunk;  // of the only tap
    } else if (++s == problem.taps[0]) {
      s = 0;
      if (++r == problem.taps[1]) {
        r = 0;
        if (++t == problem.taps[2]) {
          t = 0;
          ++chunk;
        }
      }
    }
  }
}

// kSkips: boxes beyond the last tap are not fetched. Their columns of the products, whatever they hold, are not stored.
template <class I, bool kAreMatrices, bool kSkips>
__device__ __forceinline__ void produce_filters_by_taps(const Params& p, Shared<I>& shared, const Work& work,
                                                        tile::PipelineState<I::kStages>* turn) {
  constexpr int kBoxes = I::kBN / I::kRowElements;
  const DenseProblem& problem = p.problem[0];
  // What each box of B fetches does not depend on k.
  std::int32_t channel_of[kBoxes];
  TapOffset tap_of[kBoxes];
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) {
    const std::uint32_t index = work.n * kBoxes + static_cast<std::uint32_t>(i);
    std::uint32_t chunk = 0;
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    std::uint32_t t = 0;
    if constexpr (kAreMatrices) {  // of one tap
      chunk = index;
    } else {
      const std::uint32_t tap = p.chunks_of_n.divmod(index, &chunk);
      t = p.taps_of_n[1].divmod(p.taps_of_n[0].divmod(tap, &s), &r);
    }
    const bool exists = index < p.n_chunks;
    channel_of[i] =
        static_cast<std::int32_t>(exists ? work.group * p.b_channels + chunk * I::kRowElements : p.b_channels_all);
    tap_of[i] = exists ? TapOffset{static_cast<std::uint16_t>(s * static_cast<std::uint32_t>(p.tap_offset[0])),
                                   static_cast<std::uint16_t>(r * static_cast<std::uint32_t>(p.tap_offset[1])),
                                   static_cast<std::uint16_t>(t * static_cast<std::uint32_t>(p.tap_offset[2]))}
                       : TapOffset{0, 0, 0};
  }
  const auto filter = static_cast<std::int32_t>(work.group * p.a_channels + work.m * I::kBM);

  const int boxes = kSkips ? static_cast<int>(p.n_chunks - work.n * kBoxes) : kBoxes;
  const std::uint32_t bytes = I::kABytes + static_cast<std::uint32_t>(boxes * I::kBoxBytes);

  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const std::uint32_t number = k * I::kBK;
    Window of_y = {};
    Window of_x = {};
    if constexpr (!kAreMatrices) {
      const Pixel pixel = pixel_at(problem, number);
      of_y = {static_cast<std::int32_t>(pixel.w), static_cast<std::int32_t>(pixel.h),
              static_cast<std::int32_t>(pixel.d), static_cast<std::int32_t>(pixel.n)};
      of_x = {of_y.w * p.stride[0] + problem.corner[0], of_y.h * p.stride[1] + problem.corner[1],
              of_y.d * p.stride[2] + problem.corner[2], of_y.n};
    }
    tile::wait(&shared.empty[turn->stage], turn->parity ^ 1);
    std::uint64_t* const full = &shared.full[turn->stage];
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(full, bytes);
#pragma unroll
      for (int i = 0; i < I::kBM / I::kRowElements; ++i) {
        load_rows<kAreMatrices>(p, shared.a[turn->stage] + i * I::kBoxBytes, p.a[0], full, filter + i * I::kRowElements,
                                number, of_y, {0, 0, 0});
      }
#pragma unroll
      for (int i = 0; i < kBoxes; ++i) {
        if (kSkips && i >= boxes) break;
        load_rows<kAreMatrices>(p, shared.b[turn->stage] + i * I::kBoxBytes, p.b, full, channel_of[i], number, of_x,
                                tap_of[i]);
      }
    }
    turn->next();
  }
}

// kAdds: stages of the addend follow a tile's k tiles. A copy of the loops of its own: those without are slower with
// any more code.
template <class I, bool kAdds>
__device__ __forceinline__ void produce_tiles(const Params& p, Shared<I>& shared) {
  tile::PipelineState<I::kStages> turn;
  const std::uint32_t end = end_index<I>(p);
  for (std::uint32_t index = first_index<I>(p); index < end; index = next_index<I>(p, index)) {
    const Work work = work_item<I>(p, index);
    // One thread starts all copies: its loop has no branch for what the problem decides.
    if constexpr (I::kIsFilterGradient) {
      // TF32's are bound by shared memory and TMA, where a tile half of which is void is slow.
      const bool skips = sizeof(typename I::T) == 4 && (work.n + 1) * (I::kBN / I::kRowElements) > p.n_chunks;
      if (!p.b_is_matrix) {
        produce_filters_by_taps<I, false, false>(p, shared, work, &turn);
      } else if (skips) {
        produce_filters_by_taps<I, true, sizeof(typename I::T) == 4>(p, shared, work, &turn);
      } else {
        produce_filters_by_taps<I, true, false>(p, shared, work, &turn);
      }
    } else if (p.a_is_matrix) {
      produce_pixels_by_filters<I, true>(p, shared, work, &turn);
    } else {
      produce_pixels_by_filters<I, false>(p, shared, work, &turn);
    }
    if constexpr (kAdds) produce_addend<I>(p, shared, work, &turn);
  }
}

template <class I>
__device__ __forceinline__ void produce(const Params& p, Shared<I>& shared) {
  // The kernel before may still be at it.
  if constexpr (I::kTransposesFilter) ptx::griddepcontrol_wait();
  if constexpr (kHasFusedEpilogue<I> && !kIsBiasRelu<I>) {
    if (p.adds_boxes) return produce_tiles<I, true>(p, shared);
  }
  produce_tiles<I, false>(p, shared);
}

}  // namespace gpudnn::kernels::sm90
