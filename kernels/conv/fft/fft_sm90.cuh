// The transforms around complex products on bfloat16 tensor cores. The mathematics and the layout are in fft_sm90.hpp.
//
// Data flow of a block, which has a tile of 16 channels in shared memory; T/2 threads for each channel:
//   forward:  rows global -> shared, lanes along the row, all of a thread's at once
//             two rows -> a thread, as real and imaginary part of one transform -> in their place: a real row of T
//             numbers has T/2 - 1 complex frequencies and the two real ones 0 and T/2, which are neighbours there
//             a column of frequencies -> a thread -> in its place; the column of the two real ones, as one complex
//             column, is both of theirs
//             frequencies shared -> global, 128 bytes of the block's channels at a time
//   inverse:  the same backwards
// Threads of a warp have 16 channels of two rows (or columns) that are T/4 pairs of them apart, which spreads them over
// all banks. Rows and columns take turns in one piece of code, and loops over memory are not unrolled: where a launch
// is short, fetching the code is what it waits for.
//
// A filter's block does the same with the taps as a tile; its frequencies leave as terms of bfloat16.
//
// Limits: T = 16, 32. An infinity or a NaN reaches the whole tile of the result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fft/fft_butterflies.cuh"
#include "kernels/conv/fft/fft_finish.cuh"
#include "kernels/conv/fft/fft_sm90.hpp"
#include "kernels/conv/fp32_split/bf16_terms.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/pin.cuh"

namespace gpudnn::kernels::fft {

template <int kT>
struct RowShape {
  static constexpr int kItems = kChannelsOfBlock;
  static constexpr int kPitch = kT == 32 ? 33 : 18;  // floats of a row in shared memory
  static constexpr int kTile = kT * kPitch + 1;
  static constexpr int kThreads = kItems * kT / 2;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kMinBlocks = 768 / kThreads;  // per multiprocessor: 80 registers of a thread
  static constexpr int kRowsOfPass = kThreads / kT;  // that the block's threads load (store) side by side
  static constexpr int kPasses = kT / kRowsOfPass;   // over the rows of a channel
  static constexpr int kVectors = kItems / 2;        // of 16 bytes, of a frequency: two channels each
  static_assert(kPitch * kT / 2 % 32 == 16 && kPitch * kT % 32 == 0, "rows T/2 apart meet other banks");
};

// The channel of the block, and the pair of rows or the column, that a thread transforms.
template <int kT>
struct Role {
  int item, index;
  __device__ __forceinline__ Role()
      : item(static_cast<int>(threadIdx.x) % 16),
        index(static_cast<int>(threadIdx.x) / 32 + RowShape<kT>::kWarps * (static_cast<int>(threadIdx.x) % 32 / 16)) {}
};

// The tile and the channels of a block.
struct BlockPlace {
  std::uint32_t image = 0, row = 0, column = 0, group = 0;
  std::int32_t tile, first_channel;  // of the group
  std::int32_t channels;             // that exist
  bool inside;

  __device__ __forceinline__ BlockPlace(const Tiles& tiles, const RowBlocks& blocks) {
    std::uint32_t channel_block = 0;
    tile = static_cast<std::int32_t>(blocks.groups.divmod(blocks.channels.divmod(blockIdx.x, &channel_block), &group));
    first_channel = static_cast<std::int32_t>(channel_block) * kChannelsOfBlock;
    channels = min(kChannelsOfBlock, static_cast<std::int32_t>(tiles.group_channels.divisor) - first_channel);
    inside = tile < tiles.count;
    if (!inside) return;
    const auto global = static_cast<std::uint32_t>(tiles.first) + static_cast<std::uint32_t>(tile);
    image = tiles.per_column.divmod(tiles.per_row.divmod(global, &column), &row);
  }
  // To the first channel of the image.
  __device__ __forceinline__ std::int64_t offset(const Image& i) const {
    return image * i.n + group * i.group + first_channel * i.channel;
  }
  __device__ __forceinline__ int first_row(const Tiles& tiles) const {
    return tiles.origin_h + static_cast<int>(row) * tiles.step_h;
  }
  __device__ __forceinline__ int first_column(const Tiles& tiles) const {
    return tiles.origin_w + static_cast<int>(column) * tiles.step_w;
  }
};

// The element of a thread in each pass over the rows of a channel: in an image, and whether it is inside of the image
// and of the window.
template <int kT>
struct Elements {
  static constexpr int kPasses = RowShape<kT>::kPasses;
  int row, column;  // of the tile, in the first pass
  std::int64_t offset[kPasses];
  bool inside[kPasses];

