// The bilinear sampler and the gradient of its grid.
// SPDX-License-Identifier: Apache-2.0
//
//   y[n, c, p]   = alpha * sum over corners i of w_i(p) x[n, c, corner_i(p)] + beta * y[n, c, p]
//   dgrid[n, p]  = alpha * (W - 1) / 2 * sum over c of dy[n, c, p] (d sum / d column), likewise rows, + beta * dgrid
//
// A thread takes a pixel p, or a few with all of their grid's pairs loaded ahead, and some channels: it locates the
// point once and keeps the four offsets and weights. Where pixels are neighbours in memory (NCHW), neighbouring threads
// take neighbouring pixels and each loops over its block's chunk of channels; where channels are (NHWC), the lanes of a
// pixel take its channels in packs of 16 bytes. The gradient of the grid sums over all channels in that loop, and over
// a pixel's lanes by shuffles.
//
// Bytes: forward reads x and the grid and writes y; the gradient reads x, dy and the grid and writes dgrid. The four
// corners of neighbouring points are shared by way of the caches.
#include <cstdint>

#include "kernels/spatial_transformer/sampler_planes.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/least.hpp"
#include "kernels/tile/waits_by_pdl.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kMaxRun = 4;     // pixels of a thread
constexpr int kFewPlanes = 8;  // channels up to which what is read counts for more than what is written

// Channels of a thread whose loads are in flight together.
template <int N>
inline constexpr int kTogether = N == 1 ? 4 : 1;

// What a thread is there for. The divisions are multiplications: with few channels each of them would cost a tenth of
// the thread's instructions, which is what bounds these kernels there.
struct SamplerPlace {
  std::uint32_t image;
  std::uint32_t chunk;
  std::uint32_t pixel;  // the first of the thread's
  int lane;

  template <class T>
  __device__ __forceinline__ explicit SamplerPlace(const SamplerArgs<T>& args) {
    std::uint32_t tile;
    const std::uint32_t rest = args.tiles_of.divmod(blockIdx.x, &tile);
    image = args.chunks_of.divmod(rest, &chunk);
    lane = static_cast<int>(threadIdx.x) & (args.lanes - 1);
    pixel = tile * (step(args) * static_cast<std::uint32_t>(args.run)) + (threadIdx.x >> args.lane_bits);
  }
  // From one pixel of a thread to its next.
  template <class T>
  __device__ __forceinline__ static std::uint32_t step(const SamplerArgs<T>& args) {
    return static_cast<std::uint32_t>(kSamplerThreads >> args.lane_bits);
  }
};

// Calls visit(pixel, point) for each of the thread's pixels, up to `run` of them whether they exist or not; where the
// next one points to is fetched meanwhile.
template <class T, int N, class Visit>
__device__ __forceinline__ void for_each_pixel(const SamplerArgs<T>& args, const SamplerPlace& place, Visit&& visit) {
  const auto load = [&](std::uint32_t pixel) {
    return load_grid(args, place.image, pixel < args.pixels ? pixel : args.pixels - 1);
  };
  std::uint32_t pixel = place.pixel;
  tile::Pack<T, 2> pair = load(pixel);
  if constexpr (N > 1) {
    visit(pixel, locate(args, pair));
  } else {
#pragma unroll 1
    for (int i = 0; i < args.run; ++i) {
      const std::uint32_t following = pixel + SamplerPlace::step(args);
      const tile::Pack<T, 2> next = load(following);
      visit(pixel, locate(args, pair));
      pixel = following;
      pair = next;
    }
  }
}

