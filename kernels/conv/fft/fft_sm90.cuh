// The transforms around complex products on bfloat16 tensor cores. The mathematics and the layout are in fft_sm90.hpp.
//
// Data flow of a block, which has a tile of 16 channels; T/2 threads for each channel:
//   forward:  rows global -> registers, 16 loads of a thread at a time -> shared (lanes along the row)
//             two rows -> a thread, as real and imaginary part of one transform -> shared, in their place: a real row
//             of T numbers has T/2 - 1 complex frequencies and the two real ones 0 and T/2, which share a place a
//             column of frequencies -> a thread -> transform -> global; the column of the two real ones, as one complex
//             column, is both of theirs
//   inverse:  the same backwards: a thread loads its column from memory, all frequencies at once
// A lane pair's channels lie side by side in the transform: 64 bytes of real parts, 64 of imaginary ones. Threads of a
// warp have 16 channels of two rows (or columns) that are T/4 of them apart, which spreads them over all banks.
//
// A filter's block does the same with the taps as a tile. Two lanes exchange a part each, so that one has the real
// parts of two neighbouring channels and the other their imaginary ones: a word of each plane of terms.
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
  static constexpr int kMinBlocks = 512 / kThreads;  // per multiprocessor: 128 registers of a thread
  static constexpr int kRowsOfPass = kThreads / kT;  // that the block's threads load (store) side by side
  static constexpr int kPasses = kT / kRowsOfPass;   // over the rows of a channel
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
  constexpr int kBatch = 16 / S::kPasses;  // channels
  const Elements<kT> elements(p.tiles, p.image, at);
#pragma unroll 1
  for (int first = 0; first < S::kItems; first += kBatch) {
    float v[kBatch][S::kPasses];
#pragma unroll
    for (int item = 0; item < kBatch; ++item) {
#pragma unroll
      for (int i = 0; i < S::kPasses; ++i) {
        const bool inside = elements.inside[i] && first + item < at.channels;
        v[item][i] = inside ? __ldg(p.in + elements.offset[i] + (first + item) * p.image.channel) : 0.0f;
      }
    }
#pragma unroll
    for (int item = 0; item < kBatch; ++item) {
#pragma unroll
      for (int i = 0; i < S::kPasses; ++i) shared[(first + item) * S::kTile + elements.place(i)] = v[item][i];
    }
  }
}

// Two real rows as z = first + i second: Z(k) = first(k) + i second(k), and conj(Z(-k)) = first(k) - i second(k).
template <int kT>
__device__ __forceinline__ void transform_two_rows(float* first) {
  float* const second = first + RowShape<kT>::kPitch;
  float re[kT];
  float im[kT];
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    re[i] = first[i];
    im[i] = second[i];
  }
  transform(re, im);
  constexpr int kLast = bit_reversed<kT>(kT / 2);
  first[0] = re[0];
  second[0] = im[0];
  first[1] = re[kLast];
  second[1] = im[kLast];
#pragma unroll
  for (int k = 1; k < kT / 2; ++k) {
    const int at = bit_reversed<kT>(k);
    const int mirrored = bit_reversed<kT>(kT - k);
    first[2 * k] = 0.5f * (re[at] + re[mirrored]);
    first[2 * k + 1] = 0.5f * (im[at] - im[mirrored]);
    second[2 * k] = 0.5f * (im[at] + im[mirrored]);
    second[2 * k + 1] = 0.5f * (re[mirrored] - re[at]);
  }
}

template <int kT>
__device__ __forceinline__ void transform_two_rows_back(float* first) {
  float* const second = first + RowShape<kT>::kPitch;
  float re[kT];
  float im[kT];
  re[0] = first[0];
  im[0] = second[0];
  re[kT / 2] = first[1];
  im[kT / 2] = second[1];
#pragma unroll
  for (int k = 1; k < kT / 2; ++k) {
    const float a[2] = {first[2 * k], first[2 * k + 1]};
    const float b[2] = {second[2 * k], second[2 * k + 1]};
    re[k] = a[0] - b[1];
    im[k] = a[1] + b[0];
    re[kT - k] = a[0] + b[1];
    im[kT - k] = b[0] - a[1];
  }
  transform(im, re);  // parts exchanged: the inverse
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    first[i] = re[bit_reversed<kT>(i)];
    second[i] = im[bit_reversed<kT>(i)];
  }
}

