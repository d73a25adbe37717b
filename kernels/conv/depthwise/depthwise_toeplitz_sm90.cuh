// Depthwise convolution, channels last, 16 bits, on tensor cores: forward, and the data gradient of step 1.
//
//   y[n, i, j, c] = sum over r, s of x[n, i + r - pad, j + s - pad, c] * w[c, r, s]
//
// For one channel and one row r of the filter, 16 columns of a row of y are a matrix times that row of x, where the
// matrix has w[r, k - j + pad] for column j of y and column k of x: a Toeplitz matrix. Eight rows of y have the same
// one, so they are its product with eight rows of x, m16n8k16 of mma.sync, with y's columns for m, x's for k and rows
// for n. Of its products a share of taps / 24 is of use with few taps, where blocks of channels along the diagonal
// (small_group_sm80) use an eighth; the blocks of 8 x 8 on a diagonal are equal, so a lane has one word of each
// diagonal, and gets it from the lanes that hold the filter's row.
//
// The products want a channel's pixels beside each other. A thread block has 32 channels of a tile of whole rows. A
// warp loads 8 pixels by 32 channels, 16 bytes a lane, and one transposing stmatrix puts them as 8 columns of a row
// into 32 planes of shared memory; rows and planes are an odd number of 16-byte chunks apart, so that no two of what a
// matrix instruction touches meet in a bank. Then each warp multiplies the planes of four channels, one after the
// other, and writes the results over the plane that it alone reads; then all warps store, the way they loaded.
//
// An element that does not exist counts as zero: rows of zeros lie between images.
//
// Zero times an infinity is a NaN, so an infinite element would spoil its row's neighbours. A warp that finds a sum
// that is not finite adds up its plane again, tap by tap.
//
// A sequence is an image of rows that overlap: 64 columns, of which a filter of 31 taps leaves 32 of the output.
//
// Limits: step 1, no dilation, images of up to 64 columns, up to 31 taps in a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/conv/depthwise/depthwise_planes_sm90.cuh"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma_sync_m16n8k8.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/mma.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::depthwise_toeplitz {

template <int kRow>
struct Instance {
  static constexpr int kProducts = kTiles[kRow].products;
  static constexpr int kGroups = kTiles[kRow].groups;
  static constexpr int kReach = kTiles[kRow].reach;
  static constexpr int kDiagonals = 2 * kReach + 1;
  static constexpr int kBlocks = 2 * kProducts;  // of 8 columns
  // Matrices of 8 x 8 are loaded and stored in fours: those of a group one after the other, group by group.
  static constexpr int kLoads = kBlocks * kGroups / 4;
  static constexpr int kGroupsOfLoad = kBlocks < 4 ? 4 / kBlocks : 1;
  static constexpr int kLoadsOfGroup = kBlocks < 4 ? 1 : kBlocks / 4;
};

__device__ __forceinline__ Tile tile_of_block(const Params& p) {
  std::uint32_t channel = 0;
  std::uint32_t row = 0;
  const std::uint32_t n = p.row_tiles.divmod(p.channel_tiles.divmod(blockIdx.x, &channel), &row);
  return {static_cast<int>(n) * p.tile_images, static_cast<int>(row) * p.tile_rows,
          static_cast<int>(channel) * kChannels};
}

// The first row of the planes, as seen from the tile's first row.
__device__ __forceinline__ int first_row_of(const Params& p, const Tile& at) {
  return p.whole_planes ? -at.row : p.image.first_row;
}