// The channels of one pixel.
template <class T, int N>
__device__ __forceinline__ void sample_pixel(const SamplerArgs<T>& args, const SamplerPlace& place,
                                             const SamplePoint<tile::Compute<T>>& point, std::uint32_t pixel) {
  using C = tile::Compute<T>;
  constexpr int kMany = kTogether<N>;
  const std::uint32_t begin = place.chunk * static_cast<std::uint32_t>(args.chunk);
  const auto channels = static_cast<std::uint32_t>(args.channels);
  const std::uint32_t end = channels - begin > args.chunk ? begin + static_cast<std::uint32_t>(args.chunk) : channels;
  const std::uint32_t step = static_cast<std::uint32_t>(N) << args.lane_bits;
  const std::uint32_t first = begin + static_cast<std::uint32_t>(place.lane * N);
  const T* x = args.x + place.image * args.image_strides[0] + first * args.image_strides[1];
  T* y = args.out + place.image * args.sample_strides[0] + sample_offset(args, pixel) + first * args.sample_strides[1];
  const std::int64_t x_step = step * args.image_strides[1];
  const std::int64_t y_step = step * args.sample_strides[1];
  if (point.inside == 0 && !args.reads_out) {  // often whole warps: nothing to read
    tile::Pack<T, N> zeros;
    zeros.fill(tile::narrow<T>(C(0)));
    for (std::uint32_t c = first; c < end; c += step) {
      tile::store_pack<T, N>(y, zeros);
      y += y_step;
    }
    return;
  }
  std::int64_t offset[4];
  corner_offsets(args, point.row, point.column, offset);
  C weight[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) weight[i] = args.alpha * point.weight(i);
#pragma unroll 1
  for (std::uint32_t c = first; c < end; c += kMany * step) {
    tile::Pack<T, N> corners[kMany][4];
#pragma unroll
    for (int u = 0; u < kMany; ++u) {
      load_corners<T, N>(x, offset, point.inside, c + u * step < end, corners[u]);
      x += x_step;
    }
#pragma unroll
    for (int u = 0; u < kMany; ++u) {
      if (c + u * step >= end) break;
      C result[N] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        C values[N];
        tile::widen_pack<C>(corners[u][i], values);
#pragma unroll
        for (int j = 0; j < N; ++j) result[j] += weight[i] * values[j];
      }
      if (args.reads_out) {
        C old[N];
        tile::widen_pack<C>(tile::load_pack<T, N>(y), old);
#pragma unroll
        for (int j = 0; j < N; ++j) result[j] += args.beta * old[j];
      }
      tile::store_pack<T, N>(y, tile::narrow_pack<T>(result));
      y += y_step;
    }
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kSamplerThreads, sizeof(tile::Compute<T>) == 8 ? 2 : 4)
    sampler_forward(const __grid_constant__ SamplerArgs<T> args) {
  const SamplerPlace place(args);
  for_each_pixel<T, N>(args, place, [&](std::uint32_t pixel, const SamplePoint<tile::Compute<T>>& point) {
    if (pixel < args.pixels) sample_pixel<T, N>(args, place, point, pixel);
  });
}

// Sums over the thread's channels of one pixel, of dy times the slopes along the image's columns and rows.
template <class T, int N>
__device__ __forceinline__ void add_slopes(const SamplerArgs<T>& args, const SamplerPlace& place,
                                           const SamplePoint<tile::Compute<T>>& point, std::uint32_t pixel,
                                           tile::Compute<T> (&along)[2]) {
  using C = tile::Compute<T>;
  constexpr int kMany = kTogether<N>;
  along[0] = along[1] = C(0);
  if (point.inside == 0) return;
  std::int64_t offset[4];
  corner_offsets(args, point.row, point.column, offset);
  const auto channels = static_cast<std::uint32_t>(args.channels);
  const std::uint32_t step = static_cast<std::uint32_t>(N) << args.lane_bits;
  const auto first = static_cast<std::uint32_t>(place.lane * N);
  const T* x = args.x + place.image * args.image_strides[0] + first * args.image_strides[1];
  const T* dy =
      args.dy + place.image * args.sample_strides[0] + sample_offset(args, pixel) + first * args.sample_strides[1];
  const std::int64_t x_step = step * args.image_strides[1];
  const std::int64_t y_step = step * args.sample_strides[1];
#pragma unroll 1
  for (std::uint32_t c = first; c < channels; c += kMany * step) {
    tile::Pack<T, N> corners[kMany][4];
    tile::Pack<T, N> slope[kMany];
#pragma unroll
    for (int u = 0; u < kMany; ++u) {
      const bool active = c + u * step < channels;
      load_corners<T, N>(x, offset, point.inside, active, corners[u]);
      slope[u] = {};
      if (active) slope[u] = tile::load_pack<T, N>(dy);
      x += x_step;
      dy += y_step;
    }
#pragma unroll
    for (int u = 0; u < kMany; ++u) {
      if (c + u * step >= channels) break;
      C v[4][N];
      C d[N];
#pragma unroll
      for (int i = 0; i < 4; ++i) tile::widen_pack<C>(corners[u][i], v[i]);
      tile::widen_pack<C>(slope[u], d);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        along[0] += d[j] * ((v[1][j] - v[0][j]) * (C(1) - point.fy) + (v[3][j] - v[2][j]) * point.fy);
        along[1] += d[j] * ((v[2][j] - v[0][j]) * (C(1) - point.fx) + (v[3][j] - v[1][j]) * point.fx);
      }
    }
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kSamplerThreads, sizeof(tile::Compute<T>) == 8 ? 2 : 4)
    sampler_grid_gradient(const __grid_constant__ SamplerArgs<T> args) {
  using C = tile::Compute<T>;
  const SamplerPlace place(args);
  for_each_pixel<T, N>(args, place, [&](std::uint32_t pixel, const SamplePoint<C>& point) {
    // All threads reach the shuffles.
    C along[2];
    add_slopes<T, N>(args, place, point, pixel < args.pixels ? pixel : args.pixels - 1, along);
    for (int distance = args.lanes / 2; distance > 0; distance /= 2) {
      along[0] += __shfl_xor_sync(0xffffffffu, along[0], distance);
      along[1] += __shfl_xor_sync(0xffffffffu, along[1], distance);
    }
    if (place.lane != 0 || pixel >= args.pixels) return;
    T* const out = args.out + (static_cast<std::int64_t>(place.image) * args.pixels + pixel) * 2;
    store_grid_gradient(args, out, along);
  });
}

