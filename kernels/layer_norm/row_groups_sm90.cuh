// Layer normalization, forward, of many rows of halves, and what stands around it (the mathematics:
// resident_rows_sm90.cuh). A block or a cluster has kRows rows, of each kPacks packs of 16 bytes a thread.
//
// What a row costs besides its bytes is instructions: so a thread has many packs, several rows share their parameters
// and their one meeting, options are asked once for all packs, and sums of a warp's values come from the tensor cores,
// where a pack is a piece of a matrix, multiplied by ones: an instruction for 8 conversions and 8 additions of a lane.
// Each warp has the mean of its own values and the squares of the deviations from it; those of warps are joined in two
// plain passes.
//
// Where the squares exceed the range of float (rows.cuh), the rows are scaled by 2^-80 and measured again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/resident_rows_sm90.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/tile/rounded_math.cuh"

namespace gpudnn::kernels {

// What stands around the norm that an instance has code for: nothing, what is behind it (GELU alone, in an instance of
// its own), or a residual before it too.
enum LayerNormGroupAround : int { kLnNothing, kLnBehind, kLnGelu, kLnBoth };
// So that a multiprocessor has room for 7, 6 and 5 blocks of 128 threads.
constexpr int layer_norm_group_registers(int around) {
  return around == kLnBoth ? 100 : around == kLnNothing ? 72 : 80;
}

constexpr int kLnGroupRows = 2;
constexpr int kLnGroupPacks = 4;
constexpr int kLnGroupBlock = 384;  // threads of a block, at most

struct LayerNormGroupShared {
  std::uint64_t told[2];                                  // a cluster's: all moments of an even or odd turn are there
  float4 moments[2][kLnMaxCluster * kLnGroupBlock / 32];  // of a warp's values of two rows: mean, squares
  std::uint32_t greatest[kLnGroupBlock / 32];
};

// Adds a warp's packs: afterwards each lane has the sums of two of the product's 16 rows, in one of its columns.
template <class T>
__device__ __forceinline__ void add_pack(const tile::Pack<T, 8>& pack, float (&sums)[4]) {
  constexpr bool kHalf = std::is_same_v<T, tile::Half>;
  constexpr std::uint32_t kOnes = kHalf ? 0x3c003c00u : 0x3f803f80u;
  if constexpr (kHalf)
    ptx::mma_m16n8k16_f16(sums, pack.words, kOnes, kOnes);
  else
    ptx::mma_m16n8k16_bf16(sums, pack.words, kOnes, kOnes);
}
__device__ __forceinline__ float warp_sum_of_products(const float (&sums)[4]) {
  float sum = sums[0] + sums[2];
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  return sum;
}

// The sum of all values of a warp's packs.
template <class T, int kPacks>
__device__ __forceinline__ float warp_sum_of_packs(const tile::Pack<T, 8> (&packs)[kPacks]) {
  float sums[4] = {0, 0, 0, 0};
#pragma unroll
  for (int k = 0; k < kPacks; ++k) add_pack<T>(packs[k], sums);
  return warp_sum_of_products(sums);
}

// A place in global memory that is worked out once: else each access works out its own from the kernel's parameters.
template <class T>
__device__ __forceinline__ T* pinned(T* pointer) {
  auto address = static_cast<std::int64_t>(__cvta_generic_to_global(pointer));
  ptx::pin(&address);
  return static_cast<T*>(__cvta_global_to_generic(static_cast<std::size_t>(address)));
}

template <class T, int kAround>
__global__ void __maxnreg__(layer_norm_group_registers(kAround))
    layer_norm_row_groups(const __grid_constant__ LayerNormResidentArgs args,
                          const __grid_constant__ LayerNormResidentAround around) {
  constexpr int N = 8, kRows = kLnGroupRows, kPacks = kLnGroupPacks;
  using Pack = tile::Pack<T, N>;
  __shared__ LayerNormGroupShared shared;

  const auto cluster = static_cast<std::uint32_t>(args.cluster);
  std::uint32_t group = blockIdx.x, rank = 0;
  if (cluster > 1) {
    group /= cluster;
    rank = blockIdx.x - group * cluster;
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int warp = static_cast<int>(rank) * warps + static_cast<int>(threadIdx.x) / 32;  // of the cluster
  const int thread = static_cast<int>(rank * blockDim.x + threadIdx.x);
  const int threads = args.cluster * static_cast<int>(blockDim.x);
  const int column = thread * N;
  const unsigned step = static_cast<unsigned>(threads) * N;
  const bool is_full = args.part_values > 0;  // each thread has kPacks packs of a row
  const int parts = warps * args.cluster;
  const auto is_mine = [&](int k) { return thread + k * threads < args.packs; };
  // Values that a warp of the cluster has of a row.
  const auto values_of = [&](int number) {
    if (is_full) return args.part_values;
    int count = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) count += min(max(args.packs - number * 32 - k * threads, 0), 32);
    return static_cast<float>(count * N);
  };

  if (cluster > 1) {
    if (threadIdx.x == 0) {
      for (std::uint64_t& barrier : shared.told) {
        ptx::mbarrier_init(&barrier, 1);
        ptx::mbarrier_arrive_expect_tx(&barrier, static_cast<unsigned>(parts) * sizeof(float4));
      }
      ptx::fence_mbarrier_init();
    }
    __syncwarp();
    ptx::cluster_arrive_relaxed();
  }

  // The rows of a group, asked for; behind the last row it is read again.
  const std::uint32_t row = group * kRows;
  const auto is_row = [&](int r) { return row + static_cast<unsigned>(r) < args.rows; };
  const auto load = [&](const void* from, Pack(&packs)[kRows][kPacks]) {
    const T* begin[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      begin[r] = pinned(static_cast<const T*>(from) +
                        (min(row + static_cast<unsigned>(r), args.rows - 1) * args.x_row + column));
    if (is_full) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int k = 0; k < kPacks; ++k) packs[r][k] = tile::load_pack<T, N>(begin[r] + k * step);
      }
      return;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        packs[r][k].fill(T{0});
        if (is_mine(k)) packs[r][k] = tile::load_pack<T, N>(begin[r] + k * step);
      }
    }
  };
  Pack packs[kRows][kPacks];
  load(args.x, packs);
  [[maybe_unused]] Pack residual[kAround == kLnBoth ? kRows : 1][kPacks];  // asked for before x is waited for
  if constexpr (kAround == kLnBoth) load(around.residual, residual);

  const float team_values = values_of(warp);
  const float one_over_team = team_values > 0 ? ptx::rcp_approx_ftz(team_values) : 0.0f;
  [[maybe_unused]] float greatest = 0;
  [[maybe_unused]] float factor = 1;
  if constexpr (kAround == kLnBehind || kAround == kLnBoth)
    factor = around.factor != nullptr ? *around.factor : around.number;
  if (cluster > 1) ptx::cluster_wait();  // all blocks run, and their barriers are ready

  if constexpr (kAround == kLnBoth) {
    T* const sum = static_cast<T*>(around.sum) + (row * args.x_row + column);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        if (!is_mine(k)) continue;
        float values[N], more[N];
        tile::widen_pack<float>(packs[r][k], values);
        tile::widen_pack<float>(residual[r][k], more);
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] += more[i];
        packs[r][k] = tile::narrow_pack<T>(values);
        if (around.sum != nullptr && is_row(r)) tile::store_pack(sum + r * args.x_row + k * step, packs[r][k]);
      }
    }
  }
  float mean[kRows], inverse[kRows];
  std::uint32_t scaled = 0;  // a bit for each row
