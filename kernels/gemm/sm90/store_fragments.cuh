// From the accumulators of a consumer warpgroup to D with the chain, in the boxes of store_boxes.cuh: 8 sums of a
// thread at a time (two pairs of columns of two rows), in a loop, so that there is one copy of the chain's code. Common
// chains are those of store_common.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/chain.cuh"
#include "kernels/gemm/sm90/store_common.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/prefetch_l2.cuh"

namespace gpudnn::kernels::gemm::sm90 {

// 8 sums of a thread: rows m (0, 1 and 4, 5) and m + 8 (2, 3 and 6, 7), columns n, n + 1 and (from 4) n + 8, n + 9.
__device__ __forceinline__ std::uint32_t row_of(int i) { return i % 4 < 2 ? 0 : 8; }
__device__ __forceinline__ std::uint32_t column_of(int i) { return i % 2 + (i < 4 ? 0 : 8); }

template <class T>
__device__ __forceinline__ void add_pairs(const Params& p, const Matrix& x, float scale, std::int64_t at,
                                          std::uint32_t m, std::uint32_t n, float (&v)[8]) {
  const T* const from = static_cast<const T*>(x.data) + at;
  float addend[8] = {};
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    const T* const pair = from + row_of(i) * x.m_stride + column_of(i) * x.n_stride;
    if (m + row_of(i) >= p.m || n + column_of(i) >= p.n) continue;
    const bool both = n + column_of(i) + 1 < p.n;
    if (x.vectors && both) {
      const tile::Pack<T, 2> pack = tile::load_pack<T, 2>(pair);
      addend[i] = tile::widen<float>(pack.get(0));
      addend[i + 1] = tile::widen<float>(pack.get(1));
    } else {
      addend[i] = tile::widen<float>(pair[0]);
      if (both) addend[i + 1] = tile::widen<float>(pair[x.n_stride]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] += scale * addend[i];
}

// scale * x, at the 8 places.
__device__ __forceinline__ void add_fragment(const Params& p, const Matrix& x, float scale, const WorkTile& work,
                                             std::uint32_t m, std::uint32_t n, float (&v)[8]) {
  const std::int64_t at = element_at(x, work.batch, m, n);
  if (x.type == Element::bf16) {
    add_pairs<tile::BFloat16>(p, x, scale, at, m, n, v);
  } else if (x.type == Element::f16) {
    add_pairs<tile::Half>(p, x, scale, at, m, n, v);
  } else if (x.type == Element::f32) {
    add_pairs<float>(p, x, scale, at, m, n, v);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (m + row_of(i) >= p.m || n + column_of(i) >= p.n) continue;
      v[i] += scale * load1(x, at + row_of(i) * x.m_stride + column_of(i) * x.n_stride);
    }
  }
}

// The 8 sums, rounded, into 16 columns of a box: columns `group` to `group` + 15.
__device__ __forceinline__ void stage_fragment(Element type, unsigned char* box, int group, const float (&v)[8]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (type == Element::f32) {
    const int row = lane / 4;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      const int byte = (group + lane % 4 * 2 + (i < 4 ? 0 : 8)) * 4;
      *reinterpret_cast<float2*>(box + box_place(row + static_cast<int>(row_of(i)), byte / 16) + byte % 16) =
          make_float2(v[i], v[i + 1]);
    }
    return;
  }
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = type == Element::bf16 ? ptx::cvt_rn_bf16x2_f32(v[2 * i + 1], v[2 * i])
                                     : ptx::cvt_rn_f16x2_f32(v[2 * i + 1], v[2 * i]);
  }
  const int row = lane % 16;
  ptx::stmatrix_x4(ptx::shared_address(box) + static_cast<std::uint32_t>(box_place(row, group / 8 + lane / 16)),
                   words[0], words[1], words[2], words[3]);
}

