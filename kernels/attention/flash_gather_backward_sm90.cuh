// Attention backward for Hopper in 16-bit types with every option of the scores, ragged tensors and head dimensions up
// to 256; reproducible.
//
//   y = log2(e) (cap tanh(scale q k^T / cap) + bias + slope (c - r)),  P = 2^(y - lse),  dP = kept (dO v^T)
//   dS = P (dP - delta);  dv = (kept P)^T dO;  dq, dk = scale (1 - tanh^2) dS k, its transpose times q
//
// As in flash_sm90_backward.cuh, a block holds a tile of 128 rows of two tensors (q and dO for dq; k and v for dk and
// dv) while tiles of the other two stream by through two stages, and each warpgroup has 64 rows of the tile. Rows come
// by cp.async, each from its own address, so ragged tensors are read in place; rows beyond a sequence are zeros that
// are never read. dk and dv are made in one pass up to a head dimension of 128; beyond it registers hold one of them.
// Where tiles of keys are too few for the device, blocks share the heads of a group: each leaves its sums in floats,
// and a second kernel adds those of all parts in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather_sm90_load.cuh"
#include "kernels/attention/flash_gradient_rows.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kDim_, FlashGradient kGradient_>
struct GatherBackwardConfig {
  using Element = T;
  static constexpr int kDim = kDim_;
  static constexpr FlashGradient kGradient = kGradient_;
  static constexpr bool kOfKeys = kGradient != FlashGradient::dq;
  static constexpr bool kMakesDv = kGradient == FlashGradient::dk_dv || kGradient == FlashGradient::dv;
  static constexpr bool kMakesFirst = kGradient != FlashGradient::dv;  // dq or dk, of dS
  static constexpr int kRows = kFlashBackwardRows;
  static constexpr int kStream = flash_gather_backward_stream(kDim);
  static constexpr int kConsumers = kRows / 64;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  static constexpr int kStages = 2;
  static constexpr int kHeldBytes = kRows * kDim * 2;
  static constexpr int kStreamBytes = kStream * kDim * 2;
};

template <class C>
struct GatherBackwardShared {
  alignas(1024) unsigned char a1[C::kHeldBytes];
  alignas(1024) unsigned char a2[C::kHeldBytes];
  alignas(1024) unsigned char b1[C::kStages][C::kStreamBytes];
  alignas(1024) unsigned char b2[C::kStages][C::kStreamBytes];
  alignas(16) float lse[C::kStages][C::kStream];
  alignas(16) float delta[C::kStages][C::kStream];
  std::uint64_t a_full;
  std::uint64_t b1_full[C::kStages], b2_full[C::kStages], empty[C::kStages];
};

enum GatherBackwardBarrier { kGatherBackwardMeets = 1 };

// Of keys, in whole tiles.
template <int kRows>
__host__ __device__ __forceinline__ std::int64_t padded_rows(const FlashGatherBackwardParams& p) {
  return (static_cast<std::int64_t>(p.mask.length_kv) + kRows - 1) / kRows * kRows;
}

