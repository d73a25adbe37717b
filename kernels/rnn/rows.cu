// The kernels around the sweeps of recurrent layers: between the caller's layouts and packed rows, states that pass
// through, transposes, and sums over rows.
// SPDX-License-Identifier: Apache-2.0
//
// All are bound by memory and small beside the products; neighbours go side by side, those that read the most in
// vectors of 16 bytes where these are aligned. Sums over rows are made of kRnnSumSplits parts, each in the order of its
// rows, and the parts are added in order.

#include <cstdint>
#include <cstring>

#include "core/launch/launch.hpp"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/rnn/pads.hpp"
#include "kernels/rnn/step.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 8192;
constexpr int kVectorBytes = 16;

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(tile::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

__device__ __forceinline__ std::int64_t first_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ __forceinline__ std::int64_t index_step() { return std::int64_t{gridDim.x} * blockDim.x; }

// Every place and step of the whole rectangle; rows of places whose sequence is over are skipped, or filled.
template <class T, bool kScatter>
__global__ void __launch_bounds__(kThreads)
    rnn_copy_kernel(const __grid_constant__ RnnCopy copy, const T* __restrict__ from, T* __restrict__ to) {
  const std::int64_t count = std::int64_t{copy.rows.steps} * copy.rows.batch * copy.width;
  const T fill = tile::narrow<T>(static_cast<tile::Compute<T>>(copy.fill));
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::int64_t cell = i / copy.width;
    const auto j = static_cast<std::int32_t>(i - cell * copy.width);
    const auto t = static_cast<std::int32_t>(cell / copy.rows.batch);
    const auto place = static_cast<std::int32_t>(cell - std::int64_t{t} * copy.rows.batch);
    const std::int32_t n = copy.rows.device_order != nullptr ? copy.rows.device_order[place] : place;
    const bool there = copy.rows.device_lengths == nullptr || t < copy.rows.device_lengths[place];
    const std::int64_t first = copy.rows.device_offsets != nullptr ? copy.rows.device_offsets[there ? t : 0]
                                                                   : std::int64_t{t} * copy.rows.batch;
    const std::int64_t row = (first + place) * copy.width + j;
    const std::int64_t at = t * copy.step + n * copy.sequence + j;
    if constexpr (kScatter) {
      if (there) {
        to[at] = from[row];
      } else if (copy.fills) {
        to[at] = fill;
      }
    } else if (there) {
      to[row] = from[at];
    }
  }
}

constexpr int kUploaded = 900;
struct Uploaded {
  std::int32_t values[kUploaded];
};
__global__ void rnn_upload_kernel(const __grid_constant__ Uploaded from, std::int32_t* to, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) to[i] = from.values[i];
}

// The step of a row: found by bisection where sequences are of unequal length.
__device__ __forceinline__ std::int32_t step_of_row(const RnnRows& rows, std::int64_t row) {
  if (rows.device_offsets == nullptr) return static_cast<std::int32_t>(row / rows.batch);
  std::int32_t low = 0;
  std::int32_t high = rows.steps;
  while (high - low > 1) {
    const std::int32_t middle = (low + high) / 2;
    (rows.device_offsets[middle] <= row ? low : high) = middle;
  }
  return low;
}

// V elements that are read and written together.
template <class T, int V>
struct alignas(V * sizeof(T)) Several {
  T values[V];
};

