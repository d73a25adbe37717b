// Layer normalization, backward, of rows, with scale, dscale and dbias for each column:
//
//   g = dy * scale;  dx = inverse * (g - sum(g) / L - xhat * sum(g * xhat) / L)      (RMS without the first sum)
//   dscale = sum over the rows of dy * xhat;  dbias = sum over the rows of dy
//
// x and dy are read once. A block (a cluster of blocks for long rows; lanes of a warp for short ones) goes through its
// share of the rows, and each thread keeps its columns: the scale, and its part of dscale and dbias, in registers. The
// packs of the next row are on their way while one is worked on. At the end each cluster's parts of dscale and dbias go
// to the workspace, and a second kernel adds them up in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/row.cuh"
#include "kernels/ptx/griddepcontrol.cuh"

namespace gpudnn::kernels {

struct LayerNormBackwardArgs {
  const void* x;
  const void* dy;
  void* dx;
  LayerNormParameter scale;
  LayerNormParameter mean;  // null: RMS
  LayerNormParameter inverse;
  float* partials;      // [sample][part][dscale, dbias][L], or null
  bool is_accompanied;  // dscale and dbias are made beside this, by few_rows.cu
  std::int64_t length;
  float one_over_length;
  // Rows come in samples, each with a scale, dscale and dbias of its own; nearly always there is one.
  std::uint32_t of_sample;    // rows
  std::uint32_t parts;        // clusters of a sample
  std::int64_t scale_sample;  // stride
  std::uint32_t steps;        // groups of rows that a sample has: rows over those worked on at once
  int cluster;
};

// What a pack of a row adds to the row's sums, of g and of g * xhat, and to those of its columns.
template <int N>
__device__ __forceinline__ void add_pack(const float (&x)[N], const float (&dy)[N], const float (&scale)[N], float mean,
                                         float inverse, RowSums* sums, float (&dscale)[N], float (&dbias)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float weighted = dy[i] * ((x[i] - mean) * inverse);
    sums->first += dy[i] * scale[i];
    sums->second += weighted * scale[i];
    dscale[i] += weighted;
    dbias[i] += dy[i];
  }
}

// dx = inverse * (g + (x - mean) * slope + shift), from the row's sums.
struct LayerNormRowGradient {
  float mean, inverse, slope, shift;

  __device__ __forceinline__ LayerNormRowGradient(const LayerNormBackwardArgs& args, float row_mean, float row_inverse,
                                                  const RowSums& sums)
      : mean(row_mean),
        inverse(row_inverse),
        slope(-row_inverse * (sums.second * args.one_over_length)),
        shift(args.mean.data == nullptr ? 0 : -sums.first * args.one_over_length) {}
  // Of a pack, in the place of x.
  template <int N>
  __device__ __forceinline__ void of_pack(float (&x)[N], const float (&dy)[N], const float (&scale)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = (dy[i] * scale[i] + ((x[i] - mean) * slope + shift)) * inverse;
  }
};

constexpr int kLnBackwardThreads = 512;  // of a block with one row, at most
// Blocks of a multiprocessor whose warps have rows of floats, two packs a thread: as many as what is under way fills.
constexpr int kLnBackwardFloatBlocks = 7;