// Numbers of the frequencies of a column, by its row.
template <int kT>
__device__ __forceinline__ constexpr int frequency_of(int column, int row) {
  return kT + 2 + (column - 1) * kT + row;
}
template <int kT>
__device__ __forceinline__ constexpr int first_frequency_of(bool is_last_column, int row) {
  return (is_last_column ? kT / 2 + 1 : 0) + row;
}

// emit(frequency, real part, imaginary part) for the frequencies of the thread's column. Rows from `rows` on are zero.
template <int kT, class Emit>
__device__ __forceinline__ void transform_tiles(float* shared, int rows, Emit emit) {
  using S = RowShape<kT>;
  const Role<kT> role;
  float* const tile = shared + role.item * S::kTile;
  __syncthreads();
  if (2 * role.index < rows) transform_two_rows<kT>(tile + 2 * role.index * S::kPitch);
  __syncthreads();
  float re[kT];
  float im[kT];
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    re[i] = tile[i * S::kPitch + 2 * role.index];
    im[i] = tile[i * S::kPitch + 2 * role.index + 1];
  }
  transform(re, im);
  if (role.index == 0) {
#pragma unroll
    for (int k = 0; k <= kT / 2; ++k) {
      const int at = bit_reversed<kT>(k);
      const int mirrored = bit_reversed<kT>((kT - k) % kT);
      emit(first_frequency_of<kT>(false, k), 0.5f * (re[at] + re[mirrored]), 0.5f * (im[at] - im[mirrored]));
      emit(first_frequency_of<kT>(true, k), 0.5f * (im[at] + im[mirrored]), 0.5f * (re[mirrored] - re[at]));
    }
  } else {
#pragma unroll
    for (int k = 0; k < kT; ++k) {
      emit(frequency_of<kT>(role.index, k), re[bit_reversed<kT>(k)], im[bit_reversed<kT>(k)]);
    }
  }
}

// fetch(frequency) -> its number. Rows from `rows` on are not needed.
template <int kT, class Fetch>
__device__ __forceinline__ void transform_tiles_back(float* shared, int rows, Fetch fetch) {
  using S = RowShape<kT>;
  const Role<kT> role;
  float re[kT];
  float im[kT];
  if (role.index == 0) {
#pragma unroll
    for (int k = 0; k <= kT / 2; ++k) {
      float2 a = fetch(first_frequency_of<kT>(false, k));
      float2 b = fetch(first_frequency_of<kT>(true, k));
      // These are real; what rounding left of the other part is dropped.
      if (k == 0 || k == kT / 2) a.y = b.y = 0.0f;
      re[k] = a.x - b.y;
      im[k] = a.y + b.x;
      if (k == 0 || k == kT / 2) continue;
      re[kT - k] = a.x + b.y;
      im[kT - k] = b.x - a.y;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kT; ++k) {
      const float2 v = fetch(frequency_of<kT>(role.index, k));
      re[k] = v.x;
      im[k] = v.y;
    }
  }
  transform(im, re);  // parts exchanged: the inverse
  float* const tile = shared + role.item * S::kTile;
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    tile[i * S::kPitch + 2 * role.index] = re[bit_reversed<kT>(i)];
    tile[i * S::kPitch + 2 * role.index + 1] = im[bit_reversed<kT>(i)];
  }
  __syncthreads();
  if (2 * role.index < rows) transform_two_rows_back<kT>(tile + 2 * role.index * S::kPitch);
  __syncthreads();
}

template <int kT>
__global__ void __launch_bounds__(RowShape<kT>::kThreads, RowShape<kT>::kMinBlocks)
    fft_data_sm90(const __grid_constant__ DataRowsParams p) {
  extern __shared__ float shared[];
  const BlockPlace at(p.data.tiles, p.blocks);
  if (!p.runs_beside) ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();  // behind the wait: what runs beside it relies on it
  load_rows<kT>(p.data, at, shared);
  const int rows = min(p.data.tiles.window_h, p.data.image.height - at.first_row(p.data.tiles));
  float* const out = p.data.out + at.group * p.rows.group + at.tile * p.rows.tile + 2 * at.first_channel +
                     static_cast<int>(threadIdx.x) % 16;
  transform_tiles<kT>(shared, at.inside ? rows : 0, [&](int frequency, float re, float im) {
    float* const to = out + frequency * p.rows.frequency;
    to[0] = re;
    to[kChannelsOfBlock] = im;
  });
  if (p.runs_beside) ptx::griddepcontrol_wait();
}

