// Layer normalization, forward, of sets whose elements lie one after the other: rows.
//
//   mean = sum(x) / L;  var = sum((x - mean)^2) / L;  y = (x - mean) / sqrt(var + epsilon) * scale + bias
//
// A row is read once into registers, kPacks packs of 16 bytes a thread, by kLanes lanes of a warp, or (kLanes 0) by a
// block or a cluster of up to 8 blocks; the sum of squares is taken of the deviations held there. Only a row beyond
// what a cluster holds (kPacks 0) is read three times, and summed in double by each thread.
//
// Where the squares exceed the range of float (deviations above some 1e19), the row is scaled by 2^-80 and summed
// again; so a finite row never gives a NaN. A row with an infinity or NaN gives NaN, and no other row does.
//
// layer_norm_rows_of_sum adds a residual to x as it is read, and writes the sum, rounded as it is then normalised. It
// has rows that are held.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/row.cuh"

namespace gpudnn::kernels {

struct LayerNormRowArgs {
  const void* x;
  void* y;
  tile::AnyType y_type;
  bool y_as_x;  // y has x's type
  bool rms;
  bool by_column;  // the parameters have an element for each column; else one for each `segment` of columns
  LayerNormParameter scale;
  LayerNormParameter bias;
  void* mean;  // written, or null
  void* inverse;
  tile::AnyType mean_type;
  tile::AnyType inverse_type;
  std::int64_t length;
  tile::FastDivmod segment;
  float epsilon;
  float one_over_length;
  int cluster;
};

// What is added to x, and where the sum goes; and nothing of the kind.
struct LayerNormRowResidual {
  const void* residual;
  void* sum;  // or null
};
struct LayerNormRowAlone {};

// Threads of a block with one row, at most: packs of 16 bytes fill the registers of fewer.
constexpr int layer_norm_threads(int packs, int width) { return packs == 8 && width > 1 ? 512 : 1024; }

constexpr float kLnDown = 8.271806125530277e-25f;  // 2^-80
constexpr float kLnUp = 1.2089258196146292e+24f;
constexpr float kLnGreatest = 3.4028234663852886e+38f;

template <class T, int N, int kPacks, int kLanes, class Around>
__device__ __forceinline__ void layer_norm_row(const LayerNormRowArgs& args, const tile::LoopNest<kLnSlots>& rows,
                                               const Around& around) {
  constexpr bool kAround = std::is_same_v<Around, LayerNormRowResidual>;
  constexpr bool kHeldAll = kPacks > 0;
  constexpr int kHeld = kHeldAll ? kPacks : 4;
  using Pack = tile::Pack<T, N>;
  using Index = std::conditional_t<kHeldAll, std::int32_t, std::int64_t>;
  __shared__ RowScratch<4> scratch;

  int blocks = 1;
  std::uint32_t row;
  Index thread, threads;
  bool there = true;
  if constexpr (kLanes > 0) {
    row = blockIdx.x * (kLnWarpThreads / kLanes) + threadIdx.x / kLanes;
    thread = static_cast<Index>(threadIdx.x % kLanes);
    threads = kLanes;
    there = row < rows.count;  // if not, the lanes stay: the warp's shuffles count on them
    if (!there) row = 0;
  } else {
    const tile::ClusterPlace place = tile::cluster_place(args.cluster);
    if (place.rank >= place.blocks) return;
    blocks = place.blocks;
    row = blockIdx.x / static_cast<unsigned>(args.cluster);
    thread = static_cast<Index>(place.rank) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
    threads = static_cast<Index>(blocks) * static_cast<Index>(blockDim.x);
  }
  std::int64_t offset[kLnSlots];
  row_offsets(rows, row, offset);
  const T* const x = static_cast<const T*>(args.x) + offset[kLnX];
  const auto packs = static_cast<Index>(there ? args.length / N : 0);

  Pack held[kHeld];
  const auto load = [&](Index first) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const Index pack = first + k * threads;
      if (pack < packs) held[k] = tile::load_pack<T, N>(x + pack * N);
    }
    if constexpr (kAround) {
      const T* const residual = static_cast<const T*>(around.residual) + offset[kLnX];
      T* const sum = around.sum == nullptr ? nullptr : static_cast<T*>(around.sum) + offset[kLnX];
      Pack others[kHeld];
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const Index pack = first + k * threads;
        if (pack < packs) others[k] = tile::load_pack<T, N>(residual + pack * N);
      }
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const Index pack = first + k * threads;
        if (pack >= packs) continue;
        float values[N], more[N];
        tile::widen_pack<float>(held[k], values);
        tile::widen_pack<float>(others[k], more);
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] += more[i];
        held[k] = tile::narrow_pack<T>(values);
        if (sum != nullptr) tile::store_pack(sum + pack * N, held[k]);
      }
    }
  };
  // The sum of term(value) over the row.
  const auto sum_of = [&](int slot, float factor, const auto& term) {
    if constexpr (kHeldAll) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        if (thread + k * threads < packs) {
          float values[N];
          tile::widen_pack<float>(held[k], values);
          float part = 0;
#pragma unroll
          for (int i = 0; i < N; ++i) part += term(values[i]);
          sum += part;
        }
      }
      return row_sum<kLanes>(sum, &scratch, slot, blocks);
    } else {
      double sum = 0;
      for (Index first = thread; first < packs; first += kHeld * threads) {
        load(first);
#pragma unroll
        for (int k = 0; k < kHeld; ++k) {
          if (first + k * threads < packs) {
            float values[N];
            tile::widen_pack<float>(held[k], values);
            float part = 0;
#pragma unroll
            for (int i = 0; i < N; ++i) part += term(values[i] * factor);
            sum += part;
          }
        }
      }
      return row_sum<kLanes>(static_cast<float>(sum), &scratch, slot, blocks);
    }
  };

  if constexpr (kHeldAll) load(thread);
  float mean = 0;
  float variance = 0;
  float factor = 1;  // by which the values that are summed are scaled
