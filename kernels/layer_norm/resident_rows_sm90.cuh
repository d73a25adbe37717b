// Layer normalization, forward, of rows of halves, and what stands around it:
//
//   x = round(x + residual), which may be written;  y = f((x - mean) / sqrt(var + epsilon) * scale + bias) * factor
//   amax = the greatest size before that factor
//
// The blocks stay on their multiprocessors and take rows in turn. A row is held in registers, kPacks packs of 16 bytes
// a thread, by kLanes lanes of a warp, or (kLanes 0) by a block or a cluster, while the next row is on its way to
// registers. Each warp has the mean of its own values and the squares of the deviations from it; those of warps are
// joined in two plain passes, so a row has one exchange, and one meeting of its block or cluster: places for what warps
// leave are used by even and by odd rows. Blocks of a cluster tell each other by asynchronous stores that a barrier
// counts: cluster barriers with release and acquire would wait for stores under way and empty the first level of cache.
//
// Options are asked for once for all values of a thread, and a kernel has each piece of code once: rows are also read
// where they are few, and then the fetching of instructions is what takes the time.
//
// Where the squares exceed the range of float (rows.cuh), the row is scaled by 2^-80 and measured again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/layer_norm/row.cuh"
#include "kernels/layer_norm/rows.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/gpu_scope.cuh"
#include "kernels/ptx/rcp.cuh"
#include "kernels/ptx/st_async.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

struct LayerNormResidentArgs {
  const void* x;
  void* y;
  tile::AnyType y_type;
  bool y_as_x;
  bool rms;
  bool by_column;  // the parameters have an element for each column; else one for each `segment` of columns
  tile::FastDivmod segment;
  bool alike;  // there is a scale for each column; it, and a bias, is of x's type or of floats: so without `around`
  LayerNormParameter scale;  // null: 1
  LayerNormParameter bias;   // null: 0
  void* mean;                // written, or null
  void* inverse;
  tile::AnyType mean_type;
  tile::AnyType inverse_type;
  std::int64_t x_row, out_row, mean_row, inverse_row;  // strides; the residual and the sum have x's
  // Strides of scale and bias along the rows' slow and quick loop; `quick_rows`: its extent.
  std::int64_t scale_slow, scale_quick, bias_slow, bias_quick;
  tile::FastDivmod quick_rows;
  bool parameters_vary;  // from row to row
  std::int32_t packs;    // of a row
  std::uint32_t rows;
  std::int32_t cluster;
  std::uint32_t row_step;   // rows that the grid takes at once
  std::int32_t join_lanes;  // row_groups_sm90.cuh: a power of two
  float part_values;        // there: of a row, that each warp has; 0: not all have as many
  float epsilon;
  float one_over_length;
};

// What LayerNormAround says, as the kernel takes it.
struct LayerNormResidentAround {
  const void* residual;
  void* sum;
  const float* factor;
  std::uint32_t* amax;  // the bits of a float that is 0 at first
  float number;
  gemm::ActivationArgs<float> activation;
  bool clamps;  // which is max(x, 0), with NaNs passed on
};

// Packs of a thread, where a row has a block or a cluster: of few rows or with a residual, and of many.
constexpr int kLnResidentFew = 2;
constexpr int kLnResidentMany = 4;
// Threads of a multiprocessor, and of a block at most: the values of a row and the next one's packs take 64 to 128
// registers.
constexpr int layer_norm_resident_threads(int packs, bool around) { return packs > 2 ? 512 : around ? 640 : 1024; }

// Eight of them: one load of 16 bytes, or two.
template <class P>
__device__ __forceinline__ void load_values(const P* from, float (&values)[8]) {
  constexpr int kWidth = tile::kPackWidth<P>;
#pragma unroll
  for (int first = 0; first < 8; first += kWidth) {
    const auto pack = tile::load_pack<P, kWidth>(from + first);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[first + i] = tile::widen<float>(pack.get(i));
  }
}

__device__ __forceinline__ uint2 e4m3_of(const float (&values)[8]) {
  std::uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = ptx::cvt_rn_satfinite_e4m3x2_f32(values[2 * i + 1], values[2 * i]);
  return make_uint2(__byte_perm(pairs[0], pairs[1], 0x5410), __byte_perm(pairs[2], pairs[3], 0x5410));
}

struct LayerNormResidentShared {
  std::uint64_t told[2];                  // a cluster's: all moments of an even or odd turn are there
  float4 moments[2][kLnMaxCluster * 32];  // of a warp's values: mean, squares, and their number
};

