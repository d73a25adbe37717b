// The fused step with mma.sync: half and bfloat16.
// SPDX-License-Identifier: Apache-2.0
//
// A block of 8 warps makes 16 WM places x 8 WN units x G gates; WK groups of warps divide the summed index. Both
// factors go through a ring of stages in shared memory, filled by cp.async where rows are aligned to 16 bytes
// and element by element elsewhere. A warp multiplies 16 places with 8 units of each gate, 32 columns of a stage; the
// groups' sums meet in shared memory in a fixed order, and there a thread takes whole units, neighbours side by side.

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/rnn/step.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/mma.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPadding = 8;  // elements between rows, so that ldmatrix meets no bank twice

template <int G, int WM, int WN, int WK>
struct StepShape {
  static_assert(WM * WN * WK * 32 == kThreads, "eight warps");
  static constexpr int kPlaces = 16 * WM;
  static constexpr int kUnits = 8 * WN;
  static constexpr int kRows = kPlaces + G * kUnits;  // of a stage, those of a first
  static constexpr int kDepth = 32 * WK;
  static constexpr int kRowElements = kDepth + kPadding;
  static constexpr int kStageBytes = kRows * kRowElements * 2;
  static constexpr int kStages = G == 1 ? 8 : 6;  // a step is short: what counts is how soon its last column is there
  static constexpr int kSumColumns = G * kUnits + 2;
  static constexpr int kSumBytes = WK * kPlaces * kSumColumns * 4;
  static constexpr int kBytes = kStages * kStageBytes > kSumBytes ? kStages* kStageBytes : kSumBytes;
};

// Fetches columns [k0, k0 + kDepth) of the block's rows.
template <class Shape, class T>
__device__ __forceinline__ void fill_stage(const RnnStepArgs& args, const RnnFactors<T>& f, int place0, int unit0,
                                           int k0, T* stage) {
  constexpr int kVectors = Shape::kDepth / 8;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kRows * kVectors; i += kThreads) {
    const int r = i / kVectors;
    const int k = k0 + i % kVectors * 8;
    const T* row = nullptr;
    int at = k;
    if (r < Shape::kPlaces) {
      row = rnn_row_of(args.layer, f, place0 + r);
      if (k >= f.skip_from) at += f.skip;
    } else {
      const int j = unit0 + (r - Shape::kPlaces) % Shape::kUnits;
      const std::int64_t gate = (r - Shape::kPlaces) / Shape::kUnits;
      if (j < f.columns) row = f.b + (gate * f.columns + j) * f.depth;
    }
    T* const to = stage + r * Shape::kRowElements + i % kVectors * 8;
    if (args.aligned) {
      const bool there = row != nullptr && k < f.depth;
      ptx::cp_async<16>(static_cast<std::uint32_t>(__cvta_generic_to_shared(to)), there ? row + at : f.b,
                        there ? 16 : 0);
      continue;
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int column = k + e;
      const bool there = row != nullptr && column < f.depth;
      const bool skips = r < Shape::kPlaces && column >= f.skip_from;
      to[e] = there ? row[skips ? column + f.skip : column] : T{0};
    }
  }
}

