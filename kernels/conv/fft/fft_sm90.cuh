// The transforms around complex products on bfloat16 tensor cores. The mathematics and the layout are in fft_sm90.hpp.
//
// Data flow of a block, which has a tile of 16 channels in shared memory; T/2 threads for each channel:
//   forward:  rows global -> registers, 16 loads of a thread at a time -> shared, lanes along the row
//             two rows -> a thread, as real and imaginary part of one transform -> in their place: a real row of T
//             numbers has T/2 - 1 complex frequencies and the two real ones 0 and T/2, which are neighbours there
//             a column of frequencies -> a thread -> in its place; the column of the two real ones, as one complex
//             column, is both of theirs
//             frequencies shared -> global, 128 bytes of the block's channels at a time
//   inverse:  the same backwards
// Threads of a warp have 16 channels of two rows (or columns) that are T/4 pairs of them apart, which spreads them over
// all banks. A thread's frequencies in memory are those of a row of the columns' frequencies, so that all its addresses
// are a step apart: the transforms are bound by instructions as much as by memory.
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
#include "kernels/ptx/griddepcontrol.cuh"

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
  static_assert(kThreads / kVectors == kT, "a thread has a row of the columns' frequencies");
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
  constexpr int kBatch = 16 / S::kPasses;  // channels, of which a thread has 16 loads under way
  const float* from[S::kPasses];
#pragma unroll
  for (int i = 0; i < S::kPasses; ++i) from[i] = p.in + elements.offset[i];
  float* to = shared + elements.place(0);
#pragma unroll 1
  for (int first = 0; first < S::kItems; first += kBatch) {
    float v[kBatch][S::kPasses];
#pragma unroll
    for (int item = 0; item < kBatch; ++item) {
#pragma unroll
      for (int i = 0; i < S::kPasses; ++i) {
        v[item][i] = elements.inside[i] && first + item < at.channels ? __ldg(from[i]) : 0.0f;
        from[i] += p.image.channel;
      }
    }
#pragma unroll
    for (int item = 0; item < kBatch; ++item, to += S::kTile) {
#pragma unroll
      for (int i = 0; i < S::kPasses; ++i) to[i * S::kRowsOfPass * S::kPitch] = v[item][i];
    }
  }
}

// Of T complex numbers, in place. Where they are two real sequences z = a + i b, Z(k) = a(k) + i b(k) and conj(Z(-k)) =
// a(k) - i b(k): each sequence keeps its frequencies 0 and T/2, which are real, then the others to T/2.
template <int kT, int kStep>
__device__ __forceinline__ void transform_in_place(float* real, float* imaginary, bool is_two_real) {
  float re[kT];
  float im[kT];
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    re[i] = real[i * kStep];
    im[i] = imaginary[i * kStep];
  }
  transform(re, im);
  if (!is_two_real) {
#pragma unroll
    for (int k = 0; k < kT; ++k) {
      real[k * kStep] = re[bit_reversed<kT>(k)];
      imaginary[k * kStep] = im[bit_reversed<kT>(k)];
    }
    return;
  }
  real[0] = re[0];
  imaginary[0] = im[0];
  real[kStep] = re[bit_reversed<kT>(kT / 2)];
  imaginary[kStep] = im[bit_reversed<kT>(kT / 2)];
#pragma unroll
  for (int k = 1; k < kT / 2; ++k) {
    const int at = bit_reversed<kT>(k);
    const int mirrored = bit_reversed<kT>(kT - k);
    real[2 * k * kStep] = 0.5f * (re[at] + re[mirrored]);
    real[(2 * k + 1) * kStep] = 0.5f * (im[at] - im[mirrored]);
    imaginary[2 * k * kStep] = 0.5f * (im[at] + im[mirrored]);
    imaginary[(2 * k + 1) * kStep] = 0.5f * (re[mirrored] - re[at]);
  }
}

// The inverse, times T.
template <int kT, int kStep>
__device__ __forceinline__ void transform_back_in_place(float* real, float* imaginary, bool is_two_real) {
  float re[kT];
  float im[kT];
  if (is_two_real) {
    re[0] = real[0];
    im[0] = imaginary[0];
    re[kT / 2] = real[kStep];
    im[kT / 2] = imaginary[kStep];
#pragma unroll
    for (int k = 1; k < kT / 2; ++k) {
      const float a[2] = {real[2 * k * kStep], real[(2 * k + 1) * kStep]};
      const float b[2] = {imaginary[2 * k * kStep], imaginary[(2 * k + 1) * kStep]};
      re[k] = a[0] - b[1];
      im[k] = a[1] + b[0];
      re[kT - k] = a[0] + b[1];
      im[kT - k] = b[0] - a[1];
    }
  } else {
#pragma unroll
    for (int k = 0; k < kT; ++k) {
      re[k] = real[k * kStep];
      im[k] = imaginary[k * kStep];
    }
  }
  transform(im, re);  // parts exchanged
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    real[i * kStep] = re[bit_reversed<kT>(i)];
    imaginary[i * kStep] = im[bit_reversed<kT>(i)];
  }
}

