// The affine grid of a spatial transformer, and its gradient.
// SPDX-License-Identifier: Apache-2.0
//
//   grid[n, h, w, :] = theta[n] * (x_w, y_h, 1),   x_w = (2 w - (W - 1)) / (W - 1), y_h likewise; 0 for an extent of 1
//   dtheta[n, i, :]  = sum over h, w of dgrid[n, h, w, i] * (x_w, y_h, 1)
//
// Forward writes 2 N H W elements and reads next to nothing: a thread keeps to its columns, a run of pairs of 16 bytes
// where rows are whole runs, and goes down some rows, so that x is found once, y once a row, and a pair costs two fused
// multiply-adds. Many short blocks in the order of memory write faster than few long ones (f32, 256 x 224 x 224: 0.0260
// to 0.0271 ms). Backward reads as many: a block or a cluster of blocks sums each image, in a fixed order, with six
// sums a thread that are joined over the block and then over the cluster's blocks.
//
// x is a multiplication by the reciprocal of W - 1 with one correction, which gives the correctly rounded quotient, 1
// at the last column among them. Backward sums up multiples of 2 w - (W - 1), scaled by a power of two to stay below 1,
// and divides at the end; y it takes once a run, which lies in one row: seven instructions a pair.

#include "kernels/spatial_transformer/spatial_transformer.hpp"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/least.hpp"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxThreads = 512;  // backward, where a block has an image for itself
constexpr int kRuns = 4;          // of a thread, in flight together
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

// Pairs that 16 bytes hold.
template <class T>
inline constexpr int kRunOf = 8 / static_cast<int>(sizeof(T));

// How the threads of a block lie on the rows of an image: `across` side by side, kRun columns each, and rows apart that
// the block has at a time.
struct RowBlocks {
  tile::FastDivmod across;
  tile::FastDivmod columns;  // blocks side by side
  tile::FastDivmod parts;    // blocks one above the other
  std::uint32_t rows_at_once;
  std::uint32_t rows;  // of a block
};

// kRun pairs an access, side by side in a row; an access of one pair is two of its elements unless `pairs` says that
// pairs are aligned.
template <class T, int kRun>
__global__ void __launch_bounds__(kThreads)
    affine_grid_forward(const T* theta, T* grid, const __grid_constant__ GridShape<tile::Compute<T>> shape,
                        const __grid_constant__ RowBlocks blocks, bool pairs) {
  using C = tile::Compute<T>;
  std::uint32_t column_block, part, lane;
  const std::uint32_t image = blocks.parts.divmod(blocks.columns.divmod(blockIdx.x, &column_block), &part);
  const std::uint32_t row_in_block = blocks.across.divmod(threadIdx.x, &lane);
  theta += static_cast<std::int64_t>(image) * 6;
  C m[6];
#pragma unroll
  for (int i = 0; i < 6; ++i) m[i] = tile::widen<C>(theta[i]);
  const std::uint32_t column = (column_block * blocks.across.divisor + lane) * kRun;
  if (column > static_cast<std::uint32_t>(shape.x.last) || row_in_block >= blocks.rows_at_once) return;
  C x[kRun];
#pragma unroll
  for (int i = 0; i < kRun; ++i) x[i] = shape.x.position(static_cast<std::int32_t>(column) + i);
  const std::uint32_t first = part * blocks.rows;
  const std::uint32_t end = min(first + blocks.rows, static_cast<std::uint32_t>(shape.y.last) + 1);
  std::uint32_t row = first + row_in_block;
  const std::int64_t width = std::int64_t{shape.x.last} + 1;
  T* place = grid + (static_cast<std::int64_t>(image) * shape.pixels + row * width + column) * 2;
  const std::int64_t step = blocks.rows_at_once * width * 2;
#pragma unroll 4
  for (; row < end; row += blocks.rows_at_once) {
    const C y = shape.y.position(static_cast<std::int32_t>(row));
    const C of_row[2] = {m[1] * y + m[2], m[4] * y + m[5]};
    C run[2 * kRun];
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      run[2 * i] = m[0] * x[i] + of_row[0];
      run[2 * i + 1] = m[3] * x[i] + of_row[1];
    }
    if (kRun > 1 || pairs) {
      tile::store_pack<T, 2 * kRun>(place, tile::narrow_pack<T>(run));
    } else {
      place[0] = tile::narrow<T>(run[0]);
      place[1] = tile::narrow<T>(run[1]);
    }
    place += step;
  }
}

