// What the gather engines' forward kernels do with the scores of 16 rows: options, bounds, softmax, and the results. A
// thread holds of each 8 columns two neighbours of row lane / 4 and of the row 8 below: element 4 i + 2 h + e is column
// 8 i + lane % 4 * 2 + e of the lower (h = 0) or upper row.
//
// Where no option modifies them, scores stay sums of products, which the softmax scales; else they become natural
// units: y = cap tanh(..) + bias + slope (c - r).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/attention/flash_dropout.cuh"
#include "kernels/attention/flash_far_scores.cuh"
#include "kernels/attention/flash_gather.hpp"
#include "kernels/attention/flash_row_sums.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/stmatrix.cuh"

namespace gpudnn::kernels::flash {

struct GatherTile {
  int batch, head, split, row, batch_head;
  int first, end;           // column tiles of this block
  int first_row, last_row;  // of q, those within the sequence
  Sequence sequence;
};
// The sequence and the column tiles of a tile whose place (split, batch, head, row) is known.
template <class C>
__device__ __forceinline__ void bound_tile(const FlashGatherParams& p, GatherTile* tile) {
  tile->sequence = sequence_of(p.mask, tile->batch);
  const int end_of_rows = min(tile->row + C::kRows, p.rows) - 1;
  tile->first_row = static_cast<int>(p.packed.quotient(static_cast<std::uint32_t>(tile->row)));
  tile->last_row =
      min(static_cast<int>(p.packed.quotient(static_cast<std::uint32_t>(end_of_rows))), tile->sequence.length_q - 1);
  const int first = first_column(p.mask, tile->sequence, tile->first_row);
  const int end = end_column(p.mask, tile->sequence, tile->last_row);
  tile->first = tile->end = 0;
  if (tile->last_row < tile->first_row || end <= first) return;
  tile->first = first / C::kColumns;
  tile->end = (end + C::kColumns - 1) / C::kColumns;
  if (p.splits == 1) return;
  // The first `rest` splits have a column tile more.
  std::uint32_t rest;
  const auto each = static_cast<int>(p.by_splits.divmod(static_cast<std::uint32_t>(tile->end - tile->first), &rest));
  tile->first += tile->split * each + min(tile->split, static_cast<int>(rest));
  tile->end = tile->first + each + (tile->split < static_cast<int>(rest) ? 1 : 0);
}
template <class C>
__device__ __forceinline__ GatherTile gather_tile(const FlashGatherParams& p, int number) {
  GatherTile tile;
  std::uint32_t split;
  number = static_cast<int>(p.by_splits.divmod(static_cast<std::uint32_t>(number), &split));
  tile.split = static_cast<int>(split);
  const FlashTilePlace place = place_of(p.sections, number);
  tile.batch = place.batch;
  tile.head = place.head;
  tile.batch_head = place.batch_head;
  tile.row = (p.row_tiles - 1 - place.tile) * C::kRows;
  bound_tile<C>(p, &tile);
  return tile;
}

// How rows keep and get what they need.
struct RowsOfSm80 {
  static constexpr bool kKeeps = false;     // rows and slopes in registers; else they are worked out where needed
  using Bias = void;                        // any type and layout, from device memory
  static constexpr int kBiasTileRows = 0;   // of a tile of bias in shared memory; 0: there is none
  static constexpr bool kModifies = true;   // p.modifies may be set
  static constexpr bool kAddsBias = false;  // of options, there is bias in shared memory alone
  static constexpr bool kDrops = true;      // there may be dropout
};

// The tile's description lies in shared memory, which the compiler does not read ahead of a barrier.
template <int kColumns, class Ways>
class ForwardRows {
  static constexpr bool kKeeps = Ways::kKeeps;
  // Maxima are in units of log2, or, where something is added to scores, of scores: with a bias they may be far from 0.
  static constexpr bool kOfLog2 = !Ways::kModifies && !Ways::kAddsBias;
  static constexpr bool kMayBeFar = !kOfLog2 && !std::is_same_v<typename Ways::Bias, tile::Half>;
  // Weights hold small powers of two, so that far scores want no branch.
  static constexpr bool kScalesRows = kMayBeFar && std::is_same_v<typename Ways::Bias, tile::BFloat16>;

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
    if constexpr (kKeeps) {
      cut_from_ = end_column(p.mask, tile.sequence, tile.first_row) / kColumns;
      cut_below_ = (first_column(p.mask, tile.sequence, tile.last_row) + kColumns - 1) / kColumns;
    }
  }