// The results in the planes to the output.
template <class T, int kBlocks>
__device__ __forceinline__ void store_planes(const Params& p, const Tile& at, std::uint32_t planes) {
  constexpr int kRows = kBlocks < 4 ? 4 / kBlocks : 1;
  const LanePixels<kBlocks> pixels(at, p.out_w, p.channels);
  const std::uint32_t from =
      planes + 16 * static_cast<std::uint32_t>(static_cast<int>(threadIdx.x) % 32 * p.image.plane_chunks());
  const int rows = p.tile_rows * p.tile_images;
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x) / 32; first < rows; first += kRows * kWarps) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (first + i * kWarps >= rows) break;
      std::uint32_t in_image = 0;
      const auto image = static_cast<int>(p.rows.divmod(static_cast<std::uint32_t>(first + i * kWarps), &in_image));
      const int h = at.row + static_cast<int>(in_image);
      const int row = image * static_cast<int>(p.image.image_pitch.divisor) + static_cast<int>(in_image);
      const std::uint32_t row_from = from + 16 * static_cast<std::uint32_t>(row * p.image.pitch);
      const std::uint32_t mask = h < p.out_h && at.n + image < p.images
                                     ? pixels.exists & blocks_inside<kBlocks>(p.out_sequence, h, pixels.column)
                                     : 0u;
      T* const out = static_cast<T*>(p.out) + pixels.offset(p.out_steps, p.out_sequence, at.n + image, h);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        if (block >= static_cast<int>(p.out_blocks.divisor)) break;
        std::uint32_t words[4];
        ptx::ldmatrix_x4_trans(row_from + 16 * block, words);
        if ((mask >> block & 1u) != 0) {
          ptx::st_global(reinterpret_cast<uint4*>(out + 8 * block * std::int64_t{p.out_steps.w}),
                         uint4{words[0], words[1], words[2], words[3]});
        }
      }
    }
  }
}

// --- a channel's products --------------------------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ void multiply(float (&sums)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    ptx::mma_m16n8k8_f16(sums, a0, a1, b);
  } else {
    ptx::mma_m16n8k8_bf16(sums, a0, a1, b);
  }
}

// The filters of the block's channels to shared memory, plane by plane, as they meet the image; each row between two
// zeros.
template <class T>
__device__ __forceinline__ void stage_filters(const Params& p, const Tile& at, T* to) {
  const int pitch = p.taps_w + 2;
  const auto rows = static_cast<int>(kChannels * p.filter_rows.divisor);
  // As many lanes have a row as it has elements, or a power of 2.
  const int lanes = pitch <= 8 ? 8 : pitch <= 16 ? 16 : 32;
  const int column = static_cast<int>(threadIdx.x) & (lanes - 1);
  const int s = p.mirrored ? p.taps_w - column : column - 1;
  const int step = 32 * kWarps / lanes;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x) / lanes; i < rows; i += step) {
    std::uint32_t row = 0;
    const auto plane = static_cast<int>(p.filter_rows.divmod(static_cast<std::uint32_t>(i), &row));
    const int channel = at.channel + channel_of_plane(plane);
    const int r = p.mirrored ? p.taps_h - 1 - static_cast<int>(row) : static_cast<int>(row);
    T tap = tile::narrow<T>(0.0f);
    if (static_cast<unsigned>(s) < static_cast<unsigned>(p.taps_w) && channel < p.channels) {
      tap = static_cast<const T*>(p.filter)[channel * p.filter_k + r * p.filter_r + s * p.filter_s];
    }
    if (column < pitch) to[i * pitch + column] = tap;
  }
  // Of a row of 31 taps the last zero has no lane.
  if (pitch > 32) {
    for (int i = static_cast<int>(threadIdx.x); i < rows; i += 32 * kWarps) {
      to[i * pitch + pitch - 1] = tile::narrow<T>(0.0f);
    }
  }
}

// Lane i of a warp has taps i - 1 and i of a row. Where a lane finds its word of the blocks on diagonal e: taps 8 e +
// 2 (lane % 4) - lane / 4 + pad and the next.
template <class I>
struct Diagonals {
  std::uint32_t lane[I::kDiagonals];
  std::uint32_t mask[I::kDiagonals];

  __device__ __forceinline__ explicit Diagonals(const Params& p) {
    const int own = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < I::kDiagonals; ++i) {
      const int at = 8 * (i - I::kReach) + 2 * (own % 4) - own / 4 + p.pad_w + 1;
      lane[i] = static_cast<std::uint32_t>(at) % 32;
      mask[i] = at >= 0 && at <= p.taps_w ? 0xffffffffu : 0u;
    }
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t word(std::uint32_t row, int e) const {
    return __shfl_sync(0xffffffffu, row, static_cast<int>(lane[e + I::kReach])) & mask[e + I::kReach];
  }
};