  __device__ __forceinline__ Elements(const Tiles& tiles, const Image& image, const BlockPlace& at)
      : row(static_cast<int>(threadIdx.x) / kT), column(static_cast<int>(threadIdx.x) % kT) {
    const int h0 = at.first_row(tiles);
    const int w = at.first_column(tiles) + column;
    const bool column_inside =
        at.inside && column < tiles.window_w && static_cast<unsigned>(w) < static_cast<unsigned>(image.width);
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int r = row + i * RowShape<kT>::kRowsOfPass;
      inside[i] =
          column_inside && r < tiles.window_h && static_cast<unsigned>(h0 + r) < static_cast<unsigned>(image.height);
      offset[i] = at.offset(image) + (h0 + r) * image.h + w * image.w;
    }
  }
  // Of a pass in shared memory, of the block's first channel.
  __device__ __forceinline__ int place(int pass) const {
    return (row + pass * RowShape<kT>::kRowsOfPass) * RowShape<kT>::kPitch + column;
  }
};

template <int kT>
__device__ __forceinline__ void load_rows(const ForwardParams& p, const BlockPlace& at, float* shared) {
  using S = RowShape<kT>;
  const Elements<kT> elements(p.tiles, p.image, at);
#pragma unroll 4
  for (int item = 0; item < S::kItems; ++item) {
#pragma unroll
    for (int i = 0; i < S::kPasses; ++i) {
      const bool inside = elements.inside[i] && item < at.channels;
      ptx::cp_async<4>(ptx::shared_address(shared + item * S::kTile + elements.place(i)),
                       inside ? p.in + elements.offset[i] + item * p.image.channel : p.in, inside ? 4 : 0);
    }
  }
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
}

// Of T complex numbers, in place. Where they are two real sequences z = a + i b, Z(k) = a(k) + i b(k) and conj(Z(-k)) =
// a(k) - i b(k): each sequence keeps its frequencies 0 and T/2, which are real, then the others to T/2.
template <int kT>
__device__ __forceinline__ void transform_in_place(float* real, float* imaginary, std::uint32_t step,
                                                   bool is_two_real) {
  float re[kT];
  float im[kT];
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    re[i] = real[i * step];
    im[i] = imaginary[i * step];
  }
  transform(re, im);
  ptx::pin(step);  // or the compiler keeps all addresses
  if (!is_two_real) {
#pragma unroll
    for (int k = 0; k < kT; ++k) {
      real[k * step] = re[bit_reversed<kT>(k)];
      imaginary[k * step] = im[bit_reversed<kT>(k)];
    }
    return;
  }
  real[0] = re[0];
  imaginary[0] = im[0];
  real[step] = re[bit_reversed<kT>(kT / 2)];
  imaginary[step] = im[bit_reversed<kT>(kT / 2)];
#pragma unroll
  for (int k = 1; k < kT / 2; ++k) {
    const int at = bit_reversed<kT>(k);
    const int mirrored = bit_reversed<kT>(kT - k);
    real[2 * k * step] = 0.5f * (re[at] + re[mirrored]);
    real[(2 * k + 1) * step] = 0.5f * (im[at] - im[mirrored]);
    imaginary[2 * k * step] = 0.5f * (im[at] + im[mirrored]);
    imaginary[(2 * k + 1) * step] = 0.5f * (re[mirrored] - re[at]);
  }
}

// The inverse, times T.
template <int kT>
__device__ __forceinline__ void transform_back_in_place(float* real, float* imaginary, std::uint32_t step,
                                                        bool is_two_real) {
  float re[kT];
  float im[kT];
  if (is_two_real) {
    re[0] = real[0];
    im[0] = imaginary[0];
    re[kT / 2] = real[step];
    im[kT / 2] = imaginary[step];
#pragma unroll
    for (int k = 1; k < kT / 2; ++k) {
      const float a[2] = {real[2 * k * step], real[(2 * k + 1) * step]};
      const float b[2] = {imaginary[2 * k * step], imaginary[(2 * k + 1) * step]};
      re[k] = a[0] - b[1];
      im[k] = a[1] + b[0];
      re[kT - k] = a[0] + b[1];
      im[kT - k] = b[0] - a[1];
    }
  } else {
#pragma unroll
    for (int k = 0; k < kT; ++k) {
      re[k] = real[k * step];
      im[k] = imaginary[k * step];
    }
  }
  transform(im, re);  // parts exchanged
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    real[i * step] = re[bit_reversed<kT>(i)];
    imaginary[i * step] = im[bit_reversed<kT>(i)];
  }
}

