// What the gather engines' backward kernels do with the scores of 16 rows: options, bounds, P and dS. Rows are those of
// the tile that a block holds (of q; kOfKeys: keys), columns those of the tile that streams by.
//
//   y = log2(e) (cap tanh(scale q k^T / cap) + bias + slope (c - r)),  P = 2^(y - lse),  dP = kept (dO v^T)
//   dS = P (dP - delta)
//
// Fragments are as in flash_forward_rows.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/attention/flash_gather_backward.hpp"
#include "kernels/attention/flash_tile.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/movmatrix.cuh"

namespace gpudnn::kernels::flash {

// The block's tile, and the tiles [first, end) of the streaming tensors that meet it, in each of `group` heads: of all
// heads that share the block's head of k and v, those from number part * group on.
struct GradientTile {
  int batch, head, row, first, end, group, part;
  Sequence sequence;
};
template <class C>
__device__ __forceinline__ GradientTile gradient_tile(const FlashGatherBackwardParams& p) {
  const AttentionParams& a = p.problem;
  const int length_of_all = C::kOfKeys ? p.mask.length_kv : p.mask.length_q;
  const int tiles_of_head = (length_of_all + C::kRows - 1) / C::kRows;
  const int grid_heads = C::kOfKeys ? a.heads_k : a.heads_q;
  const int parts = C::kOfKeys ? p.parts : 1;
  const int number = static_cast<int>(blockIdx.x) / parts;
  const int section_tiles = p.heads_of_section * tiles_of_head;
  const int section = number / section_tiles;
  const int rest = number - section * section_tiles;
  const int heads = min(p.heads_of_section, a.batch * grid_heads - section * p.heads_of_section);
  const int batch_head = section * p.heads_of_section + rest % heads;
  // With the causal mask the first keys and the last rows have the most to do.
  const int index = C::kOfKeys ? rest / heads : tiles_of_head - 1 - rest / heads;
  GradientTile tile;
  tile.row = index * C::kRows;
  tile.batch = batch_head / grid_heads;
  tile.head = batch_head % grid_heads;
  tile.group = C::kOfKeys ? p.group / parts : 1;
  tile.part = static_cast<int>(blockIdx.x) % parts;
  tile.sequence = sequence_of(p.mask, tile.batch);
  const Sequence& s = tile.sequence;
  const int length = C::kOfKeys ? s.length_kv : s.length_q;
  const int last = min(tile.row + C::kRows, length) - 1;
  const int first = C::kOfKeys ? first_row(p.mask, s, tile.row) : first_column(p.mask, s, tile.row);
  const int end = C::kOfKeys ? end_row(p.mask, s, last) : end_column(p.mask, s, last);
  tile.first = first / C::kStream;
  tile.end = last < tile.row || end <= first ? tile.first : (end + C::kStream - 1) / C::kStream;
  return tile;
}

// Whether a bound or a length cuts the tile of `columns` columns from `begin` on for any of the rows [row, row + rows).
template <bool kOfKeys>
[[nodiscard]] __device__ __forceinline__ bool is_gradient_cut(const FlashMask& mask, const Sequence& s, int row,
                                                              int rows, int begin, int columns) {
  const int last = row + rows - 1;
  if (last >= (kOfKeys ? s.length_kv : s.length_q)) return true;
  if constexpr (kOfKeys) {
    return begin < first_row(mask, s, last) || begin + columns > end_row(mask, s, row);
  } else {
    return begin < first_column(mask, s, last) || begin + columns > end_column(mask, s, row);
  }
}

// kKeeps: as of ForwardRows.
template <int kColumns, bool kOfKeys, bool kKeeps>
class GradientRows {
 public:
  // `row`: this lane's first one, in the tile.
  __device__ __forceinline__ GradientRows(const FlashGatherBackwardParams& params, const GradientTile& its, int row)
      : p(params), tile(its), lane_(static_cast<int>(threadIdx.x) % 32), row_in_tile_(row) {
    if constexpr (kKeeps) {
      kept_row_ = tile.row + row;
      if (p.problem.has_dropout) key_ = dropout_key(p.problem.dropout);
    }
  }