// x / (1 + exp(-beta x)): f(-inf) is 0.
__device__ __forceinline__ float swish(float x, float minus_beta_log2e) {
  const float e = ptx::ex2_approx_ftz(x * minus_beta_log2e);
  return ptx::max_nan(x, -kLnGreatest) * ptx::rcp_approx_ftz(1.0f + e);
}

// The activation of all values of a thread. SiLU in line; of other functions the code for one pack, through which the
// packs pass.
template <int kPacks, int N>
__device__ __forceinline__ void activate_row(const gemm::ActivationArgs<float>& activation, float (&v)[kPacks][N]) {
  if (activation.mode == gemm::Activation::swish) {
    const float factor = activation.parameter * -1.44269504f;
#pragma unroll
    for (int k = 0; k < kPacks; ++k)
#pragma unroll
      for (int i = 0; i < N; ++i) v[k][i] = swish(v[k][i], factor);
    return;
  }
#pragma unroll 1
  for (int step = 0; step < kPacks; ++step) {
    float some[N];
#pragma unroll
    for (int i = 0; i < N; ++i) some[i] = v[0][i];
    gemm::activate_common(activation, some);
#pragma unroll
    for (int k = 0; k + 1 < kPacks; ++k)
#pragma unroll
      for (int i = 0; i < N; ++i) v[k][i] = v[k + 1][i];
#pragma unroll
    for (int i = 0; i < N; ++i) v[kPacks - 1][i] = some[i];
  }
}

template <class T, int kPacks, int kLanes, bool kAround>
__global__ void __launch_bounds__(layer_norm_resident_threads(kPacks, kAround), 1)
    layer_norm_resident_rows(const __grid_constant__ LayerNormResidentArgs args,
                             const __grid_constant__ LayerNormResidentAround around) {
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  __shared__ LayerNormResidentShared shared;

  // The thread's first pack of a row, and the distance to the next one.
  int thread = static_cast<int>(threadIdx.x);
  int threads;
  std::uint32_t row;
  std::uint32_t rank = 0;
  const int lane = thread % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  if constexpr (kLanes > 0) {
    row = blockIdx.x * (kLnWarpThreads / kLanes) + threadIdx.x / kLanes;
    thread %= kLanes;
    threads = kLanes;
  } else {
    row = blockIdx.x;
    if (args.cluster > 1) {
      const auto cluster = static_cast<std::uint32_t>(args.cluster);
      row /= cluster;
      rank = blockIdx.x - row * cluster;
    }
    thread += static_cast<int>(rank * blockDim.x);
    threads = args.cluster * static_cast<int>(blockDim.x);
  }
  bool mine[kPacks];
  int own = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    mine[k] = thread + k * threads < args.packs;
    own += mine[k] ? N : 0;
  }
  const int column = thread * N;
  const int step = threads * N;

  Pack coming[kPacks], others[kAround ? kPacks : 1];
  // The row's values, asked for; of the row after the last one nothing.
  std::int64_t x_at = row * args.x_row + column;
  const std::int64_t x_step = args.row_step * args.x_row;
  std::uint32_t coming_row = row;
  const auto load = [&] {
    if (coming_row < args.rows) {
      const T* const x = static_cast<const T*>(args.x) + x_at;
#pragma unroll
      for (int k = 0; k < kPacks; ++k)
        if (mine[k]) coming[k] = tile::load_pack<T, N>(x + k * step);
      if constexpr (kAround) {
        if (around.residual != nullptr) {
          const T* const residual = static_cast<const T*>(around.residual) + x_at;
#pragma unroll
          for (int k = 0; k < kPacks; ++k)
            if (mine[k]) others[k] = tile::load_pack<T, N>(residual + k * step);
        }
      }
    }
    coming_row += args.row_step;
    x_at += x_step;
  };
