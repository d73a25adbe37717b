// The complex product on bfloat16 tensor cores (complex_product_sm90.hpp).
//
// Data flow of a block: that of fp32_split_sm90.cuh. A k tile is 16 numbers: 128 rows of 32 floats of A, and 64 rows of
// B in three terms. A consumer's fragments of the real parts, and of the imaginary ones, each meet both halves
// of B's rows, so B is read once for the four real products:
//
//   re += a.re b.re - a.im b.im      im += a.re b.im + a.im b.re
//
// A product of terms is 64 columns wide and there are 24 in a k tile. Sums are those of fp32_split_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/fp32_split/complex_product_sm90.hpp"
#include "kernels/conv/fp32_split/fp32_split_sm90.cuh"
#include "kernels/ptx/wgmma_rs_minus.cuh"

namespace gpudnn::kernels::fp32_split {
namespace {

struct Complex {
  using T = float;
  static constexpr Direction kDirection = Direction::forward;
  static constexpr sm90::TileShape kTile = kComplexShape;
  static constexpr int kBM = kTile.bm;
  static constexpr int kBN = kTile.bn;
  static constexpr int kStages = kTile.stages;
  static constexpr int kCluster = 1;
  static constexpr bool kPingPong = false;
  static constexpr bool kClusterSplitK = false;
  static constexpr bool kIsFilterGradient = false;
  static constexpr bool kStreamK = false;
  static constexpr int kConsumers = kTile.consumers;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kConsumerRegisters = 232;
  static constexpr int kColumnsOfC = kBN;
  static constexpr int kRowElements = sm90::kRowBytes / 4;
  static constexpr int kChunkBytes = sm90::kRowBytes;  // of C on its epilogue
  static constexpr int kChunkElements = kRowElements;
  static constexpr int kBK = kRowElements;
  static constexpr int kRowBlocks = 1;
  static constexpr int kRowsOfB = kComplexRowsOfB;
  static constexpr int kABytes = kBM * sm90::kRowBytes;
  static constexpr int kTermBytes = kRowsOfB * fp32_split::kChunkBytes;
  static constexpr int kBBytes = kTerms * kTermBytes;
  static constexpr int kAreaBytes = 64 * kChunkBytes;
  static constexpr unsigned kThreadsOfBox = 128;
  static constexpr int kTileWarps = 4 * kConsumers;
  static_assert(kTermBytes % 1024 == 0, "terms are whole swizzles");
};

// Sums of a thread: of the real parts, and of the imaginary ones.
template <class I>
using Half = float[I::kBN / 4];

template <class I, bool kIsMinus>
__device__ __forceinline__ void multiply_term(Half<I>& sum, const std::uint32_t (&a)[4], std::uint64_t b, int scale_d) {
  if constexpr (kIsMinus) {
    ptx::wgmma_rs_minus_bf16_n64(sum, a, b);
  } else {
    ptx::wgmma_rs<tile::BFloat16, tile::BFloat16, I::kRowsOfB>(sum, a, b, scale_d);
  }
}

// The products with lower terms, which are small.
template <class I, bool kIsMinus>
__device__ __forceinline__ void multiply_lower(const Fragments& a, std::uint64_t b, int scale_d, Half<I>& sum) {
  constexpr std::uint64_t kTerm = I::kTermBytes >> 4;
  multiply_term<I, kIsMinus>(sum, a.finite, b + 2 * kTerm, scale_d);
  multiply_term<I, kIsMinus>(sum, a.middle, b + kTerm, 1);
  multiply_term<I, kIsMinus>(sum, a.low, b, 1);
  multiply_term<I, kIsMinus>(sum, a.finite, b + kTerm, 1);
  multiply_term<I, kIsMinus>(sum, a.middle, b, 1);
}

// `from`: the thread's first row in the stage. Its 4 numbers lie in two vectors, of two each, and so in the row 8
// below; their parts come in the order of the registers (load_floats).
__device__ __forceinline__ void load_numbers(const unsigned char* from, const int (&vector)[2], float (&re)[8],
                                             float (&im)[8]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float4 upper = *reinterpret_cast<const float4*>(from + vector[i]);
    const float4 lower = *reinterpret_cast<const float4*>(from + vector[i] + 8 * sm90::kRowBytes);
    re[4 * i] = upper.x, re[4 * i + 1] = upper.z, re[4 * i + 2] = lower.x, re[4 * i + 3] = lower.z;
    im[4 * i] = upper.y, im[4 * i + 1] = upper.w, im[4 * i + 2] = lower.y, im[4 * i + 3] = lower.w;
  }
}

// The sums of a work item, of 64 rows of its tile.
template <class I>
__device__ __forceinline__ void add_products(Shared<I>& shared, const Work& work, int row_block, Half<I>& re,
                                             Half<I>& im, tile::PipelineState<I::kStages>* turn) {
#pragma unroll
  for (int i = 0; i < I::kBN / 4; ++i) re[i] = im[i] = 0;
  if (work.k_begin >= work.k_end) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = row_block * 64 + static_cast<int>(threadIdx.x % 128) / 32 * 16 + lane / 4;
  const int vector[2] = {(lane % 4 * 2 ^ (lane / 4)) << 4, ((lane % 4 * 2 + 1) ^ (lane / 4)) << 4};
  constexpr std::uint64_t kImaginary = fp32_split::kChunkBytes / 2 >> 4;  // in a row of B
  Half<I> re_part;
  Half<I> im_part;
  Fragments fragments[2];
  float first[8];
  float second[8];
  const auto load = [&](int stage) {
    load_numbers(shared.a[stage] + first_row * sm90::kRowBytes, vector, first, second);
  };
  tile::wait(&shared.full[turn->stage], turn->parity);
  load(turn->stage);
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const int stage = turn->stage;
    const std::uint64_t b = tile::operand_descriptor<fp32_split::kChunkBytes>(shared.b[stage], 16);
    split_floats(first, &fragments[0]);
    ptx::wgmma_fence();
    multiply_lower<I, false>(fragments[0], b, 0, re_part);
    multiply_lower<I, false>(fragments[0], b + kImaginary, 0, im_part);
    ptx::wgmma_commit_group();
    split_floats(second, &fragments[1]);
    ptx::wgmma_fence();
    multiply_lower<I, true>(fragments[1], b + kImaginary, 1, re_part);
    multiply_lower<I, false>(fragments[1], b, 1, im_part);
    multiply_term<I, false>(re_part, fragments[0].top, b, 1);
    multiply_term<I, false>(im_part, fragments[0].top, b + kImaginary, 1);
    multiply_term<I, true>(re_part, fragments[1].top, b + kImaginary, 1);
    multiply_term<I, false>(im_part, fragments[1].top, b, 1);
    ptx::wgmma_commit_group();
    turn->next();
    if (k + 1 < work.k_end) tile::wait(&shared.full[turn->stage], turn->parity);
    // Behind the last k tile they are whatever the stage holds, and nobody uses them.
    load(turn->stage);
    ptx::wgmma_wait_group<0>();
    sm90::release<I>(shared, stage);
#pragma unroll
    for (int i = 0; i < I::kBN / 4; ++i) {
      re[i] += re_part[i];
      im[i] += im_part[i];
    }
  }
}