  // Scores to probabilities, dropout included; what was summed before is multiplied by the corrections.
  // `is_cut`: a bound or a length may hide some. `bias`: the tile of bias, where it lies in shared memory. `halves`: of
  // the fragment, those that have rows.
  __device__ __forceinline__ void softmax(bool is_cut, int column_tile, float (&s)[kColumns / 2],
                                          float (&corrections)[2], const unsigned char* bias = nullptr,
                                          int halves = 2) {
    const int first = column_tile * kColumns;
    if constexpr (Ways::kModifies) modify(first, bias, s);
    if constexpr (Ways::kAddsBias) add_staged(bias, p.scale, s);
    if (is_cut) hide(first, s);
    const float scale = p.softmax_scale_log2;
    float bases[2];
    float scales[2] = {scale, scale};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (half >= halves) break;
      float most = fmaxf(s[2 * half], s[2 * half + 1]);
#pragma unroll
      for (int i = 1; i < kColumns / 8; ++i) most = fmaxf(most, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float before = most_[half];
      // From one rounded base to the next, so that what was summed loses nothing; in units of log2 it is rounded up, so
      // that no exponent is above 0.
      most_[half] = fmaxf(before, kOfLog2 ? __fmul_ru(most, scale) : most);
      bases[half] = most_[half] == -INFINITY ? 0.0F : most_[half];
      if constexpr (kScalesRows) {
        const RowExponents its = exponents_of(scale, before, bases[half]);
        corrections[half] = its.correction;
        bases[half] = its.base;
        scales[half] = its.scale;
      } else {
        corrections[half] = ptx::ex2_approx_ftz(kOfLog2 ? before - bases[half] : (before - bases[half]) * scale);
      }
    }
    if constexpr (kMayBeFar && !kScalesRows) subtract_far<kColumns>(scale, bases, s);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (half >= halves) break;
      const float base = kOfLog2 || kScalesRows ? bases[half] : bases[half] * scale;
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = ptx::ex2_approx_ftz(fmaf(score, scales[half], -base));
          sum += score;
        }
      }
      sum_[half] = fmaf(sum_[half], corrections[half], sum);
    }
  }

  // Probabilities of a column tile that are dropped become 0: of those in 16 bits, as scores' registers are free then.
  __device__ __forceinline__ void drop(int column_tile, std::uint32_t (&weights)[kColumns / 16][4]) const {
    if (!Ways::kDrops || !p.problem.has_dropout) return;
    const Row its = row_at(0);
    const DropoutKey key = dropout_key(p.problem.dropout);
    const auto batch_head = static_cast<std::uint32_t>(tile.batch * p.problem.heads_q + its.head);
    if constexpr (kKeeps) {
      drop_weights(key, p.problem.dropout.threshold, batch_head, static_cast<std::uint32_t>(its.row),
                   static_cast<std::uint32_t>(column_tile * kColumns + column()), weights);
      return;
    }
    const std::uint32_t threshold = p.problem.dropout.threshold;
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      const PhiloxBlock block = dropout_block(key, batch_head, static_cast<std::uint32_t>(its.row),
                                              static_cast<std::uint32_t>(column_tile * kColumns + 16 * i + column()));
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        // Pair e of the fragment is columns e / 2 * 8 and the next, of row e % 2 * 8 of the square.
        const int index = e % 2 * 4 + e / 2 * 2;
        const std::uint32_t low = is_kept(block, index, threshold) ? 0xffffU : 0U;
        weights[i][e] &= is_kept(block, index + 1, threshold) ? low | 0xffff0000U : low;
      }
    }
  }

  [[nodiscard]] __device__ __forceinline__ bool is_cut(int column_tile) const {
    if constexpr (kKeeps) return column_tile >= cut_from_ || column_tile < cut_below_;
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
      if constexpr (kScalesRows) {
        weight_[half] = most_[half] == -INFINITY ? 1.0F : of_rounded_base(p.softmax_scale_log2, most_[half]);
        sum *= weight_[half];
      }
      sums_[half] = {most_[half] == -INFINITY ? -INFINITY : most_[half] * (kOfLog2 ? kLn2 : p.max_scale), sum};
    }
    if (shares_distance()) sums_[1].most -= 8.0F * row_at(1).slope;
  }

  // The sums of a block that shares its rows' columns with others.
  template <int kDim>
  __device__ __forceinline__ void write_partial(const float (&out)[kDim / 2]) const {
    const std::int64_t first_row =
        (static_cast<std::int64_t>(tile.split) * p.batch_heads + tile.batch_head) * p.rows + tile.row + row_in_tile_;
    const int dim_v = p.problem.dim_v;
    const float kept_scale = Ways::kDrops && p.problem.has_dropout ? static_cast<float>(p.problem.dropout.scale) : 1.0F;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!row_at(half).exists) continue;
      const float scale = kScalesRows ? kept_scale * weight_[half] : kept_scale;
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

  // The rows' statistics, and o through shared memory: this warp's rows of `staging`, a tile of kTileRows rows in
  // panels; null where no column is visible.
  template <class T, int kDim, int kTileRows>
  __device__ __forceinline__ void write_staged(const float (&out)[kDim / 2], unsigned char* staging) {
    const AttentionParams& a = p.problem;
    const float factors[2] = {finish_row(0), finish_row(1)};
    const int first_row = row_in_tile_ - lane_ / 4;
    if (staging != nullptr) {
      const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(staging));
      const auto pair = [&](int i) {
        const float factor = factors[i / 2 % 2];
        return factor == 0.0F ? 0U : pack_halves<T>(out[i] * factor, out[i + 1] * factor);
      };
#pragma unroll
      for (int i = 0; i < kDim / 16; ++i) {
        ptx::stmatrix_x4(base + swizzled_chunk<kTileRows>(first_row + lane_ % 16, 2 * i + lane_ / 16), pair(8 * i),
                         pair(8 * i + 2), pair(8 * i + 4), pair(8 * i + 6));
      }
    }
    __syncwarp();
    const std::int64_t start = ragged_start(a.o, tile.batch);
    std::int64_t my_offset = -1;
    {
      std::uint32_t member;
      const int packed_row = tile.row + first_row + lane_ % 16;
      const auto row = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(packed_row), &member));
      const int head = tile.head * static_cast<int>(p.packed.divisor) + static_cast<int>(member);
      if (packed_row < p.rows && (row < tile.sequence.length_q || a.o.offset_bits == 0)) {
        my_offset = start + head * a.o.strides[1] + row * a.o.strides[2];
      }
    }
    constexpr int kChunks = kDim / 8;
    constexpr int kRowsAtOnce = 32 / kChunks;
    const int chunk = lane_ % kChunks;
