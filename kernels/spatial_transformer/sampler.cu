// The bilinear sampler and the gradient of its grid.
// SPDX-License-Identifier: Apache-2.0
//
//   y[n, c, p]   = alpha * sum over corners i of w_i(p) x[n, c, corner_i(p)] + beta * y[n, c, p]
//   dgrid[n, p]  = alpha * (W - 1) / 2 * sum over c of dy[n, c, p] (d sum / d column), likewise rows, + beta * dgrid
//
// A thread takes one pixel p and some channels: it locates the point once and keeps the four offsets and weights.
// Where pixels are neighbours in memory (NCHW), neighbouring threads take neighbouring pixels and each loops over its
// block's chunk of channels; where channels are (NHWC), the lanes of a pixel take its channels in packs of 16 bytes.
// The gradient of the grid sums over all channels in that loop, and over a pixel's lanes by shuffles.
//
// Bytes: forward reads x and the grid and writes y; the gradient reads x, dy and the grid and writes dgrid. The four
// corners of neighbouring points are shared by way of the caches.
#include "kernels/spatial_transformer/sampler.cuh"

namespace gpudnn::kernels {
namespace {

// Channels of a thread whose loads are in flight together.
template <int N>
inline constexpr int kTogether = N == 1 ? 4 : 1;

template <class T, int N>
__global__ void __launch_bounds__(kSamplerThreads) sampler_forward(const __grid_constant__ SamplerArgs<T> args) {
  using C = tile::Compute<T>;
  const std::uint32_t tile = blockIdx.x % args.tiles;
  const std::uint32_t chunk = blockIdx.x / args.tiles % args.chunks;
  const std::int64_t image = blockIdx.x / args.tiles / args.chunks;
  const int lane = static_cast<int>(threadIdx.x) % args.lanes;
  const std::uint32_t pixel = tile * (kSamplerThreads / args.lanes) + threadIdx.x / args.lanes;
  if (pixel >= args.pixels) return;
  const SamplePoint<C> point = locate_pixel(args, image, pixel);
  std::int64_t offset[4];
  corner_offsets(args, point.row, point.column, offset);
  const T* const x = args.x + image * args.image_strides[0];
  T* const y = args.out + image * args.sample_strides[0] + sample_offset(args, pixel);
  const std::int64_t begin = chunk * args.chunk;
  const std::int64_t end = begin + args.chunk < args.channels ? begin + args.chunk : args.channels;
  const int step = args.lanes * N;
#pragma unroll 1
  for (std::int64_t first = begin + lane * N; first < end; first += kTogether<N> * step) {
    C corners[kTogether<N>][4][N];
#pragma unroll
    for (int u = 0; u < kTogether<N>; ++u) {
      if (const std::int64_t c = first + u * step; c < end) {
        load_corners<T, N>(x + c * args.image_strides[1], offset, point.inside, corners[u]);
      }
    }
#pragma unroll
    for (int u = 0; u < kTogether<N>; ++u) {
      const std::int64_t c = first + u * step;
      if (c >= end) break;
      C result[N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        result[j] = C(0);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if ((point.inside >> i & 1u) != 0) result[j] += point.weight(i) * corners[u][i][j];
        }
        result[j] *= args.alpha;
      }
      T* const place = y + c * args.sample_strides[1];
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

template <class T, int N>
__global__ void __launch_bounds__(kSamplerThreads) sampler_grid_gradient(const __grid_constant__ SamplerArgs<T> args) {
  using C = tile::Compute<T>;
  const std::uint32_t tile = blockIdx.x % args.tiles;
  const std::int64_t image = blockIdx.x / args.tiles;
  const int lane = static_cast<int>(threadIdx.x) % args.lanes;
  const std::uint32_t mine = tile * (kSamplerThreads / args.lanes) + threadIdx.x / args.lanes;
  const std::uint32_t pixel = mine < args.pixels ? mine : args.pixels - 1;  // all lanes must reach the shuffles
  const SamplePoint<C> point = locate_pixel(args, image, pixel);
  std::int64_t offset[4];
  corner_offsets(args, point.row, point.column, offset);
  const T* const x = args.x + image * args.image_strides[0];
  const T* const dy = args.dy + image * args.sample_strides[0] + sample_offset(args, pixel);
  C along_x = C(0);
  C along_y = C(0);
  const int step = args.lanes * N;
#pragma unroll 1
  for (std::int64_t first = lane * N; first < args.channels && point.inside != 0; first += kTogether<N> * step) {
    C v[kTogether<N>][4][N];
    C d[kTogether<N>][N];
#pragma unroll
    for (int u = 0; u < kTogether<N>; ++u) {
      if (const std::int64_t c = first + u * step; c < args.channels) {
        load_corners<T, N>(x + c * args.image_strides[1], offset, point.inside, v[u]);
        tile::widen_pack<C>(tile::load_pack<T, N>(dy + c * args.sample_strides[1]), d[u]);
      }
    }
#pragma unroll
    for (int u = 0; u < kTogether<N>; ++u) {
      if (first + u * step >= args.channels) break;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        along_x += d[u][j] * ((v[u][1][j] - v[u][0][j]) * (C(1) - point.fy) + (v[u][3][j] - v[u][2][j]) * point.fy);
        along_y += d[u][j] * ((v[u][2][j] - v[u][0][j]) * (C(1) - point.fx) + (v[u][3][j] - v[u][1][j]) * point.fx);
      }
    }
  }
  for (int distance = args.lanes / 2; distance > 0; distance /= 2) {
    along_x += __shfl_xor_sync(0xffffffffu, along_x, distance);
    along_y += __shfl_xor_sync(0xffffffffu, along_y, distance);
  }
  if (lane != 0 || mine >= args.pixels) return;
  T* const place = args.out + (image * args.pixels + pixel) * 2;
  C gradient[2] = {along_x * (static_cast<C>(args.width - 1) * C(0.5)) * args.alpha,
                   along_y * (static_cast<C>(args.height - 1) * C(0.5)) * args.alpha};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (args.reads_out) gradient[i] += args.beta * tile::widen<C>(place[i]);
    place[i] = tile::narrow<T>(gradient[i]);
  }
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

template <class T>
void set_tiles(const SamplerParams& params, int pack, SamplerArgs<T>* args) {
  args->lanes = 1;
  while (channels_last(params) && args->lanes < 32 && args->lanes * pack < params.channels) args->lanes *= 2;
  const auto pixels = static_cast<std::uint32_t>(kSamplerThreads / args->lanes);
  args->tiles = (args->pixels + pixels - 1) / pixels;
}

}  // namespace

void launch_sampler_forward(const SamplerParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    constexpr int N = tile::kPackWidth<T>;
    SamplerArgs<T> args = args_of<T>(params);
    const bool packs = in_packs<T>(params, params.out);
    set_tiles(params, packs ? N : 1, &args);
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
    const auto blocks = static_cast<unsigned>(params.images * args.tiles * args.chunks);
    if (packs) {
      sampler_forward<T, N><<<blocks, kSamplerThreads, 0, stream>>>(args);
    } else {
      sampler_forward<T, 1><<<blocks, kSamplerThreads, 0, stream>>>(args);
    }
  });
}

void launch_sampler_grid_gradient(const SamplerParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    constexpr int N = tile::kPackWidth<T>;
    SamplerArgs<T> args = args_of<T>(params);
    const bool packs = in_packs<T>(params, params.dy);
    set_tiles(params, packs ? N : 1, &args);
    const auto blocks = static_cast<unsigned>(params.images * args.tiles);
    if (packs) {
      sampler_grid_gradient<T, N><<<blocks, kSamplerThreads, 0, stream>>>(args);
    } else {
      sampler_grid_gradient<T, 1><<<blocks, kSamplerThreads, 0, stream>>>(args);
    }
  });
}

}  // namespace gpudnn::kernels
