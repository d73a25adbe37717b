// Adaptive layer normalization, forward, of rows of halves whose parameters are those of a sample (the mathematics:
// resident_rows_sm90.cuh), held in shared memory: a block has some rows of one sample.
//
// Each has the cut that suits it: a row is measured by a warp, and a pack of columns is written by a thread, which
// reads its parameters once for all rows. A block asks for its rows by bulk copies, and several blocks share a
// multiprocessor, so that one loads while another measures or writes. y may be x.
//
// Where the squares exceed the range of float (rows.cuh), the row is scaled by 2^-80 and measured again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/held_moments.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

constexpr int kLnTileThreads = 320;  // of a block, at most
constexpr int kLnTileRows = 16;      // likewise
constexpr int kLnTileShort = 160;    // packs of a row that a warp reads once

struct LayerNormRowTilesShared {
  std::uint64_t full;        // the rows are there
  float2 rows[kLnTileRows];  // what a value is multiplied by, and what is added to that
};
constexpr int kLnTileAt = (static_cast<int>(sizeof(LayerNormRowTilesShared)) + 127) / 128 * 128;

// `tile_rows` of a block, which divide the rows of a sample; a thread of each `packs` has a pack of columns.
template <class T, bool kShort>
__global__ void __launch_bounds__(kLnTileThreads, 3)
    layer_norm_row_tiles(const __grid_constant__ LayerNormResidentArgs args, const int tile_rows) {
  constexpr int N = tile::kPackWidth<T>;
  unsigned char* const dynamic = tile::dynamic_shared();
  auto* const shared = reinterpret_cast<LayerNormRowTilesShared*>(dynamic);
  auto* const held = reinterpret_cast<T*>(dynamic + kLnTileAt);
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  const int warp = thread / 32, lane = thread % 32;
  const std::uint32_t row = blockIdx.x * static_cast<std::uint32_t>(tile_rows);

  if (thread == 0) {
    ptx::mbarrier_init(&shared->full, 1);
    ptx::fence_mbarrier_init();
    const T* const x = static_cast<const T*>(args.x) + row * args.x_row;
    const bool in_one = args.x_row == args.packs * N;  // the rows lie one after the other
    const int copies = in_one ? 1 : tile_rows;
    const auto bytes = static_cast<std::uint32_t>(args.packs * (in_one ? tile_rows : 1)) * 16;
    ptx::mbarrier_arrive_expect_tx(&shared->full, bytes * static_cast<std::uint32_t>(copies));
#pragma unroll 1
    for (int r = 0; r < copies; ++r)
      ptx::bulk_copy(held + r * args.packs * N, x + r * args.x_row, bytes, &shared->full);
  }
  // The parameters of the thread's columns.
  const int rows_at_once = threads / args.packs;
  const int first_row = thread / args.packs;
  const int pack = thread - first_row * args.packs;
  float scale[N], bias[N];
  const std::uint32_t sample = args.quick_rows.quotient(row);
  const auto read = [&](const LayerNormParameter& parameter, std::int64_t of_sample, float(&values)[N]) {
    const std::int64_t at = sample * of_sample + pack * N;
    if (parameter.type == tile::AnyType::f32)
      load_values(static_cast<const float*>(parameter.data) + at, values);
    else
      load_values(static_cast<const T*>(parameter.data) + at, values);
  };
  fill(bias, 0.0f);
  read(args.scale, args.scale_slow, scale);
  if (args.bias.data != nullptr) read(args.bias, args.bias_slow, bias);
  __syncthreads();
  tile::wait(&shared->full, 0);

  const auto measure = [&](const T* values) {
    if constexpr (kShort) return held_moments<T, kLnTileShort / 32, true>(values, 0, args.packs, args.rms);
    return held_moments(values, 0, args.packs, args.rms);
  };
  for (int r = warp; r < tile_rows; r += threads / 32) {
    T* const values = held + r * args.packs * N;
    float2 moments = measure(values);
    const bool scaled = !std::is_same_v<T, tile::Half> && !(moments.y * args.one_over_length <= kLnGreatest);
    if (scaled) {
      scale_held(values, 0, args.packs);
      moments = measure(values);
    }
    const float2 of_row = keep_moments(args, row + static_cast<std::uint32_t>(r), moments.x,
                                       moments.y * args.one_over_length, scaled, lane == 0);
    if (lane == 0) shared->rows[r] = of_row;
  }
  __syncthreads();

  if (first_row >= rows_at_once) return;
  T* const out = static_cast<T*>(args.y) + (row * args.out_row + pack * N);
#pragma unroll 4
  for (int r = first_row; r < tile_rows; r += rows_at_once) {
    const float2 of_row = shared->rows[r];
    float values[N];
    tile::widen_pack<float>(tile::load_pack<T, N>(held + (r * args.packs + pack) * N), values);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = fmaf(fmaf(values[i], of_row.x, of_row.y), scale[i], bias[i]);
    tile::store_pack(out + r * args.out_row, tile::narrow_pack<T>(values));
  }
}

}  // namespace gpudnn::kernels