  // The head of q whose scores come next.
  __device__ __forceinline__ void set_head(int head) {
    head_ = head;
    slope_ = p.problem.alibi_slopes != nullptr ? p.problem.alibi_slopes[head_] * kLog2E : 0.0F;
  }
  // lse and delta of rows of q.
  __device__ __forceinline__ void load_row_values(int head) {
    const std::int64_t at = (static_cast<std::int64_t>(tile.batch) * p.problem.heads_q + head) * p.pitch + my_row();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row_lse_[half] = p.lse[at + 8 * half];
      row_delta_[half] = p.delta[at + 8 * half];
    }
  }

  // Products -> P. `lse`: of the columns, where rows are keys. `is_cut`: a bound or a length may hide some.
  __device__ __forceinline__ void probabilities(int first, const float* lse, bool is_cut, float (&s)[kColumns / 2]) {
    float scale = p.scale_log2;
    if (p.modifies && p.cap_log2 > 0.0F) {
      cap(s);
      scale = 1.0F;
    }
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      float2 of_columns{};
      if constexpr (kOfKeys) of_columns = *reinterpret_cast<const float2*>(lse + 8 * i + my_column());
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float its = kOfKeys ? (e % 2 == 0 ? of_columns.x : of_columns.y) : row_lse_[e / 2];
        s[4 * i + e] = fmaf(s[4 * i + e], scale, -its);
      }
    }
    // Bias comes last: beside an lse of infinity it stays -infinity, whatever its own size.
    if (p.modifies) {
      if (p.problem.bias.data != nullptr) add_bias(first, s);
      if (p.problem.alibi_slopes != nullptr) add_alibi(first, s);
    }
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) s[i] = ptx::ex2_approx_ftz(s[i]);
    if (is_cut) hide(first, s);
  }

  // Which elements dropout keeps: bit 8 i + e of word i / 4 is element 8 i + e of the fragment.
  __device__ __forceinline__ void draw(int first) {
    if (!p.problem.has_dropout) return;
    const auto batch_head = static_cast<std::uint32_t>(tile.batch * p.problem.heads_q + head_);
    const DropoutKey key = kKeeps ? key_ : dropout_key(p.problem.dropout);
    const auto row = static_cast<std::uint32_t>(my_row());
    const auto column = static_cast<std::uint32_t>(first + my_column());
    const std::uint32_t threshold = p.problem.dropout.threshold;
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      std::uint32_t bits = 0;
      if constexpr (kOfKeys) {
        // A block has rows of q r and r + 8 and keys c, c + 1, c + 8, c + 9; this thread's key is one of two
        // neighbours.
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const PhiloxBlock block =
              dropout_block(key, batch_head, column + static_cast<std::uint32_t>(16 * i + e), row);
#pragma unroll
          for (int word = 0; word < 4; ++word) {
            // Word 2 h + w is of row h of q and of keys w; of the fragment, columns 8 h and rows 8 w.
            const std::uint32_t pair = block.word[word];
            const std::uint32_t its = row % 2 == 0 ? pair & 0xffffU : pair >> 16;
            if (its >= threshold) bits |= 1U << (4 * (word / 2) + 2 * (word % 2) + e);
          }
        }
      } else {
        const PhiloxBlock block = dropout_block(key, batch_head, row, column + static_cast<std::uint32_t>(16 * i));
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const int index = e / 2 % 2 * 4 + e / 4 * 2 + e % 2;
          if (is_kept(block, index, threshold)) bits |= 1U << e;
        }
      }
      kept_[i / 4] = i % 4 == 0 ? bits : kept_[i / 4] | bits << (i % 4 * 8);
    }
  }
  // values times what dropout multiplies their probabilities by.
  __device__ __forceinline__ void keep(float (&values)[kColumns / 2]) const {
    const auto scale = static_cast<float>(p.problem.dropout.scale);
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      values[i] = (kept_[i / 32] >> (i % 32) & 1U) != 0 ? values[i] * scale : 0.0F;
    }
  }

  // dP -> dS. `delta`: of the columns, where rows are keys.
  __device__ __forceinline__ void score_gradients(const float (&s)[kColumns / 2], const float* delta,
                                                  float (&dp)[kColumns / 2]) const {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      float2 of_columns{};
      if constexpr (kOfKeys) of_columns = *reinterpret_cast<const float2*>(delta + 8 * i + my_column());
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int at = 4 * i + 2 * half + e;
          const float its = kOfKeys ? (e == 0 ? of_columns.x : of_columns.y) : row_delta_[half];
          dp[at] = s[at] * (dp[at] - its);
        }
      }
    }
  }
  // dS -> the gradient of scale q k^T: times the slope of the soft cap.
  __device__ __forceinline__ void multiply_slopes(float (&ds)[kColumns / 2]) const {
    if (p.cap_log2 <= 0.0F) return;
#pragma unroll
    for (int i = 0; i < kColumns / 4; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) ds[2 * i + e] *= tile::widen<float>(tile::half_of<tile::Half>(slopes_[i], e));
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ int my_column() const { return lane_ % 4 * 2; }
  [[nodiscard]] __device__ __forceinline__ int my_row() const { return kKeeps ? kept_row_ : tile.row + row_in_tile_; }

  // Of fragment element (half, i, e), counted from this thread's first column: what the row sees.
  struct Visible {
    int begin, end;
  };
  __device__ __forceinline__ Visible visible(int half, int first) const {
    const Sequence& s = tile.sequence;
    const int row = my_row() + 8 * half;
    const int offset = first + my_column();
    if constexpr (kOfKeys) {
      const int end = row < s.length_kv ? end_row(p.mask, s, row) : 0;
      return {first_row(p.mask, s, row) - offset, end - offset};
    } else {
      const int end = row < s.length_q ? end_column(p.mask, s, row) : 0;
      return {first_column(p.mask, s, row) - offset, end - offset};
    }
  }

  // Capped scores; their slopes as pairs of f16, whose rounding is below that of dS to its type.
  __device__ __forceinline__ void cap(float (&s)[kColumns / 2]) {
    const float twice = 2.0F * kLog2E * p.scale_by_cap;
#pragma unroll
    for (int i = 0; i < kColumns / 4; ++i) {
      float slopes[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = s[2 * i + e];
        const float t = 1.0F - __fdividef(2.0F, 1.0F + ptx::ex2_approx_ftz(fminf(score * twice, 126.0F)));
        score = p.cap_log2 * t;
        slopes[e] = fmaf(-t, t, 1.0F);
      }
      slopes_[i] = pack_halves<tile::Half>(slopes[0], slopes[1]);
    }
  }

  // Bias of 16 bits by loads of 8 neighbours, for 32 columns at a time: each lane of four loads those of one of four
  // blocks of 8 x 8, and they exchange; where rows are keys, blocks are transposed.
  template <class B>
  __device__ __forceinline__ void add_eights(int first, float (&s)[kColumns / 2]) const {
    const AttentionBias& bias = p.problem.bias;
    const auto* const data = static_cast<const B*>(bias.data);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i + 4 <= kColumns / 8; i += 4) {
        const int block = first + 8 * i + 8 * (lane_ % 4);
        const int query = kOfKeys ? block + lane_ / 4 : my_row() + 8 * half;
        const int key = kOfKeys ? my_row() - lane_ / 4 + 8 * half : block;
        uint4 eight{};
        if (query < tile.sequence.length_q && key < tile.sequence.length_kv) {
          eight = __ldg(reinterpret_cast<const uint4*>(data + bias_offset(bias, tile.batch, head_, query, key)));
        }
        std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
        transpose_quad(words);
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          if constexpr (kOfKeys) words[u] = ptx::movmatrix_trans(words[u]);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& score = s[4 * (i + u) + 2 * half + e];
            score = fmaf(tile::widen<float>(tile::half_of<B>(words[u], e)), kLog2E, score);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void add_bias(int first, float (&s)[kColumns / 2]) const {
    const AttentionBias& bias = p.problem.bias;
    if (kColumns % 32 == 0 && p.bias_in_eights) {
      if (bias.type == tile::ElementType::f16) {
        add_eights<tile::Half>(first, s);
      } else {
        add_eights<tile::BFloat16>(first, s);
      }
      return;
    }
    const std::int64_t along = kOfKeys ? bias.strides[2] : bias.strides[3];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Visible its = visible(half, first);
      const int row = my_row() + 8 * half;
      const int column = first + my_column();
      const std::int64_t at = kOfKeys ? bias_offset(bias, tile.batch, head_, column, row)
                                      : bias_offset(bias, tile.batch, head_, row, column);
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (8 * i + e >= its.end || 8 * i + e < its.begin) continue;
          const float value = attention_simt::load_element<float>(bias.type, bias.data, at + (8 * i + e) * along);
          s[4 * i + 2 * half + e] = fmaf(value, kLog2E, s[4 * i + 2 * half + e]);
        }
      }
    }
  }

  __device__ __forceinline__ void add_alibi(int first, float (&s)[kColumns / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int rest = first + my_column() - (my_row() + 8 * half);
      const auto distance = static_cast<float>(rest);
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          // Keys less rows of q; of keys, columns are rows of q.
          const float ahead = distance + static_cast<float>(8 * i + e);
          float& score = s[4 * i + 2 * half + e];
          score = fmaf(slope_, kOfKeys ? -ahead : ahead, score);
        }
      }
    }
  }

  __device__ __forceinline__ void hide(int first, float (&s)[kColumns / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Visible its = visible(half, first);
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& value = s[4 * i + 2 * half + e];
          value = 8 * i + e < its.end && 8 * i + e >= its.begin ? value : 0.0F;
        }
      }
    }
  }

  const FlashGatherBackwardParams& p;
  const GradientTile& tile;
  int lane_;
  int row_in_tile_;
  int kept_row_ = 0;
  int head_ = 0;
  float slope_ = 0;
  float row_lse_[2];
  float row_delta_[2];
  std::uint32_t slopes_[kColumns / 4] = {};
  std::uint32_t kept_[(kColumns + 63) / 64] = {};
  DropoutKey key_;
};

