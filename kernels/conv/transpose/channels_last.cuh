// The kernels between strided and packed channels-last tensors; see channels_last.hpp.
//
// A tile of C channels by P pixels, packing:
//
//   strided memory  --16-byte loads along pixels-->  shared [channel][pixel]  --gather of V channels-->  16-byte stores
//                                                                                                    along channels
//
// and unpacking the way back. A line (the pixels of one channel) need not be aligned: loads begin at the 16-byte
// boundary before it, so that in shared memory each line stands at its own shift. They may read up to 15 bytes beside
// the line, but never outside of the tensor's first and last element; stores beside a line are left out.
//
// Bank conflicts: 8 neighbouring lanes hold the vectors of 8 x V channels, and 4 such octets of lanes neighbouring
// pixels. Lines of a multiple of 16 bytes and a skew of 16 bytes after every V lines put the octet's gathers 4 banks
// apart, and 4 pixels span at most 4 banks. Flat tiles have odd or twice odd pitches in most cases, which does as well.
//
// The phases are functions of a thread's number, for host and device: tests run them without a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "kernels/conv/transpose/channels_last.hpp"
#ifdef __CUDACC__
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/st_global.cuh"
#endif

namespace gpudnn::kernels::channels_last {

#ifdef __CUDACC__
using Vector = uint4;
#else
struct alignas(16) Vector {
  std::uint32_t x, y, z, w;
};
#endif

template <class T>
inline constexpr int kWidth = 16 / static_cast<int>(sizeof(T));

// What a block works on.
struct Tile {
  std::int64_t strided = 0;  // offsets of the first element on both sides
  std::int64_t packed = 0;
  std::uint32_t channels = 0;  // that exist; none where only padding is left
  std::uint32_t padded = 0;    // with the padding
  std::uint32_t pixels = 0;
  std::uint32_t first_item = 0;  // of `elements`
};

GPUDNN_HOST_DEVICE std::uint32_t smaller(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }

GPUDNN_HOST_DEVICE Tile locate(const Task& task, std::uint32_t block) {
  const Shape& s = task.shape;
  std::uint32_t channel_tile = 0, pixel_tile = 0, outer = 0;
  std::uint32_t rest = task.channel_tiles.divmod(block, &channel_tile);
  rest = task.pixel_tiles.divmod(rest, &pixel_tile);
  const std::uint32_t group = task.outer.divmod(rest, &outer);
  Tile tile;
  tile.strided = s.base + group * s.group_step + outer * s.outer_step;
  tile.packed = group * s.packed_group_step + outer * s.packed_outer_step;
  const std::uint32_t channels = outer < s.outer_kept ? s.channels : 0;
  if (task.mode == Mode::elements) {
    tile.channels = channels;
    tile.padded = s.channels_padded;
    tile.pixels = task.all_pixels;
    tile.first_item = pixel_tile * (kThreads * kItems);
    return tile;
  }
  const std::uint32_t c = channel_tile * task.tile_channels;
  const std::uint32_t p = pixel_tile * task.tile_pixels;
  tile.channels = c < channels ? smaller(task.tile_channels, channels - c) : 0;
  tile.padded = smaller(task.tile_channels, s.channels_padded - c);
  tile.pixels = smaller(task.tile_pixels, task.all_pixels - p);
  tile.strided += c * s.channel_step + p;
  tile.packed += p * s.packed_pixel_step + c;
  return tile;
}

GPUDNN_HOST_DEVICE void store_vector(void* target, const Vector& v) {
#ifdef __CUDA_ARCH__
  ptx::st_global(static_cast<uint4*>(target), v);
#else
  std::memcpy(target, &v, sizeof v);
#endif
}

// Element j of a vector; j is a constant wherever the loops around are unrolled.
template <class T>
GPUDNN_HOST_DEVICE T element(const Vector& v, int j) {
  const int word = j * static_cast<int>(sizeof(T)) / 4;
  const std::uint32_t bits = word == 0 ? v.x : word == 1 ? v.y : word == 2 ? v.z : v.w;
  if constexpr (sizeof(T) == 4) {
    return bits;
  } else {
    return static_cast<T>(bits >> (j % 2 * 16));
  }
}

template <class T>
GPUDNN_HOST_DEVICE Vector vector_of(const T (&e)[kWidth<T>]) {
  if constexpr (sizeof(T) == 4) {
    return Vector{e[0], e[1], e[2], e[3]};
  } else {
    const auto pair = [&](int i) {
      return static_cast<std::uint32_t>(e[i]) | static_cast<std::uint32_t>(e[i + 1]) << 16;
    };
    return Vector{pair(0), pair(2), pair(4), pair(6)};
  }
}

// --- the strided side of a tile: lines of pixels ---------------------------------------------------------------------

template <class T>
struct Lines {
  T* first;             // of the first line
  std::uint32_t shift;  // elements from the 16-byte boundary before it
  std::uint32_t turn;   // what a line adds to the shift, modulo a vector
  std::uint32_t count;
  std::uint32_t length;