// The block's tiles, in place: rows, then columns, or back. Rows from `rows` on are zero, or are not needed. A barrier
// of the block stands before and behind.
template <int kT, bool kBack>
__device__ __forceinline__ void transform_tiles(float* shared, int rows) {
  using S = RowShape<kT>;
  const Role<kT> role;
  float* const tile = shared + role.item * S::kTile;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    __syncthreads();
    const bool along_rows = (pass == 0) != kBack;
    if (along_rows && 2 * role.index >= rows) continue;
    float* const real = tile + 2 * role.index * (along_rows ? S::kPitch : 1);
    float* const imaginary = real + (along_rows ? S::kPitch : 1);
    const std::uint32_t step = along_rows ? 1 : S::kPitch;
    const bool is_two_real = along_rows || role.index == 0;
    if constexpr (kBack) {
      transform_back_in_place<kT>(real, imaginary, step, is_two_real);
    } else {
      transform_in_place<kT>(real, imaginary, step, is_two_real);
    }
  }
  __syncthreads();
}

// Where a frequency's parts lie in a transformed tile; one that is real has no imaginary part.
template <int kT>
struct Frequency {
  int real, imaginary;
  bool is_real = false;
  __device__ __forceinline__ explicit Frequency(int number) {
    constexpr int kPitch = RowShape<kT>::kPitch;
    const int row = number % kT;
    real = row * kPitch + number / kT * 2;
    imaginary = real + 1;
    if (number < kT) {
      // Of the two real columns in turn.
      is_real = number < 2;
      real = number / 2 * 2 * kPitch + number % 2;
      imaginary = real + kPitch;
    } else if (number >= kT * kT / 2) {
      is_real = true;
      real = kPitch + number % 2;
    }
  }
};

template <int kT>
__global__ void __launch_bounds__(RowShape<kT>::kThreads, RowShape<kT>::kMinBlocks)
    fft_data_sm90(const __grid_constant__ DataRowsParams p) {
  using S = RowShape<kT>;
  extern __shared__ float shared[];
  const BlockPlace at(p.data.tiles, p.blocks);
  if (!p.runs_beside) ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();  // behind the wait: what runs beside it relies on it
  load_rows<kT>(p.data, at, shared);
  const int rows = min(p.data.tiles.window_h, p.data.image.height - at.first_row(p.data.tiles));
  transform_tiles<kT, false>(shared, at.inside ? rows : 0);
  // Vectors of two channels' numbers.
  const auto thread = static_cast<int>(threadIdx.x);
  const float* const pair = shared + thread % S::kVectors * 2 * S::kTile;
  float* const out =
      p.data.out + at.group * p.rows.group + at.tile * p.rows.tile + 2 * at.first_channel + thread % S::kVectors * 4;
#pragma unroll 4
  for (int f = thread / S::kVectors; f < row_frequencies_of(kT); f += S::kThreads / S::kVectors) {
    const Frequency<kT> place(f);
    const float4 v = {pair[place.real], place.is_real ? 0.0f : pair[place.imaginary], pair[S::kTile + place.real],
                      place.is_real ? 0.0f : pair[S::kTile + place.imaginary]};
    *reinterpret_cast<float4*>(out + f * p.rows.frequency) = v;
  }
  if (p.runs_beside) ptx::griddepcontrol_wait();
}