// Sums number 8 * piece to 8 * piece + 7 of the kCount pieces from kFirst on, by branches that halve them: registers
// have no index. Without the pins the compiler selects each value among all pieces, 8 instructions for each piece.
template <class I, int kFirst, int kCount>
__device__ __forceinline__ void take_piece(const Sums<I>& sum, int piece, float (&v)[8]) {
  if constexpr (kCount == 1) {
    constexpr int kPiecesOfRow = I::kBN / 16;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      v[j] = sum[kFirst / kPiecesOfRow][kFirst % kPiecesOfRow * 8 + j];
      ptx::pin(&v[j]);
    }
  } else {
    constexpr int kHalf = kCount / 2;
    if (piece < kFirst + kHalf) {
      take_piece<I, kFirst, kHalf>(sum, piece, v);
    } else {
      take_piece<I, kFirst + kHalf, kCount - kHalf>(sum, piece, v);
    }
  }
}

// Works through the 8 sums of a thread at a time; finish(v, m, n, column) makes elements of D of them.
template <class I, class Finish>
__device__ __forceinline__ void store_pieces(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                             const Sums<I>& sum, float alpha, int columns, int* area, Finish finish) {
  constexpr int kPiecesOfRow = I::kBN / 16;  // of 64 rows
  const Element type = p.epilogue.d.type;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int box_columns = type == Element::f32 ? 32 : 64;
  const std::uint32_t first_m = first_row<I>(work, consumer);
  unsigned char* box = nullptr;
#pragma unroll 1
  for (int piece = 0; piece < I::kRowBlocks * columns / 16; ++piece) {
    float v[8];
    take_piece<I, 0, I::kRowBlocks * kPiecesOfRow>(sum, piece, v);
    const int column = piece % kPiecesOfRow * 16;  // in the tile
    const std::uint32_t m = first_m + piece / kPiecesOfRow * 64;
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= alpha;
    finish(v, m + lane / 4, work.n + column + lane % 4 * 2, column + lane % 4 * 2);
    if (column % box_columns == 0) box = free_box<I>(shared, consumer, *area);
    stage_fragment(type, box, column % box_columns, v);
    if ((column + 16) % box_columns != 0) continue;
    store_box(p, box, work, m, work.n + column + 16 - box_columns);
    *area ^= 1;
  }
}

__device__ __forceinline__ void add_bias(const float* bias, float (&v)[8]) {
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    const float2 pair = *reinterpret_cast<const float2*>(bias + column_of(i));
    v[i] += pair.x;
    v[i + 1] += pair.y;
  }
}

// c at a thread's places in 64 columns, of D's 16-bit type: words for pairs of columns, of rows m and m + 8 in turn.
struct Addends {
  static constexpr int kWords = 16;
  std::uint32_t words[kWords];
};
__device__ __forceinline__ void load_addends(const Params& p, const WorkTile& work, std::uint32_t m, std::uint32_t n,
                                             Addends* addends) {
  const Matrix& c = p.epilogue.c;
  const std::uint16_t* const from = static_cast<const std::uint16_t*>(c.data) + element_at(c, work.batch, m, n);
#pragma unroll
  for (int i = 0; i < Addends::kWords; ++i) {
    const std::uint32_t row = i % 2 * 8;
    const std::uint32_t column = i / 2 * 8;
    addends->words[i] = m + row < p.m && n + column < p.n
                            ? *reinterpret_cast<const std::uint32_t*>(from + row * c.m_stride + column)
                            : 0;
  }
}

// Whether c is added to rows of 16-bit elements of its own type, and nothing else is done but a bias along the row.
__device__ __forceinline__ bool is_residual(const Params& p) {
  const Epilogue& e = p.epilogue;
  return e.beta != 0.0f && e.c.vectors && e.c.type == e.d.type && e.d.type != Element::f32 && e.amax == nullptr &&
         e.scale_d == nullptr && e.activation.mode == Activation::identity &&
         (e.bias.data == nullptr || is_row_vector(e.bias));
}

// The rows of c that the tile will add are asked into the L2 while it is multiplied.
template <class I>
__device__ __forceinline__ void prefetch_addend(const Params& p, const WorkTile& work, int consumer) {
  if (!is_residual(p) && (p.store != Store::lines || p.epilogue.beta == 0.0f)) return;
  constexpr int kRows = I::kRowBlocks * 64;
  const std::uint32_t top = work.m + (I::kPingPong ? 0 : consumer * kRows);
  for (int i = static_cast<int>(threadIdx.x % 128); i < kRows * I::kBN / 64; i += 128) {  // lines of 128 bytes
    const std::uint32_t m = top + i / (I::kBN / 64);
    const std::uint32_t n = work.n + i % (I::kBN / 64) * 64;
    if (m >= p.m || n >= p.n) continue;
    ptx::prefetch_l2(static_cast<const std::uint16_t*>(p.epilogue.c.data) + element_at(p.epilogue.c, work.batch, m, n));
  }
}

