// What the gather engines' forward kernels do with the scores of 16 rows: options, bounds, softmax, and the results. A
// thread holds of each 8 columns two neighbours of row lane / 4 and of the row 8 below: element 4 i + 2 h + e is column
// 8 i + lane % 4 * 2 + e of the lower (h = 0) or upper row.
//
// Scores in units of log2: y = scale log2(e) q k^T, or with options y = log2(e) (cap tanh(..) + bias + slope (c - r)).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/attention/flash_gather.hpp"
#include "kernels/attention/flash_row_sums.cuh"
#include "kernels/ptx/ex2.cuh"

namespace gpudnn::kernels::flash {

struct GatherTile {
  int batch, head, split, row, batch_head;
  int first, end;           // column tiles of this block
  int first_row, last_row;  // of q, those within the sequence
  Sequence sequence;
};
template <class C>
__device__ __forceinline__ GatherTile gather_tile(const FlashGatherParams& p) {
  GatherTile tile;
  int number = static_cast<int>(blockIdx.x);
  tile.split = number % p.splits;
  number /= p.splits;
  const int section_tiles = p.heads_of_section * p.row_tiles;
  const int section = number / section_tiles;
  const int rest = number - section * section_tiles;
  const int heads = min(p.heads_of_section, p.batch_heads - section * p.heads_of_section);
  tile.batch_head = section * p.heads_of_section + rest % heads;
  tile.row = (p.row_tiles - 1 - rest / heads) * C::kRows;
  tile.batch = tile.batch_head / p.heads;
  tile.head = tile.batch_head % p.heads;
  tile.sequence = sequence_of(p.mask, tile.batch);
  const int end_of_rows = min(tile.row + C::kRows, p.rows) - 1;
  tile.first_row = static_cast<int>(p.packed.quotient(static_cast<std::uint32_t>(tile.row)));
  tile.last_row =
      min(static_cast<int>(p.packed.quotient(static_cast<std::uint32_t>(end_of_rows))), tile.sequence.length_q - 1);
  const int first = first_column(p.mask, tile.sequence, tile.first_row);
  const int end = end_column(p.mask, tile.sequence, tile.last_row);
  tile.first = tile.end = 0;
  if (tile.last_row < tile.first_row || end <= first) return tile;
  const int begin_tile = first / C::kColumns;
  const std::int64_t tiles = (end + C::kColumns - 1) / C::kColumns - begin_tile;
  tile.first = begin_tile + static_cast<int>(tiles * tile.split / p.splits);
  tile.end = begin_tile + static_cast<int>(tiles * (tile.split + 1) / p.splits);
  return tile;
}

// kKeeps: what a row is stays in registers; else it is worked out where it is needed, from a description of the tile in
// shared memory, which the compiler does not read ahead of a barrier.
template <int kColumns, bool kKeeps>
class ForwardRows {
 public:
  // `row`: this lane's first one in the tile.
  __device__ __forceinline__ ForwardRows(const FlashGatherParams& params, const GatherTile& its, int row)
      : p(params), tile(its), lane_(static_cast<int>(threadIdx.x) % 32), row_in_tile_(row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kKeeps) kept_[half] = work_out(half);
      most_[half] = -INFINITY;
      sum_[half] = 0.0F;
    }
    if (kKeeps && p.problem.has_dropout) key_ = dropout_key(p.problem.dropout);
  }

  // Scores to probabilities, dropout included; what was summed before is multiplied by the corrections.
  // `is_cut`: a bound or a length may hide some.
  __device__ __forceinline__ void softmax(bool is_cut, int column_tile, float (&s)[kColumns / 2],
                                          float (&corrections)[2]) {
    const int first = column_tile * kColumns;
    modify(first, s);
    if (is_cut) hide(first, s);
    const float scale = p.softmax_scale_log2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = most_[half];
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) most = fmaxf(most, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float base = most == -INFINITY ? 0.0F : most * scale;
      corrections[half] = ptx::ex2_approx_ftz(fmaf(most_[half], scale, -base));
      most_[half] = most;
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = ptx::ex2_approx_ftz(fmaf(score, scale, -base));
          sum += score;
        }
      }
      sum_[half] = fmaf(sum_[half], corrections[half], sum);
    }
    drop(first, s);
  }

  [[nodiscard]] __device__ __forceinline__ bool is_cut(int column_tile) const {
    const int first = column_tile * kColumns;
    return first + kColumns > end_column(p.mask, tile.sequence, tile.first_row) ||
           first < first_column(p.mask, tile.sequence, tile.last_row);
  }

  // Each row's sum over its four lanes; the maximum in natural units.
  __device__ __forceinline__ void finish_sums() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = sum_[half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      sums_[half] = {most_[half] == -INFINITY ? -INFINITY : most_[half] * p.max_scale, sum};
    }
  }

  // The sums of a block that shares its rows' columns with others.
  template <int kDim>
  __device__ __forceinline__ void write_partial(const float (&out)[kDim / 2]) const {
    const std::int64_t first_row =
        (static_cast<std::int64_t>(tile.split) * p.batch_heads + tile.batch_head) * p.rows + tile.row + row_in_tile_;
    const int dim_v = p.problem.dim_v;
    const float scale = p.problem.has_dropout ? static_cast<float>(p.problem.dropout.scale) : 1.0F;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!row_at(half).exists) continue;
      const std::int64_t row = first_row + 8 * half;
      if (lane_ % 4 == 0) {
        *reinterpret_cast<float2*>(p.partial_sums + 2 * row) = {sums_[half].most, sums_[half].sum};
      }
      if (sums_[half].sum == 0.0F) continue;
      float* const to = p.partial_o + row * dim_v + column();
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        if (8 * i >= dim_v) break;
        *reinterpret_cast<float2*>(to + 8 * i) = {out[4 * i + 2 * half] * scale, out[4 * i + 2 * half + 1] * scale};
      }
    }
  }

  // The rows' statistics, and o.
  template <int kDim>
  __device__ __forceinline__ void finish_output(float (&out)[kDim / 2]) {
    const AttentionParams& a = p.problem;
    const float kept = a.has_dropout ? static_cast<float>(a.dropout.scale) : 1.0F;
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row its = row_at(half);
      const bool inside = its.row < tile.sequence.length_q;
      if (!inside) sums_[half] = {-INFINITY, 0.0F};
      const RowSums sums = add_sink(a, its.exists ? its.head : 0, sums_[half], &factors[half]);
      factors[half] = inside ? factors[half] * kept : 0.0F;
      if (its.exists && lane_ % 4 == 0) write_sums(a, tile.batch, its.head, its.row, inside, sums);
    }
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) {
      const float factor = factors[i / 2 % 2];
      out[i] = factor == 0.0F ? 0.0F : out[i] * factor;
    }
  }

 private:
  struct Row {
    int row, head;  // of q
    bool exists;
    float slope;
  };
  [[nodiscard]] __device__ __forceinline__ Row work_out(int half) const {
    Row its;
    std::uint32_t member;
    const int packed_row = tile.row + row_in_tile_ + 8 * half;
    its.row = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(packed_row), &member));
    its.head = tile.head * static_cast<int>(p.packed.divisor) + static_cast<int>(member);
    its.exists = packed_row < p.rows;
    its.slope = p.problem.alibi_slopes != nullptr ? p.problem.alibi_slopes[its.head] * kLog2E : 0.0F;
    return its;
  }
  [[nodiscard]] __device__ __forceinline__ Row row_at(int half) const {
    if constexpr (kKeeps) {
      return kept_[half];
    } else {
      return work_out(half);
    }
  }

  [[nodiscard]] __device__ __forceinline__ int column() const { return lane_ % 4 * 2; }

  // The columns of a tile that row `half` sees, counted from this thread's first.
  __device__ __forceinline__ int begin_of(int half, int first) const {
    return first_column(p.mask, tile.sequence, row_at(half).row) - first - column();
  }
  __device__ __forceinline__ int end_of(int half, int first) const {
    return end_column(p.mask, tile.sequence, row_at(half).row) - first - column();
  }

  __device__ __forceinline__ void hide(int first, float (&s)[kColumns / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int begin = begin_of(half, first);
      const int end = end_of(half, first);
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = 8 * i + e < end && 8 * i + e >= begin ? score : -INFINITY;
        }
      }
    }
  }

  // cap tanh(s scale / cap), as 1 - 2 / (1 + e^2x): its error is a few units of 2^-24 of the cap.
  __device__ __forceinline__ void cap(float (&s)[kColumns / 2]) const {
    const float twice = 2.0F * kLog2E * p.scale_by_cap;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      const float quotient = __fdividef(2.0F, 1.0F + ptx::ex2_approx_ftz(fminf(s[i] * twice, 126.0F)));
      s[i] = p.cap_log2 * (1.0F - quotient);
    }
  }

  // Bias of 16 bits, of row `half`: each lane of four loads 8 neighbours at once, and they exchange.
  template <class B>
  __device__ __forceinline__ void add_eights(int half, int first, float (&s)[kColumns / 2]) const {
    const AttentionBias& bias = p.problem.bias;
    const Row its = row_at(half);
    const bool inside = its.exists && its.row < tile.sequence.length_q;
    const int begin = first_column(p.mask, tile.sequence, its.row);
    const int end = inside ? end_column(p.mask, tile.sequence, its.row) : 0;
    const auto* const row =
        static_cast<const B*>(bias.data) + (inside ? bias_offset(bias, tile.batch, its.head, its.row, 0) : 0);
#pragma unroll
    for (int i = 0; i < kColumns / 8; i += 4) {
      const int key = first + 8 * i + 8 * (lane_ % 4);
      uint4 eight{};
      if (key < end && key + 8 > begin) eight = __ldg(reinterpret_cast<const uint4*>(row + key));
      std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
      transpose_quad(words);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& score = s[4 * (i + e / 2) + 2 * half + e % 2];
        score = fmaf(tile::widen<float>(tile::half_of<B>(words[e / 2], e % 2)), kLog2E, score);
      }
    }
  }

  // Nothing is read of bias beyond the visible columns but what one load of 16 bytes brings with them.
  __device__ __forceinline__ void add_bias(int first, float (&s)[kColumns / 2]) const {
    const AttentionBias& bias = p.problem.bias;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (p.bias_in_eights) {
        if (bias.type == tile::ElementType::f16) {
          add_eights<tile::Half>(half, first, s);
        } else {
          add_eights<tile::BFloat16>(half, first, s);
        }
        continue;
      }
      const Row its = row_at(half);
      if (!its.exists || its.row >= tile.sequence.length_q) continue;
      const int begin = begin_of(half, first);
      const int end = end_of(half, first);
      const std::int64_t at = bias_offset(bias, tile.batch, its.head, its.row, first + column());
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (8 * i + e >= end || 8 * i + e < begin) continue;
          const float value =
              attention_simt::load_element<float>(bias.type, bias.data, at + (8 * i + e) * bias.strides[3]);
          s[4 * i + 2 * half + e] = fmaf(value, kLog2E, s[4 * i + 2 * half + e]);
        }
      }
    }
  }

  __device__ __forceinline__ void add_alibi(int first, float (&s)[kColumns / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row its = row_at(half);
      const float distance = static_cast<float>(first + column() - its.row);
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = fmaf(its.slope, distance + static_cast<float>(8 * i + e), score);
        }
      }
    }
  }

  __device__ __forceinline__ void modify(int first, float (&s)[kColumns / 2]) const {
    if (!p.modifies) return;
    if (p.cap_log2 > 0.0F) {
      cap(s);
    } else {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) s[i] *= p.scale_log2;
    }
    if (p.problem.bias.data != nullptr) add_bias(first, s);
    if (p.problem.alibi_slopes != nullptr) add_alibi(first, s);
  }

  __device__ __forceinline__ void drop(int first, float (&s)[kColumns / 2]) const {
    if (!p.problem.has_dropout) return;
    const Row its = row_at(0);
    const DropoutKey key = kKeeps ? key_ : dropout_key(p.problem.dropout);
    const auto batch_head = static_cast<std::uint32_t>(tile.batch * p.problem.heads_q + its.head);
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      const PhiloxBlock block = dropout_block(key, batch_head, static_cast<std::uint32_t>(its.row),
                                              static_cast<std::uint32_t>(first + 16 * i + column()));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        // Element e of the fragment is column e / 4 * 8 + e % 2 and row e / 2 % 2 * 8 of the square.
        const int index = e / 2 % 2 * 4 + e / 4 * 2 + e % 2;
        if (!is_kept(block, index, p.problem.dropout.threshold)) s[8 * i + e] = 0.0F;
      }
    }
  }

  const FlashGatherParams& p;
  const GatherTile& tile;
  int lane_;
  int row_in_tile_;
  float most_[2];
  float sum_[2];
  RowSums sums_[2];
  Row kept_[kKeeps ? 2 : 1];
  DropoutKey key_;
};

