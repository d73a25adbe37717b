// The epilogue of the integer kernels whose sums lie in shared memory: units of four channels of a pixel, a thread
// each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/integer/integer.hpp"

namespace gpudnn::kernels::integer {

struct Pixel {
  std::int32_t at[3];  // w, h, d
  std::int64_t image;
};

__device__ __forceinline__ Pixel pixel_of(const Params& p, std::uint32_t index) {
  Pixel pixel;
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) {
    std::uint32_t position;
    index = p.extent[axis].divmod(index, &position);
    pixel.at[axis] = static_cast<std::int32_t>(position);
  }
  pixel.image = index;
  return pixel;
}

__device__ __forceinline__ std::int64_t offset_in(const Tensor& tensor, const Pixel& pixel) {
  return pixel.image * tensor.image + pixel.at[0] * tensor.spatial[0] + pixel.at[1] * tensor.spatial[1] +
         pixel.at[2] * tensor.spatial[2];
}

// Elements as floats, and back from their bits.
__device__ __forceinline__ float as_float(OutType out, std::uint32_t bits) {
  switch (out) {
    case OutType::i8:
      return static_cast<float>(static_cast<std::int8_t>(bits & 0xffu));
    case OutType::u8:
      return static_cast<float>(bits & 0xffu);
    case OutType::i32:
      return static_cast<float>(static_cast<std::int32_t>(bits));
    default:
      return __uint_as_float(bits);
  }
}

__device__ __forceinline__ std::uint32_t bits_of(const Epilogue& e, std::int32_t sum, float value) {
  switch (e.out) {
    case OutType::i32:
      return static_cast<std::uint32_t>(e.is_sum ? sum : rounded_32(value));
    case OutType::f32:
      return __float_as_uint(value);
    default:
      return low_byte_of(clamped(e.out, value)) & 0xffu;
  }
}

__device__ __forceinline__ std::uint32_t load_element(const void* data, bool wide, std::int64_t offset) {
  if (wide) return static_cast<const std::uint32_t*>(data)[offset];
  return static_cast<const std::uint8_t*>(data)[offset];
}

// What a thread knows of four channels from k on, `count` of them in the tensor.
struct Channels {
  std::uint32_t k;
  int count;
  bool together;  // neighbours in y, which may be stored at once
  float bias[4], scale[4];
};
__device__ __forceinline__ Channels channels_at(const Params& p, std::uint32_t group, std::uint32_t n) {
  const Epilogue& e = p.epilogue;
  Channels c;
  c.k = group * p.filters + n;
  c.count = static_cast<int>(min(4u, p.filters - n));
  c.together = c.count == 4 && (p.y_at.run_shift == kOneRun || (p.y_at.run_shift >= 2 && c.k % 4 == 0));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t channel = c.k + static_cast<std::uint32_t>(i < c.count ? i : 0);
    c.scale[i] = e.has_scale ? p.scale[channel * e.scale_stride] : 1.0f;
    c.bias[i] = e.has_bias ? p.bias[channel * e.bias_stride] : 0.0f;
  }
  return c;
}

// The four channels of a pixel whose elements begin `y` and, of the addend, `addend` elements from the start.
__device__ __forceinline__ void store_unit(const Params& p, std::int64_t y, std::int64_t addend, const Channels& c,
                                           const std::int32_t (&sums)[4]) {
  const Epilogue& e = p.epilogue;
  const bool wide = e.out == OutType::i32 || e.out == OutType::f32;
  std::uint32_t bits[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float other = 0;
    if (e.adds && i < c.count) {
      const std::int64_t at = addend + p.addend_at.channel(c.k + static_cast<std::uint32_t>(i));
      other = as_float(e.out, load_element(p.addend, wide, at));
    }
    bits[i] = bits_of(e, sums[i], finished(e, sums[i], c.scale[i], other, c.bias[i]));
  }
  const std::int64_t first = y + p.y_at.channel(c.k);
  if (wide) {
    auto* const out = static_cast<std::uint32_t*>(p.y);
    if (c.together && reinterpret_cast<std::uintptr_t>(out + first) % 16 == 0) {
      *reinterpret_cast<uint4*>(out + first) = make_uint4(bits[0], bits[1], bits[2], bits[3]);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < c.count) out[y + p.y_at.channel(c.k + static_cast<std::uint32_t>(i))] = bits[i];
    }
    return;
  }
  auto* const out = static_cast<std::uint8_t*>(p.y);
  if (c.together && reinterpret_cast<std::uintptr_t>(out + first) % 4 == 0) {
    *reinterpret_cast<std::uint32_t*>(out + first) = bits[0] | bits[1] << 8 | bits[2] << 16 | bits[3] << 24;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < c.count) out[y + p.y_at.channel(c.k + static_cast<std::uint32_t>(i))] = static_cast<std::uint8_t>(bits[i]);
  }
}

// Where the pixels of a tile's rows begin, in shared memory; negative where there is no such pixel.
template <int kRows>
struct RowOffsets {
  std::int64_t y[kRows];
  std::int64_t addend[kRows];
};

// A tile of kRows pixels and kColumns filters of a group, `staged` in rows of kPitch sums, by all threads of the block.
// A thread keeps its channels where channels are neighbours in memory, and goes down the rows; else it keeps its pixel,
// and goes along the channels.
template <int kRows, int kColumns, int kPitch, int kThreads>
__device__ __forceinline__ void store_tile(const Params& p, const std::int32_t* staged, RowOffsets<kRows>* rows,
                                           std::uint32_t first_pixel, std::uint32_t first_filter, std::uint32_t group) {
  static_assert(kThreads % (kColumns / 4) == 0 && kThreads % kRows == 0, "threads keep their columns, or their rows");
  const auto thread = static_cast<int>(threadIdx.x);
  for (int row = thread; row < kRows; row += kThreads) {
    const std::uint32_t index = first_pixel + static_cast<std::uint32_t>(row);
    const Pixel pixel = pixel_of(p, min(index, p.pixels - 1));
    rows->y[row] = index < p.pixels ? offset_in(p.y_at, pixel) : -1;
    rows->addend[row] = offset_in(p.addend_at, pixel);
  }
  __syncthreads();
  const auto store = [&](int row, int column, const Channels& channels) {
    const int4 sums = *reinterpret_cast<const int4*>(&staged[row * kPitch + column]);
    const std::int32_t four[4] = {sums.x, sums.y, sums.z, sums.w};
    store_unit(p, rows->y[row], rows->addend[row], channels, four);
  };
  if (p.y_at.run_shift >= 2) {
    const int column = thread % (kColumns / 4) * 4;
    const std::uint32_t n = first_filter + static_cast<std::uint32_t>(column);
    if (n >= p.filters) return;
    const Channels channels = channels_at(p, group, n);
    for (int row = thread / (kColumns / 4); row < kRows; row += kThreads / (kColumns / 4)) {
      if (rows->y[row] < 0) return;
      store(row, column, channels);
    }
    return;
  }
  const int row = thread % kRows;
  if (rows->y[row] < 0) return;
  for (int column = thread / kRows * 4; column < kColumns; column += kThreads / kRows * 4) {
    const std::uint32_t n = first_filter + static_cast<std::uint32_t>(column);
    if (n >= p.filters) return;
    store(row, column, channels_at(p, group, n));
  }
}

}  // namespace gpudnn::kernels::integer