// The block's tiles, in place: rows, then columns, or back. Rows from `rows` on are zero, or are not needed. A barrier
// of the block stands before and behind.
template <int kT, bool kBack>
__device__ __forceinline__ void transform_tiles(float* shared, int rows) {
  using S = RowShape<kT>;
  const Role<kT> role;
  float* const tile = shared + role.item * S::kTile;
  float* const row = tile + 2 * role.index * S::kPitch;
  float* const column = tile + 2 * role.index;
  __syncthreads();
  if constexpr (kBack) {
    transform_back_in_place<kT, S::kPitch>(column, column + 1, role.index == 0);
    __syncthreads();
    if (2 * role.index < rows) transform_back_in_place<kT, 1>(row, row + S::kPitch, true);
  } else {
    if (2 * role.index < rows) transform_in_place<kT, 1>(row, row + S::kPitch, true);
    __syncthreads();
    transform_in_place<kT, S::kPitch>(column, column + 1, role.index == 0);
  }
  __syncthreads();
}

// Frequency q T + k lies in row k of the transformed tile, its parts in columns 2q and 2q + 1. Those below T are of the
// two real columns in turn, as transform_in_place leaves them: their frequencies 0, which are real, and 1 to T/2 - 1;
// their frequencies T/2 are the last two of all.
template <int kT>
struct RealColumns {
  static constexpr int kPitch = RowShape<kT>::kPitch;
  static constexpr int kLast = kPitch;  // the last two: kLast + number
  static __device__ __forceinline__ int real(int number) { return number / 2 * 2 * kPitch + number % 2; }
  static __device__ __forceinline__ int imaginary(int number) { return real(number) + kPitch; }
  static __device__ __forceinline__ bool is_real(int number) { return number < 2; }
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
  using Real = RealColumns<kT>;
  const auto thread = static_cast<int>(threadIdx.x);
  const int k = thread / S::kVectors;
  const float* const first = shared + thread % S::kVectors * 2 * S::kTile;
  const float* const second = first + S::kTile;
  float* out = p.data.out + at.group * p.rows.group + at.tile * p.rows.tile + 2 * at.first_channel +
               thread % S::kVectors * 4 + k * p.rows.frequency;
  const std::int64_t step = kT * p.rows.frequency;
  const auto store = [&](float a, float b, float c, float d) {
    *reinterpret_cast<float4*>(out) = make_float4(a, b, c, d);
    out += step;
  };
  const int re = Real::real(k);
  const int im = Real::imaginary(k);
  const bool is_real = Real::is_real(k);
  store(first[re], is_real ? 0.0f : first[im], second[re], is_real ? 0.0f : second[im]);
#pragma unroll 5
  for (int q = 1; q < kT / 2; ++q) {
    const int column = k * S::kPitch + 2 * q;
    store(first[column], first[column + 1], second[column], second[column + 1]);
  }
  if (is_real) store(first[Real::kLast + k], 0.0f, second[Real::kLast + k], 0.0f);
  if (p.runs_beside) ptx::griddepcontrol_wait();
}

template <int kT>
__global__ void __launch_bounds__(RowShape<kT>::kThreads, RowShape<kT>::kMinBlocks)
    fft_filter_sm90(const __grid_constant__ FilterTermsParams p) {
  using S = RowShape<kT>;
  extern __shared__ float shared[];
  const Tiles& tiles = p.filter.tiles;
  const BlockPlace at(tiles, p.blocks);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();  // the image's transform runs beside it
  load_rows<kT>(p.filter, at, shared);
  transform_tiles<kT, false>(shared, tiles.window_h);
  // Vectors of four words, each of two channels' real or imaginary parts.
  using Real = RealColumns<kT>;
  constexpr int kVectors = fp32_split::kChunkBytes / 16;
  const auto thread = static_cast<int>(threadIdx.x);
  const int vector = thread % kVectors;
  const bool is_imaginary = vector >= kVectors / 2;
  const int k = thread / kVectors % kT;
  const int half = thread / kVectors / kT;  // of the columns: those that are even, those that are odd
  const float* const first = shared + fp32_split::complex_number_at(vector % 2 * 4) * S::kTile;
  const std::int64_t rows = std::int64_t{p.rows_of_batch} * p.blocks.groups.divisor * kVectors;  // of a frequency
  const std::int64_t plane = rows * row_frequencies_of(kT);
  uint4* out = static_cast<uint4*>(p.terms) + at.first_channel / kChannelsOfBlock * (fp32_split::kPlanes * plane) +
               (std::int64_t{at.group} * p.rows_of_batch + fp32_split::complex_row_of(at.tile)) * kVectors + vector +
               thread / kVectors * rows;
  const auto store = [&](int place, bool is_zero) {
    fp32_split::Terms words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // The conjugate.
      float x[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        x[j] = first[(4 * i + j) * S::kTile + place];
        x[j] = is_zero ? 0.0f : is_imaginary ? -x[j] : x[j];
      }
      words[i] = fp32_split::terms_of_pair(x[0], x[1]);
    }
    out[0] = make_uint4(words[0].top, words[1].top, words[2].top, words[3].top);
    out[plane] = make_uint4(words[0].middle, words[1].middle, words[2].middle, words[3].middle);
    out[2 * plane] = make_uint4(words[0].low, words[1].low, words[2].low, words[3].low);
    out += 2 * kT * rows;
  };