#pragma unroll
    for (int i = 0; i < 16; i += kRowsAtOnce) {
      const int row = i + lane_ / kChunks;
      const std::int64_t offset = __shfl_sync(0xffffffffu, my_offset, row);
      if (offset < 0 || chunk * 8 >= a.dim_v) continue;
      uint4 value{};
      if (staging != nullptr) {
        value = *reinterpret_cast<const uint4*>(staging + swizzled_chunk<kTileRows>(first_row + row, chunk));
      }
      write_chunk<false>(static_cast<std::uint16_t*>(a.o.data) + offset + chunk * 8, value, start % 8 == 0, 1, 8);
    }
  }

  // The rows' statistics, and o in pairs of columns: little code, for few rows. o is not ragged.
  template <class T, int kDim>
  __device__ __forceinline__ void write_pairs(const float (&out)[kDim / 2]) {
    const AttentionParams& a = p.problem;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row its = row_at(half);
      const float factor = finish_row(half);
      auto* const to =
          reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(a.o.data) + tile.batch * a.o.strides[0] +
                                           its.head * a.o.strides[1] + its.row * a.o.strides[2] + column());
      const int dim = its.exists ? a.dim_v : 0;
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        const float* const pair = out + 4 * i + 2 * half;
        if (8 * i < dim) to[4 * i] = factor == 0.0F ? 0U : pack_halves<T>(pair[0] * factor, pair[1] * factor);
      }
    }
  }

  // The rows' statistics, and o: four lanes exchange, so that each stores 8 columns at once.
  template <class T, int kDim, bool kAnyLayout = false>
  __device__ __forceinline__ void write(const float (&out)[kDim / 2]) {
    const AttentionParams& a = p.problem;
    const std::int64_t start = ragged_start(a.o, tile.batch);
    const bool aligned = start % 8 == 0 && !(kAnyLayout && p.elementwise.o);
    const std::int64_t step = kAnyLayout ? a.o.strides[3] : 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row its = row_at(half);
      const float factor = finish_row(half);
      const bool is_written = its.exists && (its.row < tile.sequence.length_q || a.o.offset_bits == 0);
      std::uint16_t* const to =
          static_cast<std::uint16_t*>(a.o.data) + start + its.head * a.o.strides[1] + its.row * a.o.strides[2];
#pragma unroll
      for (int i = 0; i < kDim / 8; i += 4) {
        std::uint32_t words[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const float* const pair = out + 4 * (i + u) + 2 * half;
          words[u] = factor == 0.0F ? 0U : pack_halves<T>(pair[0] * factor, pair[1] * factor);
        }
        transpose_quad(words);
        const int column = 8 * (i + lane_ % 4);
        if (!is_written || column >= a.dim_v) continue;
        write_chunk<kAnyLayout>(to + column * step, {words[0], words[1], words[2], words[3]}, aligned, step,
                                a.dim_v - column);
      }
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
    its.slope = p.problem.alibi_slopes != nullptr ? p.problem.alibi_slopes[its.head] : 0.0F;
    return its;
  }
  [[nodiscard]] __device__ __forceinline__ Row row_at(int half) const {
    Row its = work_out(half);
    if constexpr (kKeeps) its.row = kept_[half].row, its.slope = kept_[half].slope;
    return its;
  }

  // Writes a row's statistics; what its sums of v are multiplied by, 0 beyond the sequence.
  __device__ __forceinline__ float finish_row(int half) {
    const AttentionParams& a = p.problem;
    const Row its = row_at(half);
    const bool inside = its.row < tile.sequence.length_q;
    if (!inside) sums_[half] = {-INFINITY, 0.0F};
    float factor;
    const RowSums sums = add_sink(a, its.exists ? its.head : 0, sums_[half], &factor);
    if (its.exists && lane_ % 4 == 0) write_sums(a, tile.batch, its.head, its.row, inside, sums);
    if (!inside) return 0.0F;
    if constexpr (kScalesRows) factor *= weight_[half];
    return Ways::kDrops && a.has_dropout ? factor * static_cast<float>(a.dropout.scale) : factor;
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

  // Rows 8 apart share c - r of the upper one, where their slope is one: the row's own is made good in the maximum.
  [[nodiscard]] __device__ __forceinline__ bool shares_distance() const {
    return p.problem.alibi_slopes != nullptr && p.packed.divisor == 1;
  }

  // cap tanh(s scale / cap), as 1 - 2 / (1 + e^2x): its error is a few units of 2^-24 of the cap.
  __device__ __forceinline__ void cap(float (&s)[kColumns / 2]) const {
    const float twice = 2.0F * kLog2E * p.scale_by_cap;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      const float quotient = __fdividef(2.0F, 1.0F + ptx::ex2_approx_ftz(fminf(s[i] * twice, 126.0F)));
      s[i] = p.cap * (1.0F - quotient);
    }
  }

  // Each adds to the scores times `scale`.

  // Of a tile in shared memory.
  __device__ __forceinline__ void add_staged(const unsigned char* bias, float scale, float (&s)[kColumns / 2]) const {
    using B = typename Ways::Bias;
    const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(bias));
    const int row = p.bias_box == 1 ? 0 : (row_in_tile_ - lane_ / 4) % Ways::kBiasTileRows + lane_ % 16;
