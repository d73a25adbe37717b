// Attention forward of many short sequences, as the windows of vision models have, by mma.sync in 16-bit types: up to
// 64 rows, 64 keys and head dimensions of 64, with bias of any kind.
//
// Such a call is as long as its bytes: 13 KB for each head of a window of 49 rows of 32. A block keeps one head and
// takes its batches one after the other; while one is multiplied the next comes by cp.async. A warp has 16 rows and all
// keys, so the softmax is one step. Bias that all batches share stays in registers, as does what hides columns beyond
// the keys: bias of -inf.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/attention/flash_far_scores.cuh"
#include "kernels/attention/flash_mma_sm80.cuh"
#include "kernels/attention/flash_row_sums.cuh"
#include "kernels/attention/flash_short_sm80.hpp"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/ex2.cuh"

namespace gpudnn::kernels::flash_sm80 {

template <class Element, int kDim_>
struct ShortConfig {
  using T = Element;
  static constexpr int kDim = kDim_;
  static constexpr int kRows = kFlashShortRows;
  static constexpr int kThreads = 2 * kRows;  // a warp for 16 rows
  static constexpr int kBlocks = flash_short_blocks(kDim);
  static constexpr int kTileBytes = kRows * kPanelBytes;
  static constexpr int kStages = 2;
};

template <class C>
struct ShortShared {
  alignas(128) unsigned char q[C::kStages][C::kTileBytes];
  alignas(128) unsigned char k[C::kStages][C::kTileBytes];
  alignas(128) unsigned char v[C::kStages][C::kTileBytes];
};

template <class C>
class Short {
  using T = typename C::T;

 public:
  __device__ __forceinline__ Short(const FlashShortParams& params, ShortShared<C>& memory)
      : p(params),
        shared(memory),
        head_(static_cast<int>(blockIdx.x) % params.problem.heads_q),
        q_(source(params.problem.q, head_, params.problem.dim_qk)),
        k_(source(params.problem.k, head_ / params.group_k, params.problem.dim_qk)),
        v_(source(params.problem.v, head_ / params.group_v, params.problem.dim_v)) {}

  __device__ __forceinline__ void run() {
    // What no copy writes is 0.
    auto* const all = reinterpret_cast<uint4*>(&shared);
    for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(sizeof shared / 16); i += C::kThreads) {
      all[i] = uint4{};
    }
    __syncthreads();
    int batch = static_cast<int>(blockIdx.x) / p.problem.heads_q;
    int stage = 0;
    load(batch, stage);
    ptx::cp_async_commit_group();
    bool reads = true;
#pragma unroll 1
    for (; batch < p.problem.batch; batch += p.step) {
      if (reads) read_added(batch);
      reads = p.adds_anew;
      if (batch + p.step < p.problem.batch) load(batch + p.step, stage ^ 1);
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<1>();
      __syncthreads();
      if (first_row() < p.mask.length_q) make(batch, stage);
      __syncthreads();  // the stage is free
      stage ^= 1;
    }
  }