template <class T>
SamplerArgs<T> args_of(const SamplerParams& params) {
  using C = tile::Compute<T>;
  SamplerArgs<T> args{};
  args.x = static_cast<const T*>(params.x);
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
  args.grid_pairs = tile::is_aligned(params.grid, 2 * sizeof(T));
  args.chunks = 1;
  args.chunk = params.channels;
  return args;
}

// Channels lie next to each other in both tensors.
bool channels_last(const SamplerParams& params) {
  return params.channels > 1 && params.image.strides[1] == 1 && params.sample.strides[1] == 1;
}

template <class T>
bool in_packs(const SamplerParams& params, const void* sample) {
  constexpr int N = tile::kPackWidth<T>;
  bool packs = channels_last(params) && params.channels % N == 0 && tile::is_aligned(params.x, 16) &&
               tile::is_aligned(sample, 16);
  for (const int i : {0, 2, 3}) {
    packs = packs && params.image.strides[i] % N == 0 && params.sample.strides[i] % N == 0;
  }
  return packs;
}

// Whether sampler_planes.cuh does it: contiguous rows, samples without gaps, offsets of 32 bits, and not double.
bool in_planes(const SamplerParams& params) {
  const SamplerImage& image = params.image;
  const SamplerImage& sample = params.sample;
  return params.type != tile::ElementType::f64 && image.strides[3] == 1 && image.strides[2] >= 0 &&
         sample.strides[3] == 1 && sample.strides[2] == sample.width && !channels_last(params) &&
         (image.height + 2) * tile::greatest(image.strides[2], image.width) < INT32_MAX / 2 &&
         sample.height * sample.width < INT32_MAX / 2;
}

// How wide a warp is on the sample, in bits. A block of pixels meets fewer lines of an image that is turned round than
// a strip of 32 does, which in turn writes whole lines and needs no division by rows.
constexpr int kStrip = 5;
int forward_bits(const SamplerParams& params) { return params.channels <= kFewPlanes ? 4 : kStrip; }
template <class T>
constexpr int kGradientBits = sizeof(T) == 2 ? 4 : 3;  // 32 bytes of dy

template <class T>
void set_plane_tiles(const SamplerParams& params, int across_bits, SamplerArgs<T>* args) {
  if (params.sample.width < 16 || params.sample.height < 8) across_bits = kStrip;
  args->across_bits = across_bits;
  args->plane_width = static_cast<std::uint32_t>(across_bits == kStrip ? args->pixels : params.sample.width);
  args->plane_height = static_cast<std::uint32_t>(across_bits == kStrip ? 1 : params.sample.height);
  const auto warps = [](std::uint32_t extent, int bits) { return (extent + (1u << bits) - 1u) >> bits; };
  const std::uint32_t across = warps(args->plane_width, args->across_bits);
  args->warps_across = tile::FastDivmod(across);
  args->tiles =
      (across * warps(args->plane_height, 5 - args->across_bits) * 32 + kSamplerThreads - 1) / kSamplerThreads;
  args->tiles_of = tile::FastDivmod(args->tiles);
  args->all_pixels = params.images * std::int64_t{args->pixels};
  args->pixels_ahead = std::int64_t{params.multiprocessors} * kPlaneBlocks * kSamplerThreads;
}

