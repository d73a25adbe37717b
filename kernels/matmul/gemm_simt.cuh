// The general matrix product: d = epilogue(a b) for any strides, any types, any GPU, without tensor cores or workspace.
//
// A block of 256 threads makes a tile of kM x kN results of one batch. Over k it goes in steps of 16: each thread loads
// its vectors of four neighbours of both operands into registers (one load where they are contiguous, aligned and
// within the matrix, else four, with zeros beyond the edges), and while those are on their way multiplies the k tile
// that lies in shared memory. There operands lie as the type of the sums, k outermost, so that a thread reads the rows
// and columns of its kTm x kTn results as vectors. Two k tiles take turns; one barrier a step separates them.
//
// At the end the results pass through shared memory, 16 rows of the tile at a time, so that the epilogue's code exists
// once, whatever it does, and stores whole rows. A launcher whose d is contiguous along m swaps a and b.
//
// Sums run over k in order, in float, double or 32-bit integers (which wrap); the epilogue computes in float, or in
// double for doubles and integers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "kernels/matmul/gemm_simt.hpp"
#include "kernels/matmul/gemm_tile.cuh"

namespace gpudnn::kernels::matmul {

// T: storage of the operands; C: the sums; kM x kN: the tile; kTm x kTn: of one thread.
template <class Operand, class Sums, int kRows, int kColumns, int kThreadRows, int kThreadColumns>
struct GemmSimtConfig {
  using T = Operand;
  using C = Sums;
  using E = std::conditional_t<std::is_same_v<Sums, float>, float, double>;
  static constexpr int kM = kRows;
  static constexpr int kN = kColumns;
  static constexpr int kTm = kThreadRows;
  static constexpr int kTn = kThreadColumns;
  static constexpr int kThreadsAcross = kN / kTn;
  static constexpr int kThreadsDown = kM / kTm;
  static_assert(kThreadsAcross * kThreadsDown == kGemmThreads, "the threads' results make up the tile");
  static_assert(kTn % 4 == 0 && (kTm == 1 || kTm % 4 == 0), "threads read vectors of four");
};

template <class Config>
struct alignas(16) GemmSimtShared {
  using C = typename Config::C;
  using E = typename Config::E;
  static constexpr int kPad = 4;  // keeps vectors aligned; neighbours in k are in other banks
  struct Operands {
    C a[2][kGemmSimtDepth][Config::kM + kPad];
    C b[2][kGemmSimtDepth][Config::kN + kPad];
  };
  union {
    Operands operands;
    E results[Config::kThreadsDown][Config::kN + kPad];
  };
};

// One operand's k tile on its way: kRows rows of 16 elements, in vectors of four along one direction or the other.
template <class T, int kRows>
struct OperandTile {
  static constexpr int kVectors = kRows * kGemmSimtDepth / 4;
  static constexpr int kEach = (kVectors + kGemmThreads - 1) / kGemmThreads;

  Vector4<T> vectors[kEach];

  // The row and the k of vector `i` of this thread; false if there is none.
  static __device__ __forceinline__ bool place(const GemmOperand& o, int i, int* row, int* k) {
    const int v = static_cast<int>(threadIdx.x) + i * kGemmThreads;
    constexpr int kAlongK = kGemmSimtDepth / 4;
    constexpr int kAlongRows = kRows / 4;
    *row = o.along_k ? v / kAlongK : v % kAlongRows * 4;
    *k = o.along_k ? v % kAlongK * 4 : v / kAlongRows;
    return kVectors % kGemmThreads == 0 || v < kVectors;
  }