// The block of columns and the group of rows of the matrix that a lane has an address of, in four number u.
template <int kBlocks>
__device__ __forceinline__ int block_of(int u) {
  return (4 * u + static_cast<int>(threadIdx.x) % 32 / 8) % kBlocks;
}
template <int kBlocks>
__device__ __forceinline__ int group_of(int u) {
  return (4 * u + static_cast<int>(threadIdx.x) % 32 / 8) / kBlocks;
}
__device__ __forceinline__ int image_of_group(const Params& p, int group) {
  return static_cast<int>(p.row_groups.quotient(static_cast<std::uint32_t>(group)));
}
// Of the group's first row of the output, in its image.
__device__ __forceinline__ int row_in_image(const Params& p, int group) {
  return (group - image_of_group(p, group) * static_cast<int>(p.row_groups.divisor)) * 8;
}

// Of a row of up to 17 taps: on the diagonal are products of two blocks, beside it of one. Each
// word of an operand is a shuffle of its own, as words that operands share are copied for each product.
template <class T, class I>
__device__ __forceinline__ void multiply_narrow_row(const std::uint32_t (&on)[4], const std::uint32_t (&below)[2],
                                                    const std::uint32_t (&above)[2],
                                                    const std::uint32_t (&image)[I::kBlocks],
                                                    float (&sums)[I::kProducts][4]) {
#pragma unroll
  for (int product = 0; product < I::kProducts; ++product) {
    const int first = 2 * product;
    tile::mma_m16n8k16<T>(sums[product], on, image[first], image[first + 1]);
    if (first > 0) multiply<T>(sums[product], below[0], below[1], image[first > 0 ? first - 1 : 0]);
    if (first + 2 < I::kBlocks) {
      multiply<T>(sums[product], above[0], above[1], image[first + 2 < I::kBlocks ? first + 2 : 0]);
    }
  }
}

template <class T, class I>
__device__ __forceinline__ void multiply_row(const std::uint32_t (&diagonal)[I::kDiagonals],
                                             const std::uint32_t (&image)[I::kBlocks], float (&sums)[I::kProducts][4]) {
  const auto word = [&](int e) { return e < -I::kReach || e > I::kReach ? 0u : diagonal[e + I::kReach]; };
  const auto is_used = [](int e) { return e >= -I::kReach && e <= I::kReach + 1; };
#pragma unroll
  for (int product = 0; product < I::kProducts; ++product) {
#pragma unroll
    for (int block = 0; block < I::kBlocks; block += 2) {
      const int e = block - 2 * product;
      if (is_used(e) && is_used(e + 1)) {
        const std::uint32_t a[4] = {word(e), word(e - 1), word(e + 1), word(e)};
        tile::mma_m16n8k16<T>(sums[product], a, image[block], image[block + 1]);
      } else if (is_used(e)) {
        multiply<T>(sums[product], word(e), word(e - 1), image[block]);
      } else if (is_used(e + 1)) {
        multiply<T>(sums[product], word(e + 1), word(e), image[block + 1]);
      }
    }
  }
}

template <class I>
using Sums = float[I::kGroups][I::kProducts][4];

// A lane's words of a filter, row by row: taps lane - 1 and lane, in memory or between zeros in shared memory.
template <class T, class I>
struct FilterRows {
  const T* staged;
  const T* taps;
  std::int64_t step;
  std::int64_t low_step;  // from the upper tap to the lower one
  bool has_low, has_high;

  __device__ __forceinline__ FilterRows(const Params& p, const T* filters, int plane, int channel) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    staged = filters + plane * p.taps_h * (p.taps_w + 2) + lane;
    const int s = p.mirrored ? p.taps_w - 1 - lane : lane;
    taps = static_cast<const T*>(p.filter) + channel * p.filter_k + s * p.filter_s +
           (p.mirrored ? (p.taps_h - 1) * p.filter_r : 0);
    step = p.mirrored ? -p.filter_r : p.filter_r;
    low_step = p.mirrored ? p.filter_s : -p.filter_s;
    has_low = lane > 0 && lane <= p.taps_w;
    has_high = lane < p.taps_w;
  }
  // Below the last row lies what nobody uses.
  __device__ __forceinline__ std::uint32_t next(const Params& p, bool exists) {
    if (I::kReach == 1 || p.stages_filter) {
      const std::uint32_t word = tile::word_of(staged[0], staged[1]);
      staged += p.taps_w + 2;
      return word;
    }
    T low = tile::narrow<T>(0.0f);
    T high = low;
    if (exists && has_low) low = taps[low_step];
    if (exists && has_high) high = taps[0];
    taps += step;
    return tile::word_of(low, high);
  }
};