// The k tiles of a work item that the consumer has no part in.
template <class I>
__device__ __forceinline__ void pass_over(Shared<I>& shared, const Work& work, tile::PipelineState<I::kStages>* turn) {
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    tile::wait(&shared.full[turn->stage], turn->parity);
    sm90::release<I>(shared, turn->stage);
    turn->next();
  }
}

// kInTurn: batches have up to 64 rows, which are one consumer's, the one's and the other's in turn.
template <class I, bool kInTurn>
__device__ __forceinline__ void consume_complex(const ComplexParams& params, Shared<I>& shared, int consumer) {
  const sm90::Params& p = params.product.gemm;
  tile::PipelineState<I::kStages> turn;
  int area = 0;
  int next = 0;
  const std::uint32_t end = sm90::end_index<I>(p);
  for (std::uint32_t index = sm90::first_index<I>(p); index < end; index = sm90::next_index<I>(p, index)) {
    const Work work = sm90::work_item<I>(p, index);
    if constexpr (kInTurn) {
      next ^= 1;
      if (next == consumer) {
        pass_over(shared, work, &turn);
        continue;
      }
    } else {
      std::uint32_t m = 0;  // tile of the batch
      params.product.m_tiles_of_batch.divmod(work.m, &m);
      if (m * I::kBM + static_cast<std::uint32_t>(consumer) * 64 >= params.rows_of_batch) {
        pass_over(shared, work, &turn);
        continue;
      }
    }
    Half<I> re;
    Half<I> im;
    add_products(shared, work, kInTurn ? 0 : consumer, re, im, &turn);
    // Sums 4j and 4j + 1 of a part are of two numbers, of a row, and the next two of those 8 rows below
    // (complex_row_of).
    float sum[1][I::kBN / 2];
#pragma unroll
    for (int i = 0; i < I::kBN / 4; ++i) {
      const int at = i / 4 * 8 + i % 2 * 4 + i % 4 / 2 * 2;
      sum[0][at] = re[i];
      sum[0][at + 1] = im[i];
    }
    if constexpr (kInTurn) {
      sm90::store_plain<I, I::kBN / I::kChunkElements>(p, shared, work, consumer, 0, 0, sum[0], &area);
    } else {
      sm90::store<I>(p, shared, work, consumer, sum, &area);
    }
  }
  // TMA reads the staging area until then.
  if (threadIdx.x % I::kThreadsOfBox == 0) ptx::bulk_wait_group_read<0>();
}

template <class I, bool kInTurn>
__global__ void __launch_bounds__(I::kThreads, 1) complex_product_sm90(const __grid_constant__ ComplexParams params) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  const sm90::Params& p = params.product.gemm;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  sm90::make_barriers<I>(p, shared, threadIdx.x / 32);
  __syncthreads();
  ptx::griddepcontrol_wait();  // A and B are being made
  if (warp < 4) {
    ptx::setmaxnreg_dec<sm90::kProducerRegisters>();
    if (warp == 0) produce<I>(params.product, shared, 1);
  } else {
    if ((ptx::shared_address(raw) & 1023u) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    consume_complex<I, kInTurn>(params, shared, warp / 4 - 1);
  }
}

template <bool kInTurn>
void launch_kernel(const ComplexParams& params, std::uint32_t blocks, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<Complex>));
  static_assert(kBytes <= 227 * 1024, "shared memory of a block");
  constexpr auto kKernel = &complex_product_sm90<Complex, kInTurn>;
  cuda::allow_shared_memory<kKernel>(kBytes);
  cuda::launch_kernel(kKernel, {blocks, Complex::kThreads, kBytes, 1, true}, stream, params);
}

}  // namespace

void launch_complex(const ComplexParams& params, std::uint32_t blocks, CUstream_st* stream) {
  if (params.rows_of_batch <= 64) {
    launch_kernel<true>(params, blocks, stream);
  } else {
    launch_kernel<false>(params, blocks, stream);
  }
}

}  // namespace gpudnn::kernels::fp32_split
