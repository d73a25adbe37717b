// The matrix product on tensor cores by mma.sync, for every GPU from Ampere on: f16, bf16, TF32 and int8, any strides.
//
// A block of 8 warps makes a tile of kM x kN results of one batch, a warp half its rows by a quarter of its columns. A
// k tile is 64 bytes of k: 32 elements of 16 bits, 16 floats, 64 integers. It comes in pieces of 16 bytes along the
// direction in which the operand is contiguous, by cp.async where pieces are aligned, else by single loads that pass
// through registers; what lies beyond the edges is zero. Four stages of shared memory are in flight.
//
// In shared memory an operand that is contiguous along k lies as rows of 64 bytes, one that is contiguous along m or n
// as rows of k. Either way pieces are permuted such that eight of them, as ldmatrix reads them, lie in different banks:
//   rows of k      piece p of row r is at p ^ (r / 2 % 4)
//   lines of rows  piece p of line k is at p ^ (k % 8), of floats, which are read one by one, at p ^ (2 (k % 4))
// ldmatrix moves 16 bytes of a row to four lanes, whatever they hold, so one code serves all types but for the
// transposed one, which knows 16-bit elements alone: floats are read one by one, and integers must be contiguous along
// k.
//
// Floats are cut to TF32 by the instruction. Sums are floats, or 32-bit integers. The epilogue is gemm_tile.cuh's,
// which takes the results from shared memory, 16 rows at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/shared_memory.hpp"
#include "kernels/matmul/gemm_sm80.hpp"
#include "kernels/matmul/gemm_tile.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::matmul {

template <class Operand, class Sums, int kRows, int kColumns>
struct GemmSm80Config {
  using T = Operand;
  using C = Sums;
  using E = std::conditional_t<std::is_same_v<Sums, float>, float, double>;
  static constexpr int kM = kRows;
  static constexpr int kN = kColumns;
  static constexpr int kDepth = kGemmSm80DepthBytes / static_cast<int>(sizeof(T));
  static constexpr int kPiece = 16 / static_cast<int>(sizeof(T));  // elements
  static constexpr int kWarpsDown = 2;
  static constexpr int kWarpsAcross = 4;
  static constexpr int kMBlocks = kM / kWarpsDown / 16;  // of a warp
  static constexpr int kNBlocks = kN / kWarpsAcross / 8;
  static constexpr int kStages = 4;
  static constexpr int kStageBytes = (kM + kN) * kGemmSm80DepthBytes;
  static constexpr int kPad = 4;
  static constexpr int kResultBytes = 16 * (kN + kPad) * static_cast<int>(sizeof(E));
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static_assert(kResultBytes <= kSharedBytes && kNBlocks % 2 == 0, "ldmatrix reads two blocks of columns at a time");
};

// Where a piece of an operand lies in its part of a stage. `row` is along m or n.
template <class T, int kRows>
__device__ __forceinline__ int piece_along_k(int row, int piece) {
  return row * kGemmSm80DepthBytes + (piece ^ (row / 2 % 4)) * 16;
}
template <class T, int kRows>
__device__ __forceinline__ int piece_along_rows(int k, int piece) {
  const int swizzle = sizeof(T) == 2 ? k % 8 : k % 4 * 2;
  return k * kRows * static_cast<int>(sizeof(T)) + (piece ^ swizzle) * 16;
}

// Copies one k tile of an operand to `to`. `rows` and `depth` are left from `base` on.
template <class Config, int kRows>
__device__ __forceinline__ void load_operand(const GemmOperand& o, const typename Config::T* base, int rows, int depth,
                                             unsigned char* to) {
  using T = typename Config::T;
  constexpr int kPieces = kRows * kGemmSm80DepthBytes / 16;
  constexpr int kAlongK = kGemmSm80DepthBytes / 16;
  constexpr int kAlongRows = kRows / Config::kPiece;
#pragma unroll
  for (int i = 0; i < kPieces / kGemmThreads; ++i) {
    const int v = static_cast<int>(threadIdx.x) + i * kGemmThreads;
    const int row = o.along_k ? v / kAlongK : v % kAlongRows * Config::kPiece;
    const int k = o.along_k ? v % kAlongK * Config::kPiece : v / kAlongRows;
    const int at =
        o.along_k ? piece_along_k<T, kRows>(row, v % kAlongK) : piece_along_rows<T, kRows>(k, v % kAlongRows);
    const T* const from = base + row * o.row_stride + k * o.k_stride;
    const int here = o.along_k ? (row < rows ? clamped(depth - k, Config::kPiece) : 0)
                               : (k < depth ? clamped(rows - row, Config::kPiece) : 0);
    if (o.vectors) {
      const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(to + at));
      ptx::cp_async<16>(shared, here > 0 ? from : static_cast<const T*>(o.data),
                        static_cast<std::uint32_t>(here * static_cast<int>(sizeof(T))));
      continue;
    }
    const std::int64_t step = o.along_k ? o.k_stride : o.row_stride;
    struct alignas(16) Piece {
      T data[Config::kPiece];
    } piece;
#pragma unroll
    for (int j = 0; j < Config::kPiece; ++j) piece.data[j] = j < here ? from[j * step] : T{};
    *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(&piece);
  }
}