template <class T, int kPacks, int kLanes>
__global__ void __launch_bounds__(kLanes > 0 ? kLnWarpThreads : kLnBackwardThreads,
                                  kLanes > 0 && kPacks == 2 && std::is_same_v<T, float> ? kLnBackwardFloatBlocks : 1)
    layer_norm_rows_backward(const __grid_constant__ LayerNormBackwardArgs args,
                             const __grid_constant__ tile::LoopNest<kLnSlots> rows) {
  constexpr int N = tile::kPackWidth<T>;
  constexpr int kRowsAtOnce = kLanes > 0 ? kLnWarpThreads / kLanes : 1;
  using Pack = tile::Pack<T, N>;
  __shared__ RowScratch<4> scratch;

  int blocks = 1;
  int thread, threads;
  std::uint32_t part_number;
  int row_of_block = 0;
  if constexpr (kLanes > 0) {
    thread = static_cast<int>(threadIdx.x % kLanes);
    threads = kLanes;
    row_of_block = static_cast<int>(threadIdx.x / kLanes);
    part_number = blockIdx.x;
  } else {
    const tile::ClusterPlace place = tile::cluster_place(args.cluster);
    if (place.rank >= place.blocks) return;
    blocks = place.blocks;
    thread = place.rank * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
    threads = blocks * static_cast<int>(blockDim.x);
    part_number = blockIdx.x / static_cast<unsigned>(args.cluster);
  }
  const std::uint32_t sample = part_number / args.parts;
  const std::uint32_t first = part_number % args.parts;
  const std::uint32_t step = args.parts;
  const int packs = static_cast<int>(args.length / N);

  // The scale of the thread's columns; where registers are short it is fetched from the first-level cache again.
  constexpr bool kKeepsScale = kPacks * N <= 16;
  float kept[kKeepsScale ? kPacks : 1][N];
  float dscale[kPacks][N] = {};
  float dbias[kPacks][N] = {};
  const auto load_scale = [&](int k, float(&scale)[N]) {
    fill(scale, 1.0f);
    if (args.scale.data != nullptr && thread + k * threads < packs)
      load_parameters(args.scale, sample * args.scale_sample + (thread + k * threads) * N, scale);
  };
  if constexpr (kKeepsScale) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) load_scale(k, kept[k]);
  }
  const auto scale_of = [&](int k, float(&scale)[N]) {
    if constexpr (kKeepsScale) {
#pragma unroll
      for (int i = 0; i < N; ++i) scale[i] = kept[k][i];
    } else {
      load_scale(k, scale);
    }
  };

  // A row: its packs, its statistics, and where its gradient goes.
  struct Row {
    Pack x[kPacks];
    Pack dy[kPacks];
    float mean;
    float inverse;
    std::int64_t out;
    bool there;
  };
  const auto load = [&](std::uint32_t group, Row* row) {
    const std::uint32_t number = group * kRowsAtOnce + static_cast<std::uint32_t>(row_of_block);
    row->there = group < args.steps && number < args.of_sample;
    std::int64_t offset[kLnSlots];
    row_offsets(rows, row->there ? sample * args.of_sample + number : 0, offset);
    row->out = offset[kLnOut];
    row->mean = args.mean.data == nullptr ? 0 : load_one(args.mean.type, args.mean.data, offset[kLnMean]);
    row->inverse = load_one(args.inverse.type, args.inverse.data, offset[kLnInverse]);
    const T* const x = static_cast<const T*>(args.x) + offset[kLnX];
    const T* const dy = static_cast<const T*>(args.dy) + offset[kLnOther];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int pack = thread + k * threads;
      if (row->there && pack < packs) {
        row->x[k] = tile::load_pack<T, N>(x + pack * N);
        row->dy[k] = tile::load_pack<T, N>(dy + pack * N);
      }
    }
  };

  Row next;
  load(first, &next);
  int slot = 0;
  for (std::uint32_t group = first; group < args.steps; group += step) {
    const Row row = next;
    load(group + step, &next);
    RowSums sums = {0, 0};
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (row.there && thread + k * threads < packs) {
        float x[N], dy[N], scale[N];
        scale_of(k, scale);
        tile::widen_pack<float>(row.x[k], x);
        tile::widen_pack<float>(row.dy[k], dy);
        add_pack(x, dy, scale, row.mean, row.inverse, &sums, dscale[k], dbias[k]);
      }
    }
    // The slots of one row are read while those of the next are written.
    sums = row_sums<kLanes>(sums.first, sums.second, &scratch, slot, blocks);
    slot = 2 - slot;
    const LayerNormRowGradient gradient(args, row.mean, row.inverse, sums);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int pack = thread + k * threads;
      if (row.there && pack < packs) {
        float x[N], dy[N], scale[N];
        scale_of(k, scale);
        tile::widen_pack<float>(row.x[k], x);
        tile::widen_pack<float>(row.dy[k], dy);
        gradient.of_pack(x, dy, scale);
        tile::store_pack(static_cast<T*>(args.dx) + row.out + pack * N, tile::narrow_pack<T>(x));
      }
    }
  }
  ptx::griddepcontrol_launch_dependents();
  if (args.partials == nullptr) {
    if (kLanes == 0 && blocks > 1) tile::cluster_sync(blocks);
    return;
  }

  // The parts of the block's rows, added in order.
  float* const part = args.partials + static_cast<std::int64_t>(part_number) * 2 * args.length;
  if constexpr (kLanes > 0) {
    constexpr int kWarps = kLnWarpThreads / 32;
    constexpr int kColumns = kLanes * kPacks * N;
    __shared__ float parts[kWarps][2][kColumns];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int lanes = kLanes; lanes < 32; lanes *= 2) {
          dscale[k][i] += __shfl_xor_sync(0xffffffffu, dscale[k][i], lanes);
          dbias[k][i] += __shfl_xor_sync(0xffffffffu, dbias[k][i], lanes);
        }
        if (threadIdx.x % 32 < kLanes) {
          parts[threadIdx.x / 32][0][(thread + k * kLanes) * N + i] = dscale[k][i];
          parts[threadIdx.x / 32][1][(thread + k * kLanes) * N + i] = dbias[k][i];
        }
      }
    }
    __syncthreads();
    for (int column = static_cast<int>(threadIdx.x); column < 2 * kColumns; column += kLnWarpThreads) {
      const int at = column % kColumns;
      if (at >= args.length) continue;
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += parts[warp][column / kColumns][at];
      part[column / kColumns * args.length + at] = sum;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int pack = thread + k * threads;
      if (pack < packs) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
          *reinterpret_cast<float4*>(part + pack * N + i) =
              make_float4(dscale[k][i], dscale[k][i + 1], dscale[k][i + 2], dscale[k][i + 3]);
          *reinterpret_cast<float4*>(part + args.length + pack * N + i) =
              make_float4(dbias[k][i], dbias[k][i + 1], dbias[k][i + 2], dbias[k][i + 3]);
        }
      }
    }
    if (blocks > 1) tile::cluster_sync(blocks);  // no block may leave while its sums are being read
  }
}

}  // namespace gpudnn::kernels