#pragma unroll
  for (int k = 0; k < kPacks; ++k) coming[k].fill(T{0});
  load();

  // Values that the lanes of a row in a warp have, all rows alike.
  constexpr int kTeam = kLanes == 0 ? 32 : kLanes;
  const auto team_values = static_cast<float>(tile::warp_reduce<kTeam>(own, tile::Sum{}));
  const float one_over_team = team_values > 0 ? ptx::rcp_approx_ftz(team_values) : 0.0f;
  const auto expect = [&](int turn) {
    ptx::mbarrier_arrive_expect_tx(&shared.told[turn & 1],
                                   static_cast<std::uint32_t>(args.cluster * warps) * sizeof(float4));
  };
  if constexpr (kLanes == 0) {
    if (args.cluster > 1) {
      if (threadIdx.x == 0) {
        for (std::uint64_t& barrier : shared.told) ptx::mbarrier_init(&barrier, 1);
        ptx::fence_mbarrier_init();
        expect(0);
        expect(1);
      }
      tile::cluster_sync(args.cluster);  // all blocks run, and their barriers are ready
    } else {
      __syncthreads();
    }
  }
  // Mean and squares of the row, by all of its threads, from those of warps. `turn` numbers the exchanges of the block.
  const auto joined = [&](float2 moments, int turn) {
    if constexpr (kLanes > 0) return moments;
    float4* const all = shared.moments[turn & 1];
    float4* const to = all + rank * static_cast<unsigned>(warps) + threadIdx.x / 32;
    if (args.cluster == 1) {
      if (lane == 0) *to = make_float4(moments.x, moments.y, team_values, 0);
      __syncthreads();
    } else {
      if (lane < args.cluster) {
        const auto other = static_cast<std::uint32_t>(lane);
        ptx::st_async(ptx::mapa(ptx::shared_address(to), other), make_float4(moments.x, moments.y, team_values, 0),
                      ptx::mapa(ptx::shared_address(&shared.told[turn & 1]), other));
      }
      __syncwarp();
      tile::wait(&shared.told[turn & 1], static_cast<std::uint32_t>(turn >> 1 & 1));
      // Those of turn + 2 come when all warps of the cluster have read these.
      if (threadIdx.x == 0) expect(turn + 2);
    }
    const int parts = warps * args.cluster;
    const float base = all[0].x;  // so that equal values have their own mean
    float apart = 0, squares = 0;
#pragma unroll 1
    for (int w = lane; w < parts; w += 32) apart += (all[w].x - base) * all[w].z;
    const float mean = base + tile::warp_reduce(apart, tile::Sum{}) * args.one_over_length;
#pragma unroll 1
    for (int w = lane; w < parts; w += 32) {
      const float distance = all[w].x - mean;
      squares += all[w].y + distance * distance * all[w].z;
    }
    return make_float2(mean, tile::warp_reduce(squares, tile::Sum{}));
  };

  float greatest = 0;
  [[maybe_unused]] float result_factor = 1;
  if constexpr (kAround) result_factor = around.factor != nullptr ? *around.factor : around.number;
  int turn = 0;
  // Lanes without a row stay while their warp has one.
  for (; kLanes > 0 ? __any_sync(0xffffffffu, row < args.rows) : row < args.rows; row += args.row_step) {
    const bool there = kLanes == 0 || row < args.rows;
    float v[kPacks][N];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) tile::widen_pack<float>(coming[k], v[k]);
    if constexpr (kAround) {
      if (around.residual != nullptr) {
        T* const sum = static_cast<T*>(around.sum) + (x_at - x_step);
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
          if (!mine[k]) continue;
          float more[N];
          tile::widen_pack<float>(others[k], more);
#pragma unroll
          for (int i = 0; i < N; ++i) v[k][i] += more[i];
          const Pack rounded = tile::narrow_pack<T>(v[k]);
          tile::widen_pack<float>(rounded, v[k]);
          if (around.sum != nullptr && there) tile::store_pack(sum + k * step, rounded);
        }
      }
    }
    load();

    float factor = 1;
    float mean, variance;
#pragma unroll 1
    for (int attempt = 0; attempt < 2; ++attempt) {
      float2 moments = make_float2(0, 0);
      if (!args.rms) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
          float part = 0;
#pragma unroll
          for (int i = 0; i < N; ++i) part += v[k][i];
          sum += part;  // of a pack that is not there: zeros
        }
        sum = tile::warp_reduce<kTeam>(sum, tile::Sum{});
        // With the remainder, it is exact for equal values.
        const float quotient = sum * one_over_team;
        moments.x = fmaf(fmaf(-quotient, team_values, sum), one_over_team, quotient);
      }
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        float part = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float distance = v[k][i] - moments.x;
          part += distance * distance;
        }
        moments.y += mine[k] ? part : 0.0f;
      }
      moments.y = tile::warp_reduce<kTeam>(moments.y, tile::Sum{});
      moments = joined(moments, turn++);
      mean = moments.x;
      variance = moments.y * args.one_over_length;
      const bool fits = variance <= kLnGreatest;
      if (std::is_same_v<T, tile::Half> || attempt == 1 || row_all<kLanes>(fits)) break;
      if (fits) continue;  // another row of the warp does not: this one is measured again, to the same bits
      factor = kLnDown;
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
#pragma unroll
        for (int i = 0; i < N; ++i) v[k][i] *= kLnDown;
      }
    }
    const float inverse = rsqrtf(variance + args.epsilon * (factor * factor));
    if (thread == 0 && there) {
      const bool scaled = factor != 1;
      if (args.mean != nullptr)
        tile::store_any(args.mean_type, args.mean, row * args.mean_row, scaled ? mean * kLnUp : mean);
      if (args.inverse != nullptr)
        tile::store_any(args.inverse_type, args.inverse, row * args.inverse_row, scaled ? inverse * kLnDown : inverse);
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[k][i] = (v[k][i] - mean) * inverse;
    }
    if (!there) continue;

    std::int64_t scale_at = 0, bias_at = 0;
    if (args.parameters_vary) {
      std::uint32_t quick;
      const std::uint32_t slow = args.quick_rows.divmod(row, &quick);
      scale_at = slow * args.scale_slow + quick * args.scale_quick;
      bias_at = slow * args.bias_slow + quick * args.bias_quick;
    }
    // Parameters of one type, with an element for each column.
    const auto with_columns = [&](auto type) {
      using P = decltype(type);
      const P* const scale = static_cast<const P*>(args.scale.data) + (scale_at + column);
      float factors[N];
      if (args.bias.data == nullptr) {
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
          if (!mine[k]) continue;
          load_values(scale + k * step, factors);
#pragma unroll
          for (int i = 0; i < N; ++i) v[k][i] *= factors[i];
        }
        return;
      }
      const P* const bias = static_cast<const P*>(args.bias.data) + (bias_at + column);
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        if (!mine[k]) continue;
        float addends[N];
        load_values(scale + k * step, factors);
        load_values(bias + k * step, addends);