template <class C>
__device__ __forceinline__ void gather_backward(const FlashGatherBackwardParams& p, const GradientTile& tile,
                                                GatherBackwardShared<C>& shared) {
  const AttentionParams& a = p.problem;
  const Gather<C::kDim, C::kRows> rows;
  const Gather<C::kDim, C::kStream> stream;
  const tile::FastDivmod no_pages;
  const auto of_q = [&](const AttentionTensor& tensor, int head, int dim) {
    return gather_source(tensor, tile.batch, head, tile.sequence.length_q, dim);
  };
  const auto of_k = [&](const AttentionTensor& tensor, int head, int dim) {
    return gather_source(tensor, tile.batch, head, tile.sequence.length_kv, dim);
  };
  const GatherSource a1 = C::kOfKeys ? of_k(a.k, tile.head, a.dim_qk) : of_q(a.q, tile.head, a.dim_qk);
  const GatherSource a2 = C::kOfKeys ? of_k(a.v, tile.head, a.dim_v) : of_q(a.d_o, tile.head, a.dim_v);
  rows.load(a1, no_pages, 0, tile.row / C::kRows, shared.a1, &shared.a_full);
  rows.load(a2, no_pages, 0, tile.row / C::kRows, shared.a2, &shared.a_full);
  tile::PipelineState<C::kStages> turn;
  for (int member = 0; member < tile.group; ++member) {
    const int head = C::kOfKeys ? tile.head * p.group + tile.part * tile.group + member : tile.head / p.group;
    const GatherSource b1 = C::kOfKeys ? of_q(a.q, head, a.dim_qk) : of_k(a.k, head, a.dim_qk);
    const GatherSource b2 = C::kOfKeys ? of_q(a.d_o, head, a.dim_v) : of_k(a.v, head, a.dim_v);
#pragma unroll 1
    for (int j = tile.first; j < tile.end; ++j) {
      tile::wait(&shared.empty[turn.stage], turn.parity ^ 1);
      if constexpr (C::kOfKeys) {
        const std::int64_t at = (static_cast<std::int64_t>(tile.batch) * a.heads_q + head) * p.pitch +
                                static_cast<std::int64_t>(j) * C::kStream;
        const int lane = static_cast<int>(threadIdx.x);
        if (lane < C::kStream) {
          ptx::cp_async<4>(ptx::shared_address(&shared.lse[turn.stage][lane]), p.lse + at + lane, 4);
        } else if (lane < 2 * C::kStream) {
          ptx::cp_async<4>(ptx::shared_address(&shared.delta[turn.stage][lane - C::kStream]),
                           p.delta + at + lane - C::kStream, 4);
        }
      }
      stream.load(b1, no_pages, 0, j, shared.b1[turn.stage], &shared.b1_full[turn.stage]);
      stream.load(b2, no_pages, 0, j, shared.b2[turn.stage], &shared.b2_full[turn.stage]);
      turn.next();
    }
  }
}

template <class C>
class GatherBackwardConsumer {
  using T = typename C::Element;

 public:
  __device__ __forceinline__ GatherBackwardConsumer(const FlashGatherBackwardParams& params, const GradientTile& its,
                                                    GatherBackwardShared<C>& memory)
      : p(params), tile(its), shared(memory), rows(params, its, place.row()) {}