// 64 columns at a time, as in store_common: c of the next ones is on its way meanwhile. With 16 at a time the adding
// took some 20 us of a tile of 128 x 256.
template <class I>
__device__ __forceinline__ void store_residual(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                               const Sums<I>& sum, float alpha, int columns, int* area) {
  const Epilogue& e = p.epilogue;
  const float* const bias = shared.bias[consumer] + threadIdx.x % 4 * 2;
  const bool is_bf16 = e.d.type == Element::bf16;
  const std::uint32_t m = first_row<I>(work, consumer);
  const std::uint32_t row = m + threadIdx.x % 32 / 4;
  const std::uint32_t column = work.n + threadIdx.x % 4 * 2;
  const int end = I::kRowBlocks * columns / 64;  // with fewer columns there is one row block
  Addends here;
  load_addends(p, work, row, column, &here);
#pragma unroll 1
  for (int number = 0; number < end; ++number) {
    float v[32];
    take_columns<I>(alpha, bias, sum, number, v);
    std::uint32_t words[Addends::kWords];
#pragma unroll
    for (int i = 0; i < Addends::kWords; ++i) {
      const tile::Pack<tile::BFloat16, 2> b = {{here.words[i]}};
      const tile::Pack<tile::Half, 2> h = {{here.words[i]}};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        v[2 * i + j] += e.beta * (is_bf16 ? tile::widen<float>(b.get(j)) : tile::widen<float>(h.get(j)));
      }
      words[i] =
          is_bf16 ? ptx::cvt_rn_bf16x2_f32(v[2 * i + 1], v[2 * i]) : ptx::cvt_rn_f16x2_f32(v[2 * i + 1], v[2 * i]);
    }
    if (number + 1 < end) {
      load_addends(p, work, row + (number + 1) / I::kChunks * 64, column + (number + 1) % I::kChunks * 64, &here);
    }
    unsigned char* const box = free_box<I>(shared, consumer, *area);
    const std::uint32_t base = ptx::shared_address(box);
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      ptx::stmatrix_x4(base + static_cast<std::uint32_t>(box_place(lane % 16, j + lane / 16)), words[2 * j],
                       words[2 * j + 1], words[2 * j + 2], words[2 * j + 3]);
    }
    store_box(p, box, work, m + number / I::kChunks * 64, work.n + number % I::kChunks * 64);
    *area ^= 1;
  }
}

template <class I>
__device__ __forceinline__ void store_fragments(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                                const Sums<I>& sum, EpilogueState* state, int columns, int* area) {
  const Epilogue& e = p.epilogue;
  const bool row_bias = is_row_vector(e.bias);
  if (is_common(p)) return store_common<I>(p, shared, work, consumer, sum, state->alpha, columns, area);
  if (is_residual(p)) return store_residual<I>(p, shared, work, consumer, sum, state->alpha, columns, area);
  store_pieces<I>(p, shared, work, consumer, sum, state->alpha, columns, area,
                  [&](float(&v)[8], std::uint32_t m, std::uint32_t n, int column) {
                    if (e.beta != 0.0f) add_fragment(p, e.c, e.beta, work, m, n, v);
                    if (row_bias) {
                      add_bias(shared.bias[consumer] + column, v);
                    } else if (e.bias.data != nullptr) {
                      add_fragment(p, e.bias, 1.0f, work, m, n, v);
                    }
                    activate(e.activation, e.d.type != Element::f32, v);
                    if (e.amax != nullptr) {
#pragma unroll
                      for (int i = 0; i < 8; ++i) {
                        const bool exists = m + row_of(i) < p.m && n + column_of(i) < p.n;
                        if (exists) state->amax = max(state->amax, __float_as_uint(v[i]) & 0x7fffffffu);
                      }
                    }
                    if (e.scale_d != nullptr) {
#pragma unroll
                      for (int i = 0; i < 8; ++i) v[i] *= state->scale_d;
                    }
                  });
}

}  // namespace gpudnn::kernels::gemm::sm90