// It begins when all blocks of the image's transform have: those wait for what came before, which the filter may come
// from. It ends behind them, so that the product, which waits for this kernel, finds both transforms.
template <int kT>
__global__ void __launch_bounds__(RowShape<kT>::kThreads, RowShape<kT>::kMinBlocks)
    fft_filter_sm90(const __grid_constant__ FilterTermsParams p) {
  extern __shared__ float shared[];
  constexpr std::uint32_t kWords = fp32_split::kChunkBytes / 4;
  const Tiles& tiles = p.filter.tiles;
  const BlockPlace at(tiles, p.blocks);
  load_rows<kT>(p.filter, at, shared);
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const int item = lane % 16;
  const unsigned partners = lane < 16 ? 0xffffu : 0xffff0000u;  // lanes that have the same column
  const bool is_odd = item % 2 != 0;
  const std::size_t rows = std::size_t{p.blocks.groups.divisor} * static_cast<std::size_t>(tiles.count);
  const std::size_t plane = rows * row_frequencies_of(kT) * kWords;
  const auto of_frequency = static_cast<std::int64_t>(rows * kWords);
  const int chunk = at.first_channel / kChannelsOfBlock;
  const int word = (is_odd ? 8 : 0) + fp32_split::complex_word_of(item / 2 * 2);
  auto* const out =
      static_cast<std::uint32_t*>(p.terms) + static_cast<std::size_t>(chunk) * fp32_split::kPlanes * plane +
      (std::size_t{at.group} * static_cast<std::size_t>(tiles.count) + static_cast<std::size_t>(at.tile)) * kWords +
      word;
  transform_tiles<kT>(shared, tiles.window_h, [&](int frequency, float re, float im) {
    const float other = __shfl_xor_sync(partners, is_odd ? re : im, 1);
    // The conjugate.
    const fp32_split::Terms terms =
        is_odd ? fp32_split::terms_of_pair(-other, -im) : fp32_split::terms_of_pair(re, other);
    std::uint32_t* const to = out + frequency * of_frequency;
    to[0] = terms.top;
    to[plane] = terms.middle;
    to[2 * plane] = terms.low;
  });
  ptx::griddepcontrol_wait();
}

// kIsFilter: the result is dw, each number of it four of the product, which are many registers.
template <int kT, bool kIsFilter>
__global__ void __launch_bounds__(RowShape<kT>::kThreads, RowShape<kT>::kMinBlocks / (kIsFilter ? 2 : 1))
    fft_result_sm90(const __grid_constant__ ResultRowsParams params) {
  using S = RowShape<kT>;
  extern __shared__ float shared[];
  const InverseParams& p = params.result;
  const SpectrumRows& rows = params.rows;
  const BlockPlace at(p.tiles, params.blocks);
  const float* in = p.in + at.group * rows.group + 2 * at.first_channel + static_cast<int>(threadIdx.x) % 16;
  if constexpr (kIsFilter) {
    // The row of the real part of k, and the imaginary one behind it.
    const std::int64_t row = at.tile / kChannelsOfBlock * 2 * kChannelsOfBlock + at.tile % kChannelsOfBlock;
    in += row * rows.tile;
  } else {
    in += at.tile * rows.tile;
  }
  ptx::griddepcontrol_wait();
  transform_tiles_back<kT>(shared, p.tiles.window_h, [&](int frequency) {
    const float* const from = in + frequency * rows.frequency;
    if constexpr (!kIsFilter) return make_float2(__ldg(from), __ldg(from + kChannelsOfBlock));
    // x times the conjugate of dy.
    const float* const imaginary = from + kChannelsOfBlock * rows.tile;
    return make_float2(__ldg(from) + __ldg(imaginary + kChannelsOfBlock),
                       __ldg(from + kChannelsOfBlock) - __ldg(imaginary));
  });
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
