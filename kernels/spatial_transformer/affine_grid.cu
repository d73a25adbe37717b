// The affine grid of a spatial transformer, and its gradient.
// SPDX-License-Identifier: Apache-2.0
//
//   grid[n, h, w, :] = theta[n] * (x_w, y_h, 1),   x_w = (2 w - (W - 1)) / (W - 1), y_h likewise; 0 for an extent of 1
//   dtheta[n, i, :]  = sum over h, w of dgrid[n, h, w, i] * (x_w, y_h, 1)
//
// Forward writes 2 N H W elements and reads next to nothing: a thread computes four pairs, neighbouring threads write
// neighbouring pairs. Backward reads as many: a cluster of blocks sums each image, in a fixed order, with six sums a
// thread that are joined over the block and then over the cluster's blocks.
#include "kernels/spatial_transformer/spatial_transformer.hpp"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dispatch.cuh"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPairs = 4;  // of a thread, forward
constexpr int kLargestCluster = 8;

struct GridShape {
  tile::FastDivmod width;
  std::uint32_t height;
  std::uint32_t pixels;
};

// The position of pixel `index` of `extent` between -1 and 1.
template <class C>
__device__ __forceinline__ C position(std::uint32_t index, std::uint32_t extent) {
  if (extent == 1) return C(0);
  const auto last = static_cast<std::int64_t>(extent) - 1;
  return static_cast<C>(2 * static_cast<std::int64_t>(index) - last) / static_cast<C>(last);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    affine_grid_forward(const T* theta, T* grid, GridShape shape, std::uint32_t tiles, bool pairs) {
  using C = tile::Compute<T>;
  const std::uint32_t image = blockIdx.x / tiles;
  const std::uint32_t first = (blockIdx.x - image * tiles) * (kThreads * kPairs) + threadIdx.x;
  theta += static_cast<std::int64_t>(image) * 6;
  grid += static_cast<std::int64_t>(image) * shape.pixels * 2;
  C m[6];
#pragma unroll
  for (int i = 0; i < 6; ++i) m[i] = tile::widen<C>(theta[i]);
#pragma unroll
  for (int u = 0; u < kPairs; ++u) {
    const std::uint32_t pixel = first + u * kThreads;
    if (pixel >= shape.pixels) break;
    std::uint32_t w;
    const std::uint32_t h = shape.width.divmod(pixel, &w);
    const C x = position<C>(w, shape.width.divisor);
    const C y = position<C>(h, shape.height);
    const C pair[2] = {m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
    T* const place = grid + static_cast<std::int64_t>(pixel) * 2;
    if (pairs) {
      tile::store_pack<T, 2>(place, tile::narrow_pack<T>(pair));
    } else {
      place[0] = tile::narrow<T>(pair[0]);
      place[1] = tile::narrow<T>(pair[1]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    affine_grid_backward(const T* dgrid, T* dtheta, GridShape shape, int cluster) {
  using C = tile::Compute<T>;
  __shared__ C scratch[6][32];
  __shared__ C partial[6];
  const tile::ClusterPlace place = tile::cluster_place(cluster);
  if (place.rank >= place.blocks) return;
  const std::uint32_t image = blockIdx.x / static_cast<unsigned>(cluster);
  dgrid += static_cast<std::int64_t>(image) * shape.pixels * 2;
  C sums[6] = {};
  const std::uint32_t step = static_cast<std::uint32_t>(place.blocks) * kThreads;
  // Below 2^31 pixels, and a step of at most 2048: the index cannot wrap.
#pragma unroll 4
  for (std::uint32_t pixel = place.rank * kThreads + threadIdx.x; pixel < shape.pixels; pixel += step) {
    const T* const pair = dgrid + static_cast<std::int64_t>(pixel) * 2;
    const C d[2] = {tile::widen<C>(pair[0]), tile::widen<C>(pair[1])};
    std::uint32_t w;
    const std::uint32_t h = shape.width.divmod(pixel, &w);
    const C x = position<C>(w, shape.width.divisor);
    const C y = position<C>(h, shape.height);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sums[3 * i] += d[i] * x;
      sums[3 * i + 1] += d[i] * y;
      sums[3 * i + 2] += d[i];
    }
  }
#pragma unroll
  for (int i = 0; i < 6; ++i) sums[i] = tile::block_reduce(sums[i], C(0), tile::Sum{}, scratch[i]);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < 6; ++i) partial[i] = sums[i];
  }
  tile::cluster_sync(place.blocks);
  if (place.rank == 0 && threadIdx.x < 6) {
    C total = C(0);
    for (int rank = 0; rank < place.blocks; ++rank) {
      total += *tile::cluster_shared(&partial[threadIdx.x], rank, place.blocks);
    }
    dtheta[static_cast<std::int64_t>(image) * 6 + threadIdx.x] = tile::narrow<T>(total);
  }
  tile::cluster_sync(place.blocks);  // no block may leave while its partial sums are being read
}

GridShape shape_of(const AffineGridParams& params) {
  return {tile::FastDivmod(static_cast<std::uint32_t>(params.width)), static_cast<std::uint32_t>(params.height),
          static_cast<std::uint32_t>(params.height * params.width)};
}

}  // namespace

void launch_affine_grid_forward(const AffineGridParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    const GridShape shape = shape_of(params);
    const std::uint32_t tiles = (shape.pixels + kThreads * kPairs - 1) / (kThreads * kPairs);
    const bool pairs = tile::is_aligned(params.out, 2 * sizeof(T));
    affine_grid_forward<T><<<static_cast<unsigned>(params.images * tiles), kThreads, 0, stream>>>(
        static_cast<const T*>(params.in), static_cast<T*>(params.out), shape, tiles, pairs);
  });
}

void launch_affine_grid_backward(const AffineGridParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    const GridShape shape = shape_of(params);
    int cluster = 1;
    while (params.has_clusters && cluster < kLargestCluster && params.images * cluster < 3 * params.multiprocessors &&
           shape.pixels > 4u * kThreads * static_cast<unsigned>(cluster)) {
      cluster *= 2;
    }
    tile::launch_clusters(affine_grid_backward<T>, params.images, cluster, kThreads, stream,
                          static_cast<const T*>(params.in), static_cast<T*>(params.out), shape, cluster);
  });
}

}  // namespace gpudnn::kernels