template <class T, int kRun>
__global__ void __launch_bounds__(kMaxThreads)
    affine_grid_backward(const T* dgrid, T* dtheta, const __grid_constant__ GridShape<tile::Compute<T>> shape,
                         int cluster, bool pairs) {
  using C = tile::Compute<T>;
  __shared__ C scratch[6][kMaxThreads / 32];
  __shared__ C partial[6];
  const tile::ClusterPlace place = tile::cluster_place(cluster);
  if (place.rank >= place.blocks) return;
  const std::uint32_t image = blockIdx.x / static_cast<unsigned>(cluster);
  dgrid += static_cast<std::int64_t>(image) * shape.pixels * 2;
  C sums[6] = {};
  const std::uint32_t step = static_cast<std::uint32_t>(place.blocks) * (blockDim.x * kRun);
  // Below 2^31 pixels, and kRuns steps of at most 16384: the index cannot wrap.
  for (std::uint32_t first = (place.rank * blockDim.x + threadIdx.x) * kRun; first < shape.pixels;
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
  for (int i = 0; i < 6; ++i) {
    sums[i] = tile::warp_reduce(sums[i], tile::Sum{});
    if (threadIdx.x % 32 == 0) scratch[i][threadIdx.x / 32] = sums[i];
  }
  __syncthreads();
  if (threadIdx.x < 6) {
    C of_block = C(0);
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) of_block += scratch[threadIdx.x][warp];
    partial[threadIdx.x] = of_block;
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

// Every row of the grid is whole, aligned runs.
template <class T>
bool in_runs(const AffineGridParams& params, const void* grid) {
  return params.width % kRunOf<T> == 0 && tile::is_aligned(grid, 16);
}

template <class T, int kRun>
void forward(const AffineGridParams& params, cudaStream_t stream) {
  constexpr std::int64_t kBlocksForAll = 32;  // of a multiprocessor
  const std::int64_t runs = (params.width + kRun - 1) / kRun;
  const std::int64_t columns = (runs + kThreads - 1) / kThreads;
  const std::int64_t across = (runs + columns - 1) / columns;
  const std::int64_t at_once = tile::least<std::int64_t>(kThreads / across, params.height);
  const std::int64_t passes = (params.height + at_once - 1) / at_once;  // of rows
  const std::int64_t wanted = kBlocksForAll * params.multiprocessors / (params.images * columns);
  const std::int64_t fewest = tile::clamp<std::int64_t>(wanted, 1, passes);
  const std::int64_t passes_each = (passes + fewest - 1) / fewest;
  const std::int64_t parts = (passes + passes_each - 1) / passes_each;
  RowBlocks blocks;
  blocks.across = tile::FastDivmod(static_cast<std::uint32_t>(across));
  blocks.columns = tile::FastDivmod(static_cast<std::uint32_t>(columns));
  blocks.parts = tile::FastDivmod(static_cast<std::uint32_t>(parts));
  blocks.rows_at_once = static_cast<std::uint32_t>(at_once);
  blocks.rows = static_cast<std::uint32_t>(passes_each * at_once);
  affine_grid_forward<T, kRun><<<static_cast<unsigned>(params.images * columns * parts), kThreads, 0, stream>>>(
      static_cast<const T*>(params.in), static_cast<T*>(params.out), shape_of<tile::Compute<T>>(params), blocks,
      tile::is_aligned(params.out, 2 * sizeof(T)));
}

template <class T, int kRun>
void backward(const AffineGridParams& params, cudaStream_t stream) {
  const auto shape = shape_of<tile::Compute<T>>(params);
  // A block alone, of twice the threads, where images are about as many as multiprocessors: 0.0176 ms for 0.0183 in
  // f16.
  const bool alone = sizeof(T) == 2 && params.images * 3 > 2 * params.multiprocessors;
  int cluster = 1;
  while (!alone && params.has_clusters && cluster < kLargestCluster &&
         params.images * cluster < 3 * params.multiprocessors &&
         shape.pixels > 4u * kThreads * static_cast<unsigned>(cluster)) {
    cluster *= 2;
  }
  tile::launch_clusters(affine_grid_backward<T, kRun>, params.images, cluster, alone ? kMaxThreads : kThreads, stream,
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
    in_runs<T>(params, params.in) ? backward<T, kRunOf<T>>(params, stream) : backward<T, 1>(params, stream);
  });
}

}  // namespace gpudnn::kernels