#pragma unroll 1
  for (int attempt = 0;; ++attempt) {
    float own[kRows], squares[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      own[r] = 0;
      if (!args.rms) {
        // With the remainder, it is exact for equal values.
        const float sum = warp_sum_of_packs<T>(packs[r]);
        const float quotient = sum * one_over_team;
        own[r] = fmaf(fmaf(-quotient, team_values, sum), one_over_team, quotient);
      }
      squares[r] = 0;
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        float values[N];
        tile::widen_pack<float>(packs[r][k], values);
        float part = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) part += (values[i] - own[r]) * (values[i] - own[r]);
        squares[r] += is_mine(k) ? part : 0.0f;
      }
    }
    const RowSums both = warp_sums({squares[0], squares[1]});
    mean[0] = own[0];
    mean[1] = own[1];
    RowSums sums = both;
    if (parts > 1) {
      float4* const all = shared.moments[attempt];
      const float4 moments = make_float4(own[0], both.first, own[1], both.second);
      if (cluster == 1) {
        if (lane == 0) all[warp] = moments;
        __syncthreads();
      } else {
        __syncwarp();
        if (lane < args.cluster) {
          const auto other = static_cast<std::uint32_t>(lane);
          ptx::st_async(ptx::mapa(ptx::shared_address(&all[warp]), other), moments,
                        ptx::mapa(ptx::shared_address(&shared.told[attempt]), other));
        }
        __syncwarp();
        tile::wait(&shared.told[attempt], 0);
      }
      // As many lanes as a power of two join, and all such groups of lanes the same.
      const int first = lane & (args.join_lanes - 1);
      const auto over_lanes = [&](RowSums* of_lane) {
#pragma unroll 1
        for (int distance = args.join_lanes / 2; distance > 0; distance /= 2) {
          of_lane->first += __shfl_xor_sync(0xffffffffu, of_lane->first, distance);
          of_lane->second += __shfl_xor_sync(0xffffffffu, of_lane->second, distance);
        }
      };
      if (!args.rms) {
        const float base[kRows] = {all[0].x, all[0].z};  // so that equal values have their own mean
        RowSums apart = {0, 0};
#pragma unroll 1
        for (int w = first; w < parts; w += args.join_lanes) {
          const float count = values_of(w);
          apart.first += (all[w].x - base[0]) * count;
          apart.second += (all[w].z - base[1]) * count;
        }
        over_lanes(&apart);
        mean[0] = base[0] + apart.first * args.one_over_length;
        mean[1] = base[1] + apart.second * args.one_over_length;
      }
      sums = {0, 0};
#pragma unroll 1
      for (int w = first; w < parts; w += args.join_lanes) {
        const float count = values_of(w);
        const float4 of_warp = all[w];
        const float a = of_warp.x - mean[0], b = of_warp.z - mean[1];
        sums.first += of_warp.y + a * a * count;
        sums.second += of_warp.w + b * b * count;
      }
      over_lanes(&sums);
    }
    inverse[0] = sums.first * args.one_over_length;
    inverse[1] = sums.second * args.one_over_length;
    if constexpr (std::is_same_v<T, tile::Half>) break;  // squares of halves always fit
    if (attempt == 1) break;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (inverse[r] <= kLnGreatest) continue;
      scaled |= 1u << r;
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        float values[N];
        tile::widen_pack<float>(packs[r][k], values);
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] *= kLnDown;
        packs[r][k] = tile::narrow_pack<T>(values);
      }
    }
    if (scaled == 0) break;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) inverse[r] = rsqrtf(inverse[r] + ((scaled >> r & 1u) != 0 ? 0.0f : args.epsilon));
  if (thread == 0) {
#pragma unroll 1
    for (int r = 0; r < kRows && is_row(r); ++r) {
      const bool down = (scaled >> r & 1u) != 0;
      const float of_mean = r == 0 ? mean[0] : mean[1], of_inverse = r == 0 ? inverse[0] : inverse[1];
      const std::uint32_t at = row + static_cast<unsigned>(r);
      if (args.mean != nullptr)
        tile::store_any(args.mean_type, args.mean, at * args.mean_row, down ? of_mean * kLnUp : of_mean);
      if (args.inverse != nullptr) {
        tile::store_any(args.inverse_type, args.inverse, at * args.inverse_row,
                        down ? of_inverse * kLnDown : of_inverse);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) mean[r] *= -inverse[r];

  const bool as_x = kAround == kLnNothing || args.y_as_x;
  const unsigned out_bytes = as_x ? sizeof(T) : 1;
  std::uint8_t* const y = static_cast<std::uint8_t*>(args.y) + (row * args.out_row + column) * out_bytes;
  std::uint8_t* const out[kRows] = {pinned(y), pinned(y + args.out_row * out_bytes)};
  // With parameters of one type.
  const auto write = [&](auto type) {
    using P = decltype(type);
    constexpr int kWidth = tile::kPackWidth<P>, kLoads = N / kWidth;
    const P* const scales = static_cast<const P*>(args.scale.data) + column;
    const P* const biases = static_cast<const P*>(args.bias.data) + column;
    const bool has_bias = args.bias.data != nullptr;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (!is_mine(k)) continue;
      // All asked for before one is waited for.
      tile::Pack<P, kWidth> scale_packs[kLoads], bias_packs[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        scale_packs[i] = tile::load_pack<P, kWidth>(scales + k * step + i * kWidth);
        bias_packs[i].fill(P{0});
        if (has_bias) bias_packs[i] = tile::load_pack<P, kWidth>(biases + k * step + i * kWidth);
      }
      float scale[N], bias[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        scale[i] = tile::widen<float>(scale_packs[i / kWidth].get(i % kWidth));
        bias[i] = tile::widen<float>(bias_packs[i / kWidth].get(i % kWidth));
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float values[N];
        tile::widen_pack<float>(packs[r][k], values);
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = fmaf(fmaf(values[i], inverse[r], mean[r]), scale[i], bias[i]);
        if constexpr (kAround != kLnNothing) {
          if constexpr (kAround == kLnGelu) {
#pragma unroll
            for (float& value : values) value = tile::rounded::gelu(value);
          } else if (around.clamps) {
#pragma unroll
            for (float& value : values) value = ptx::max_nan(value, 0.0f);
          } else if (around.activation.mode == gemm::Activation::swish) {
            const float by = around.activation.parameter * -1.44269504f;
#pragma unroll
            for (float& value : values) value = swish(value, by);
          }
          if constexpr (kAround != kLnGelu) {
            if (around.amax != nullptr) {  // a row that is read again changes nothing
#pragma unroll
              for (const float value : values) greatest = ptx::max_nan(greatest, fabsf(value));
            }
#pragma unroll
            for (float& value : values) value *= factor;
          }
        }
        if (!is_row(r)) continue;
        std::uint8_t* const at = out[r] + k * (step * out_bytes);
        if (as_x) {
          tile::store_pack(reinterpret_cast<T*>(at), tile::narrow_pack<T>(values));
        } else {
          ptx::st_global(reinterpret_cast<uint2*>(at), e4m3_of(values));
        }
      }
    }
  };
  if (args.scale.type == tile::AnyType::f32)
    write(float{});
  else
    write(T{});
  if constexpr (kAround == kLnBehind || kAround == kLnBoth) {
    if (around.amax == nullptr) return;
    // NaNs are greater than infinity.
    std::uint32_t bits = __float_as_uint(greatest);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, distance));
    if (lane == 0) shared.greatest[threadIdx.x / 32] = bits;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < warps; ++w) bits = max(bits, shared.greatest[w]);
    // Few blocks have one that is greater than what is there.
    if (bits > *static_cast<volatile std::uint32_t*>(around.amax)) ptx::red_relaxed_gpu_max(around.amax, bits);
  }
}

}  // namespace gpudnn::kernels
