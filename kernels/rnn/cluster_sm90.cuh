// A whole forward sweep of a recurrent layer in one launch, by clusters: half and bfloat16, no projection, sequences of
// equal length. Hopper.
// SPDX-License-Identifier: Apache-2.0
//
// A cluster has 16 places of one direction, a block of it 8 WN units. The block's rows of R stay in shared memory over
// all steps, and so does h of all units, twice: one that this step multiplies with, one that the next will. At the end
// of a step a block writes its units' h into the shared memory of every block of the cluster, 16 bytes at a time, and
// the cluster's barrier, which orders these stores, ends the step. Nothing is exchanged through device memory, and
// clusters wait for no other cluster, so they need not be resident together.
//
// WK groups of warps divide the summed index. What a unit needs beside its product is fetched before the barrier.
#pragma once

#include "kernels/rnn/persistent_sm90.cuh"
#include "kernels/tile/cluster.cuh"

namespace gpudnn::kernels {

template <class T, int G, int WN, int WK>
__global__ void __launch_bounds__(kRnnPersistentThreads, 1)
    rnn_cluster_sm90(const __grid_constant__ RnnLayer l, const __grid_constant__ RnnPersistentShape shape) {
  using Block = RnnPersistentBlock<T, G, 1, WN, WK>;
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  constexpr int kUnits = Block::kUnits;
  constexpr int kPlaces = Block::kPlaces;
  const RnnDirection& d = l.direction[blockIdx.z];
  const int place0 = static_cast<int>(blockIdx.y) * kPlaces;
  const int unit0 = static_cast<int>(blockIdx.x) * kUnits;
  const int blocks = static_cast<int>(gridDim.x);
  const int row = shape.columns + kRnnPadding;
  const int tid = static_cast<int>(threadIdx.x);

  T* const weights = reinterpret_cast<T*>(tile::dynamic_shared());
  T* const states = weights + G * kUnits * row;  // two of kPlaces rows
  float* const meeting = reinterpret_cast<float*>(states + 2 * kPlaces * row);
  const auto at_step = [&](std::int32_t t) {
    return rnn_step(l.rows, d.downwards, t, [&](std::int32_t step) { return std::int64_t{step} * l.rows.batch; });
  };
  const auto step_of = [&](std::int32_t i) { return at_step(d.downwards ? l.rows.steps - 1 - i : i); };

  RnnStep s = step_of(0);
  const RnnFactors<T> f = rnn_factors<T>(l, d, RnnPart::forward_cell, s);
  Block::load_weights(f, unit0, shape.columns, weights);
  ptx::cp_async_commit_group();
  // hx, and zeros for places and columns that there are not.
  for (int i = tid; i < 2 * kPlaces * row; i += kRnnPersistentThreads) {
    const int r = i / row;
    const int k = i % row;
    const T* const from = r < kPlaces && k < f.depth ? rnn_row_of(l, f, place0 + r) : nullptr;
    states[i] = from != nullptr ? from[k] : T{0};
  }

  typename Unit::Inputs in[Block::kElements];
  const auto fetch = [&] {
#pragma unroll
    for (int e = 0; e < Block::kElements; ++e) {
      const int index = tid + e * kRnnPersistentThreads;
      const int place = place0 + index / kUnits;
      if (place < s.rows) in[e] = Unit::fetch(l, d, s, place, unit0 + index % kUnits);
    }
  };
  fetch();
  ptx::cp_async_wait_group<0>();
  tile::cluster_sync(blocks);

  const int lane = tid % 32;
  const int wn = tid / 32 % WN;
  const int wk = tid / 32 / WN;
  const int share = shape.columns / WK;
#pragma unroll 1
  for (std::int32_t i = 0; i < l.rows.steps; ++i) {
    const T* const now = states + i % 2 * kPlaces * row;
    T* const next = states + (i + 1) % 2 * kPlaces * row;
    float sums[G][4] = {};
    const T* const a_row = now + lane % 16 * row + wk * share + lane / 16 * 8;
    const T* const b_row = weights + (8 * wn + lane % 8) * row + wk * share + lane / 8 * 8;
#pragma unroll 2
    for (int k = 0; k < share; k += 32) {
      std::uint32_t a[2][4];
      ptx::ldmatrix_x4(shared_address(a_row + k), a[0]);
      ptx::ldmatrix_x4(shared_address(a_row + k + 16), a[1]);
#pragma unroll
      for (int g = 0; g < G; ++g) {
        std::uint32_t b[4];
        ptx::ldmatrix_x4(shared_address(b_row + g * kUnits * row + k), b);
        rnn_multiply<T>(sums[g], a[0], b[0], b[1]);
        rnn_multiply<T>(sums[g], a[1], b[2], b[3]);
      }
    }
    Block::leave_sums(sums, meeting);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < Block::kElements; ++e) {
      const int index = tid + e * kRnnPersistentThreads;
      const int r = index / kUnits;
      const int j = index % kUnits;
      if (place0 + r >= s.rows) continue;
      float total[G];
      Block::take_sums(meeting, r, j, total);
      const float h = Unit::forward(l, d, s, place0 + r, unit0 + j, in[e], total);
      next[r * row + unit0 + j] = tile::narrow<T>(h);
    }
    __syncthreads();
    constexpr int kVectors = kPlaces * kUnits / 8;
    for (int index = tid; index < kVectors * blocks; index += kRnnPersistentThreads) {
      const int rank = index / kVectors;
      const int vector = index % kVectors;
      T* const mine = next + vector / (kUnits / 8) * row + unit0 + vector % (kUnits / 8) * 8;
      if (rank != static_cast<int>(blockIdx.x)) {
        *reinterpret_cast<float4*>(tile::cluster_shared(mine, rank, blocks)) = *reinterpret_cast<const float4*>(mine);
      }
    }
    if (i + 1 < l.rows.steps) {
      s = step_of(i + 1);
      fetch();
    }
    tile::cluster_sync(blocks);
  }
}

