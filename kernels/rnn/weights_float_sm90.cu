// The gradients of the weights of small recurrent networks of floats: tiles of 64 x 64 sums, 4 x 4 of a thread, and
// rows of a and b in a ring of three stages that cp.async fills, in vectors where these are aligned. The blocks of a
// cluster have a part of the rows each and finish a part of the tile each, whose sums are added in the order of the
// blocks. A network that takes a few microseconds of multiplications is one launch, where a product for each matrix was
// six. Of many rows several clusters have a slice each: their sums go through memory, and a second launch adds them in
// the order of the slices.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/clusterid.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/ld_shared_cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/rnn/weights_float_sm90.hpp"
#include "kernels/rnn/weights_place.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;
constexpr int kRows = 32;  // of a stage
constexpr int kStages = 3;
constexpr int kMine = 4;               // rows and columns of a thread
constexpr int kLanes = kTile / kMine;  // threads side by side
constexpr int kMaxSplits = 8;

struct Shared {
  union {
    struct {
      float a[kStages][kRows][kTile];
      float b[kStages][kRows][kTile];
    };
    struct {
      float sums[kTile][kTile];
      float bias[kTile];
    };
  };
};
static_assert(sizeof(Shared) <= 48 * 1024, "shared memory that every block may have");

// kRows rows of 64 columns, of which `rows` and `columns` exist, into a stage.
__device__ __forceinline__ void load_rows(float (&to)[kRows][kTile], const float* from, std::int64_t row_stride,
                                          int rows, int columns, bool vectors) {
  const int thread = static_cast<int>(threadIdx.x);
  if (vectors) {
#pragma unroll
    for (int i = thread; i < kRows * kLanes; i += kThreads) {
      const int row = i / kLanes;
      const int column = i % kLanes * kMine;
      const bool exists = row < rows && column < columns;
      ptx::cp_async<16>(ptx::shared_address(&to[row][column]), exists ? from + row * row_stride + column : from,
                        exists ? 16 : 0);
    }
    return;
  }
#pragma unroll 2
  for (int i = thread; i < kRows * kTile; i += kThreads) {
    const int row = i / kTile;
    const int column = i % kTile;
    const bool exists = row < rows && column < columns;
    ptx::cp_async<4>(ptx::shared_address(&to[row][column]), exists ? from + row * row_stride + column : from,
                     exists ? 4 : 0);
  }
}

__device__ __forceinline__ int stages_of(const RnnFloatPart& part) { return (part.rows + kRows - 1) / kRows; }

// Of a slice of a tile: its sums, then those of its rows of a.
constexpr int kPartial = kTile * kTile + kTile;
__device__ __forceinline__ float* partial_of(const RnnFloatWeights& w, std::uint32_t tile, std::uint32_t slice) {
  return w.partials + (std::int64_t{slice} * w.tiles + tile) * kPartial;
}

__device__ __forceinline__ void finish_sums(const RnnFloatWeights& w, const RnnWeightsPlace& place, int row, int column,
                                            float4 total) {
  const RnnFloatGroup& group = w.group[place.group];
  const RnnFloatMatrix& matrix = group.matrix[place.matrix];
  const int columns = matrix.n - place.n - column;
  if (place.m + row >= group.m || columns <= 0) return;
  float* const to = matrix.d + std::int64_t{place.m + row} * matrix.n + place.n + column;
  if (matrix.n % kMine == 0 && reinterpret_cast<std::uintptr_t>(matrix.d) % 16 == 0) {
    if (w.adds != 0) {
      const float4 old = *reinterpret_cast<const float4*>(to);
      total.x += old.x, total.y += old.y, total.z += old.z, total.w += old.w;
    }
    *reinterpret_cast<float4*>(to) = total;
    return;
  }
  const float v[kMine] = {total.x, total.y, total.z, total.w};
#pragma unroll
  for (int j = 0; j < kMine; ++j) {
    if (j < columns) to[j] = w.adds != 0 ? to[j] + v[j] : v[j];
  }
}
__device__ __forceinline__ void finish_bias(const RnnFloatWeights& w, const RnnWeightsPlace& place, int row,
                                            float4 total) {
  const RnnFloatGroup& group = w.group[place.group];
  const float v[kMine] = {total.x, total.y, total.z, total.w};
  const auto put = [&](float* bias, int most) {
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int m = place.m + row + j;
      if (bias != nullptr && m < most) bias[m] = w.adds != 0 ? bias[m] + v[j] : v[j];
    }
  };
  put(group.bias, group.m);
  put(group.bias2, group.bias2_m);
}
__device__ __forceinline__ bool has_bias(const RnnFloatWeights& w, const RnnWeightsPlace& place) {
  const RnnFloatGroup& group = w.group[place.group];
  return place.sums && (group.bias != nullptr || group.bias2 != nullptr);
}

