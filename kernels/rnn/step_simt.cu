// The fused step without tensor cores: every type, every shape.
// SPDX-License-Identifier: Apache-2.0
//
// A block makes 32 places x 16 units x all gates. 32 columns of both factors at a time go through shared memory, as the
// type of the sums. A thread has two places and all gates of one unit, so the unit's arithmetic follows in registers.

#include "core/launch/launch.hpp"
#include "kernels/rnn/step.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPlaces = 32;
constexpr int kUnits = 16;
constexpr int kDepth = 32;

template <class T, int G>
__global__ void __launch_bounds__(kThreads) rnn_step_simt(const __grid_constant__ RnnStepArgs args) {
  using C = tile::Compute<T>;
  __shared__ C a[kPlaces][kDepth + 1];
  __shared__ C b[G * kUnits][kDepth + 1];
  const int direction = static_cast<int>(blockIdx.z);
  const RnnLayer& l = args.layer;
  const RnnFactors<T> f = rnn_factors<T>(l, l.direction[direction], args.part, args.step[direction]);
  const int place0 = static_cast<int>(blockIdx.y) * kPlaces;
  const int unit0 = static_cast<int>(blockIdx.x) * kUnits;
  if (place0 >= f.places || unit0 >= f.columns) return;
  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % 32;
  const int warp = tid / 32;
  const int unit = tid % kUnits;
  const int place = tid / kUnits;  // and 16 further

  C sums[2][G] = {};
  const int depth = f.a_places > 0 || f.other != nullptr ? f.depth : 0;
  // The next columns are under way while these are multiplied.
  constexpr int kRowsOfB = G * kUnits / 8;
  const T* a_rows[kPlaces / 8];
  const T* b_rows[kRowsOfB];
#pragma unroll
  for (int i = 0; i < kPlaces / 8; ++i) a_rows[i] = rnn_row_of(l, f, place0 + warp + 8 * i);
#pragma unroll
  for (int i = 0; i < kRowsOfB; ++i) {
    const int r = warp + 8 * i;
    const int j = unit0 + r % kUnits;
    b_rows[i] = j < f.columns ? f.b + (std::int64_t{r / kUnits} * f.columns + j) * f.depth : nullptr;
  }
  C next_a[kPlaces / 8];
  C next_b[kRowsOfB];
  const auto fetch = [&](int k) {
    const bool inside = k < depth;
    const int at = k < f.skip_from ? k : k + f.skip;
#pragma unroll
    for (int i = 0; i < kPlaces / 8; ++i) {
      next_a[i] = inside && a_rows[i] != nullptr ? tile::widen<C>(a_rows[i][at]) : C(0);
    }
#pragma unroll
    for (int i = 0; i < kRowsOfB; ++i) {
      next_b[i] = inside && b_rows[i] != nullptr ? tile::widen<C>(b_rows[i][k]) : C(0);
    }
  };
  if (depth > 0) fetch(lane);
#pragma unroll 1
  for (int k0 = 0; k0 < depth; k0 += kDepth) {
#pragma unroll
    for (int i = 0; i < kPlaces / 8; ++i) a[warp + 8 * i][lane] = next_a[i];
#pragma unroll
    for (int i = 0; i < kRowsOfB; ++i) b[warp + 8 * i][lane] = next_b[i];
    __syncthreads();
    if (k0 + kDepth < depth) fetch(k0 + kDepth + lane);
#pragma unroll 8
    for (int kk = 0; kk < kDepth; ++kk) {
      const C a0 = a[place][kk];
      const C a1 = a[place + 16][kk];
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const C value = b[g * kUnits + unit][kk];
        sums[0][g] += a0 * value;
        sums[1][g] += a1 * value;
      }
    }
    __syncthreads();
  }
  if (unit0 + unit >= f.columns) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int p = place0 + place + 16 * i;
    if (p < f.places) rnn_finish<T>(args, direction, p, unit0 + unit, sums[i]);
  }
}

}  // namespace

void launch_rnn_step_simt(const RnnStepArgs& args, CUstream_st* stream) {
  const RnnLayer& l = args.layer;
  const int columns = rnn_columns(args);
  const int places = rnn_places(args);
  const dim3 blocks(static_cast<unsigned>((columns + kUnits - 1) / kUnits),
                    static_cast<unsigned>((places + kPlaces - 1) / kPlaces), static_cast<unsigned>(l.directions));
  const int gates = rnn_sums(args);
  tile::with_element_type(l.type, [&]<class T>() {
    if (gates == 4) cuda::launch_kernel(rnn_step_simt<T, 4>, {blocks, kThreads}, stream, args);
    if (gates == 3) cuda::launch_kernel(rnn_step_simt<T, 3>, {blocks, kThreads}, stream, args);
    if (gates == 1) cuda::launch_kernel(rnn_step_simt<T, 1>, {blocks, kThreads}, stream, args);
  });
}

}  // namespace gpudnn::kernels