#pragma unroll
        for (int i = 0; i < N; ++i) v[k][i] = v[k][i] * factors[i] + addends[i];
      }
    };
    if (kAround && !args.alike) {
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        if (!mine[k]) continue;
        const int at = column + k * step;
        float factors[N], addends[N];
        fill(factors, 1.0f);
        fill(addends, 0.0f);
        if (args.by_column) {
          if (args.scale.data != nullptr) load_parameters(args.scale, scale_at + at, factors);
          if (args.bias.data != nullptr) load_parameters(args.bias, bias_at + at, addends);
        } else {
          const std::uint32_t of = args.segment.divisor == 1 ? 0 : args.segment.quotient(static_cast<unsigned>(at));
          if (args.scale.data != nullptr) fill(factors, load_one(args.scale.type, args.scale.data, scale_at + of));
          if (args.bias.data != nullptr) fill(addends, load_one(args.bias.type, args.bias.data, bias_at + of));
        }
#pragma unroll
        for (int i = 0; i < N; ++i) v[k][i] = v[k][i] * factors[i] + addends[i];
      }
    } else if (args.scale.type == tile::AnyType::f32) {
      with_columns(float{});
    } else {
      with_columns(T{});
    }
    if constexpr (kAround) {
      if (around.clamps) {
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
#pragma unroll
          for (int i = 0; i < N; ++i) v[k][i] = ptx::max_nan(v[k][i], 0.0f);
        }
      } else if (around.activation.mode != gemm::Activation::identity) {
        activate_row(around.activation, v);
      }
      if (around.amax != nullptr) {
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
          if (!mine[k]) continue;
#pragma unroll
          for (int i = 0; i < N; ++i) greatest = ptx::max_nan(greatest, fabsf(v[k][i]));
        }
      }
      if (result_factor != 1.0f) {
#pragma unroll
        for (int k = 0; k < kPacks; ++k) {
#pragma unroll
          for (int i = 0; i < N; ++i) v[k][i] *= result_factor;
        }
      }
    }
    const std::int64_t out = row * args.out_row + column;
    if (args.y_as_x) {
      T* const y = static_cast<T*>(args.y) + out;
#pragma unroll
      for (int k = 0; k < kPacks; ++k)
        if (mine[k]) tile::store_pack(y + k * step, tile::narrow_pack<T>(v[k]));
    } else if (args.y_type == tile::AnyType::e4m3) {
      std::uint8_t* const y = static_cast<std::uint8_t*>(args.y) + out;
#pragma unroll
      for (int k = 0; k < kPacks; ++k)
        if (mine[k]) ptx::st_global(reinterpret_cast<uint2*>(y + k * step), e4m3_of(v[k]));
    } else {
#pragma unroll
      for (int k = 0; k < kPacks; ++k)
        if (mine[k]) store_values<T>(args.y_type, false, args.y, out + k * step, v[k]);
    }
  }
  if constexpr (kAround) {
    if (around.amax == nullptr) return;
    // NaNs are greater than infinity.
    std::uint32_t bits = __float_as_uint(greatest);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, distance));
    if (lane == 0 && bits > 0) ptx::red_relaxed_gpu_max(around.amax, bits);
  }
}

}  // namespace gpudnn::kernels