 private:
  [[nodiscard]] static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  [[nodiscard]] static __device__ __forceinline__ int first_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }
  [[nodiscard]] static __device__ __forceinline__ int row_of(int half) { return first_row() + lane() / 4 + 8 * half; }
  [[nodiscard]] static __device__ __forceinline__ int column() { return lane() % 4 * 2; }

  // What a thread copies of a tensor: chunk `threadIdx.x % kChunks` of every kRowsAtOnce-th row.
  struct Source {
    const std::uint16_t* from;
    std::int64_t step;  // from one of its rows to the next
    bool is_within;     // the head dimension
  };
  static constexpr int kChunks = C::kDim / 8;
  static constexpr int kRowsAtOnce = C::kThreads / kChunks;
  [[nodiscard]] static __device__ __forceinline__ Source source(const AttentionTensor& tensor, int head, int dim) {
    const int row = static_cast<int>(threadIdx.x) / kChunks;
    const int column = static_cast<int>(threadIdx.x) % kChunks * 8;
    return {
        static_cast<const std::uint16_t*>(tensor.data) + head * tensor.strides[1] + row * tensor.strides[2] + column,
        kRowsAtOnce * tensor.strides[2], column < dim};
  }
  // Rows beyond the sequence are zeros that are not read.
  static __device__ __forceinline__ void copy(const Source& source, std::int64_t batch_offset, int valid,
                                              unsigned char* to) {
    if (!source.is_within) return;
    const int first = static_cast<int>(threadIdx.x) / kChunks;
    const std::uint16_t* from = source.from + batch_offset;
    const std::uint32_t base =
        shared_address(to) + swizzled_chunk<C::kRows>(first, static_cast<int>(threadIdx.x) % kChunks);
#pragma unroll
    for (int row = 0; row < C::kRows; row += kRowsAtOnce) {
      ptx::cp_async<16>(base + static_cast<std::uint32_t>(row * kPanelBytes), from, first + row < valid ? 16 : 0);
      from += source.step;
    }
  }
  __device__ __forceinline__ void load(int batch, int stage) const {
    const AttentionParams& a = p.problem;
    const Sequence sequence = sequence_of(p.mask, batch);
    copy(q_, batch * a.q.strides[0], sequence.length_q, shared.q[stage]);
    copy(k_, batch * a.k.strides[0], sequence.length_kv, shared.k[stage]);
    copy(v_, batch * a.v.strides[0], sequence.length_kv, shared.v[stage]);
  }

  // Bias of this thread's scores; -inf beyond the keys.
  __device__ __forceinline__ void read_added(int batch) {
    const AttentionBias& bias = p.problem.bias;
    const Sequence sequence = sequence_of(p.mask, batch);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      const std::int64_t at = bias_offset(bias, batch, head_, row, column());
      const auto set = [&](auto value_of) {
#pragma unroll
        for (int i = 0; i < C::kRows / 4; ++i) {
          const int key = i / 2 * 8 + i % 2;  // from this thread's first
          float& value = added_[i / 2 * 4 + 2 * half + i % 2];
          value = column() + key < sequence.length_kv ? 0.0F : -INFINITY;
          if (value == 0.0F && bias.data != nullptr && row < sequence.length_q) value = value_of(key);
        }
      };
      if (p.bias_is_plain) {
        const T* const from = static_cast<const T*>(bias.data) + at;
        set([&](int key) { return tile::widen<float>(from[key]); });
      } else {
        set([&](int key) {
          return attention_simt::load_element<float>(bias.type, bias.data, at + key * bias.strides[3]);
        });
      }
    }
  }

  __device__ __forceinline__ void make(int batch, int stage) {
    float s[1][C::kRows / 2] = {};
    add_row_products<T, 1, C::kRows, C::kDim, C::kRows, C::kRows>(shared_address(shared.q[stage]), first_row(),
                                                                  shared_address(shared.k[stage]), 0, s);
    const Sequence sequence = sequence_of(p.mask, batch);
    RowSums sums[2];
    softmax(sequence, s[0], sums);
    std::uint32_t weights[1][C::kRows / 16][4];
    to_operand<T, C::kRows>(s[0], weights[0]);
    float out[1][C::kDim / 2] = {};
    add_weighted_rows<T, 1, C::kDim, C::kRows>(weights, shared_address(shared.v[stage]), out);
    write(batch, sequence, sums, out[0]);
  }

  // Scores to probabilities under the rows' maxima; natural units.
  __device__ __forceinline__ void softmax(const Sequence& sequence, float (&s)[C::kRows / 2],
                                          RowSums (&sums)[2]) const {
#pragma unroll
    for (int i = 0; i < C::kRows / 2; ++i) s[i] = fmaf(s[i], p.scale, added_[i]);
    if (p.mask.has_left || p.mask.has_right) hide(sequence, s);
    float bases[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = -INFINITY;
#pragma unroll
      for (int i = 0; i < C::kRows / 8; ++i) most = fmaxf(most, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      sums[half].most = most;
      bases[half] = most == -INFINITY ? 0.0F : most;
    }
    subtract_far<C::kRows>(kLog2E, bases, s);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float base = bases[half] * kLog2E;
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < C::kRows / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = ptx::ex2_approx_ftz(fmaf(score, kLog2E, -base));
          sum += score;
        }
      }
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      sums[half].sum = sum;
    }
  }
  __device__ __forceinline__ void hide(const Sequence& sequence, float (&s)[C::kRows / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int begin = first_column(p.mask, sequence, row_of(half)) - column();
      const int end = end_column(p.mask, sequence, row_of(half)) - column();
#pragma unroll
      for (int i = 0; i < C::kRows / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = 8 * i + e < end && 8 * i + e >= begin ? score : -INFINITY;
        }
      }
    }
  }

  // Four lanes exchange, so that each stores 8 columns at once.
  __device__ __forceinline__ void write(int batch, const Sequence& sequence, const RowSums (&sums)[2],
                                        const float (&out)[C::kDim / 2]) const {
    const AttentionParams& a = p.problem;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      const bool exists = row < p.mask.length_q;
      const bool inside = row < sequence.length_q;
      float factor;
      const RowSums its = add_sink(a, head_, inside ? sums[half] : RowSums{-INFINITY, 0.0F}, &factor);
      if (exists && lane() % 4 == 0) write_sums(a, batch, head_, row, inside, its);
      if (!inside) factor = 0.0F;
      auto* const to = static_cast<std::uint16_t*>(a.o.data) + batch * a.o.strides[0] + head_ * a.o.strides[1] +
                       row * a.o.strides[2];
#pragma unroll
      for (int i = 0; i < C::kDim / 8; i += 4) {
        std::uint32_t words[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const float* const pair = out + 4 * (i + u) + 2 * half;
          words[u] = factor == 0.0F ? 0U : pack_halves<T>(pair[0] * factor, pair[1] * factor);
        }
        transpose_quad(words);
        const int first = 8 * (i + lane() % 4);
        if (exists && first < a.dim_v) *reinterpret_cast<uint4*>(to + first) = {words[0], words[1], words[2], words[3]};
      }
    }
  }

  const FlashShortParams& p;
  ShortShared<C>& shared;
  int head_;
  Source q_, k_, v_;
  float added_[C::kRows / 2];
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocks)
    flash_short_sm80(const __grid_constant__ FlashShortParams p) {
  Short<C>(p, *aligned_shared<ShortShared<C>>()).run();
}

}  // namespace gpudnn::kernels::flash_sm80