__global__ void __launch_bounds__(kThreads) rnn_weights_float(const __grid_constant__ RnnFloatWeights w) {
  __shared__ Shared shared;
  const std::uint32_t rank = ptx::cluster_ctarank();
  const std::uint32_t tile = ptx::clusterid();
  const std::uint32_t slice = blockIdx.y;
  const int splits = w.splits;
  const RnnWeightsPlace place = rnn_weights_place(w, tile, kTile, kTile);
  const RnnFloatGroup& group = w.group[place.group];
  const RnnFloatMatrix& matrix = group.matrix[place.matrix];
  const int first = stages_of(matrix.part[0]);
  const int all = first + stages_of(matrix.part[1]);
  const int parts = splits * w.slices;
  const int share = (all + parts - 1) / parts;
  const int begin = min(static_cast<int>(slice * static_cast<std::uint32_t>(splits) + rank) * share, all);
  const int end = min(begin + share, all);
  const bool sums = has_bias(w, place);
  const int thread = static_cast<int>(threadIdx.x);
  const int x = thread % kLanes;
  const int y = thread / kLanes;
  const auto load = [&](int number) {
    if (number < end) {
      const RnnFloatPart& part = matrix.part[number < first ? 0 : 1];
      const int row = (number < first ? number : number - first) * kRows;
      const int rows = part.rows - row;
      const int stage = number % kStages;
      load_rows(shared.a[stage], group.a + std::int64_t{part.row_of_a + row} * group.row_stride + place.m,
                group.row_stride, rows, group.m - place.m, group.vectors != 0);
      load_rows(shared.b[stage], part.b != nullptr ? part.b + std::int64_t{row} * part.row_stride + place.n : group.a,
                part.row_stride, part.b != nullptr ? rows : 0, matrix.n - place.n, part.vectors != 0);
    }
    ptx::cp_async_commit_group();
  };
  float sum[kMine][kMine] = {};
  float of_a[kMine] = {};
#pragma unroll 1
  for (int number = begin - 2; number < end; ++number) {
    if (number >= begin) {
      ptx::cp_async_wait_group<1>();
      __syncthreads();
    }
    load(number + 2);
    if (number < begin) continue;
    const int stage = number % kStages;
#pragma unroll 4
    for (int k = 0; k < kRows; ++k) {
      const float4 a4 = *reinterpret_cast<const float4*>(&shared.a[stage][k][y * kMine]);
      const float4 b4 = *reinterpret_cast<const float4*>(&shared.b[stage][k][x * kMine]);
      const float a[kMine] = {a4.x, a4.y, a4.z, a4.w};
      const float b[kMine] = {b4.x, b4.y, b4.z, b4.w};
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
#pragma unroll
        for (int j = 0; j < kMine; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
      }
    }
    if (!sums) continue;
#pragma unroll 1
    for (int k = x; k < kRows; k += kLanes) {
      const float4 a = *reinterpret_cast<const float4*>(&shared.a[stage][k][y * kMine]);
      of_a[0] += a.x, of_a[1] += a.y, of_a[2] += a.z, of_a[3] += a.w;
    }
  }
  ptx::cp_async_wait_group<0>();
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    *reinterpret_cast<float4*>(&shared.sums[y * kMine + i][x * kMine]) =
        make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) of_a[i] += __shfl_xor_sync(~0u, of_a[i], lanes);
    if (x == 0) shared.bias[y * kMine + i] = of_a[i];
  }
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
  // This block's rows of the tile.
  const auto total_of = [&](const float* at) {
    float4 total = {};
    for (int i = 0; i < splits; ++i) {
      const float4 v = ptx::ld_shared_cluster(ptx::mapa(ptx::shared_address(at), static_cast<std::uint32_t>(i)));
      total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
    }
    return total;
  };
  float* const partial = w.slices > 1 ? partial_of(w, tile, slice) : nullptr;
  const int rows = kTile / splits;
  for (int i = thread; i < rows * kLanes; i += kThreads) {
    const int row = static_cast<int>(rank) * rows + i / kLanes;
    const int column = i % kLanes * kMine;
    if (place.m + row >= group.m || place.n + column >= matrix.n) continue;
    const float4 total = total_of(&shared.sums[row][column]);
    if (partial != nullptr) {
      *reinterpret_cast<float4*>(partial + row * kTile + column) = total;
    } else {
      finish_sums(w, place, row, column, total);
    }
  }
  if (sums && rank == 0 && thread < kLanes) {
    const float4 total = total_of(&shared.bias[thread * kMine]);
    if (partial != nullptr) {
      *reinterpret_cast<float4*>(partial + kTile * kTile + thread * kMine) = total;
    } else {
      finish_bias(w, place, thread * kMine, total);
    }
  }
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();  // nobody reads this block's sums any more
}