// It begins when all blocks of the image's transform have: those wait for what came before, which the filter may come
// from. It ends behind them, so that the product, which waits for this kernel, finds both transforms.
template <int kT>
__global__ void __launch_bounds__(RowShape<kT>::kThreads, RowShape<kT>::kMinBlocks)
    fft_filter_sm90(const __grid_constant__ FilterTermsParams p) {
  using S = RowShape<kT>;
  extern __shared__ float shared[];
  const Tiles& tiles = p.filter.tiles;
  const BlockPlace at(tiles, p.blocks);
  load_rows<kT>(p.filter, at, shared);
  transform_tiles<kT, false>(shared, tiles.window_h);
  // Vectors of four words, each of two channels' real or imaginary parts.
  constexpr int kVectors = fp32_split::kChunkBytes / 16;
  const auto thread = static_cast<int>(threadIdx.x);
  const int vector = thread % kVectors;
  const bool is_imaginary = vector >= kVectors / 2;
  const float* const first = shared + fp32_split::complex_number_at(vector % 2 * 4) * S::kTile;
  const std::size_t plane = std::size_t{p.rows_of_batch} * p.blocks.groups.divisor * row_frequencies_of(kT) * kVectors;
  const std::int64_t of_frequency = std::int64_t{p.rows_of_batch} * p.blocks.groups.divisor * kVectors;
  uint4* const out =
      static_cast<uint4*>(p.terms) +
      static_cast<std::size_t>(at.first_channel / kChannelsOfBlock) * fp32_split::kPlanes * plane +
      (std::size_t{at.group} * p.rows_of_batch + static_cast<std::size_t>(fp32_split::complex_row_of(at.tile))) *
          kVectors +
      vector;
#pragma unroll 1
  for (int f = thread / kVectors; f < row_frequencies_of(kT); f += S::kThreads / kVectors) {
    const Frequency<kT> place(f);
    const bool is_zero = is_imaginary && place.is_real;
    const float* const from = first + (is_imaginary ? place.imaginary : place.real);
    fp32_split::Terms words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // The conjugate.
      const float x[2] = {from[4 * i * S::kTile], from[(4 * i + 1) * S::kTile]};
      words[i] = fp32_split::terms_of_pair(is_zero        ? 0.0f
                                           : is_imaginary ? -x[0]
                                                          : x[0],
                                           is_zero        ? 0.0f
                                           : is_imaginary ? -x[1]
                                                          : x[1]);
    }
    uint4* const to = out + f * of_frequency;
    to[0] = make_uint4(words[0].top, words[1].top, words[2].top, words[3].top);
    to[plane] = make_uint4(words[0].middle, words[1].middle, words[2].middle, words[3].middle);
    to[2 * plane] = make_uint4(words[0].low, words[1].low, words[2].low, words[3].low);
  }
  ptx::griddepcontrol_wait();
}

// From the product to an image; of a filter gradient to dw, each k of which is a tile.
template <int kT>
__global__ void __launch_bounds__(RowShape<kT>::kThreads, RowShape<kT>::kMinBlocks)
    fft_result_sm90(const __grid_constant__ ResultRowsParams params) {
  using S = RowShape<kT>;
  extern __shared__ float shared[];
  const InverseParams& p = params.result;
  const BlockPlace at(p.tiles, params.blocks);
  const auto thread = static_cast<int>(threadIdx.x);
  float* const pair = shared + thread % S::kVectors * 2 * S::kTile;
  const float* const in = p.in + at.group * params.rows.group + at.tile * params.rows.tile + 2 * at.first_channel +
                          thread % S::kVectors * 4;
  constexpr int kStep = S::kThreads / S::kVectors;
  constexpr int kBatch = 9;  // vectors of a thread under way: a bit more than half, or all, of them
  ptx::griddepcontrol_wait();
#pragma unroll 1
  for (int first = thread / S::kVectors; first < row_frequencies_of(kT); first += kBatch * kStep) {
    float4 v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int f = first + i * kStep;
      if (f < row_frequencies_of(kT)) v[i] = __ldg(reinterpret_cast<const float4*>(in + f * params.rows.frequency));
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int f = first + i * kStep;
      if (f >= row_frequencies_of(kT)) continue;
      const Frequency<kT> place(f);
      pair[place.real] = v[i].x;
      pair[S::kTile + place.real] = v[i].z;
      // Of a real frequency it is what rounding left.
      if (place.is_real) continue;
      pair[place.imaginary] = v[i].y;
      pair[S::kTile + place.imaginary] = v[i].w;
    }
  }
  transform_tiles<kT, true>(shared, p.tiles.window_h);
  constexpr float kScale = 1.0f / (kT * kT);
  const Elements<kT> elements(p.tiles, p.image, at);
  const Elements<kT> addends(p.tiles, p.addend_image, at);
#pragma unroll 4
  for (int item = 0; item < at.channels; ++item) {
#pragma unroll
    for (int i = 0; i < S::kPasses; ++i) {
      if (!elements.inside[i]) continue;
      float value = kScale * shared[item * S::kTile + elements.place(i)];
      if (!p.is_plain) {
        const auto channel =
            static_cast<std::int32_t>(at.group * p.tiles.group_channels.divisor) + at.first_channel + item;
        value = finish(p, channel, addends.offset[i] + item * p.addend_image.channel, value);
      }
      static_cast<float*>(p.out)[elements.offset[i] + item * p.image.channel] = value;
    }
  }
}

}  // namespace gpudnn::kernels::fft