// V elements from anywhere, of which `valid` are there; zeros are for the others. 16 bits: in words of 32, of which the
// first one holds the first element, perhaps with the one before it.
template <class T, int V>
__device__ __forceinline__ Several<T, V> gathered(const T* from, std::int64_t valid) {
  Several<T, V> vector = {};
  if constexpr (sizeof(T) == 2 && V > 1) {
    if (valid > V) {
      const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(from);
      const auto* const words = reinterpret_cast<const std::uint32_t*>(at & ~std::uintptr_t{3});
      const unsigned shift = at & 2 ? 16 : 0;
      std::uint32_t word[V / 2 + 1];
#pragma unroll
      for (int i = 0; i < V / 2; ++i) word[i] = words[i];
      word[V / 2] = shift != 0 ? words[V / 2] : 0;
      std::uint32_t shifted[V / 2];
#pragma unroll
      for (int i = 0; i < V / 2; ++i) shifted[i] = __funnelshift_r(word[i], word[i + 1], shift);
#pragma unroll
      for (int i = 0; i < V / 2; ++i) {
        vector.values[2 * i].bits = static_cast<std::uint16_t>(shifted[i]);
        vector.values[2 * i + 1].bits = static_cast<std::uint16_t>(shifted[i] >> 16);
      }
      return vector;
    }
  }
#pragma unroll
  for (int i = 0; i < V; ++i) {
    if (i < valid) vector.values[i] = from[i];
  }
  return vector;
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) rnn_pad_kernel(const __grid_constant__ RnnPads pads) {
  ptx::griddepcontrol_launch_dependents();
  const RnnPad& pad = pads.pad[blockIdx.y];
  const auto vectors = static_cast<std::uint32_t>(pad.to_width / V);
  const auto x = static_cast<std::uint32_t>(threadIdx.x);
  // A block takes in whole rows, or a part of one.
  const std::uint32_t rows_at_once = vectors < kThreads ? kThreads / vectors : 1;
  const std::uint32_t row_in_block = vectors < kThreads ? x / vectors : 0;
  if (row_in_block >= rows_at_once) return;
  const std::uint32_t step = vectors < kThreads ? vectors : kThreads;
  for (std::int64_t row = std::int64_t{blockIdx.x} * rows_at_once + row_in_block; row < pad.rows;
       row += std::int64_t{gridDim.x} * rows_at_once) {
    const T* const from = static_cast<const T*>(pad.from) + row * pad.from_row;
    T* const to = static_cast<T*>(pad.to) + row * pad.to_row;
    for (std::uint32_t i = x % step; i < vectors; i += step) {
      const std::int64_t j = std::int64_t{i} * V;
      *reinterpret_cast<Several<T, V>*>(to + j) = gathered<T, V>(from + j, pad.width - j);
    }
  }
}

