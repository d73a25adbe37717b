// From the accumulators of a consumer warpgroup to D in boxes of 64 rows x 128 bytes, which TMA takes from shared
// memory:
//   store_plain      D = alpha * sum in f16, bf16 or f32: the fragments are rounded into the boxes, all in one piece.
//   store_fragments  with the chain: 8 sums of a thread at a time (two pairs of columns of two rows), in a loop, so
//   that
//                    there is one copy of the chain's code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/chain.cuh"
#include "kernels/gemm/sm90/mainloop.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_4d.cuh"

namespace gpudnn::kernels::gemm::sm90 {

// Where 16 bytes number `vector` of a row of a box lie: TMA's swizzle over rows of 128 bytes.
__device__ __forceinline__ int box_place(int row, int vector) { return row * 128 + ((vector ^ (row & 7)) << 4); }

// Rounds the fragments of 64 rows x 128 bytes into a box.
template <class T>
__device__ __forceinline__ void stage_box(unsigned char* box, const float* sum, float alpha) {
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int lane = thread % 32;
  if constexpr (sizeof(T) == 2) {
    // Two groups of 8 columns at a time: lanes 0-7 and 8-15 give the rows of the first one, the others of the second.
    const int row = thread / 32 * 16 + lane % 16;
    const std::uint32_t base = ptx::shared_address(box);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float pair[2] = {alpha * sum[4 * j + 2 * i], alpha * sum[4 * j + 2 * i + 1]};
        words[i] = tile::narrow_pack<T>(pair).words[0];
      }
      ptx::stmatrix_x4(base + static_cast<std::uint32_t>(box_place(row, j + lane / 16)), words[0], words[1], words[2],
                       words[3]);
    }
  } else {
    const int row = thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int byte = (8 * j + lane % 4 * 2) * 4;
        *reinterpret_cast<float2*>(box + box_place(row + 8 * half, byte / 16) + byte % 16) =
            make_float2(alpha * sum[4 * j + 2 * half], alpha * sum[4 * j + 2 * half + 1]);
      }
    }
  }
}

template <class I, class T>
__device__ __forceinline__ void store_boxes(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                            const Sums<I>& sum, float alpha, int* area) {
  constexpr int kColumns = 128 / static_cast<int>(sizeof(T));
  const int barrier = kStagingBarrier + consumer;
  const bool leads = threadIdx.x % 128 == 0;
  const std::uint32_t first_row = work.m + (I::kPingPong ? 0 : consumer * I::kRowBlocks * 64);
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
    for (int chunk = 0; chunk < I::kBN / kColumns; ++chunk) {
      unsigned char* const box = shared.staging[consumer] + *area * (64 * 128);
      stage_box<T>(box, sum[block] + chunk * kColumns / 2, alpha);
      ptx::fence_proxy_async();
      // The box before lies in the other area: whoever passes the barrier may write there.
      if (leads) ptx::bulk_wait_group_read<0>();
      ptx::barrier_sync(barrier, 128);
      if (leads) {
        ptx::tma_store_tile_4d(&p.d, box, static_cast<std::int32_t>(work.n) + chunk * kColumns,
                               static_cast<std::int32_t>(first_row) + block * 64,
                               static_cast<std::int32_t>(work.batch[1]), static_cast<std::int32_t>(work.batch[0]));
        ptx::bulk_commit_group();
      }
      *area ^= 1;
    }
  }
}

template <class I>
__device__ __forceinline__ void store_plain(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                            const Sums<I>& sum, float alpha, int* area) {
  if (p.epilogue.d.type == Element::f32) {
    store_boxes<I, float>(p, shared, work, consumer, sum, alpha, area);
  } else if (p.epilogue.d.type == Element::bf16) {
    store_boxes<I, tile::BFloat16>(p, shared, work, consumer, sum, alpha, area);
  } else {
    store_boxes<I, tile::Half>(p, shared, work, consumer, sum, alpha, area);
  }
}

// A bias that is a row vector, as floats; it arrives while the tile is multiplied.
__device__ __forceinline__ bool is_row_vector(const Matrix& bias) { return bias.data != nullptr && bias.m_stride == 0; }

template <class I>
__device__ __forceinline__ void fetch_bias(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer) {
  const Matrix& bias = p.epilogue.bias;
  if (!is_row_vector(bias)) return;
  // Its readers of the tile before are done.
  ptx::barrier_sync(kStagingBarrier + consumer, 128);
  for (std::uint32_t i = threadIdx.x % 128; i < I::kBN && work.n + i < p.n; i += 128) {
    shared.bias[consumer][i] = load1(bias, element_at(bias, work.batch, 0, work.n + i));
  }
}

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
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int lane = thread % 32;
  if (type == Element::f32) {
    const int row = thread / 32 * 16 + lane / 4;
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
  const int row = thread / 32 * 16 + lane % 16;
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

template <class I>
__device__ __forceinline__ void store_fragments(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                                const Sums<I>& sum, EpilogueState* state, int* area) {
  constexpr int kPiecesOfRow = I::kBN / 16;  // of 64 rows
  const Epilogue& e = p.epilogue;
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int lane = thread % 32;
  const int barrier = kStagingBarrier + consumer;
  const bool leads = thread == 0;
  const int box_columns = e.d.type == Element::f32 ? 32 : 64;
  const std::uint32_t first_row = work.m + (I::kPingPong ? 0 : consumer * I::kRowBlocks * 64);
  const bool row_bias = is_row_vector(e.bias);
  if (row_bias) ptx::barrier_sync(barrier, 128);
#pragma unroll 1
  for (int piece = 0; piece < I::kRowBlocks * kPiecesOfRow; ++piece) {
    float v[8];
    take_piece<I, 0, I::kRowBlocks * kPiecesOfRow>(sum, piece, v);
    const int column = piece % kPiecesOfRow * 16;  // in the tile
    const std::uint32_t box_row = first_row + piece / kPiecesOfRow * 64;
    const std::uint32_t m = box_row + thread / 32 * 16 + lane / 4;
    const std::uint32_t n = work.n + column + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= state->alpha;
    if (e.beta != 0.0f) add_fragment(p, e.c, e.beta, work, m, n, v);
    if (row_bias) {
      const float* const bias = shared.bias[consumer] + column + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        const float2 pair = *reinterpret_cast<const float2*>(bias + column_of(i));
        v[i] += pair.x;
        v[i + 1] += pair.y;
      }
    } else if (e.bias.data != nullptr) {
      add_fragment(p, e.bias, 1.0f, work, m, n, v);
    }
    if (e.activation != Activation::identity) activate8(e, e.d.type != Element::f32, v);
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
    unsigned char* const box = shared.staging[consumer] + *area * (64 * 128);
    stage_fragment(e.d.type, box, column % box_columns, v);
    if ((column + 16) % box_columns != 0) continue;
    ptx::fence_proxy_async();
    if (leads) ptx::bulk_wait_group_read<0>();
    ptx::barrier_sync(barrier, 128);
    if (leads) {
      ptx::tma_store_tile_4d(&p.d, box, static_cast<std::int32_t>(work.n) + column + 16 - box_columns,
                             static_cast<std::int32_t>(box_row), static_cast<std::int32_t>(work.batch[1]),
                             static_cast<std::int32_t>(work.batch[0]));
      ptx::bulk_commit_group();
    }
    *area ^= 1;
  }
}

}  // namespace gpudnn::kernels::gemm::sm90