  __device__ __forceinline__ void run() {
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) {
      if constexpr (C::kMakesFirst) first[i] = 0.0F;
      if constexpr (C::kMakesDv) second[i] = 0.0F;
    }
    if (tile.end > tile.first) {
      if constexpr (!C::kOfKeys) rows.load_row_values(tile.head);
      wait_full(&shared.a_full, 0);
      for (int member = 0; member < tile.group; ++member) {
        rows.set_head(C::kOfKeys ? tile.head * p.group + tile.part * tile.group + member : tile.head);
#pragma unroll 1
        for (int j = tile.first; j < tile.end; ++j) step(j);
      }
    }
    if constexpr (C::kOfKeys) {
      if (p.parts > 1) {
        if constexpr (C::kMakesFirst) write_partial(p.partial_dk, first);
        if constexpr (C::kMakesDv) write_partial(p.partial_dv, second);
        return;
      }
    }
    // All warps of the warpgroup have read a1 and a2.
    ptx::barrier_sync(kGatherBackwardMeets + place.warpgroup, kWarpgroup);
    const AttentionParams& a = p.problem;
    if constexpr (C::kGradient == FlashGradient::dq) write_rows(a.dq, a.dim_qk, shared.a1, p.scale, first);
    if constexpr (C::kOfKeys && C::kMakesFirst) write_rows(a.dk, a.dim_qk, shared.a1, p.scale, first);
    if constexpr (C::kMakesDv) write_rows(a.dv, a.dim_v, shared.a2, 1.0F, second);
  }

 private:
  __device__ __forceinline__ void wait_full(std::uint64_t* barrier, std::uint32_t parity) {
    tile::wait(barrier, parity);
    ptx::fence_proxy_async();
  }

  // d = a b^T, a of this warpgroup's rows.
  __device__ __forceinline__ void issue_product(float (&d)[C::kStream / 2], const unsigned char* a,
                                                const unsigned char* b) {
    flash_sm90::issue_product<T, C::kDim / 16, C::kRows, C::kStream>(d, a + place.warpgroup * 64 * kPanelBytes, b);
  }

  __device__ __forceinline__ void step(int j) {
    float s[C::kStream / 2];
    float dp[C::kStream / 2];
    const int stage = turn.stage;
    wait_full(&shared.b1_full[stage], turn.parity);
    issue_product(s, shared.a1, shared.b1[stage]);
    wait_full(&shared.b2_full[stage], turn.parity);
    if constexpr (C::kMakesFirst) issue_product(dp, shared.a2, shared.b2[stage]);
    rows.draw(j * C::kStream);
    ptx::wgmma_wait_group<C::kMakesFirst ? 1 : 0>();
    ptx::pin(s);
    const bool is_cut =
        is_gradient_cut<C::kOfKeys>(p.mask, tile.sequence, tile.row, C::kRows, j * C::kStream, C::kStream);
    rows.probabilities(j * C::kStream, shared.lse[stage], is_cut, s);
    if constexpr (C::kMakesDv) {
      if (p.problem.has_dropout) {
        float kept[C::kStream / 2];
#pragma unroll
        for (int i = 0; i < C::kStream / 2; ++i) kept[i] = s[i];
        rows.keep(kept);
        to_operand<T, C::kStream>(kept, weights2);
      } else {
        to_operand<T, C::kStream>(s, weights2);
      }
      issue_sum<T, C::kStream / 16, C::kDim>(second, weights2, shared.b2[stage]);
      if constexpr (C::kMakesFirst) ptx::wgmma_wait_group<1>();
    } else {
      ptx::wgmma_wait_group<0>();
    }
    if constexpr (C::kMakesFirst) {
      ptx::pin(dp);
      if (p.problem.has_dropout) rows.keep(dp);
      rows.score_gradients(s, shared.delta[stage], dp);
      rows.multiply_slopes(dp);
      to_operand<T, C::kStream>(dp, weights1);
      issue_sum<T, C::kStream / 16, C::kDim>(first, weights1, shared.b1[stage]);
    }
    ptx::wgmma_wait_group<0>();
    if constexpr (C::kMakesFirst) ptx::pin(first);
    if constexpr (C::kMakesDv) ptx::pin(second);
    __syncwarp();  // all lanes have read lse and delta
    if (place.lane == 0) ptx::mbarrier_arrive(&shared.empty[stage]);
    turn.next();
  }

  __device__ __forceinline__ void write_partial(float* partial, const float (&out)[C::kDim / 2]) {
    const int heads = p.problem.heads_k;
    float* const to = partial +
                      (static_cast<std::int64_t>((tile.part * p.problem.batch + tile.batch) * heads + tile.head) *
                           padded_rows<C::kRows>(p) +
                       tile.row + place.row()) *
                          C::kDim +
                      place.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < C::kDim / 8; ++i) {
      *reinterpret_cast<float2*>(to + 8 * i) = make_float2(out[4 * i], out[4 * i + 1]);
      *reinterpret_cast<float2*>(to + 8 * C::kDim + 8 * i) = make_float2(out[4 * i + 2], out[4 * i + 3]);
    }
  }

  // Staged where this warpgroup's rows of a1 or a2 were.
  __device__ __forceinline__ void write_rows(const AttentionTensor& tensor, int dim, unsigned char* held, float factor,
                                             const float (&out)[C::kDim / 2]) {
    if (tensor.data == nullptr) return;
    unsigned char* const staging = held + place.warpgroup * 64 * kPanelBytes;
    const std::uint32_t base = ptx::shared_address(staging);
    const int staged_row = place.warp * 16 + place.lane / 8 % 2 * 8 + place.lane % 8;
#pragma unroll
    for (int i = 0; i < C::kDim / 16; ++i) {
      std::uint32_t words[4];
#pragma unroll
      for (int e = 0; e < 4; ++e)
        words[e] = pack_halves<T>(out[8 * i + 2 * e] * factor, out[8 * i + 2 * e + 1] * factor);
      ptx::stmatrix_x4(base + swizzled_chunk<C::kRows>(staged_row, 2 * i + place.lane / 16), words[0], words[1],
                       words[2], words[3]);
    }
    __syncwarp();
    write_gradient_rows<C::kDim, C::kRows, C::kOfKeys>(p, tile, tensor, dim, true, staging, place.warp * 16,
                                                       tile.row + place.warpgroup * 64 + place.warp * 16);
  }

  const FlashGatherBackwardParams& p;
  const GradientTile& tile;
  GatherBackwardShared<C>& shared;
  FragmentPlace place;
  GradientRows<C::kStream, C::kOfKeys, true> rows;
  tile::PipelineState<C::kStages> turn;
  float first[C::kMakesFirst ? C::kDim / 2 : 1];  // dq or dk
  float second[C::kMakesDv ? C::kDim / 2 : 1];    // dv
  std::uint32_t weights1[C::kStream / 16][4] = {};
  std::uint32_t weights2[C::kStream / 16][4] = {};
};