// A quarter of a tile a block.
constexpr int kQuarters = 4;
__global__ void __launch_bounds__(kThreads) rnn_weights_float_slices(const __grid_constant__ RnnFloatWeights w) {
  const std::uint32_t tile = blockIdx.x / kQuarters;
  const int quarter = static_cast<int>(blockIdx.x % kQuarters);
  const RnnWeightsPlace place = rnn_weights_place(w, tile, kTile, kTile);
  const int thread = static_cast<int>(threadIdx.x);
  const auto total_of = [&](int at) {
    float4 total = {};
#pragma unroll 4
    for (int slice = 0; slice < w.slices; ++slice) {
      const float4 v = *reinterpret_cast<const float4*>(partial_of(w, tile, static_cast<std::uint32_t>(slice)) + at);
      total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
    }
    return total;
  };
  ptx::griddepcontrol_wait();
  const int row = quarter * (kTile / kQuarters) + thread / kLanes;
  const int column = thread % kLanes * kMine;
  finish_sums(w, place, row, column, total_of(row * kTile + column));
  if (has_bias(w, place) && quarter == 0 && thread < kLanes) {
    finish_bias(w, place, thread * kMine, total_of(kTile * kTile + thread * kMine));
  }
}
static_assert(kTile / kQuarters * kLanes == kThreads, "a vector of each thread");

}  // namespace

void launch_rnn_weights_float(RnnFloatWeights weights, int multiprocessors, CUstream_st* stream) {
  constexpr int kResident = 4;  // blocks of a multiprocessor
  constexpr int kFewStages = 2;
  constexpr int kStagesOfSlice = 4;  // of each block, at least
  weights.tiles = rnn_weights_number_tiles(&weights, kTile, kTile);
  const RnnFloatMatrix& matrix = weights.group[0].matrix[0];
  const int stages = (matrix.part[0].rows + matrix.part[1].rows) / kRows;
  const auto room = static_cast<int>(multiprocessors * kResident / weights.tiles);  // blocks of a tile
  int splits = 1;
  while (splits < kMaxSplits && 2 * splits <= room && stages / splits >= kFewStages) splits *= 2;
  const auto least = [](std::int64_t a, std::int64_t b) { return a < b ? a : b; };
  const std::int64_t most =
      least(weights.room / (std::int64_t{kPartial} * weights.tiles), stages / (splits * kStagesOfSlice));
  const std::int64_t slices = least(room / splits, most);
  weights.splits = splits;
  weights.slices = slices > 1 ? static_cast<std::int32_t>(slices) : 1;
  cuda::LaunchConfig config = cuda::clusters_of(weights.tiles, splits, kThreads);
  config.blocks.y = static_cast<unsigned>(weights.slices);
  cuda::launch_kernel(&rnn_weights_float, config, stream, weights);
  if (weights.slices == 1) return;
  cuda::launch_kernel(&rnn_weights_float_slices,
                      {.blocks = dim3(weights.tiles * kQuarters), .threads = dim3(kThreads), .overlaps = true}, stream,
                      weights);
}

}  // namespace gpudnn::kernels