  GPUDNN_HOST_DEVICE std::uint32_t shift_of(std::uint32_t line) const {
    return (shift + line * turn) & (kWidth<T> - 1);
  }
};

template <class T>
GPUDNN_HOST_DEVICE Lines<T> lines_of(const Task& task, const Tile& tile) {
  Lines<T> lines;
  lines.first = static_cast<T*>(task.strided) + tile.strided;
  lines.shift = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(lines.first) / sizeof(T)) & (kWidth<T> - 1);
  lines.turn = task.flat ? 0 : static_cast<std::uint32_t>(task.shape.channel_step) & (kWidth<T> - 1);
  lines.count = task.flat ? (tile.channels > 0 ? 1 : 0) : tile.channels;
  lines.length = task.flat ? tile.channels * tile.pixels : tile.pixels;
  return lines;
}

// Of vector v of line l: where it lies in shared memory and, relative to the line, in global memory.
struct LineVector {
  std::uint32_t shared;
  std::int32_t first;  // element; negative in front of the line
  std::int64_t global;
};
template <class T>
GPUDNN_HOST_DEVICE LineVector line_vector(const Task& task, const Lines<T>& lines, std::uint32_t index) {
  constexpr int V = kWidth<T>;
  std::uint32_t v = 0;
  const std::uint32_t l = task.line_vectors.divmod(index, &v);
  LineVector at;
  at.shared = l * task.pitch + l / V * task.skew + v * V;
  at.first = static_cast<std::int32_t>(v * V) - static_cast<std::int32_t>(lines.shift_of(l));
  at.global = l * task.shape.channel_step + at.first;
  return at;
}

template <class T>
GPUDNN_HOST_DEVICE void load_lines(const Task& task, const Tile& tile, std::uint32_t thread, T* shared) {
  constexpr int V = kWidth<T>;
  const Lines<T> lines = lines_of<T>(task, tile);
  const T* const begin = static_cast<const T*>(task.strided);
  const T* const end = begin + task.shape.span;
  const std::uint32_t total = lines.count * task.line_vectors.divisor;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (std::uint32_t index = thread; index < total; index += kThreads * kItems) {
    Vector v[kItems];
    std::uint32_t place[kItems];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int u = 0; u < kItems; ++u) {
      place[u] = ~0U;
      const std::uint32_t i = index + u * kThreads;
      if (i >= total) continue;
      const LineVector at = line_vector(task, lines, i);
      if (at.first >= static_cast<std::int32_t>(lines.length)) continue;
      const T* const source = lines.first + at.global;
      if (source >= begin && source + V <= end) {
        place[u] = at.shared;
        v[u] = *reinterpret_cast<const Vector*>(source);
        continue;
      }
      // The tensor's very ends.
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
      for (int j = 0; j < V; ++j) {
        if (source + j >= begin && source + j < end) shared[at.shared + j] = source[j];
      }
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int u = 0; u < kItems; ++u) {
      if (place[u] != ~0U) *reinterpret_cast<Vector*>(shared + place[u]) = v[u];
    }
  }
}