// kGathers: rows of h are not whole vectors.
template <class T, int V, bool kGathers>
__global__ void __launch_bounds__(kThreads)
    rnn_previous_kernel(const __grid_constant__ RnnPrevious previous, std::int64_t rows, T* all, std::int64_t to_row) {
  using Vector = Several<T, V>;
  ptx::griddepcontrol_launch_dependents();
  const RnnLayer& l = previous.layer;
  const RnnDirection& d = previous.lane[blockIdx.y];
  T* const to = all + blockIdx.y * rows * to_row;
  const T* const y = static_cast<const T*>(d.y);
  const T* const hx = static_cast<const T*>(d.hx);
  const auto offset = [&](std::int32_t t) {
    return l.rows.device_offsets != nullptr ? std::int64_t{l.rows.device_offsets[t]} : std::int64_t{t} * l.rows.batch;
  };
  const std::int64_t vectors = to_row / V;
  for (std::int64_t i = first_index(); i < rows * vectors; i += index_step()) {
    const std::int64_t row = i / vectors;
    const std::int64_t j = (i - row * vectors) * V;
    const RnnStep s = rnn_step(l.rows, d.downwards, step_of_row(l.rows, row), offset);
    const auto place = static_cast<std::int32_t>(row - s.first);
    const T* from = nullptr;
    if (place < s.previous_rows) {
      from = y + (s.previous_first + place) * l.y_row;
    } else if (hx != nullptr) {
      from = hx + (l.rows.device_order != nullptr ? l.rows.device_order[place] : place) * std::int64_t{l.width};
    }
    Vector vector = {};
    if constexpr (kGathers) {
      if (from != nullptr) vector = gathered<T, V>(from + j, l.width - j);
    } else {
      if (from != nullptr) vector = *reinterpret_cast<const Vector*>(from + j);
    }
    *reinterpret_cast<Vector*>(to + i * V) = vector;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    rnn_transpose_kernel(const T* __restrict__ from, std::int64_t rows, std::int64_t columns, T* __restrict__ to) {
  __shared__ T block[32][33];
  const std::int64_t column0 = std::int64_t{blockIdx.x} * 32;
  const int x = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t row0 = std::int64_t{blockIdx.y} * 32; row0 < rows; row0 += std::int64_t{gridDim.y} * 32) {
    for (int y = static_cast<int>(threadIdx.x) / 32; y < 32; y += kThreads / 32) {
      if (row0 + y < rows && column0 + x < columns) block[y][x] = from[(row0 + y) * columns + column0 + x];
    }
    __syncthreads();
    for (int y = static_cast<int>(threadIdx.x) / 32; y < 32; y += kThreads / 32) {
      if (column0 + y < columns && row0 + x < rows) to[(column0 + y) * rows + row0 + x] = block[x][y];
    }
    __syncthreads();
  }
}

// Places from `first` on have no step.
template <class T>
__global__ void __launch_bounds__(kThreads)
    rnn_pass_kernel(const __grid_constant__ RnnLayer l, bool backward, std::int32_t first) {
  const RnnDirection& d = l.direction[blockIdx.y];
  const auto pass = [&](const void* from, void* to, std::int32_t width) {
    if (to == nullptr) return;
    const std::int64_t count = std::int64_t{l.rows.batch - first} * width;
    for (std::int64_t i = first_index(); i < count; i += index_step()) {
      const std::int64_t at = l.rows.device_order[first + i / width] * std::int64_t{width} + i % width;
      static_cast<T*>(to)[at] =
          from != nullptr ? static_cast<const T*>(from)[at] : tile::narrow<T>(tile::Compute<T>(0));
    }
  };
  pass(backward ? d.dhy : d.hx, backward ? d.dhx : d.hy, l.width);
  if (l.cell == RnnCell::lstm) pass(backward ? d.dcy : d.cx, backward ? d.dcx : d.cy, l.units);
}

// A block for 32 V columns and a part of the rows; 8 rows at a time meet in shared memory in a fixed order.
template <class T, int V>
__global__ void __launch_bounds__(kThreads) rnn_sum_parts_kernel(const __grid_constant__ RnnColumnSums sums) {
  using C = tile::Compute<T>;
  using Vector = Several<T, V>;
  __shared__ C meeting[8][V][32];
  const int x = static_cast<int>(threadIdx.x) % 32;
  const int y = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t per_part = (sums.rows + kRnnSumSplits - 1) / kRnnSumSplits;
  const std::int64_t begin = blockIdx.y * per_part;
  const std::int64_t end = begin + per_part < sums.rows ? begin + per_part : sums.rows;
  const int column = (static_cast<int>(blockIdx.x) * 32 + x) * V;
  C sum[V] = {};
  if (column < sums.columns) {
    const T* const from = static_cast<const T*>(sums.lane[blockIdx.z].matrix) + column;
#pragma unroll 8
    for (std::int64_t row = begin + y; row < end; row += 8) {
      const Vector vector = *reinterpret_cast<const Vector*>(from + row * sums.stride);
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] += tile::widen<C>(vector.values[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < V; ++i) meeting[y][i][x] = sum[i];
  __syncthreads();
  C* const to = static_cast<C*>(sums.partials) + (std::int64_t{blockIdx.z} * kRnnSumSplits + blockIdx.y) * sums.columns;
  for (int i = y; i < V; i += 8) {
    if (column >= sums.columns) break;
    C total = meeting[0][i][x];
    for (int part = 1; part < 8; ++part) total += meeting[part][i][x];
    to[column + i] = total;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) rnn_sum_finish_kernel(const __grid_constant__ RnnColumnSums sums) {
  using C = tile::Compute<T>;
  const int outputs = sums.columns - sums.skip;
  const RnnColumnSums::Lane& lane = sums.lane[blockIdx.y];
  const auto total = [&](int column) {
    C sum = C(0);
    for (int part = 0; part < kRnnSumSplits; ++part) {
      sum += static_cast<const C*>(
          sums.partials)[(std::int64_t{blockIdx.y} * kRnnSumSplits + part) * sums.columns + column];
    }
    return sum;
  };
  const auto put = [&](void* out, int column, C sum) {
    if (out == nullptr) return;
    T* const to = static_cast<T*>(out) + column;
    *to = tile::narrow<T>(sums.adds ? sum + tile::widen<C>(*to) : sum);
  };
  const auto column = static_cast<int>(first_index());
  if (column >= outputs) return;
  put(lane.out, column, total(column));
  put(lane.out2, column, total(sums.skip > 0 && column >= sums.skip_from ? column + sums.skip : column));
}

template <class T>
__global__ void __launch_bounds__(kThreads) rnn_gate_sum_kernel(const __grid_constant__ RnnGateSum sum) {
  using C = tile::Compute<T>;
  const std::int64_t count = sum.rows * sum.units;
  T* const to = static_cast<T*>(sum.to);
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::int64_t row = i / sum.units;
    const T* const from = static_cast<const T*>(sum.gates) + row * sum.row_stride + (i - row * sum.units);
    C total = sum.adds ? tile::widen<C>(to[i]) : C(0);
    for (int g = 0; g < sum.gate_count; ++g) total += tile::widen<C>(from[std::int64_t{g} * sum.units]);
    to[i] = tile::narrow<T>(total);
  }
}

__global__ void __launch_bounds__(kThreads) rnn_slices_kernel(const __grid_constant__ RnnSlices slices) {
  for (std::int64_t i = first_index(); i < slices.count; i += index_step()) {
    float sum = slices.adds ? slices.to[i] : 0.0f;
#pragma unroll 4
    for (int k = 0; k < slices.slices; ++k) sum += slices.from[k * slices.stride + i];
    slices.to[i] = sum;
  }
}

template <bool kScatter>
void launch_copy(const RnnCopy& copy, const void* from, void* to, cudaStream_t stream) {
  const std::int64_t count = std::int64_t{copy.rows.steps} * copy.rows.batch * copy.width;
  tile::with_element_type(copy.type, [&]<class T>() {
    cuda::launch_kernel(rnn_copy_kernel<T, kScatter>, {blocks_for(count), kThreads}, stream, copy,
                        static_cast<const T*>(from), static_cast<T*>(to));
  });
}

bool is_of_vectors(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % kVectorBytes == 0; }

std::int64_t row_count(const RnnRows& rows) {
  return rows.offsets != nullptr ? rows.offsets[rows.steps] : std::int64_t{rows.steps} * rows.batch;
}

}  // namespace

void launch_rnn_gather(const RnnCopy& copy, const void* from, void* rows, CUstream_st* stream) {
  launch_copy<false>(copy, from, rows, stream);
}
void launch_rnn_scatter(const RnnCopy& copy, const void* rows, void* to, CUstream_st* stream) {
  launch_copy<true>(copy, rows, to, stream);
}

void launch_rnn_upload(const std::int32_t* from, std::int64_t count, std::int32_t* to, CUstream_st* stream) {
  while (count > 0) {
    Uploaded piece;
    const auto size = static_cast<int>(tile::least<std::int64_t>(count, kUploaded));
    std::memcpy(piece.values, from, static_cast<std::size_t>(size) * sizeof(std::int32_t));
    cuda::launch_kernel(rnn_upload_kernel, {1, kThreads}, stream, piece, to, size);
    from += size;
    to += size;
    count -= size;
  }
}

void launch_rnn_previous(const RnnPrevious& previous, void* to, std::int64_t to_row, CUstream_st* stream) {
  const RnnLayer& l = previous.layer;
  const std::int64_t rows = row_count(l.rows);
  tile::with_element_type(l.type, [&]<class T>() {
    constexpr int kVector = kVectorBytes / static_cast<int>(sizeof(T));
    const bool to_vectors = to_row % kVector == 0 && is_of_vectors(to);
    bool vectors = to_vectors && l.width % kVector == 0 && l.y_row % kVector == 0;
    for (int i = 0; i < previous.lanes; ++i) {
      vectors = vectors && is_of_vectors(previous.lane[i].y) && is_of_vectors(previous.lane[i].hx);
    }
    const dim3 blocks(blocks_for(rows * to_row / (to_vectors ? kVector : 1)), static_cast<unsigned>(previous.lanes));
    cuda::launch_kernel(vectors      ? rnn_previous_kernel<T, kVector, false>
                        : to_vectors ? rnn_previous_kernel<T, kVector, true>
                                     : rnn_previous_kernel<T, 1, false>,
                        {blocks, kThreads}, stream, previous, rows, static_cast<T*>(to), to_row);
  });
}

void launch_rnn_pad(const RnnPad& pad, CUstream_st* stream) { launch_rnn_pads({.count = 1, .pad = {pad}}, stream); }

void launch_rnn_pads(const RnnPads& pads, CUstream_st* stream) {
  if (pads.count == 0) return;
  tile::with_element_type(pads.pad[0].type, [&]<class T>() {
    if constexpr (sizeof(T) == 2) {
      constexpr int kVector = kVectorBytes / static_cast<int>(sizeof(T));
      std::int64_t most = 0;
      for (int i = 0; i < pads.count; ++i) {
        most = tile::greatest(most, pads.pad[i].rows * pads.pad[i].to_width / kVector);
      }
      cuda::launch_kernel(rnn_pad_kernel<T, kVector>,
                          {dim3(blocks_for(most), static_cast<unsigned>(pads.count)), kThreads}, stream, pads);
    }
  });
}

void launch_rnn_transpose(tile::ElementType type, const void* from, std::int64_t rows, std::int64_t columns, void* to,
                          CUstream_st* stream) {
  const dim3 blocks(static_cast<unsigned>((columns + 31) / 32),
                    static_cast<unsigned>(tile::least<std::int64_t>((rows + 31) / 32, 65535)));
  tile::with_element_type(type, [&]<class T>() {
    cuda::launch_kernel(rnn_transpose_kernel<T>, {blocks, kThreads}, stream, static_cast<const T*>(from), rows, columns,
                        static_cast<T*>(to));
  });
}

void launch_rnn_pass(const RnnLayer& layer, bool backward, CUstream_st* stream) {
  if (layer.rows.offsets == nullptr) return;
  const std::int32_t first = layer.rows.steps > 0 ? layer.rows.offsets[1] : 0;
  if (first >= layer.rows.batch) return;
  const std::int64_t count = std::int64_t{layer.rows.batch - first} * tile::greatest(layer.units, layer.width);
  const dim3 blocks(blocks_for(count), static_cast<unsigned>(layer.directions));
  tile::with_element_type(layer.type, [&]<class T>() {
    cuda::launch_kernel(rnn_pass_kernel<T>, {blocks, kThreads}, stream, layer, backward, first);
  });
}

void launch_rnn_column_sums(const RnnColumnSums& sums, CUstream_st* stream) {
  const auto lanes = static_cast<unsigned>(sums.lanes);
  tile::with_element_type(sums.type, [&]<class T>() {
    constexpr int kVector = kVectorBytes / static_cast<int>(sizeof(T));
    bool vectors = sums.columns % kVector == 0 && sums.stride % kVector == 0;
    for (unsigned i = 0; i < lanes; ++i) vectors = vectors && is_of_vectors(sums.lane[i].matrix);
    const unsigned columns = vectors ? 32 * kVector : 32;
    const dim3 blocks((static_cast<unsigned>(sums.columns) + columns - 1) / columns, kRnnSumSplits, lanes);
    cuda::launch_kernel(vectors ? rnn_sum_parts_kernel<T, kVector> : rnn_sum_parts_kernel<T, 1>, {blocks, kThreads},
                        stream, sums);
    cuda::launch_kernel(rnn_sum_finish_kernel<T>, {dim3(blocks_for(sums.columns), lanes), kThreads}, stream, sums);
  });
}

void launch_rnn_slices(const RnnSlices& slices, CUstream_st* stream) {
  cuda::launch_kernel(rnn_slices_kernel, {blocks_for(slices.count), kThreads}, stream, slices);
}

void launch_rnn_gate_sum(const RnnGateSum& sum, CUstream_st* stream) {
  tile::with_element_type(sum.type, [&]<class T>() {
    cuda::launch_kernel(rnn_gate_sum_kernel<T>, {blocks_for(sum.rows * sum.units), kThreads}, stream, sum);
  });
}

}  // namespace gpudnn::kernels