// The sums of a plane, where load u begins at first[u] and goes down by step[u].
template <class T, class I>
__device__ __forceinline__ void multiply_plane(const Params& p, const int (&first_row)[I::kGroups],
                                               FilterRows<T, I> filter, const Diagonals<I>& diagonals,
                                               const std::uint32_t (&first)[I::kLoads],
                                               const std::uint32_t (&step)[I::kLoads], Sums<I>& sums) {
  std::uint32_t from[I::kLoads];
#pragma unroll
  for (int u = 0; u < I::kLoads; ++u) from[u] = first[u];
  std::uint32_t row = filter.next(p, true);
  std::uint32_t row_ahead = I::kReach > 1 ? filter.next(p, p.taps_h > 1) : 0u;
  constexpr bool kIsNarrow = I::kReach == 1;
  // Zeros of which the compiler does not know, so that they stay where they are.
  std::uint32_t below[2], above[2];
  below[1] = above[0] = __shfl_sync(0xffffffffu, 0u, static_cast<int>(diagonals.lane[0])) & diagonals.mask[0];
#pragma unroll 1
  for (int r = 0; r < p.taps_h; ++r) {
    std::uint32_t diagonal[I::kDiagonals];
    std::uint32_t on[4];
    if constexpr (kIsNarrow) {
      on[0] = diagonals.word(row, 0);
      on[1] = diagonals.word(row, -1);
      on[2] = diagonals.word(row, 1);
      on[3] = diagonals.word(row, 0);
      if (I::kBlocks > 2) {
        below[0] = diagonals.word(row, -1);
        above[1] = diagonals.word(row, 1);
      }
    } else {
#pragma unroll
      for (int e = -I::kReach; e <= I::kReach; ++e) diagonal[e + I::kReach] = diagonals.word(row, e);
    }
    if constexpr (I::kReach > 1) {
      row = row_ahead;
      row_ahead = filter.next(p, r + 2 < p.taps_h);
    } else {
      row = filter.next(p, true);
    }
    // Of large filters most rows lie outside of a small image.
    const auto is_outside = [&](int group) {
      return first_row[group] + r + 7 < 0 || first_row[group] + r >= p.image.height;
    };
#pragma unroll
    for (int group = 0; group < I::kGroups; group += I::kGroupsOfLoad) {
      if (I::kReach > 1 && is_outside(group) && is_outside(group + I::kGroupsOfLoad - 1)) continue;
      const int u = group / I::kGroupsOfLoad * I::kLoadsOfGroup;
      std::uint32_t words[4 * I::kLoadsOfGroup];
#pragma unroll
      for (int i = 0; i < I::kLoadsOfGroup; ++i) {
        std::uint32_t loaded[4];
        ptx::ldmatrix_x4(from[u + i], loaded);
#pragma unroll
        for (int k = 0; k < 4; ++k) words[4 * i + k] = loaded[k];
      }
#pragma unroll
      for (int i = 0; i < I::kGroupsOfLoad; ++i) {
        std::uint32_t image[I::kBlocks];
#pragma unroll
        for (int k = 0; k < I::kBlocks; ++k) image[k] = words[i * I::kBlocks + k];
        if constexpr (kIsNarrow) {
          multiply_narrow_row<T, I>(on, below, above, image, sums[group + i]);
        } else {
          multiply_row<T, I>(diagonal, image, sums[group + i]);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < I::kLoads; ++u) from[u] += step[u];
  }
}

// --- the end of a sum ------------------------------------------------------------------------------------------------

// An element of the output: its place in the tensor, and in the plane the row where its image begins.
struct Element {
  int first_row, row, n, h, w;  // `row`: in the image
  bool exists;
};
template <class I>
__device__ __forceinline__ Element element_at(const Params& p, const Tile& at, int group, int product, int q) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int image = image_of_group(p, group);
  const int in_image = row_in_image(p, group) + lane % 4 * 2 + q % 2;
  Element element;
  element.first_row = image * static_cast<int>(p.image.image_pitch.divisor);
  element.row = in_image;
  element.n = at.n + image;
  element.h = at.row + in_image;
  element.w = product * 16 + lane / 4 + q / 2 * 8;
  element.exists = image < p.tile_images && element.n < p.images && element.h < p.out_h && element.w < p.out_w &&
                   in_image < p.tile_rows;
  if (const Sequence& s = p.out_sequence; s.length != 0) {
    element.exists &= element.w >= 8 * s.first_block && element.h * s.row_step + s.first_column + element.w < s.length;
  }
  return element;
}

// A sum without the taps that lie outside of the image.
template <class T>
__device__ __noinline__ float exact_sum(const Params& p, const Tile& at, const unsigned char* plane, int channel,
                                        const Element& element) {
  const T* const taps = static_cast<const T*>(p.filter) + channel * p.filter_k;
  float sum = 0;
#pragma unroll 1
  for (int r = 0; r < p.taps_h; ++r) {
    const int h = element.row + r - p.pad_h;  // as seen from the tile's first row
    if (static_cast<unsigned>(at.row + h) >= static_cast<unsigned>(p.image.height)) continue;
    const auto* const from = reinterpret_cast<const T*>(
        plane + 16 * static_cast<std::ptrdiff_t>(element.first_row + h - first_row_of(p, at)) * p.image.pitch);
#pragma unroll 1
    for (int s = 0; s < p.taps_w; ++s) {
      const int w = element.w + s - p.pad_w;
      if (static_cast<unsigned>(w) >= static_cast<unsigned>(p.image.width)) continue;
      if (const Sequence& sequence = p.image.sequence; sequence.length != 0) {
        const int column = (at.row + h) * sequence.row_step + sequence.first_column + w;
        if (static_cast<unsigned>(column) >= static_cast<unsigned>(sequence.length)) continue;
      }
      const int tap_r = p.mirrored ? p.taps_h - 1 - r : r;
      const int tap_s = p.mirrored ? p.taps_w - 1 - s : s;
      sum += tile::widen<float>(from[w]) * tile::widen<float>(taps[tap_r * p.filter_r + tap_s * p.filter_s]);
    }
  }
  return sum;
}

// f(alpha * sum + addend_scale * addend + bias), of exact sums where those of products are spoiled.
template <class T, class I>
__device__ __forceinline__ void finish_plane(const Params& p, const Tile& at, const unsigned char* plane, int channel,
                                             bool spoiled, Sums<I>& sums) {
  const float bias = p.has_bias ? gemm::channel_value<T>(p.bias, channel * p.bias_step, p.float_vectors) : 0.0f;
#pragma unroll
  for (int group = 0; group < I::kGroups; ++group) {
#pragma unroll
    for (int product = 0; product < I::kProducts; ++product) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const Element element = element_at<I>(p, at, group, product, q);
        float value[1] = {sums[group][product][q]};
        if (spoiled && element.exists) value[0] = exact_sum<T>(p, at, plane, channel, element);
        if (!p.is_plain) {
          value[0] *= p.alpha;
          if (p.addend_scale != 0.0f && element.exists) {
            value[0] +=
                p.addend_scale * tile::widen<float>(static_cast<const T*>(
                                     p.addend)[element.n * p.addend_steps.n + element.h * p.addend_steps.h +
                                               (p.out_sequence.first_column + element.w) * p.addend_steps.w + channel]);
          }
          value[0] += bias;
          gemm::activate_by_call(p.activation, value);
        }
        sums[group][product][q] = value[0];
      }
    }
  }
}