// A thread takes several pixels where that leaves each multiprocessor several blocks.
template <class T>
void set_tiles(const SamplerParams& params, int pack, SamplerArgs<T>* args) {
  args->lanes = 1;
  while (channels_last(params) && args->lanes < 32 && args->lanes * pack < params.channels) args->lanes *= 2;
  args->lane_bits = 0;
  while (1 << args->lane_bits < args->lanes) ++args->lane_bits;
  args->run = 1;
  const auto tiles = [&] {
    const auto pixels = static_cast<std::uint32_t>(kSamplerThreads / args->lanes * args->run);
    return (args->pixels + pixels - 1) / pixels;
  };
  args->tiles = tiles();
  while (pack == 1 && args->run < kMaxRun && params.images * tiles() >= 16 * params.multiprocessors) {
    args->run *= 2;
  }
  args->tiles = tiles();
  args->tiles_of = tile::FastDivmod(args->tiles);
}

}  // namespace

void launch_sampler_forward(const SamplerParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    constexpr int N = tile::kPackWidth<T>;
    SamplerArgs<T> args = args_of<T>(params);
    const bool packs = in_packs<T>(params, params.out);
    const bool planes = in_planes(params);
    set_tiles(params, packs ? N : 1, &args);
    if (planes) set_plane_tiles(params, forward_bits(params), &args);
    if (args.lanes == 1) {
      // Chunks of 32 channels, or fewer where that leaves the device without work; whole packs in any case.
      constexpr int kLeast = N > 4 ? N : 4;
      args.chunk = 32;
      const auto blocks = [&] {
        return params.images * args.tiles * ((params.channels + args.chunk - 1) / args.chunk);
      };
      while (args.chunk > kLeast && blocks() < 16 * params.multiprocessors) args.chunk /= 2;
      args.chunks = static_cast<std::uint32_t>((params.channels + args.chunk - 1) / args.chunk);
    }
    args.chunks_of = tile::FastDivmod(args.chunks);
    const auto blocks = static_cast<unsigned>(params.images * args.tiles * args.chunks);
    if constexpr (sizeof(T) < 8) {
      if (planes) {
        tile::launch_kernel(&sampler_forward_planes<T>, {blocks, kSamplerThreads}, stream, args);
        return;
      }
    }
    if (packs) {
      tile::launch_kernel(&sampler_forward<T, N>, {blocks, kSamplerThreads}, stream, args);
    } else {
      tile::launch_kernel(&sampler_forward<T, 1>, {blocks, kSamplerThreads}, stream, args);
    }
  });
}

void launch_sampler_grid_gradient(const SamplerParams& params, CUstream_st* stream) {
  if (params.sample.height * params.sample.width == 0) return;
  tile::with_element_type(params.type, [&]<class T>() {
    constexpr int N = tile::kPackWidth<T>;
    SamplerArgs<T> args = args_of<T>(params);
    const bool packs = in_packs<T>(params, params.dy);
    const bool planes = in_planes(params);
    set_tiles(params, packs ? N : 1, &args);
    if (planes) {
      set_plane_tiles(params, kGradientBits<T>, &args);
      args.chunks_of = tile::FastDivmod(1);
    }
    args.out_pairs = tile::is_aligned(params.out, 2 * sizeof(T));
    const auto blocks = static_cast<unsigned>(params.images * args.tiles);
    if constexpr (sizeof(T) < 8) {
      if (planes) {
        const bool overlaps = params.follows_image_gradient && tile::waits_by_pdl<&sampler_grid_gradient_planes<T>>();
        tile::launch_kernel(&sampler_grid_gradient_planes<T>, {blocks, kSamplerThreads, 0, 1, overlaps}, stream, args);
        return;
      }
    }
    if (packs) {
      tile::launch_kernel(&sampler_grid_gradient<T, N>, {blocks, kSamplerThreads}, stream, args);
    } else {
      tile::launch_kernel(&sampler_grid_gradient<T, 1>, {blocks, kSamplerThreads}, stream, args);
    }
  });
}

}  // namespace gpudnn::kernels
