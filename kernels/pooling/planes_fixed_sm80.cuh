// Pooling of packed tensors in two dimensions with the usual windows (width and stride known at compile time): NCHW,
// and NHWC whose channels are few or odd.
//
// Mathematics: strips.cuh. Least traffic: forward x and y; backward of a maximum x, dy and dx (y is not read: a
// window's choice is found again); backward of an average dy and dx.
//
// A plane is one channel of one image; its rows are lines of pixels. In NHWC a plane is a whole image, and its rows are
// lines of pixels times channels: an element's neighbour across is `interleaved` elements away, all else is the same.
//
// Data flow. A block takes a group of neighbouring planes, or a band of rows of one or two large ones, and copies it
// into shared memory in pieces of 16 bytes, whatever its width: a group of planes is one contiguous stretch, a band one
// for each plane. Bytes in flight come from many small blocks on a multiprocessor: one loads while another computes.
//   forward    units of one column of kStrip outputs, in two planes at once for 16-bit types, straight to global memory
//   backward   1. the windows' choices, in such units, to shared memory (maximum only)
//              2. blocks of x gather from choices and gradients; dx goes to shared memory, over x, no longer needed
//              3. dx leaves in pieces of 16 bytes
// Neighbouring threads read neighbouring columns, so 16-bit elements at a stride of 2 touch each bank once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/staging.cuh"
#include "kernels/pooling/strips.cuh"

