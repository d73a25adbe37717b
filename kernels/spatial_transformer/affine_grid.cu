// The affine grid of a spatial transformer, and its gradient.
// SPDX-License-Identifier: Apache-2.0
//
//   grid[n, h, w, :] = theta[n] * (x_w, y_h, 1),   x_w = (2 w - (W - 1)) / (W - 1), y_h likewise; 0 for an extent of 1
//   dtheta[n, i, :]  = sum over h, w of dgrid[n, h, w, i] * (x_w, y_h, 1)
//
// Forward writes 2 N H W elements and reads next to nothing: a thread writes four runs of pairs, each 16 bytes where
// the images are whole runs. Backward reads as many: a cluster of blocks sums each image, in a fixed order, with six
// sums a thread that are joined over the block and then over the cluster's blocks.
//
// Both are bound by instructions unless a pair costs few: 12.8 million pairs of f16 are 12 us of bytes, and 46 issue
// slots each. So a run divides by the width once, y is found once a row, and x is a multiplication by the reciprocal of
// W - 1 with one correction, which gives the correctly rounded quotient, 1 at the last column among them. Backward sums
// up multiples of 2 w - (W - 1), scaled by a power of two to stay below 1, and divides at the end; y it takes once a
// run, which lies in one row: seven instructions a pair.
#include "kernels/spatial_transformer/spatial_transformer.hpp"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dispatch.cuh"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRuns = 4;  // of a thread, in flight together
constexpr int kLargestCluster = 8;

// Positions along an axis between -1 and 1.
template <class C>
struct Axis {
  std::int32_t last = 0;
  C extent = C(0);      // last, in C
  C reciprocal = C(0);  // 1 / last; 0 where last is 0
  C unit = C(1);        // the largest power of two with unit * last <= 1

  Axis() = default;
  explicit Axis(std::int64_t pixels)
      : last(static_cast<std::int32_t>(pixels - 1)),
        extent(static_cast<C>(last)),
        reciprocal(last > 0 ? C(1) / extent : C(0)) {
    while (unit * extent > C(1)) unit *= C(0.5);
  }

  __device__ __forceinline__ C numerator(std::int32_t index) const {
    return static_cast<C>(index + (index - last));  // neither sum leaves -last to last
  }
  __device__ __forceinline__ C position(std::int32_t index) const {
    const C quotient = numerator(index) * reciprocal;
    return fma(fma(-quotient, extent, numerator(index)), reciprocal, quotient);
  }
};

template <class C>
struct GridShape {
  tile::FastDivmod width;
  std::uint32_t pixels;
  Axis<C> x;
  Axis<C> y;
};

// Walks along the pixels of an image in memory order.
template <class C>
struct Walk {
  std::int32_t column;
  std::int32_t row;
  C y;

  __device__ __forceinline__ Walk(const GridShape<C>& shape, std::uint32_t pixel) {
    std::uint32_t w;
    row = static_cast<std::int32_t>(shape.width.divmod(pixel, &w));
    column = static_cast<std::int32_t>(w);
    y = shape.y.position(row);
  }
  __device__ __forceinline__ void step(const GridShape<C>& shape) {
    if (column++ != shape.x.last) return;
    column = 0;
    y = shape.y.position(++row);
  }
};

// Pairs that 16 bytes hold.
template <class T>
inline constexpr int kRunOf = 8 / static_cast<int>(sizeof(T));

// kRun pairs an access; an access of one pair is two of its elements unless `pairs` says that pairs are aligned.
template <class T, int kRun>
__global__ void __launch_bounds__(kThreads)
    affine_grid_forward(const T* theta, T* grid, const __grid_constant__ GridShape<tile::Compute<T>> shape,
                        std::uint32_t tiles, bool pairs) {
  using C = tile::Compute<T>;
  const std::uint32_t image = blockIdx.x / tiles;
  const std::uint32_t first = ((blockIdx.x - image * tiles) * (kThreads * kRuns) + threadIdx.x) * kRun;
  theta += static_cast<std::int64_t>(image) * 6;
  grid += static_cast<std::int64_t>(image) * shape.pixels * 2;
  C m[6];
#pragma unroll
  for (int i = 0; i < 6; ++i) m[i] = tile::widen<C>(theta[i]);
#pragma unroll
  for (int u = 0; u < kRuns; ++u) {
    const std::uint32_t pixel = first + u * (kThreads * kRun);
    if (pixel >= shape.pixels) break;
    Walk<C> walk(shape, pixel);
    C run[2 * kRun];
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      const C x = shape.x.position(walk.column);
      run[2 * i] = m[0] * x + m[1] * walk.y + m[2];
      run[2 * i + 1] = m[3] * x + m[4] * walk.y + m[5];
      if (i + 1 < kRun) walk.step(shape);
    }
    T* const place = grid + static_cast<std::int64_t>(pixel) * 2;
    if (kRun > 1 || pairs) {
      tile::store_pack<T, 2 * kRun>(place, tile::narrow_pack<T>(run));
    } else {
      place[0] = tile::narrow<T>(run[0]);
      place[1] = tile::narrow<T>(run[1]);
    }
  }
}