template <class T, int G, int WN, int WK>
bool launch_rnn_cluster_block(const RnnLayer& layer, const RnnPersistentShape& shape, cudaStream_t stream) {
  constexpr auto kKernel = &rnn_cluster_sm90<T, G, WN, WK>;
  const auto size = static_cast<unsigned>(layer.units / (8 * WN));
  const dim3 blocks(size, static_cast<unsigned>((layer.rows.batch + 15) / 16), static_cast<unsigned>(layer.directions));
  const cuda::LaunchConfig config = {.blocks = blocks,
                                     .threads = dim3(kRnnPersistentThreads),
                                     .shared_bytes = static_cast<std::size_t>(shape.shared_bytes),
                                     .cluster = dim3(size)};
  cuda::allow_shared_memory<kKernel>(kRnnPersistentShared);
  // How many clusters of the greatest size are resident at once; those of smaller ones are no fewer.
  static int known[cuda::kDevicesKnown] = {};
  const int resident = cuda::cached_query(known, [] {
    int clusters = 0;
    const cuda::LaunchConfig greatest = {.blocks = dim3(16),
                                         .threads = dim3(kRnnPersistentThreads),
                                         .shared_bytes = kRnnPersistentShared,
                                         .cluster = dim3(16)};
    const void* const kernel = reinterpret_cast<const void*>(kKernel);
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess ||
        cuda::max_resident_clusters(kernel, greatest, &clusters) != cudaSuccess) {
      (void)cudaGetLastError();
      return 0;
    }
    return clusters;
  });
  if (static_cast<std::int64_t>(blocks.y) * blocks.z > resident) return false;
  cuda::launch_kernel(kKernel, config, stream, layer, shape);
  return true;
}

template <class T>
bool launch_rnn_cluster_type(const RnnLayer& layer, const RnnPersistentShape& shape, cudaStream_t stream) {
  if (layer.cell == RnnCell::lstm) return launch_rnn_cluster_block<T, 4, 2, 4>(layer, shape, stream);
  if (layer.cell == RnnCell::gru) return launch_rnn_cluster_block<T, 3, 2, 4>(layer, shape, stream);
  return false;
}

}  // namespace gpudnn::kernels