#pragma unroll
    for (int i = 0; i < kColumns / 8; i += 2) {
      std::uint32_t words[4];
      ptx::ldmatrix_x4(base + swizzled_chunk<Ways::kBiasTileRows>(row, i + lane_ / 16), words);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        // Word 2 u + h is of the columns of fragment i + u and of row h.
        float& score = s[4 * i + 2 * (e / 4 * 2 + e / 2 % 2) + e % 2];
        score = fmaf(score, scale, tile::widen<float>(tile::half_of<B>(words[e / 2], e % 2)));
      }
    }
  }

  // Of 16 bits, of row `half`: each lane of four loads 8 neighbours at once, and they exchange.
  template <class B>
  __device__ __forceinline__ void add_eights(int half, int first, float scale, float (&s)[kColumns / 2]) const {
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
        score = fmaf(score, scale, tile::widen<float>(tile::half_of<B>(words[e / 2], e % 2)));
      }
    }
  }

  // Of any type and layout, of row `half`, one by one.
  __device__ __forceinline__ void add_elements(int half, int first, float scale, float (&s)[kColumns / 2]) const {
    const AttentionBias& bias = p.problem.bias;
    const Row its = row_at(half);
    const bool inside = its.exists && its.row < tile.sequence.length_q;
    const int begin = begin_of(half, first);
    const int end = inside ? end_of(half, first) : begin;
    const std::int64_t at = inside ? bias_offset(bias, tile.batch, its.head, its.row, first + column()) : 0;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float value = 0.0F;
        if (8 * i + e < end && 8 * i + e >= begin) {
          value = attention_simt::load_element<float>(bias.type, bias.data, at + (8 * i + e) * bias.strides[3]);
        }
        s[4 * i + 2 * half + e] = fmaf(s[4 * i + 2 * half + e], scale, value);
      }
    }
  }

  // Nothing is read of bias in device memory beyond the visible columns but what one load of 16 bytes brings with them.
  __device__ __forceinline__ void add_bias(int first, const unsigned char* tile_of_bias, float scale,
                                           float (&s)[kColumns / 2]) const {
    if constexpr (Ways::kBiasTileRows > 0) {
      add_staged(tile_of_bias, scale, s);
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if constexpr (!std::is_void_v<typename Ways::Bias>) {
          add_eights<typename Ways::Bias>(half, first, scale, s);
        } else if (!p.bias_in_eights) {
          add_elements(half, first, scale, s);
        } else if (p.problem.bias.type == tile::ElementType::f16) {
          add_eights<tile::Half>(half, first, scale, s);
        } else {
          add_eights<tile::BFloat16>(half, first, scale, s);
        }
      }
    }
  }

  __device__ __forceinline__ void add_alibi(int first, float scale, float (&s)[kColumns / 2]) const {
    const auto distance = [&](int half) { return static_cast<float>(first + column() - row_at(half).row); };
    if (shares_distance()) {
      const float slope = row_at(0).slope;
      const float start = slope * distance(0);
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float term = fmaf(slope, static_cast<float>(8 * i + e), start);
          s[4 * i + e] = fmaf(s[4 * i + e], scale, term);
          s[4 * i + 2 + e] = fmaf(s[4 * i + 2 + e], scale, term);
        }
      }
      return;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float slope = row_at(half).slope;
      const float start = slope * distance(half);
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = fmaf(score, scale, fmaf(slope, static_cast<float>(8 * i + e), start));
        }
      }
    }
  }

  __device__ __forceinline__ void modify(int first, const unsigned char* tile_of_bias, float (&s)[kColumns / 2]) const {
    if (!p.modifies) return;
    float scale = p.scale;
    if (p.cap > 0.0F) {
      cap(s);
      scale = 1.0F;
    }
    if (p.problem.bias.data != nullptr) {
      add_bias(first, tile_of_bias, scale, s);
      scale = 1.0F;
    }
    if (p.problem.alibi_slopes != nullptr) {
      add_alibi(first, scale, s);
    } else if (scale != 1.0F) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) s[i] *= scale;
    }
  }

  const FlashGatherParams& p;
  const GatherTile& tile;
  int lane_;
  int row_in_tile_;
  float most_[2];
  float sum_[2];
  RowSums sums_[2];
  float weight_[kScalesRows ? 2 : 1];  // of the row's sums of v, as sums_ are under the maximum itself
  Row kept_[kKeeps ? 2 : 1];
  int cut_from_, cut_below_;  // column tiles from this one on, and those below that one
};

}  // namespace gpudnn::kernels::flash