template <class T, int G, int WM, int WN, int WK>
__global__ void __launch_bounds__(kThreads) rnn_step_sm80(const __grid_constant__ RnnStepArgs args) {
  using Shape = StepShape<G, WM, WN, WK>;
  T* const stages = reinterpret_cast<T*>(tile::dynamic_shared());
  const int direction = static_cast<int>(blockIdx.z);
  const RnnLayer& l = args.layer;
  const RnnFactors<T> f = rnn_factors<T>(l, l.direction[direction], args.part, args.step[direction]);
  const int place0 = static_cast<int>(blockIdx.y) * Shape::kPlaces;
  const int unit0 = static_cast<int>(blockIdx.x) * Shape::kUnits;
  if (place0 >= f.places || unit0 >= f.columns) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int wm = warp % WM;
  const int wn = warp / WM % WN;
  const int wk = warp / (WM * WN);

  float sums[G][4] = {};
  const int depth = f.a_places > 0 || f.other != nullptr ? f.depth : 0;
  const int count = (depth + Shape::kDepth - 1) / Shape::kDepth;
  for (int i = 0; i < Shape::kStages - 1; ++i) {
    if (i < count) {
      fill_stage<Shape>(args, f, place0, unit0, i * Shape::kDepth, stages + i * (Shape::kStageBytes / 2));
    }
    ptx::cp_async_commit_group();
  }
  for (int i = 0; i < count; ++i) {
    ptx::cp_async_wait_group<Shape::kStages - 2>();
    __syncthreads();
    if (const int next = i + Shape::kStages - 1; next < count) {
      fill_stage<Shape>(args, f, place0, unit0, next * Shape::kDepth,
                        stages + next % Shape::kStages * (Shape::kStageBytes / 2));
    }
    ptx::cp_async_commit_group();
    const T* const stage = stages + i % Shape::kStages * (Shape::kStageBytes / 2);
    std::uint32_t a[2][4];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const T* const from = stage + (16 * wm + lane % 16) * Shape::kRowElements + 32 * wk + 16 * h + lane / 16 * 8;
      ptx::ldmatrix_x4(static_cast<std::uint32_t>(__cvta_generic_to_shared(from)), a[h]);
    }
#pragma unroll
    for (int g = 0; g < G; ++g) {
      std::uint32_t b[4];
      const int row = Shape::kPlaces + g * Shape::kUnits + 8 * wn + lane % 8;
      const T* const from = stage + row * Shape::kRowElements + 32 * wk + lane / 8 * 8;
      ptx::ldmatrix_x4(static_cast<std::uint32_t>(__cvta_generic_to_shared(from)), b);
      tile::mma_m16n8k16<T>(sums[g], a[0], b[0], b[1]);
      tile::mma_m16n8k16<T>(sums[g], a[1], b[2], b[3]);
    }
  }
  ptx::cp_async_wait_group<0>();
  __syncthreads();

  float* const meeting = reinterpret_cast<float*>(tile::dynamic_shared());
#pragma unroll
  for (int g = 0; g < G; ++g) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = wk * Shape::kPlaces + 16 * wm + lane / 4 + 8 * h;
      float* const to = meeting + row * Shape::kSumColumns + g * Shape::kUnits + 8 * wn + lane % 4 * 2;
      to[0] = sums[g][2 * h];
      to[1] = sums[g][2 * h + 1];
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kPlaces * Shape::kUnits; i += kThreads) {
    const int r = i / Shape::kUnits;
    const int j = i % Shape::kUnits;
    if (place0 + r >= f.places || unit0 + j >= f.columns) continue;
    float total[G] = {};
#pragma unroll
    for (int part = 0; part < WK; ++part) {
#pragma unroll
      for (int g = 0; g < G; ++g) {
        total[g] += meeting[(part * Shape::kPlaces + r) * Shape::kSumColumns + g * Shape::kUnits + j];
      }
    }
    rnn_finish<T>(args, direction, place0 + r, unit0 + j, total);
  }
}

template <class T, int G, int WM, int WN, int WK>
void launch(const RnnStepArgs& args, int columns, int places, cudaStream_t stream) {
  using Shape = StepShape<G, WM, WN, WK>;
  cuda::allow_shared_memory<&rnn_step_sm80<T, G, WM, WN, WK>>(Shape::kBytes);
  const dim3 blocks(static_cast<unsigned>((columns + Shape::kUnits - 1) / Shape::kUnits),
                    static_cast<unsigned>((places + Shape::kPlaces - 1) / Shape::kPlaces),
                    static_cast<unsigned>(args.layer.directions));
  cuda::launch_kernel(rnn_step_sm80<T, G, WM, WN, WK>,
                      {.blocks = blocks, .threads = dim3(kThreads), .shared_bytes = Shape::kBytes}, stream, args);
}

template <class T>
void launch_type(const RnnStepArgs& args, int gates, int columns, int places, cudaStream_t stream) {
  const bool few = places <= 16;
  if (gates == 4)
    few ? launch<T, 4, 1, 1, 8>(args, columns, places, stream) : launch<T, 4, 2, 1, 4>(args, columns, places, stream);
  if (gates == 3)
    few ? launch<T, 3, 1, 1, 8>(args, columns, places, stream) : launch<T, 3, 2, 1, 4>(args, columns, places, stream);
  if (gates == 1)
    few ? launch<T, 1, 1, 1, 8>(args, columns, places, stream) : launch<T, 1, 2, 1, 4>(args, columns, places, stream);
}

}  // namespace

void launch_rnn_step_sm80(const RnnStepArgs& args, CUstream_st* stream) {
  const RnnLayer& l = args.layer;
  const int columns = rnn_columns(args);
  const int places = rnn_places(args);
  const int gates = rnn_sums(args);
  if (l.type == tile::ElementType::f16) {
    launch_type<tile::Half>(args, gates, columns, places, stream);
  } else {
    launch_type<tile::BFloat16>(args, gates, columns, places, stream);
  }
}

}  // namespace gpudnn::kernels