namespace gpudnn::kernels {

constexpr int kPlanesFixedThreads = 128;

// Planes that a thread works on at once.
template <class T>
inline constexpr int kPlaneLanes = sizeof(T) == 2 ? 2 : 1;

template <class T>
struct PlanesFixedArgs {
  const T* x;
  const T* dy;
  T* out;
  tile::Compute<T> alpha;
  tile::Compute<T> beta;
  bool plain;  // alpha is 1 and beta 0
  bool count_padding;
  bool gradient;  // of an average, as a sum over windows (planes_runs_sm80.cuh)
  std::int32_t pad[2];
  std::int32_t interleaved;                 // elements from a pixel to the next
  std::int32_t height, width;               // of x, in pixels
  std::int32_t windows_high, windows_wide;  // of y
  std::int32_t blocks_high, blocks_wide;    // of x in blocks of stride x stride, counted from the padding's corner
  std::int32_t row, window_row, block_row;  // elements of a row: the widths times `interleaved`
  std::int32_t window_strip, block_strip;   // windows or blocks that a thread does one below the other
  std::int64_t planes;
  std::int32_t group;  // planes of a thread block
  std::int32_t bands;  // of a plane
  std::int32_t band;   // rows of windows (forward) or of blocks (backward) in a band
  tile::FastDivmod by_bands;
  tile::FastDivmod by_interleaved;
  tile::FastDivmod by_window_row;
  tile::FastDivmod by_block_row;
  tile::FastDivmod by_window_chunks;  // strips of a band's windows
  tile::FastDivmod by_block_chunks;
  // In shared memory: elements from a plane to the next, and bytes to the arrays after x.
  std::int32_t x_pitch, dy_pitch, out_pitch;
  std::int32_t dy_begin, choices_begin, out_begin;
};

// A block's planes and rows.
struct PlanesWork {
  std::int64_t first_plane;
  std::int32_t planes;
  std::int32_t first_row;  // of windows (forward) or blocks (backward)
  std::int32_t rows;
};

template <class T>
__device__ __forceinline__ PlanesWork planes_work(const PlanesFixedArgs<T>& args, std::int32_t all_rows) {
  std::uint32_t band;
  const std::uint32_t group = args.by_bands.divmod(blockIdx.x, &band);
  PlanesWork work;
  work.first_plane = static_cast<std::int64_t>(group) * args.group;
  work.planes = static_cast<std::int32_t>(min(static_cast<std::int64_t>(args.group), args.planes - work.first_plane));
  work.first_row = static_cast<std::int32_t>(band) * args.band;
  work.rows = min(args.band, all_rows - work.first_row);
  return work;
}

template <class T>
__device__ __forceinline__ T* rows_in_shared(const T* from, unsigned char* shared) {
  return reinterpret_cast<T*>(shared) + skew_of(from);
}
// Starts the copy of `count` elements of each of the planes, `area` apart, the first of them at `from`. Whole planes
// are one stretch. Returns where the first element will be.
template <class T>
__device__ __forceinline__ T* stage_planes(const T* from, bool whole, std::int32_t area, std::int32_t count,
                                           std::int32_t planes, std::int32_t pitch, unsigned char* shared) {
  T* const to = rows_in_shared(from, shared);
  if (whole) {
    stage_stretch(from, planes * area, to);
  } else {
    for (std::int32_t p = 0; p < planes; ++p) {
      stage_stretch(from + static_cast<std::int64_t>(p) * area, count, to + p * pitch);
    }
  }
  return to;
}

extern __shared__ __align__(16) unsigned char planes_fixed_shared[];

// Unit -> lanes' planes, column, first row of the strip. False where there is nothing to do.
struct PlanesUnit {
  std::int32_t plane;   // the first lane's
  std::int32_t lanes;   // planes that exist
  std::int32_t column;  // in elements
  std::int32_t pixel;   // the column's
  std::int32_t inner;   // and its place within the pixel
  std::int32_t row;     // of windows or blocks, within the band
};
template <int N>
__device__ __forceinline__ PlanesUnit planes_unit(std::int32_t unit, const tile::FastDivmod& by_columns,
                                                  const tile::FastDivmod& by_chunks,
                                                  const tile::FastDivmod& by_interleaved, std::int32_t strip,
                                                  std::int32_t planes) {
  std::uint32_t column, chunk, inner;
  const std::uint32_t rest = by_columns.divmod(static_cast<std::uint32_t>(unit), &column);
  const std::uint32_t pair = by_chunks.divmod(rest, &chunk);
  PlanesUnit made;
  made.plane = static_cast<std::int32_t>(pair) * N;
  made.lanes = min(N, planes - made.plane);
  made.column = static_cast<std::int32_t>(column);
  made.pixel = static_cast<std::int32_t>(by_interleaved.divmod(column, &inner));
  made.inner = static_cast<std::int32_t>(inner);
  made.row = static_cast<std::int32_t>(chunk) * strip;
  return made;
}

// The lanes' elements at `at`: each lane's plane is `pitch` further. A lane without a plane repeats the first one.
template <class T, int N>
__device__ __forceinline__ tile::Pack<T, N> load_lanes(const T* at, std::int32_t second) {
  tile::Pack<T, N> pack;
  if constexpr (N == 2) {
    pack.words[0] = tile::word_of(at[0], at[second]);
  } else {
    pack.data[0] = at[0];
  }
  return pack;
}

// Where the lanes' columns begin, counted in bytes: an element is then one multiply-add away, not two instructions.
template <class T, int N, int kWindow>
struct LaneColumns {
  const unsigned char* at[N][kWindow];
  std::int32_t row_bytes;