template <class T>
GPUDNN_HOST_DEVICE void store_lines(const Task& task, const Tile& tile, std::uint32_t thread, const T* shared) {
  constexpr int V = kWidth<T>;
  const Lines<T> lines = lines_of<T>(task, tile);
  const std::uint32_t total = lines.count * task.line_vectors.divisor;
  const auto length = static_cast<std::int32_t>(lines.length);
#ifdef __CUDA_ARCH__
#pragma unroll 2
#endif
  for (std::uint32_t i = thread; i < total; i += kThreads) {
    const LineVector at = line_vector(task, lines, i);
    if (at.first >= length) continue;
    T* const target = lines.first + at.global;
    if (at.first >= 0 && at.first + V <= length) {
      store_vector(target, *reinterpret_cast<const Vector*>(shared + at.shared));
      continue;
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int j = 0; j < V; ++j) {
      if (at.first + j >= 0 && at.first + j < length) target[j] = shared[at.shared + j];
    }
  }
}

// --- the packed side of a tile: rows of channels ---------------------------------------------------------------------

// Where channel c of pixel p stands in shared memory.
template <class T>
GPUDNN_HOST_DEVICE std::uint32_t shared_place(const Task& task, const Lines<T>& lines, std::uint32_t c,
                                              std::uint32_t p) {
  return c * task.pitch + c / kWidth<T> * task.skew + lines.shift_of(c) + p;
}

// Calls body(place of the vector's first element behind tile.packed, channels and pixels of its elements ...) is spelt
// out in both directions: a vector is V channels of a pixel, or, where rows are tight, V elements of the run of rows.
template <class T>
GPUDNN_HOST_DEVICE void store_rows(const Task& task, const Tile& tile, std::uint32_t thread, const T* shared) {
  constexpr int V = kWidth<T>;
  const Lines<T> lines = lines_of<T>(task, tile);
  T* const target = static_cast<T*>(task.packed) + tile.packed;
  if (task.tight) {
    const std::uint32_t count = tile.pixels * tile.padded;
    for (std::uint32_t e = thread * V; e < count; e += kThreads * V) {
      std::uint32_t c = 0;
      std::uint32_t p = task.row_items.divmod(e, &c);
      T values[V];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
      for (int j = 0; j < V; ++j) {
        const bool exists = c < tile.channels && e + j < count;
        values[j] = exists ? shared[shared_place(task, lines, c, p)] : T(0);
        if (++c == tile.padded) {
          c = 0;
          ++p;
        }
      }
      if (e + V <= count && reinterpret_cast<std::uintptr_t>(target + e) % 16 == 0) {
        store_vector(target + e, vector_of(values));
        continue;
      }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
      for (int j = 0; j < V; ++j) {
        if (e + j < count) target[e + j] = values[j];
      }
    }
    return;
  }
  const std::uint32_t total = tile.pixels * task.row_items.divisor;
#ifdef __CUDA_ARCH__
#pragma unroll 2
#endif
  for (std::uint32_t i = thread; i < total; i += kThreads) {
    std::uint32_t q = 0;
    const std::uint32_t p = task.row_items.divmod(i, &q);
    if (q * V >= tile.padded) continue;
    T values[V];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int j = 0; j < V; ++j) {
      const std::uint32_t c = q * V + j;
      values[j] = c < tile.channels ? shared[shared_place(task, lines, c, p)] : T(0);
    }
    store_vector(target + p * task.shape.packed_pixel_step + q * V, vector_of(values));
  }
}

template <class T>
GPUDNN_HOST_DEVICE void load_rows(const Task& task, const Tile& tile, std::uint32_t thread, T* shared) {
  constexpr int V = kWidth<T>;
  const Lines<T> lines = lines_of<T>(task, tile);
  const T* const source = static_cast<const T*>(task.packed) + tile.packed;
  if (task.tight) {
    const std::uint32_t count = tile.pixels * tile.padded;
    for (std::uint32_t e = thread; e < count; e += kThreads) {
      std::uint32_t c = 0;
      const std::uint32_t p = task.row_items.divmod(e, &c);
      if (c < tile.channels) shared[shared_place(task, lines, c, p)] = source[e];
    }
    return;
  }
  const std::uint32_t total = tile.pixels * task.row_items.divisor;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (std::uint32_t index = thread; index < total; index += kThreads * kItems) {
    Vector v[kItems];
    std::uint32_t first[kItems], pixel[kItems];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int u = 0; u < kItems; ++u) {
      first[u] = tile.channels;  // nothing to do
      const std::uint32_t i = index + u * kThreads;
      if (i >= total) continue;
      std::uint32_t q = 0;
      pixel[u] = task.row_items.divmod(i, &q);
      if (q * V >= tile.channels) continue;
      first[u] = q * V;
      v[u] = *reinterpret_cast<const Vector*>(source + pixel[u] * task.shape.packed_pixel_step + q * V);
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int u = 0; u < kItems; ++u) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
      for (int j = 0; j < V; ++j) {
        const std::uint32_t c = first[u] + j;
        if (c < tile.channels) shared[shared_place(task, lines, c, pixel[u])] = element<T>(v[u], j);
      }
    }
  }
}