// 16 rows by one step of k, as the instruction's first operand has them. `step` counts 32 bytes of k.
template <class Config>
__device__ __forceinline__ void read_a(const unsigned char* a, bool along_k, int row, int step,
                                       std::uint32_t (&words)[4]) {
  using T = typename Config::T;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (along_k) {
    const int at = piece_along_k<T, Config::kM>(row + lane % 16, step * 2 + lane / 16);
    return ptx::ldmatrix_x4(static_cast<std::uint32_t>(__cvta_generic_to_shared(a + at)), words);
  }
  if constexpr (sizeof(T) == 2) {
    const int k = step * 16 + lane % 8 + lane / 16 * 8;
    const int at = piece_along_rows<T, Config::kM>(k, (row + lane / 8 % 2 * 8) / 8);
    ptx::ldmatrix_x4_trans(static_cast<std::uint32_t>(__cvta_generic_to_shared(a + at)), words);
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int m = row + lane / 4 + i % 2 * 8;
      const int k = step * 8 + lane % 4 + i / 2 * 4;
      words[i] = *reinterpret_cast<const std::uint32_t*>(a + piece_along_rows<T, Config::kM>(k, m / 4) + m % 4 * 4);
    }
  }
}

// 16 columns by one step of k: the second operand of two instructions, two words each.
template <class Config>
__device__ __forceinline__ void read_b(const unsigned char* b, bool along_k, int column, int step,
                                       std::uint32_t (&words)[4]) {
  using T = typename Config::T;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (along_k) {
    const int at = piece_along_k<T, Config::kN>(column + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2);
    return ptx::ldmatrix_x4(static_cast<std::uint32_t>(__cvta_generic_to_shared(b + at)), words);
  }
  if constexpr (sizeof(T) == 2) {
    const int k = step * 16 + lane % 16;
    const int at = piece_along_rows<T, Config::kN>(k, (column + lane / 16 * 8) / 8);
    ptx::ldmatrix_x4_trans(static_cast<std::uint32_t>(__cvta_generic_to_shared(b + at)), words);
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = column + lane / 4 + i / 2 * 8;
      const int k = step * 8 + lane % 4 + i % 2 * 4;
      words[i] = *reinterpret_cast<const std::uint32_t*>(b + piece_along_rows<T, Config::kN>(k, n / 4) + n % 4 * 4);
    }
  }
}