  __device__ __forceinline__ LaneColumns(const T* image, std::int32_t second, std::int32_t row,
                                         std::int32_t interleaved, const Columns<kWindow>& columns)
      : row_bytes(row * static_cast<std::int32_t>(sizeof(T))) {
#pragma unroll
    for (int k = 0; k < kWindow; ++k) {
      const T* const column = image + columns.at[k] * interleaved;
      at[0][k] = reinterpret_cast<const unsigned char*>(column);
      if constexpr (N == 2) at[1][k] = reinterpret_cast<const unsigned char*>(column + second);
    }
  }
  __device__ __forceinline__ tile::Pack<T, N> load(std::int32_t row, int k) const {
    const auto element = [&](int lane) { return *reinterpret_cast<const T*>(at[lane][k] + row * row_bytes); };
    tile::Pack<T, N> pack;
    if constexpr (N == 2) {
      pack.words[0] = tile::word_of(element(0), element(1));
    } else {
      pack.data[0] = element(0);
    }
    return pack;
  }
};

template <class T, int kWindow, int kStride, bool kMax, bool kNan>
__global__ void __launch_bounds__(kPlanesFixedThreads) pooling_planes_fixed_forward(PlanesFixedArgs<T> args) {
  using C = tile::Compute<T>;
  constexpr int N = kPlaneLanes<T>;
  const PlanesWork work = planes_work(args, args.windows_high);
  const std::int32_t row = args.row, area = args.height * row;
  const bool whole = args.bands == 1;
  const std::int32_t low = whole ? 0 : max(work.first_row * kStride - args.pad[0], 0);
  const std::int32_t high =
      whole ? args.height - 1
            : min((work.first_row + work.rows - 1) * kStride - args.pad[0] + kWindow, args.height) - 1;
  const T* const from = args.x + work.first_plane * area + low * row;
  const T* const x =
      stage_planes(from, whole, area, (high - low + 1) * row, work.planes, args.x_pitch, planes_fixed_shared) -
      low * row;
  stage_wait();

  const std::int32_t out_area = args.windows_high * args.window_row;
  T* const out = args.out + work.first_plane * out_area;
  const std::int32_t units =
      (work.planes + N - 1) / N * static_cast<std::int32_t>(args.by_window_chunks.divisor) * args.window_row;
  for (auto u = static_cast<std::int32_t>(threadIdx.x); u < units; u += kPlanesFixedThreads) {
    const PlanesUnit unit =
        planes_unit<N>(u, args.by_window_row, args.by_window_chunks, args.by_interleaved, kStrip, work.planes);
    if (unit.row >= work.rows) continue;
    const std::int32_t second = unit.lanes == N ? args.x_pitch : 0;
    const T* const image = x + unit.plane * args.x_pitch + unit.inner;
    const Columns<kWindow> columns(unit.pixel * kStride - args.pad[1], args.width);
    const LaneColumns<T, N, kWindow> lanes(image, second, row, args.interleaved, columns);
    const auto load = [&](std::int32_t row, int k) { return lanes.load(row, k); };
    T* const target = out + static_cast<std::int64_t>(unit.plane) * out_area + unit.column;
    const std::int32_t first = work.first_row + unit.row;
    const auto put = [&](int r, int lane, C value) {
      C one[1] = {value};
      store_scaled<T, 1>(one, args.alpha, args.beta, target + lane * out_area + (first + r) * args.window_row);
    };
    const auto result = [&](int r, const auto& values) {
      if (unit.row + r >= work.rows) return;
      if constexpr (kMax) {
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
          if (lane >= unit.lanes) break;
          const T most = finish_max<kNan>(values.get(lane), false);
          if (args.plain) {
            target[lane * out_area + (first + r) * args.window_row] = most;
          } else {
            put(r, lane, tile::widen<C>(most));
          }
        }
      } else {
        const std::int32_t rows_inside = inside_count<kWindow>((first + r) * kStride - args.pad[0], args.height);
        const C scale =
            args.count_padding ? C(1) / C(kWindow * kWindow) : inverse_of_area<C>(rows_inside, columns.count);
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
          if (lane < unit.lanes) put(r, lane, values[lane] * scale);
        }
      }
    };
    walk_forward<T, N, kWindow, kStride, kMax, kNan>(first * kStride - args.pad[0], low, high, columns.inside, load,
                                                     result);
  }
}