// dk or dv, of the sums of all parts; a thread has 8 columns of a row, grid.y counts batch and heads.
constexpr int kSumPartsThreads = 256;
template <class C>
__global__ void __launch_bounds__(kSumPartsThreads)
    flash_gather_sum_parts(const __grid_constant__ FlashGatherBackwardParams p, bool of_v) {
  using T = typename C::Element;
  constexpr int kChunks = C::kDim / 8;
  const AttentionParams& a = p.problem;
  const AttentionTensor& tensor = of_v ? a.dv : a.dk;
  const auto index = static_cast<std::int64_t>(blockIdx.x) * kSumPartsThreads + threadIdx.x;
  const auto row = static_cast<int>(index / kChunks);
  const auto chunk = static_cast<int>(index % kChunks);
  const int batch = static_cast<int>(blockIdx.y) / a.heads_k;
  const bool inside = row < sequence_of(p.mask, batch).length_kv;
  if (row >= p.mask.length_kv || 8 * chunk >= (of_v ? a.dim_v : a.dim_qk) || (!inside && tensor.offset_bits != 0))
    return;
  float sum[8] = {};
  if (inside) {
    const std::int64_t step = padded_rows<C::kRows>(p) * C::kDim;
    const float* from =
        (of_v ? p.partial_dv : p.partial_dk) + blockIdx.y * step + row * std::int64_t{C::kDim} + 8 * chunk;
#pragma unroll 4
    for (int part = 0; part < p.parts; ++part, from += gridDim.y * step) {
      const float4 low = reinterpret_cast<const float4*>(from)[0];
      const float4 high = reinterpret_cast<const float4*>(from)[1];
      const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[e] += values[e];
    }
  }
  const float factor = of_v ? 1.0F : p.scale;
  uint4 value;
  value.x = pack_halves<T>(sum[0] * factor, sum[1] * factor);
  value.y = pack_halves<T>(sum[2] * factor, sum[3] * factor);
  value.z = pack_halves<T>(sum[4] * factor, sum[5] * factor);
  value.w = pack_halves<T>(sum[6] * factor, sum[7] * factor);
  const std::int64_t start = ragged_start(tensor, batch);
  write_chunk<false>(static_cast<std::uint16_t*>(tensor.data) + start + blockIdx.y % a.heads_k * tensor.strides[1] +
                         row * tensor.strides[2] + 8 * chunk,
                     value, start % 8 == 0, 1, 8);
}

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1)
    flash_gather_backward_sm90(const __grid_constant__ FlashGatherBackwardParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<GatherBackwardShared<C>*>(memory + skipped);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared.a_full, 2 * kWarpgroup);
    for (int i = 0; i < C::kStages; ++i) {
      ptx::mbarrier_init(&shared.b1_full[i], kWarpgroup);
      ptx::mbarrier_init(&shared.b2_full[i], kWarpgroup);
      ptx::mbarrier_init(&shared.empty[i], 4 * C::kConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const GradientTile tile = gradient_tile<C>(p);
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<40>();
    if (tile.end > tile.first) gather_backward<C>(p, tile, shared);
  } else {
    ptx::setmaxnreg_inc<232>();
    GatherBackwardConsumer<C>(p, tile, shared).run();
  }
}

}  // namespace gpudnn::kernels::flash_sm90