template <class T, class C>
__device__ __forceinline__ void multiply_add(C (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    ptx::mma_m16n8k16_f16(sums, a, b0, b1);
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {
    ptx::mma_m16n8k16_bf16(sums, a, b0, b1);
  } else if constexpr (std::is_same_v<T, float>) {
    ptx::mma_m16n8k8_tf32(sums, a, b0, b1);
  } else {
    ptx::mma_m16n8k32_s8(sums, a, b0, b1);
  }
}

template <class Config>
__device__ __forceinline__ void multiply_stage(const GemmParams& p, const unsigned char* stage, int warp_row,
                                               int warp_column,
                                               typename Config::C (&sums)[Config::kMBlocks][Config::kNBlocks][4]) {
  const unsigned char* const a = stage;
  const unsigned char* const b = stage + Config::kM * kGemmSm80DepthBytes;
#pragma unroll
  for (int step = 0; step < kGemmSm80DepthBytes / 32; ++step) {
    std::uint32_t of_a[Config::kMBlocks][4];
#pragma unroll
    for (int i = 0; i < Config::kMBlocks; ++i) read_a<Config>(a, p.a.along_k, warp_row + i * 16, step, of_a[i]);
#pragma unroll
    for (int j = 0; j < Config::kNBlocks; j += 2) {
      std::uint32_t of_b[4];
      read_b<Config>(b, p.b.along_k, warp_column + j * 8, step, of_b);
#pragma unroll
      for (int i = 0; i < Config::kMBlocks; ++i) {
        multiply_add<typename Config::T>(sums[i][j], of_a[i], of_b[0], of_b[1]);
        multiply_add<typename Config::T>(sums[i][j + 1], of_a[i], of_b[2], of_b[3]);
      }
    }
  }
}

template <class Config>
__device__ __forceinline__ void multiply_tile_sm80(const GemmParams& p, const GemmTile& t, unsigned char* shared,
                                                   typename Config::C (&sums)[Config::kMBlocks][Config::kNBlocks][4]) {
  using T = typename Config::T;
  const int rows = clamped(t.m_end - t.m0, Config::kM);
  const int columns = clamped(t.n_end - t.n0, Config::kN);
  if (rows == 0 || columns == 0) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / Config::kWarpsAcross * (Config::kM / Config::kWarpsDown);
  const int warp_column = warp % Config::kWarpsAcross * (Config::kN / Config::kWarpsAcross);
  const T* const a = operand_start<T>(p.a, t, t.m0);
  const T* const b = operand_start<T>(p.b, t, t.n0);
  const std::int64_t k_tiles = (t.k_end + Config::kDepth - 1) / Config::kDepth;
  const auto load = [&](std::int64_t k_tile) {
    if (k_tile < k_tiles) {
      unsigned char* const stage = shared + k_tile % Config::kStages * Config::kStageBytes;
      const std::int64_t k = k_tile * Config::kDepth;
      const int depth = clamped(t.k_end - k, Config::kDepth);
      load_operand<Config, Config::kM>(p.a, a + k * p.a.k_stride, rows, depth, stage);
      load_operand<Config, Config::kN>(p.b, b + k * p.b.k_stride, columns, depth,
                                       stage + Config::kM * kGemmSm80DepthBytes);
    }
    ptx::cp_async_commit_group();
  };
  for (int i = 0; i < Config::kStages - 1; ++i) load(i);
  for (std::int64_t i = 0; i < k_tiles; ++i) {
    ptx::cp_async_wait_group<Config::kStages - 2>();
    __syncthreads();  // the stage is there for all, and the one before has been read by all
    load(i + Config::kStages - 1);
    multiply_stage<Config>(p, shared + i % Config::kStages * Config::kStageBytes, warp_row, warp_column, sums);
  }
  ptx::cp_async_wait_group<0>();
  __syncthreads();
}

// Each turn the warps' first 8 rows go to shared memory, and the others move up.
template <class Config>
__device__ __forceinline__ std::uint32_t finish_tile_sm80(
    const GemmParams& p, const GemmTile& t, unsigned char* shared,
    typename Config::C (&sums)[Config::kMBlocks][Config::kNBlocks][4]) {
  using E = typename Config::E;
  constexpr int kWidth = Config::kN + Config::kPad;
  E* const results = reinterpret_cast<E*>(shared);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int line = warp / Config::kWarpsAcross * 8 + lane / 4;
  const int column = warp % Config::kWarpsAcross * (Config::kN / Config::kWarpsAcross) + lane % 4 * 2;
  const E alpha = whole_alpha<E>(p);
  std::uint32_t greatest = 0;
#pragma unroll 1
  for (int turn = 0; turn < Config::kMBlocks * 2; ++turn) {
#pragma unroll
    for (int j = 0; j < Config::kNBlocks; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        results[line * kWidth + column + j * 8 + i] = static_cast<E>(sums[0][j][i]);
#pragma unroll
        for (int r = 0; r < Config::kMBlocks; ++r) {
          sums[r][j][i] = sums[r][j][i + 2];
          if (r + 1 < Config::kMBlocks) sums[r][j][i + 2] = sums[r + 1][j][i];
        }
      }
    }
    __syncthreads();
    const auto row_of = [turn](int l) { return l / 8 * (Config::kM / Config::kWarpsDown) + turn * 8 + l % 8; };
    const std::uint32_t bits = finish_rows<E, 16, Config::kN, kWidth>(p, t, results, alpha, row_of);
    greatest = bits > greatest ? bits : greatest;
    __syncthreads();
  }
  return greatest;
}

template <class Config>
__global__ __launch_bounds__(kGemmThreads) void gemm_sm80(const __grid_constant__ GemmParams p) {
  unsigned char* const shared = tile::dynamic_shared();
  const std::int64_t tiles = tile_count<Config>(p);
  std::uint32_t greatest = 0;
  for (std::int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const GemmTile t = tile_of<Config>(p, index);
    typename Config::C sums[Config::kMBlocks][Config::kNBlocks][4] = {};
    multiply_tile_sm80<Config>(p, t, shared, sums);
    const std::uint32_t bits = finish_tile_sm80<Config>(p, t, shared, sums);
    greatest = bits > greatest ? bits : greatest;
  }
  merge_amax(p, greatest);
}

template <class T, class C>
void launch_gemm_sm80_type(const GemmParams& params, int row, unsigned blocks, cudaStream_t stream) {
  const auto launch = [&]<class Config>() {
    cuda::allow_shared_memory<gemm_sm80<Config>>(Config::kSharedBytes);
    cuda::launch_kernel(gemm_sm80<Config>,
                        {.blocks = dim3(blocks), .threads = dim3(kGemmThreads), .shared_bytes = Config::kSharedBytes},
                        stream, params);
  };
  if (row == 0) return launch.template operator()<GemmSm80Config<T, C, 128, 128>>();
  launch.template operator()<GemmSm80Config<T, C, 64, 64>>();
}

}  // namespace gpudnn::kernels::matmul