template <class T, int kWindow, int kStride, bool kMax, bool kNan>
__global__ void __launch_bounds__(kPlanesFixedThreads) pooling_planes_fixed_backward(PlanesFixedArgs<T> args) {
  using C = tile::Compute<T>;
  constexpr int N = kPlaneLanes<T>;
  constexpr int kBack = kOverlap<kWindow, kStride>;
  using Bytes = tile::Pack<std::uint8_t, N>;
  const PlanesWork work = planes_work(args, args.blocks_high);
  const std::int32_t row = args.row, area = args.height * row, window_row = args.window_row;
  const std::int32_t dy_area = args.windows_high * window_row;
  const bool whole = args.bands == 1;
  // The windows that cover the band, the rows of x that they cover, and the band's rows of x.
  const std::int32_t first_window = whole ? 0 : max(work.first_row - (kBack - 1), 0);
  const std::int32_t windows =
      max((whole ? args.windows_high : min(work.first_row + work.rows, args.windows_high)) - first_window, 0);
  const std::int32_t low = whole ? 0 : max(first_window * kStride - args.pad[0], 0);
  const std::int32_t high =
      whole ? args.height - 1 : min((first_window + windows - 1) * kStride - args.pad[0] + kWindow, args.height) - 1;
  const std::int32_t out_low = whole ? 0 : max(work.first_row * kStride - args.pad[0], 0);
  const std::int32_t out_high =
      whole ? args.height : min((work.first_row + work.rows) * kStride - args.pad[0], args.height);

  const T* const dy =
      stage_planes(args.dy + work.first_plane * dy_area + first_window * window_row, whole, dy_area,
                   windows * window_row, work.planes, args.dy_pitch, planes_fixed_shared + args.dy_begin) -
      first_window * window_row;
  auto* const choices = reinterpret_cast<Bytes*>(planes_fixed_shared + args.choices_begin);  // [pair][window]
  if constexpr (kMax) {
    const T* const x =
        stage_planes(args.x + work.first_plane * area + low * row, whole, area,
                     windows > 0 ? (high - low + 1) * row : 0, work.planes, args.x_pitch, planes_fixed_shared) -
        low * row;
    stage_wait();
    const std::int32_t units =
        (work.planes + N - 1) / N * static_cast<std::int32_t>(args.by_window_chunks.divisor) * window_row;
    for (auto u = static_cast<std::int32_t>(threadIdx.x); u < units; u += kPlanesFixedThreads) {
      const PlanesUnit unit = planes_unit<N>(u, args.by_window_row, args.by_window_chunks, args.by_interleaved,
                                             args.window_strip, work.planes);
      if (unit.row >= windows) continue;
      const std::int32_t second = unit.lanes == N ? args.x_pitch : 0;
      const T* const image = x + unit.plane * args.x_pitch + unit.inner;
      const Columns<kWindow> columns(unit.pixel * kStride - args.pad[1], args.width);
      const LaneColumns<T, N, kWindow> lanes(image, second, row, args.interleaved, columns);
      const auto load = [&](std::int32_t h, int k) { return lanes.load(h, k); };
      Bytes* const target = choices + (unit.plane / N * windows + unit.row) * window_row + unit.column;
      walk_choices<T, N, kWindow, kStride, kNan>(
          (first_window + unit.row) * kStride - args.pad[0], min(args.window_strip, windows - unit.row), low, high,
          columns, load, [&](std::int32_t r, const Bytes& bytes) { store_choices(bytes, target + r * window_row); });
    }
    __syncthreads();
  } else {
    stage_wait();
  }

  T* const out_from = args.out + work.first_plane * area + out_low * row;
  T* const out = rows_in_shared(out_from, planes_fixed_shared) - out_low * row;
  constexpr C volume = C(1) / C(kWindow * kWindow);
  const std::int32_t units =
      (work.planes + N - 1) / N * static_cast<std::int32_t>(args.by_block_chunks.divisor) * args.block_row;
  for (auto u = static_cast<std::int32_t>(threadIdx.x); u < units; u += kPlanesFixedThreads) {
    const PlanesUnit unit =
        planes_unit<N>(u, args.by_block_row, args.by_block_chunks, args.by_interleaved, args.block_strip, work.planes);
    const std::int32_t second = unit.lanes == N ? args.dy_pitch : 0;
    std::int32_t columns_inside[kBack];
    bool there[kBack];
#pragma unroll
    for (int q = 0; q < kBack; ++q) {
      const std::int32_t pixel = unit.pixel - q;
      there[q] = pixel >= 0 && pixel < args.windows_wide;
      columns_inside[q] = inside_count<kWindow>(pixel * kStride - args.pad[1], args.width);
    }
    const Bytes* const unit_choices = choices + (unit.plane / N * windows - first_window) * window_row + unit.column;
    const T* const unit_dy = dy + unit.plane * args.dy_pitch + unit.column;
    // The block's columns of x: where they lie in a row, and whether they and the lanes exist.
    std::int32_t at[kStride];
    bool writes[N][kStride];
#pragma unroll
    for (int b = 0; b < kStride; ++b) {
      const std::int32_t w = unit.pixel * kStride - args.pad[1] + b;
      at[b] = w * args.interleaved + unit.inner;
#pragma unroll
      for (int lane = 0; lane < N; ++lane) writes[lane][b] = w >= 0 && w < args.width && lane < unit.lanes;
    }
    WindowGradient<T, N, kMax> held[kBack][kBack];
    const auto load_row = [&](std::int32_t window, WindowGradient<T, N, kMax>(&to)[kBack]) {
      const bool row_there = window >= 0 && window < args.windows_high;
      const std::int32_t rows_inside = inside_count<kWindow>(window * kStride - args.pad[0], args.height);
#pragma unroll
      for (int q = 0; q < kBack; ++q) {
        if (row_there && there[q]) {
          const std::int32_t at = window * window_row - q * args.interleaved;
          to[q].dy = load_lanes<T, N>(unit_dy + at, second);
          if constexpr (kMax) {
            to[q].take_choices(load_choices(unit_choices + at));
          } else {
            to[q].scale = args.count_padding ? volume : inverse_of_area<C>(rows_inside, columns_inside[q]);
          }
        } else {
          to[q].nothing();
        }
      }
    };
    const std::int32_t first = work.first_row + unit.row;
#pragma unroll
    for (int p = 1; p < kBack; ++p) load_row(first - p, held[p - 1]);
#pragma unroll 1
    for (std::int32_t r = 0; r < args.block_strip && unit.row + r < work.rows; ++r) {
#pragma unroll
      for (int p = kBack - 1; p > 0; --p) {
#pragma unroll
        for (int q = 0; q < kBack; ++q) held[p][q] = held[p - 1][q];
      }
      load_row(first + r, held[0]);
#pragma unroll
      for (int a = 0; a < kStride; ++a) {
        const std::int32_t h = (first + r) * kStride - args.pad[0] + a;
        const bool row_there = h >= out_low && h < out_high;
        C sum[kStride][N];
#pragma unroll
        for (int b = 0; b < kStride; ++b) {
          gather<T, N, kWindow, kStride, kMax>(held, a, b, sum[b]);
#pragma unroll
          for (C& value : sum[b]) value *= args.alpha;
        }
        if (args.beta != C(0)) {
#pragma unroll
          for (int b = 0; b < kStride; ++b) {
#pragma unroll
            for (int lane = 0; lane < N; ++lane) {
              if (!row_there || !writes[lane][b]) continue;
              const std::int64_t plane = work.first_plane + unit.plane + lane;
              sum[b][lane] += args.beta * tile::widen<C>(args.out[plane * area + h * row + at[b]]);
            }
          }
        }
        // Stores under a condition, not branches round each of them, which cost as much as the sums.
        T* const line = out + unit.plane * args.out_pitch + h * row;
#pragma unroll
        for (int b = 0; b < kStride; ++b) {
          const tile::Pack<T, N> result = tile::narrow_pack<T>(sum[b]);
#pragma unroll
          for (int lane = 0; lane < N; ++lane) {
            if (row_there && writes[lane][b]) line[lane * args.out_pitch + at[b]] = result.get(lane);
          }
        }
      }
    }
  }
  __syncthreads();
  if (whole) {
    unstage_stretch(out, work.planes * area, out_from);
  } else {
    for (std::int32_t p = 0; p < work.planes; ++p) {
      unstage_stretch(out + out_low * row + p * args.out_pitch, (out_high - out_low) * row,
                      out_from + static_cast<std::int64_t>(p) * area);
    }
  }
}

}  // namespace gpudnn::kernels