template <class T, int kRow>
__global__ void __launch_bounds__(32 * kWarps, kTiles[kRow].min_blocks)
    depthwise_toeplitz_kernel(const __grid_constant__ Params p) {
  using I = Instance<kRow>;
  constexpr int kPlanesOfWarp = kChannels / kWarps;
  unsigned char* const shared = tile::dynamic_shared();
  const auto row_bytes = 16 * static_cast<std::uint32_t>(p.image.pitch);
  const std::uint32_t top_bytes = static_cast<std::uint32_t>(p.image.top) * row_bytes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // A chunk of zeros, the rows that nobody wants, the zeros above the first plane, the planes, the filters.
  const std::uint32_t zero = ptx::shared_address(shared);
  const std::uint32_t dump = zero + 16 + 16 * threadIdx.x;
  const std::uint32_t planes = zero + kPlanesAt + top_bytes;
  for (std::uint32_t i = threadIdx.x; i < 1 + top_bytes / 16; i += 32 * kWarps) {
    *reinterpret_cast<uint4*>(shared + (i == 0 ? 0 : kPlanesAt + 16 * (i - 1))) = {};
  }
  const Tile at = tile_of_block(p);
  T* const filters = reinterpret_cast<T*>(shared + p.filter_at);
  if (I::kReach == 1 || p.stages_filter) stage_filters<T>(p, at, filters);
  load_planes<T, I::kBlocks>(p.image, p.image_data, at, at.row + first_row_of(p, at), p.tile_images, p.images,
                             p.channels, planes);

  // The matrices of a load, as seen from the plane: where results go, and the loads of a plane's first row of taps
  // `up` above. Rows above the plane are zeros too.
  const Diagonals<I> diagonals(p);
  std::uint32_t offset[I::kLoads];
  std::uint32_t step[I::kLoads];
  bool is_stored[I::kLoads];
#pragma unroll
  for (int u = 0; u < I::kLoads; ++u) {
    const int block = block_of<I::kBlocks>(u);
    const int group = group_of<I::kBlocks>(u);
    const int image = image_of_group(p, group);
    const int row = row_in_image(p, group) + lane % 8;
    step[u] = block < static_cast<int>(p.image.blocks.divisor) && image < p.tile_images ? row_bytes : 0u;
    offset[u] = static_cast<std::uint32_t>(image * static_cast<int>(p.image.image_pitch.divisor) + row) * row_bytes +
                16 * static_cast<std::uint32_t>(block);
    is_stored[u] = block < static_cast<int>(p.out_blocks.divisor) && image < p.tile_images && row < p.tile_rows;
  }
  const std::uint32_t up = static_cast<std::uint32_t>(p.pad_h + first_row_of(p, at)) * row_bytes;
  int first_row[I::kGroups];
#pragma unroll
  for (int group = 0; group < I::kGroups; ++group) first_row[group] = at.row + row_in_image(p, group) - p.pad_h;
  __syncthreads();

#pragma unroll 1
  for (int i = 0; i < kPlanesOfWarp; ++i) {
    const int plane = warp * kPlanesOfWarp + i;
    const int channel = at.channel + channel_of_plane(plane);
    if (channel >= p.channels) continue;
    const std::uint32_t base = planes + 16 * static_cast<std::uint32_t>(plane * p.image.plane_chunks());
    std::uint32_t first[I::kLoads];
#pragma unroll
    for (int u = 0; u < I::kLoads; ++u) first[u] = step[u] != 0 ? base + offset[u] - up : zero;
    Sums<I> sums = {};
    multiply_plane<T, I>(p, first_row, FilterRows<T, I>(p, filters, plane, channel), diagonals, first, step, sums);
    float not_finite[4] = {};  // NaN where a sum is not finite
#pragma unroll
    for (int group = 0; group < I::kGroups; ++group) {
#pragma unroll
      for (int product = 0; product < I::kProducts; ++product) {
#pragma unroll
        for (int q = 0; q < 4; ++q) not_finite[q] += 0.0f * sums[group][product][q];
      }
    }
    const float all = not_finite[0] + not_finite[1] + (not_finite[2] + not_finite[3]);
    const bool spoiled = __any_sync(0xffffffffu, all != all);
    if (spoiled || !p.is_plain) finish_plane<T, I>(p, at, shared + (base - zero), channel, spoiled, sums);
    __syncwarp();
#pragma unroll
    for (int u = 0; u < I::kLoads; ++u) {
      std::uint32_t words[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int group = (4 * u + k) / I::kBlocks;
        const int block = (4 * u + k) % I::kBlocks;
        const float(&sum)[4] = sums[group][block / 2];
        const float pair[2] = {sum[block % 2 * 2], sum[block % 2 * 2 + 1]};
        words[k] = tile::narrow_pack<T>(pair).words[0];
      }
      ptx::stmatrix_x4_trans(is_stored[u] ? base + offset[u] : dump, words[0], words[1], words[2], words[3]);
    }
  }
  __syncthreads();
  store_planes<T, I::kBlocks>(p, at, planes);
}

}  // namespace gpudnn::kernels::depthwise_toeplitz