  // From `base`, where the tile starts; `rows` and `depth` are left from there on.
  __device__ __forceinline__ void load(const GemmOperand& o, const T* base, int rows, int depth) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int row, k;
      if (!place(o, i, &row, &k)) break;
      const T* const from = base + row * o.row_stride + k * o.k_stride;
      const int rows_here = rows - row;
      const int depth_here = depth - k;
      const bool inside = o.along_k ? rows_here > 0 && depth_here > 3 : depth_here > 0 && rows_here > 3;
      if (inside && o.vectors) {
        vectors[i] = *reinterpret_cast<const Vector4<T>*>(from);
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool there = o.along_k ? rows_here > 0 && depth_here > j : depth_here > 0 && rows_here > j;
        vectors[i].data[j] = there ? from[j * (o.along_k ? o.k_stride : o.row_stride)] : T{};
      }
    }
  }

  template <class C, int kWidth>
  __device__ __forceinline__ void store(const GemmOperand& o, C (&to)[kGemmSimtDepth][kWidth]) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int row, k;
      if (!place(o, i, &row, &k)) break;
      C values[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) values[j] = widen<C>(vectors[i].data[j], o.type);
      if (o.along_k) {
#pragma unroll
        for (int j = 0; j < 4; ++j) to[k + j][row] = values[j];
      } else {
        *reinterpret_cast<Vector4<C>*>(&to[k][row]) = {values[0], values[1], values[2], values[3]};
      }
    }
  }
};

// Thread `t` of a direction has results t * 4 to t * 4 + 3 of each of its groups, or result t where it has one.
template <int kCount, int kThreads>
__device__ __forceinline__ int result_place(int t, int i) {
  constexpr int kWidth = kCount < 4 ? kCount : 4;
  return i / kWidth * (kWidth * kThreads) + t * kWidth + i % kWidth;
}

template <class C, int kCount, int kThreads>
__device__ __forceinline__ void read_results(const C* line, int t, C (&values)[kCount]) {
  if constexpr (kCount < 4) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = line[result_place<kCount, kThreads>(t, i)];
  } else {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const auto four = *reinterpret_cast<const Vector4<C>*>(line + result_place<kCount, kThreads>(t, i));
#pragma unroll
      for (int j = 0; j < 4; ++j) values[i + j] = four.data[j];
    }
  }
}

template <class Config>
__device__ __forceinline__ void multiply_tile(const GemmParams& p, const GemmTile& t,
                                              typename GemmSimtShared<Config>::Operands& shared,
                                              typename Config::C (&sums)[Config::kTm][Config::kTn]) {
  using T = typename Config::T;
  using C = typename Config::C;
  const int tx = static_cast<int>(threadIdx.x) % Config::kThreadsAcross;
  const int ty = static_cast<int>(threadIdx.x) / Config::kThreadsAcross;
  const int rows = clamped(t.m_end - t.m0, Config::kM);
  const int columns = clamped(t.n_end - t.n0, Config::kN);
  if (rows == 0 || columns == 0) return;
  const T* a = operand_start<T>(p.a, t, t.m0);
  const T* b = operand_start<T>(p.b, t, t.n0);
  OperandTile<T, Config::kM> next_a;
  OperandTile<T, Config::kN> next_b;
  int turn = 0;
  next_a.load(p.a, a, rows, clamped(t.k_end, kGemmSimtDepth));
  next_b.load(p.b, b, columns, clamped(t.k_end, kGemmSimtDepth));
  next_a.store(p.a, shared.a[0]);
  next_b.store(p.b, shared.b[0]);
  __syncthreads();
  for (std::int64_t left = t.k_end; left > 0; left -= kGemmSimtDepth, turn ^= 1) {
    const bool more = left > kGemmSimtDepth;
    if (more) {
      a += kGemmSimtDepth * p.a.k_stride;
      b += kGemmSimtDepth * p.b.k_stride;
      const int depth = clamped(left - kGemmSimtDepth, kGemmSimtDepth);
      next_a.load(p.a, a, rows, depth);
      next_b.load(p.b, b, columns, depth);
    }
#pragma unroll
    for (int k = 0; k < kGemmSimtDepth; ++k) {
      C of_a[Config::kTm];
      C of_b[Config::kTn];
      read_results<C, Config::kTm, Config::kThreadsDown>(shared.a[turn][k], ty, of_a);
      read_results<C, Config::kTn, Config::kThreadsAcross>(shared.b[turn][k], tx, of_b);
#pragma unroll
      for (int i = 0; i < Config::kTm; ++i) {
#pragma unroll
        for (int j = 0; j < Config::kTn; ++j) sums[i][j] += of_a[i] * of_b[j];
      }
    }
    if (more) {
      next_a.store(p.a, shared.a[turn ^ 1]);
      next_b.store(p.b, shared.b[turn ^ 1]);
    }
    __syncthreads();
  }
}