// 16 rows of a gradient from shared memory, where a warp has put them: from `staged` on, in panels of kRows rows.
// `first`: their first one in the sequence.
template <int kDim, int kRows, bool kOfKeys, bool kAnyLayout = false>
__device__ __forceinline__ void write_gradient_rows(const FlashGatherBackwardParams& p, const GradientTile& tile,
                                                    const AttentionTensor& tensor, int dim, bool vectors,
                                                    const unsigned char* staging, int staged, int first) {
  constexpr int kChunks = kDim / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int length = kOfKeys ? tile.sequence.length_kv : tile.sequence.length_q;
  const int rows = kOfKeys ? p.mask.length_kv : p.mask.length_q;
  const std::int64_t start = ragged_start(tensor, tile.batch);
  auto* const data = static_cast<std::uint16_t*>(tensor.data) + start + tile.head * tensor.strides[1];
#pragma unroll 2
  for (int i = 0; i < 16 * kChunks / 32; ++i) {
    const int at = i * 32 + lane;
    const int chunk = at % kChunks;
    const int row = first + at / kChunks;
    const bool inside = row < length;
    if (row >= rows || 8 * chunk >= dim || (!inside && tensor.offset_bits != 0)) continue;
    uint4 value{};
    if (inside) value = *reinterpret_cast<const uint4*>(staging + swizzled_chunk<kRows>(staged + at / kChunks, chunk));
    std::uint16_t* const to = data + row * tensor.strides[2] + 8 * chunk * (kAnyLayout ? tensor.strides[3] : 1);
    write_chunk<kAnyLayout>(to, value, start % 8 == 0 && vectors, kAnyLayout ? tensor.strides[3] : 1, dim - 8 * chunk);
  }
}

}  // namespace gpudnn::kernels::flash