template <class T, int kRun>
__global__ void __launch_bounds__(kThreads)
    affine_grid_backward(const T* dgrid, T* dtheta, const __grid_constant__ GridShape<tile::Compute<T>> shape,
                         int cluster, bool pairs) {
  using C = tile::Compute<T>;
  __shared__ C scratch[6][32];
  __shared__ C partial[6];
  const tile::ClusterPlace place = tile::cluster_place(cluster);
  if (place.rank >= place.blocks) return;
  const std::uint32_t image = blockIdx.x / static_cast<unsigned>(cluster);
  dgrid += static_cast<std::int64_t>(image) * shape.pixels * 2;
  C sums[6] = {};
  const std::uint32_t step = static_cast<std::uint32_t>(place.blocks) * (kThreads * kRun);
  // Below 2^31 pixels, and kRuns steps of at most 8192: the index cannot wrap.
  for (std::uint32_t first = (place.rank * kThreads + threadIdx.x) * kRun; first < shape.pixels;
       first += kRuns * step) {
    tile::Pack<T, 2 * kRun> packs[kRuns];
#pragma unroll
    for (int u = 0; u < kRuns; ++u) {
      if (const std::uint32_t pixel = first + u * step; pixel < shape.pixels) {
        const T* const from = dgrid + static_cast<std::int64_t>(pixel) * 2;
        if (kRun > 1 || pairs) {
          packs[u] = tile::load_pack<T, 2 * kRun>(from);
        } else {
          const C values[2 * kRun] = {tile::widen<C>(from[0]), tile::widen<C>(from[1])};
          packs[u] = tile::narrow_pack<T>(values);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kRuns; ++u) {
      const std::uint32_t pixel = first + u * step;
      if (pixel >= shape.pixels) break;
      C d[2 * kRun];
      tile::widen_pack<C>(packs[u], d);
      std::uint32_t column;
      const std::uint32_t row = shape.width.divmod(pixel, &column);
      C x = shape.x.numerator(static_cast<std::int32_t>(column)) * shape.x.unit;
      C of_run[2] = {};
#pragma unroll
      for (int i = 0; i < kRun; ++i, x += C(2) * shape.x.unit) {
#pragma unroll
        for (int axis = 0; axis < 2; ++axis) {
          sums[3 * axis] += d[2 * i + axis] * x;
          of_run[axis] += d[2 * i + axis];
        }
      }
      const C y = shape.y.numerator(static_cast<std::int32_t>(row)) * shape.y.unit;
#pragma unroll
      for (int axis = 0; axis < 2; ++axis) {
        sums[3 * axis + 1] += of_run[axis] * y;
        sums[3 * axis + 2] += of_run[axis];
      }
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
    const C across = shape.x.extent * shape.x.unit, down = shape.y.extent * shape.y.unit;
    const C extent = threadIdx.x % 3 == 0 ? across : threadIdx.x % 3 == 1 ? down : C(1);
    dtheta[static_cast<std::int64_t>(image) * 6 + threadIdx.x] =
        tile::narrow<T>(extent > C(0) ? total / extent : total);
  }
  tile::cluster_sync(place.blocks);  // no block may leave while its partial sums are being read
}

template <class C>
GridShape<C> shape_of(const AffineGridParams& params) {
  return {tile::FastDivmod(static_cast<std::uint32_t>(params.width)),
          static_cast<std::uint32_t>(params.height * params.width), Axis<C>(params.width), Axis<C>(params.height)};
}

// Every image of the grid is whole, aligned runs.
template <class T>
bool in_runs(const AffineGridParams& params, const void* grid) {
  return params.height * params.width % kRunOf<T> == 0 && tile::is_aligned(grid, 16);
}

template <class T, int kRun>
void forward(const AffineGridParams& params, cudaStream_t stream) {
  const auto shape = shape_of<tile::Compute<T>>(params);
  constexpr std::uint32_t kTile = kThreads * kRuns * kRun;
  const std::uint32_t tiles = (shape.pixels + kTile - 1) / kTile;
  affine_grid_forward<T, kRun><<<static_cast<unsigned>(params.images * tiles), kThreads, 0, stream>>>(
      static_cast<const T*>(params.in), static_cast<T*>(params.out), shape, tiles,
      tile::is_aligned(params.out, 2 * sizeof(T)));
}

template <class T, int kRun>
void backward(const AffineGridParams& params, cudaStream_t stream) {
  const auto shape = shape_of<tile::Compute<T>>(params);
  int cluster = 1;
  while (params.has_clusters && cluster < kLargestCluster && params.images * cluster < 3 * params.multiprocessors &&
         shape.pixels > 4u * kThreads * static_cast<unsigned>(cluster)) {
    cluster *= 2;
  }
  tile::launch_clusters(affine_grid_backward<T, kRun>, params.images, cluster, kThreads, stream,
                        static_cast<const T*>(params.in), static_cast<T*>(params.out), shape, cluster,
                        tile::is_aligned(params.in, 2 * sizeof(T)));
}

}  // namespace

void launch_affine_grid_forward(const AffineGridParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    in_runs<T>(params, params.out) ? forward<T, kRunOf<T>>(params, stream) : forward<T, 1>(params, stream);
  });
}

void launch_affine_grid_backward(const AffineGridParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    in_runs<T>(params, params.in) && params.width % kRunOf<T> == 0 ? backward<T, kRunOf<T>>(params, stream)
                                                                   : backward<T, 1>(params, stream);
  });
}

}  // namespace gpudnn::kernels