#pragma unroll 1
  for (int q = half; q <= kT / 2; q += 2) {
    const bool is_real_column = q == 0 || q == kT / 2;
    const bool is_zero = is_real_column && is_imaginary && Real::is_real(k);
    int place = k * S::kPitch + 2 * q + (is_imaginary ? 1 : 0);
    if (q == 0) place = is_imaginary ? Real::imaginary(k) : Real::real(k);
    if (q == kT / 2) {
      if (!Real::is_real(k)) break;
      place = Real::kLast + k;
    }
    store(place, is_zero);
  }
}

// From the product to an image; of a filter gradient to dw, each k of which is a tile.
template <int kT>
__global__ void __launch_bounds__(RowShape<kT>::kThreads, RowShape<kT>::kMinBlocks)
    fft_result_sm90(const __grid_constant__ ResultRowsParams params) {
  using S = RowShape<kT>;
  extern __shared__ float shared[];
  const InverseParams& p = params.result;
  const BlockPlace at(p.tiles, params.blocks);
  using Real = RealColumns<kT>;
  const auto thread = static_cast<int>(threadIdx.x);
  const int k = thread / S::kVectors;
  float* const first = shared + thread % S::kVectors * 2 * S::kTile;
  float* const second = first + S::kTile;
  const float* in = p.in + at.group * params.rows.group + at.tile * params.rows.tile + 2 * at.first_channel +
                    thread % S::kVectors * 4 + k * params.rows.frequency;
  const std::int64_t step = kT * params.rows.frequency;
  ptx::griddepcontrol_wait();
  constexpr int kBatch = 8;  // vectors of a thread under way
#pragma unroll 1
  for (int q = 0; q < kT / 2; q += kBatch) {
    float4 v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i, in += step) v[i] = __ldg(reinterpret_cast<const float4*>(in));
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      int re = k * S::kPitch + 2 * (q + i);
      int im = re + 1;
      if (i == 0 && q == 0) {
        re = Real::real(k);
        im = Real::imaginary(k);
      }
      first[re] = v[i].x;
      second[re] = v[i].z;
      // Of a real frequency it is what rounding left.
      if (i == 0 && q == 0 && Real::is_real(k)) continue;
      first[im] = v[i].y;
      second[im] = v[i].w;
    }
  }
  if (Real::is_real(k)) {
    const float4 v = __ldg(reinterpret_cast<const float4*>(in));
    first[Real::kLast + k] = v.x;
    second[Real::kLast + k] = v.z;
  }
  transform_tiles<kT, true>(shared, p.tiles.window_h);
  constexpr float kScale = 1.0f / (kT * kT);
  const Elements<kT> elements(p.tiles, p.image, at);
  const float* from = shared + elements.place(0);
  float* to[S::kPasses];
#pragma unroll
  for (int i = 0; i < S::kPasses; ++i) to[i] = static_cast<float*>(p.out) + elements.offset[i];
  if (p.is_plain) {
#pragma unroll 2
    for (int item = 0; item < at.channels; ++item, from += S::kTile) {
#pragma unroll
      for (int i = 0; i < S::kPasses; ++i) {
        if (elements.inside[i]) *to[i] = kScale * from[i * S::kRowsOfPass * S::kPitch];
        to[i] += p.image.channel;
      }
    }
    return;
  }
  const Elements<kT> addends(p.tiles, p.addend_image, at);
  const auto channel = static_cast<std::int32_t>(at.group * p.tiles.group_channels.divisor) + at.first_channel;
#pragma unroll 1
  for (int item = 0; item < at.channels; ++item, from += S::kTile) {
#pragma unroll
    for (int i = 0; i < S::kPasses; ++i) {
      if (elements.inside[i]) {
        *to[i] = finish(p, channel + item, addends.offset[i] + item * p.addend_image.channel,
                        kScale * from[i * S::kRowsOfPass * S::kPitch]);
      }
      to[i] += p.image.channel;
    }
  }
}

}  // namespace gpudnn::kernels::fft