// --- any strides -----------------------------------------------------------------------------------------------------

// One item is a vector of a packed row, or where rows are tight an element.
template <class T, int W, bool kPack>
GPUDNN_HOST_DEVICE void copy_items(const Task& task, const Tile& tile, std::uint32_t thread) {
  const Shape& s = task.shape;
  const std::uint32_t total = tile.pixels * task.row_items.divisor;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (int u = 0; u < kItems; ++u) {
    const std::uint32_t item = tile.first_item + u * kThreads + thread;
    if (item >= total) return;
    std::uint32_t q = 0, d1 = 0, d2 = 0;
    const std::uint32_t p = task.row_items.divmod(item, &q);
    const std::uint32_t d0 = task.pixels[0].divmod(task.pixels[1].divmod(p, &d2), &d1);
    T* strided = static_cast<T*>(task.strided) + tile.strided + d0 * s.pixel_step[0] + d1 * s.pixel_step[1] +
                 d2 * s.pixel_step[2] + q * W * s.channel_step;
    T* const packed = static_cast<T*>(task.packed) + tile.packed + p * s.packed_pixel_step + q * W;
    T values[W];
    if constexpr (!kPack) {
      if constexpr (W > 1) {
        const Vector v = *reinterpret_cast<const Vector*>(packed);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (int j = 0; j < W; ++j) values[j] = element<T>(v, j);
      } else {
        values[0] = *packed;
      }
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int j = 0; j < W; ++j) {
      const bool exists = q * W + j < tile.channels;
      if constexpr (kPack) {
        values[j] = exists ? strided[j * s.channel_step] : T(0);
      } else if (exists) {
        strided[j * s.channel_step] = values[j];
      }
    }
    if constexpr (kPack) {
      if constexpr (W > 1) {
        store_vector(packed, vector_of(values));
      } else {
        *packed = values[0];
      }
    }
  }
}

template <class T, bool kPack>
GPUDNN_HOST_DEVICE void copy_elements(const Task& task, const Tile& tile, std::uint32_t thread) {
  if (task.tight) {
    copy_items<T, 1, kPack>(task, tile, thread);
  } else {
    copy_items<T, kWidth<T>, kPack>(task, tile, thread);
  }
}

#ifdef __CUDACC__
// Most launches copy one tensor or two: what a launch costs the host grows with the bytes of its parameters.
template <int kMaximum>
struct Tasks {
  int count = 0;
  Task of[kMaximum];
};

template <class T, bool kPack, int kMaximum>
__global__ void __launch_bounds__(kThreads) copy_tasks(const __grid_constant__ Tasks<kMaximum> tasks) {
  extern __shared__ __align__(16) unsigned char memory[];
  T* const shared = reinterpret_cast<T*>(memory);
  int i = 0;
  while (i + 1 < tasks.count && blockIdx.x >= tasks.of[i + 1].first_block) ++i;
  const Task& task = tasks.of[i];
  const Tile tile = locate(task, blockIdx.x - task.first_block);
  ptx::griddepcontrol_wait();
  if (task.mode == Mode::elements) return copy_elements<T, kPack>(task, tile, threadIdx.x);
  if constexpr (kPack) {
    load_lines(task, tile, threadIdx.x, shared);
    __syncthreads();
    store_rows<T>(task, tile, threadIdx.x, shared);
  } else {
    load_rows(task, tile, threadIdx.x, shared);
    __syncthreads();
    store_lines<T>(task, tile, threadIdx.x, shared);
  }
}
#endif

}  // namespace gpudnn::kernels::channels_last