// Takes the sums apart row by row: each turn the first row of every thread goes to shared memory, and the others move
// up.
template <class Config>
__device__ __forceinline__ std::uint32_t finish_tile(const GemmParams& p, const GemmTile& t,
                                                     GemmSimtShared<Config>& shared,
                                                     typename Config::C (&sums)[Config::kTm][Config::kTn]) {
  using E = typename Config::E;
  const int tx = static_cast<int>(threadIdx.x) % Config::kThreadsAcross;
  const int ty = static_cast<int>(threadIdx.x) / Config::kThreadsAcross;
  const E alpha = whole_alpha<E>(p);
  std::uint32_t greatest = 0;
#pragma unroll 1
  for (int turn = 0; turn < Config::kTm; ++turn) {
#pragma unroll
    for (int j = 0; j < Config::kTn; ++j) {
      shared.results[ty][result_place<Config::kTn, Config::kThreadsAcross>(tx, j)] = static_cast<E>(sums[0][j]);
    }
#pragma unroll
    for (int i = 0; i + 1 < Config::kTm; ++i) {
#pragma unroll
      for (int j = 0; j < Config::kTn; ++j) sums[i][j] = sums[i + 1][j];
    }
    __syncthreads();
    const auto row_of = [turn](int line) { return result_place<Config::kTm, Config::kThreadsDown>(line, turn); };
    constexpr int kWidth = Config::kN + GemmSimtShared<Config>::kPad;
    const std::uint32_t bits =
        finish_rows<E, Config::kThreadsDown, Config::kN, kWidth>(p, t, &shared.results[0][0], alpha, row_of);
    greatest = bits > greatest ? bits : greatest;
    __syncthreads();
  }
  return greatest;
}

template <class Config>
__global__ __launch_bounds__(kGemmThreads) void gemm_simt(const __grid_constant__ GemmParams p) {
  __shared__ GemmSimtShared<Config> shared;
  const std::int64_t tiles = tile_count<Config>(p);
  std::uint32_t greatest = 0;
  for (std::int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const GemmTile t = tile_of<Config>(p, index);
    typename Config::C sums[Config::kTm][Config::kTn] = {};
    multiply_tile<Config>(p, t, shared.operands, sums);
    const std::uint32_t bits = finish_tile<Config>(p, t, shared, sums);
    greatest = bits > greatest ? bits : greatest;
  }
  merge_amax(p, greatest);
}

// Operands of the type in the tile of that index, which gemm_simt_has.
template <class T, class C>
void launch_gemm_simt_type(const GemmParams& params, int row, unsigned blocks, cudaStream_t stream) {
  const cuda::LaunchConfig config = {.blocks = dim3(blocks), .threads = dim3(kGemmThreads)};
  if constexpr (std::is_same_v<C, float> && !std::is_same_v<T, Byte>) {
    if (row == 0) {
      cuda::launch_kernel(gemm_simt<GemmSimtConfig<T, C, 128, 128, 8, 8>>, config, stream, params);
      return;
    }
  }
  if (row == 2) {
    cuda::launch_kernel(gemm_simt<GemmSimtConfig<T, C, 16, 64, 1, 4>>, config, stream, params);
  } else {
    cuda::launch_kernel(gemm_simt<GemmSimtConfig<T, C, 64, 64, 4, 4>>, config, stream, params);
  }
}

}  // namespace gpudnn::kernels::matmul
