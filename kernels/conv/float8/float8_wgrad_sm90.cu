// The filter gradient of 8-bit floats beside the product of halves: operands as halves before it, and its partial sums
// to dw behind it.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/float8/float8_sm90_store.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_epilogue.cuh"

namespace gpudnn::kernels::float8 {
namespace {

constexpr int kThreads = 256;
constexpr std::uint32_t kChunk = sm90::kRowBytes / 2;  // columns of a tap that a box of halves has

// What work_item asks of an instance.
struct Wgrad {
  static constexpr bool kIsFilterGradient = true;
  static constexpr bool kStreamK = false;
};

// A thread has four sums, two neighbouring channels of two filters, in the order of the fragments.
__global__ void __launch_bounds__(sm90::kReduceThreads) float8_join_wgrad(const __grid_constant__ Params p, int lanes) {
  const sm90::Params& g = p.gemm;
  const auto tile_quads = static_cast<std::uint32_t>(p.bm * p.bn / 4);
  const std::uint32_t groups_of_8 = static_cast<std::uint32_t>(p.bn) / 8;
  StoreState state(p);
  const std::size_t count = static_cast<std::size_t>(g.works.divisor) * tile_quads;
  const sm90::QuadOfTiles mine = sm90::sum_quad(g.partials, count, g.splits, lanes);
  if (mine.stores) {
    const Work work = sm90::work_item<Wgrad>(g, static_cast<std::uint32_t>(mine.quad / tile_quads));
    const auto inside = static_cast<std::uint32_t>(mine.quad % tile_quads);
    const std::uint32_t thread = inside % 128;
    const std::uint32_t group_of_8 = inside / 128 % groups_of_8;
    const std::uint32_t chunk = work.n * (static_cast<std::uint32_t>(p.bn) / kChunk) + group_of_8 / (kChunk / 8);
    std::uint32_t part = 0;
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    const std::uint32_t tap = g.chunks_of_n.divmod(chunk, &part);
    const std::uint32_t t = g.taps_of_n[1].divmod(g.taps_of_n[0].divmod(tap, &s), &r);
    const std::uint32_t first = part * kChunk + group_of_8 % (kChunk / 8) * 8 + thread % 4 * 2;
    const std::uint32_t m = work.m * static_cast<std::uint32_t>(p.bm) + inside / 128 / groups_of_8 * 64 +
                            thread / 32 * 16 + thread % 32 / 4;
    const std::int64_t at = g.problem[0].c_base + s * g.c_step[0] + r * g.c_step[1] + t * g.c_step[2];
    float v[4] = {mine.sum.x, mine.sum.y, mine.sum.z, mine.sum.w};
    const auto column = [&](int i) { return first + static_cast<std::uint32_t>(i % 2); };
    const auto row = [&](int i) { return m + static_cast<std::uint32_t>(i / 2) * 8; };
    const auto exists = [&](int i) { return chunk < g.n_chunks && row(i) < g.m_count && column(i) < g.n_count; };
    finish(p, work.group, &state, column, exists, v);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!exists(i)) continue;
      const std::int64_t filter = static_cast<std::int64_t>(work.group) * g.group_columns + row(i);
      store_element(p, at + filter * g.c_step[3] + column(i) * p.c_column_step, v[i]);
    }
  }
  __syncwarp();
  finish_amax(p, state);
}

__device__ __forceinline__ std::uint32_t pair_of_halves(std::uint32_t word, int which, bool is_e5m2) {
  const auto bits = static_cast<std::uint16_t>(which == 0 ? word & 0xffffu : word >> 16);
  return is_e5m2 ? ptx::cvt_rn_f16x2_e5m2x2(bits) : ptx::cvt_rn_f16x2_e4m3x2(bits);
}

__global__ void __launch_bounds__(kThreads) widen(const uint4* in, uint4* out, bool is_e5m2, std::size_t vectors) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x; i < vectors; i += step) {
    const uint4 bytes = in[i];
    out[2 * i] = make_uint4(pair_of_halves(bytes.x, 0, is_e5m2), pair_of_halves(bytes.x, 1, is_e5m2),
                            pair_of_halves(bytes.y, 0, is_e5m2), pair_of_halves(bytes.y, 1, is_e5m2));
    out[2 * i + 1] = make_uint4(pair_of_halves(bytes.z, 0, is_e5m2), pair_of_halves(bytes.z, 1, is_e5m2),
                                pair_of_halves(bytes.w, 0, is_e5m2), pair_of_halves(bytes.w, 1, is_e5m2));
  }
}

}  // namespace

void launch_join_wgrad(const Params& params, CUstream_st* stream) {
  const auto [lanes, config] =
      sm90::reduction_launch(params.gemm.works.divisor, params.bm * params.bn, params.gemm.splits);
  cuda::launch_kernel(&float8_join_wgrad, config, stream, params, lanes);
}

void launch_widen(const void* in, void* out, bool is_e5m2, std::size_t count, CUstream_st* stream) {
  constexpr std::size_t kMaxBlocks = 4096;
  const std::size_t vectors = count / 16;
  const std::size_t blocks = (vectors + kThreads - 1) / kThreads;
  cuda::launch_kernel(&widen, {static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks), kThreads}, stream,
                      static_cast<const uint4*>(in), static_cast<uint4*>(out), is_e5m2, vectors);
}

}  // namespace gpudnn::kernels::float8
