// The gradient of the sampled image, in a form that needs neither atomic additions of floats nor a workspace.
// SPDX-License-Identifier: Apache-2.0
//
//   dx[n, c, q] = alpha * sum over sample pixels p and corners i with corner_i(p) = q of w_i(p) dy[n, c, p] + beta * dx
//
// The sum over p is a scatter with a grid that can be anything, so it is turned around: a block owns a tile of 32 x 8
// pixels q of one image and 16 channels, walks over the whole grid of the image, 256 points a time, and lists each
// corner that falls into its tile (point, pixel, weight) in shared memory. When the list could overflow, or the grid
// ends, the list is sorted by pixel (a counting sort: integer atomics count and place, then each entry moves to its
// rank by point within its pixel, so the order does not depend on the atomics), and each thread adds up the entries of
// its own pixel in the order of the points, for 16 channels in registers. The result is the plain loop's over p, with
// one rounding at the end: deterministic for any grid.
//
// Cost: the grid is read once a tile and chunk of channels, from the L2; entries are dy's elements, four times each,
// from the caches where neighbouring q are hit by neighbouring p. A grid that sends all points to one pixel makes one
// thread do its whole sum. Bytes of the floor: dy and the grid in, dx out.
#include "kernels/spatial_transformer/sampler.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kTileWidth = 32;
constexpr int kTileHeight = 8;
constexpr int kChannels = 16;
constexpr int kEntries = 2048;
static_assert(kTileWidth * kTileHeight == kSamplerThreads, "a thread owns a pixel");
static_assert(kEntries >= 2 * 4 * kSamplerThreads, "a round of points adds up to four entries a thread");

template <class C>
struct EntryList {
  std::uint32_t point[kEntries];
  C weight[kEntries];
  std::uint16_t unordered[kEntries];  // entries by pixel, in no order within it
  std::uint16_t ordered[kEntries];    // the same by point within the pixel
  unsigned char pixel[kEntries];
  int cursor[kSamplerThreads];                      // of each pixel: its entries, then where the next one goes
  int start[kSamplerThreads + 1];                   // of each pixel's entries
  alignas(16) int warp_sums[kSamplerThreads / 32];  // else vector loads of it begin in `start`, which others write
  int count;
};

// Fills `start` and `ordered`. All threads take part; ends with the block in step.
template <class C>
__device__ __forceinline__ void sort_by_pixel(EntryList<C>& list, int count) {
  const int thread = static_cast<int>(threadIdx.x);
  list.cursor[thread] = 0;
  __syncthreads();
  for (int e = thread; e < count; e += kSamplerThreads) atomicAdd(&list.cursor[list.pixel[e]], 1);
  __syncthreads();
  const int own = list.cursor[thread];
  int through = own;  // of the warp, up to and with this thread
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, through, step);
    if (thread % 32 >= step) through += before;
  }
  if (thread % 32 == 31) list.warp_sums[thread / 32] = through;
  __syncthreads();
  for (int warp = 0; warp < thread / 32; ++warp) through += list.warp_sums[warp];
  list.start[thread] = list.cursor[thread] = through - own;
  if (thread == kSamplerThreads - 1) list.start[kSamplerThreads] = through;
  __syncthreads();
  for (int e = thread; e < count; e += kSamplerThreads) {
    list.unordered[atomicAdd(&list.cursor[list.pixel[e]], 1)] = static_cast<std::uint16_t>(e);
  }
  __syncthreads();
  for (int e = thread; e < count; e += kSamplerThreads) {
    const int begin = list.start[list.pixel[e]];
    const int end = list.start[list.pixel[e] + 1];
    const std::uint32_t point = list.point[e];  // once in a pixel: the corners of a point are different pixels
    int rank = begin;
    for (int i = begin; i < end; ++i) rank += list.point[list.unordered[i]] < point ? 1 : 0;
    list.ordered[rank] = static_cast<std::uint16_t>(e);
  }
  __syncthreads();
}

