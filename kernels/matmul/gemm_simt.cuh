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

#include "kernels/matmul/activation.hpp"
#include "kernels/matmul/element.cuh"
#include "kernels/matmul/gemm_simt.hpp"
#include "kernels/tile/launch.hpp"

namespace gpudnn::kernels::matmul {

constexpr int kGemmThreads = 256;

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
  std::uint32_t amax;
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

// What a block works on.
struct GemmTile {
  std::int64_t m0, n0;               // where it starts
  std::int64_t outer, inner;         // batch
  std::int64_t m_end, n_end, k_end;  // extents that count
};

__device__ __forceinline__ std::int64_t overridden(const void* values, bool wide, std::int64_t index,
                                                   std::int64_t extent) {
  if (values == nullptr) return extent;
  const std::int64_t value =
      wide ? static_cast<const std::int64_t*>(values)[index] : static_cast<const std::int32_t*>(values)[index];
  return value < 0 ? 0 : value < extent ? value : extent;
}

// Tiles of a batch run down eight rows of tiles before they go on to the right, so that blocks at work at one time
// share rows of a and columns of b in the L2.
template <class Config>
__device__ __forceinline__ GemmTile tile_of(const GemmSimtParams& p, std::int64_t index) {
  const std::int64_t down = (p.m + Config::kM - 1) / Config::kM;
  const std::int64_t across = (p.n + Config::kN - 1) / Config::kN;
  const std::int64_t batch = index / (down * across);
  std::int64_t rest = index % (down * across);
  constexpr std::int64_t kGroup = 8;
  const std::int64_t group = rest / (kGroup * across);
  const std::int64_t in_group = down - group * kGroup < kGroup ? down - group * kGroup : kGroup;
  rest -= group * kGroup * across;
  GemmTile t;
  t.m0 = (group * kGroup + rest % in_group) * Config::kM;
  t.n0 = rest / in_group * Config::kN;
  t.outer = batch / p.inner_batches;
  t.inner = batch % p.inner_batches;
  const std::int64_t which = p.overrides.by_outer ? t.outer : batch;
  t.m_end = overridden(p.overrides.m, p.overrides.wide, which, p.m);
  t.n_end = overridden(p.overrides.n, p.overrides.wide, which, p.n);
  t.k_end = overridden(p.overrides.k, p.overrides.wide, which, p.k);
  return t;
}

__device__ __forceinline__ int clamped(std::int64_t left, int most) {
  return left < 0 ? 0 : left < most ? static_cast<int>(left) : most;
}

template <class T>
__device__ __forceinline__ const T* operand_start(const GemmOperand& o, const GemmTile& t, std::int64_t row) {
  return static_cast<const T*>(o.data) + t.outer / o.repeat[0] * o.batch_stride[0] +
         t.inner / o.repeat[1] * o.batch_stride[1] + row * o.row_stride;
}

template <class Config>
__device__ __forceinline__ void multiply_tile(const GemmSimtParams& p, const GemmTile& t,
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

__device__ __forceinline__ std::int64_t matrix_start(const GemmMatrix& x, const GemmTile& t) {
  return t.outer * x.batch_stride[0] + t.inner * x.batch_stride[1];
}

// Four neighbours of a row: from sums to d. Returns the greatest magnitude before the scale of d, by its bits as a
// float, which order magnitudes with NaN above all.
template <class E>
__device__ __forceinline__ std::uint32_t finish_four(const GemmSimtParams& p, const GemmTile& t, std::int64_t m,
                                                     std::int64_t n, E alpha, E (&v)[4]) {
  const int in_d = clamped(p.n - n, 4);
  const int counted = m < t.m_end ? clamped(t.n_end - n, 4) : 0;
  std::uint32_t greatest = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= counted) {
      v[i] = static_cast<E>(p.padding);
      continue;
    }
    v[i] *= alpha;
    if (p.c.data != nullptr) {
      const std::int64_t at = matrix_start(p.c, t) + m * p.c.m_stride + (n + i) * p.c.n_stride;
      v[i] += static_cast<E>(p.beta) * load_element<E>(p.c.type, p.c.data, at);
    }
    if (p.bias.data != nullptr) {
      const std::int64_t at = matrix_start(p.bias, t) + m * p.bias.m_stride + (n + i) * p.bias.n_stride;
      v[i] += load_element<E>(p.bias.type, p.bias.data, at);
    }
  }
#pragma unroll 1
  for (int turn = 0; p.activation != Activation::identity && turn < 4; ++turn) {  // one copy of the functions' code
    const E value = turn < counted ? activate(p.activation, p.activation_params, v[0]) : v[0];
    v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = value;
  }
  const E scale = p.scale_d != nullptr ? static_cast<E>(*p.scale_d) : E(1);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= counted) continue;
    const std::uint32_t bits = __float_as_uint(static_cast<float>(v[i])) & 0x7fffffffu;
    greatest = bits > greatest ? bits : greatest;
    if (p.scale_d != nullptr) v[i] *= scale;
  }
  const std::int64_t at = matrix_start(p.d, t) + m * p.d.m_stride + n * p.d.n_stride;
  store_elements(p.d.type, p.d.data, at, p.d.n_stride, p.has_padding ? in_d : counted, p.d.vectors, v);
  return greatest;
}