// 16 rows of o from shared memory, where a warp has put them: from `staged` on, in panels of kRows rows. `first`: their
// first one in the tile.
template <int kDim, int kRows, bool kAnyLayout = false>
__device__ __forceinline__ void write_output_rows(const FlashGatherParams& p, const GatherTile& tile,
                                                  const unsigned char* staging, int staged, int first) {
  constexpr int kChunks = kDim / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const AttentionTensor& o = p.problem.o;
  const std::int64_t start = ragged_start(o, tile.batch);
  auto* const data = static_cast<std::uint16_t*>(o.data) + start;
  const int packed = static_cast<int>(p.packed.divisor);
#pragma unroll 2
  for (int i = 0; i < 16 * kChunks / 32; ++i) {
    const int at = i * 32 + lane;
    const int row = at / kChunks;
    const int chunk = at % kChunks;
    const int packed_row = tile.row + first + row;
    std::uint32_t member;
    const auto q_row = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(packed_row), &member));
    const bool inside = q_row < tile.sequence.length_q;
    if (packed_row >= p.rows || 8 * chunk >= p.problem.dim_v || (!inside && o.offset_bits != 0)) continue;
    const uint4 value = *reinterpret_cast<const uint4*>(staging + swizzled_chunk<kRows>(staged + row, chunk));
    std::uint16_t* const to = data + (tile.head * packed + static_cast<int>(member)) * o.strides[1] +
                              q_row * o.strides[2] + 8 * chunk * (kAnyLayout ? o.strides[3] : 1);
    const bool aligned = start % 8 == 0 && !(kAnyLayout && p.elementwise.o);
    write_chunk<kAnyLayout>(to, value, aligned, kAnyLayout ? o.strides[3] : 1, p.problem.dim_v - 8 * chunk);
  }
}

}  // namespace gpudnn::kernels::flash