// N channels a load: 1, or a pack where they are contiguous.
template <class T, int N>
__global__ void __launch_bounds__(kSamplerThreads, 4)
    sampler_image_gradient(const __grid_constant__ SamplerArgs<T> args, std::uint32_t tiles_across) {
  using C = tile::Compute<T>;
  __shared__ EntryList<C> list;
  const std::uint32_t tile = blockIdx.x % args.tiles;
  const std::int64_t first_channel = static_cast<std::int64_t>(blockIdx.x / args.tiles % args.chunks) * kChannels;
  const std::int64_t image = blockIdx.x / args.tiles / args.chunks;
  const auto top = static_cast<std::int32_t>(tile / tiles_across * kTileHeight);
  const auto left = static_cast<std::int32_t>(tile % tiles_across * kTileWidth);
  const std::int64_t left_channels = args.channels - first_channel;
  const T* const dy = args.dy + image * args.sample_strides[0] + first_channel * args.sample_strides[1];
  C sums[kChannels] = {};

  if (threadIdx.x == 0) list.count = 0;
  __syncthreads();
  for (std::uint32_t base = 0; base < args.pixels; base += kSamplerThreads) {
    const std::uint32_t p = base + threadIdx.x;
    if (p < args.pixels) {
      const SamplePoint<C> point = locate_pixel(args, image, p);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int32_t row = point.row + i / 2 - top;
        const std::int32_t column = point.column + i % 2 - left;
        if ((point.inside >> i & 1u) != 0 && row >= 0 && row < kTileHeight && column >= 0 && column < kTileWidth) {
          const int e = atomicAdd(&list.count, 1);
          list.point[e] = p;
          list.weight[e] = point.weight(i);
          list.pixel[e] = static_cast<unsigned char>(row * kTileWidth + column);
        }
      }
    }
    __syncthreads();
    const int count = list.count;
    const bool last = args.pixels - base <= kSamplerThreads;
    if (count > 0 && (last || count > kEntries - 4 * kSamplerThreads)) {
      sort_by_pixel(list, count);
      const int end = list.start[threadIdx.x + 1];
      for (int i = list.start[threadIdx.x]; i < end; ++i) {
        const int e = list.ordered[i];
        const C weight = list.weight[e];
        const T* const from = dy + sample_offset(args, list.point[e]);
#pragma unroll
        for (int k = 0; k < kChannels; k += N) {
          if (k < left_channels) {
            C values[N];
            tile::widen_pack<C>(tile::load_pack<T, N>(from + k * args.sample_strides[1]), values);
#pragma unroll
            for (int j = 0; j < N; ++j) sums[k + j] += weight * values[j];
          }
        }
      }
      __syncthreads();
      if (threadIdx.x == 0) list.count = 0;
    }
    __syncthreads();  // no thread adds to the list while another still reads its length
  }

  const std::int32_t row = top + static_cast<std::int32_t>(threadIdx.x) / kTileWidth;
  const std::int32_t column = left + static_cast<std::int32_t>(threadIdx.x) % kTileWidth;
  if (row >= args.height || column >= args.width) return;
  T* const dx = args.out + image * args.image_strides[0] + first_channel * args.image_strides[1] +
                row * args.image_strides[2] + column * args.image_strides[3];
#pragma unroll
  for (int k = 0; k < kChannels; k += N) {
    if (k < left_channels) {
      T* const place = dx + k * args.image_strides[1];
      C result[N];
#pragma unroll
      for (int j = 0; j < N; ++j) result[j] = args.alpha * sums[k + j];
      if (args.reads_out) {
        C old[N];
        tile::widen_pack<C>(tile::load_pack<T, N>(place), old);
#pragma unroll
        for (int j = 0; j < N; ++j) result[j] += args.beta * old[j];
      }
      tile::store_pack<T, N>(place, tile::narrow_pack<T>(result));
    }
  }
}

template <class T>
bool in_packs(const SamplerParams& params) {
  constexpr int N = tile::kPackWidth<T>;
  bool packs = params.image.strides[1] == 1 && params.sample.strides[1] == 1 && params.channels % N == 0 &&
               tile::is_aligned(params.dy, 16) && tile::is_aligned(params.out, 16);
  for (const int i : {0, 2, 3}) {
    packs = packs && params.image.strides[i] % N == 0 && params.sample.strides[i] % N == 0;
  }
  return packs;
}

}  // namespace

void launch_sampler_image_gradient(const SamplerParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    using C = tile::Compute<T>;
    constexpr int N = tile::kPackWidth<T>;
    static_assert(kChannels % N == 0, "a chunk of channels is whole packs");
    SamplerArgs<T> args{};
    args.grid = static_cast<const T*>(params.grid);
    args.dy = static_cast<const T*>(params.dy);
    args.out = static_cast<T*>(params.out);
    for (int i = 0; i < 4; ++i) {
      args.image_strides[i] = params.image.strides[i];
      args.sample_strides[i] = params.sample.strides[i];
    }
    args.channels = params.channels;
    args.height = static_cast<std::int32_t>(params.image.height);
    args.width = static_cast<std::int32_t>(params.image.width);
    args.pixels = static_cast<std::uint32_t>(params.sample.height * params.sample.width);
    args.sample_width = tile::FastDivmod(static_cast<std::uint32_t>(params.sample.width));
    args.alpha = static_cast<C>(params.alpha);
    args.beta = static_cast<C>(params.beta);
    args.reads_out = params.beta != 0;
    const auto across = static_cast<std::uint32_t>((params.image.width + kTileWidth - 1) / kTileWidth);
    const auto down = static_cast<std::uint32_t>((params.image.height + kTileHeight - 1) / kTileHeight);
    args.tiles = across * down;
    args.chunks = static_cast<std::uint32_t>((params.channels + kChannels - 1) / kChannels);
    const auto blocks = static_cast<unsigned>(params.images * args.tiles * args.chunks);
    if (in_packs<T>(params)) {
      sampler_image_gradient<T, N><<<blocks, kSamplerThreads, 0, stream>>>(args, across);
    } else {
      sampler_image_gradient<T, 1><<<blocks, kSamplerThreads, 0, stream>>>(args, across);
    }
  });
}

}  // namespace gpudnn::kernels