#pragma unroll 1
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!args.rms) mean = sum_of(2 * attempt, factor, [](float value) { return value; }) * args.one_over_length;
    variance = sum_of(2 * attempt + 1, factor,
                      [mean](float value) {
                        const float distance = value - mean;
                        return distance * distance;
                      }) *
               args.one_over_length;
    const bool fits = variance <= kLnGreatest;
    // The squares of halves always fit.
    if (std::is_same_v<T, tile::Half> || attempt == 1 || row_all<kLanes>(fits)) break;
    if (fits) continue;  // another row of the warp does not: this one is summed again, to the same bits
    factor = kLnDown;
    if constexpr (kHeldAll) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        float values[N];
        tile::widen_pack<float>(held[k], values);
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] *= kLnDown;
        held[k] = tile::narrow_pack<T>(values);
      }
    }
  }
  const float inverse = rsqrtf(variance + args.epsilon * (factor * factor));
  if (there && thread == 0) {
    const bool scaled = factor != 1;
    if (args.mean != nullptr) tile::store_any(args.mean_type, args.mean, offset[kLnMean], scaled ? mean * kLnUp : mean);
    if (args.inverse != nullptr)
      tile::store_any(args.inverse_type, args.inverse, offset[kLnInverse], scaled ? inverse * kLnDown : inverse);
  }

  // Of a row with one scale and bias.
  const bool shared = !args.by_column && args.segment.divisor == 1;
  float row_scale = 1;
  float row_bias = 0;
  if (shared) {
    if (args.scale.data != nullptr) row_scale = load_one(args.scale.type, args.scale.data, offset[kLnScale]);
    if (args.bias.data != nullptr) row_bias = load_one(args.bias.type, args.bias.data, offset[kLnOther]);
  }
  const auto write = [&](Index first) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const Index pack = first + k * threads;
      if (pack < packs) {
        const std::int64_t column = static_cast<std::int64_t>(pack) * N;
        float values[N], scale[N], bias[N];
        tile::widen_pack<float>(held[k], values);
        fill(scale, row_scale);
        fill(bias, row_bias);
        if (args.by_column) {
          if (args.scale.data != nullptr) load_parameters(args.scale, offset[kLnScale] + column, scale);
          if (args.bias.data != nullptr) load_parameters(args.bias, offset[kLnOther] + column, bias);
        } else if (!shared) {
          const std::int64_t at = args.segment.quotient(static_cast<std::uint32_t>(column));
          if (args.scale.data != nullptr)
            fill(scale, load_one(args.scale.type, args.scale.data, offset[kLnScale] + at));
          if (args.bias.data != nullptr) fill(bias, load_one(args.bias.type, args.bias.data, offset[kLnOther] + at));
        }
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float value = kHeldAll ? values[i] : values[i] * factor;
          values[i] = (value - mean) * inverse * scale[i] + bias[i];
        }
        store_values<T>(args.y_type, args.y_as_x, args.y, offset[kLnOut] + column, values);
      }
    }
  };
  if constexpr (kHeldAll) {
    write(thread);
  } else {
    for (Index first = thread; first < packs; first += kHeld * threads) {
      load(first);
      write(first);
    }
  }
  if constexpr (kLanes == 0) {
    if (blocks > 1) tile::cluster_sync(blocks);  // no block may leave while its sums are being read
  }
}

template <class T, int N, int kPacks, int kLanes>
__global__ void __launch_bounds__(kLanes > 0 ? kLnWarpThreads : layer_norm_threads(kPacks, N))
    layer_norm_rows(const __grid_constant__ LayerNormRowArgs args,
                    const __grid_constant__ tile::LoopNest<kLnSlots> rows) {
  layer_norm_row<T, N, kPacks, kLanes>(args, rows, LayerNormRowAlone{});
}

template <class T, int N, int kPacks>
__global__ void __launch_bounds__(layer_norm_threads(kPacks, N))
    layer_norm_rows_of_sum(const __grid_constant__ LayerNormRowArgs args,
                           const __grid_constant__ tile::LoopNest<kLnSlots> rows,
                           const __grid_constant__ LayerNormRowResidual around) {
  layer_norm_row<T, N, kPacks, 0>(args, rows, around);
}

}  // namespace gpudnn::kernels