// Takes the sums apart row by row: each turn the first row of every thread goes to shared memory, and the others move
// up.
template <class Config>
__device__ __forceinline__ std::uint32_t finish_tile(const GemmSimtParams& p, const GemmTile& t,
                                                     GemmSimtShared<Config>& shared,
                                                     typename Config::C (&sums)[Config::kTm][Config::kTn]) {
  using E = typename Config::E;
  const int tx = static_cast<int>(threadIdx.x) % Config::kThreadsAcross;
  const int ty = static_cast<int>(threadIdx.x) / Config::kThreadsAcross;
  E alpha = static_cast<E>(p.alpha);
  if (p.descale_a != nullptr) alpha *= static_cast<E>(*p.descale_a);
  if (p.descale_b != nullptr) alpha *= static_cast<E>(*p.descale_b);
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
    constexpr int kFours = Config::kThreadsDown * Config::kN / 4;
#pragma unroll 1
    for (int f = static_cast<int>(threadIdx.x); f < kFours; f += kGemmThreads) {
      const int line = f / (Config::kN / 4);
      const int column = f % (Config::kN / 4) * 4;
      const std::int64_t m = t.m0 + result_place<Config::kTm, Config::kThreadsDown>(line, turn);
      const std::int64_t n = t.n0 + column;
      if (m >= p.m || n >= p.n) continue;
      const auto four = *reinterpret_cast<const Vector4<E>*>(&shared.results[line][column]);
      E v[4] = {four.data[0], four.data[1], four.data[2], four.data[3]};
      const std::uint32_t bits = finish_four(p, t, m, n, alpha, v);
      greatest = bits > greatest ? bits : greatest;
    }
    __syncthreads();
  }
  return greatest;
}

template <class Config>
__global__ __launch_bounds__(kGemmThreads) void gemm_simt(const __grid_constant__ GemmSimtParams p) {
  __shared__ GemmSimtShared<Config> shared;
  const std::int64_t tiles = p.batches * ((p.m + Config::kM - 1) / Config::kM) * ((p.n + Config::kN - 1) / Config::kN);
  std::uint32_t greatest = 0;
  for (std::int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const GemmTile t = tile_of<Config>(p, index);
    typename Config::C sums[Config::kTm][Config::kTn] = {};
    multiply_tile<Config>(p, t, shared.operands, sums);
    const std::uint32_t bits = finish_tile<Config>(p, t, shared, sums);
    greatest = bits > greatest ? bits : greatest;
  }
  if (p.amax == nullptr) return;
  if (threadIdx.x == 0) shared.amax = 0;
  __syncthreads();
  atomicMax(&shared.amax, greatest);
  __syncthreads();
  // The greatest of all does not depend on their order.
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<std::uint32_t*>(p.amax), shared.amax);
}

// Operands of the type in the tile of that index, which gemm_simt_has.
template <class T, class C>
void launch_gemm_simt_type(const GemmSimtParams& params, int row, unsigned blocks, cudaStream_t stream) {
  const tile::LaunchConfig config = {.blocks = dim3(blocks), .threads = dim3(kGemmThreads)};
  if constexpr (std::is_same_v<C, float> && !std::is_same_v<T, Byte>) {
    if (row == 0) return tile::launch_kernel(gemm_simt<GemmSimtConfig<T, C, 128, 128, 8, 8>>, config, stream, params);
  }
  if (row == 2) return tile::launch_kernel(gemm_simt<GemmSimtConfig<T, C, 16, 64, 1, 4>>, config, stream, params);
  tile::launch_kernel(gemm_simt<GemmSimtConfig<T, C, 64, 64, 4, 4>>, config, stream, params);
}

}  // namespace gpudnn::kernels::matmul
