// Group and instance normalization of channels-last tensors, forward and backward.
//
//   forward   y = (x - mean) * inverse * scale + bias, with mean and variance over the pixels and a group's channels
//   backward  g = dy * scale;  dx = inverse * (g - mean(g) - xhat * mean(g * xhat));
//             dscale = sum(dy * xhat);  dbias = sum(dy)
//
// Three kernels, for all samples at once, so no block waits for another:
//
//   sums     a block has a part of a sample: pixels, each with its channels. A thread has 16 bytes of channels and
//   every
//            `rows`-th pixel. Forward the block leaves mean and squares of each group, backward both sums of each
//            channel.
//   totals   what the parts of a sample have together: forward mean and inverse of each group, backward the means of g
//            and of g * xhat, and the sums of channels of the sample
//   apply    writes y or dx, each part backwards, as the L2 still has the end of what the first kernel read of it;
//            backward a few more blocks add up the samples' sums of channels to dscale and dbias
//
// So x (backward x and dy) is read twice. Later kernels are launched to begin beside the ones before them, and wait.
//
// Moments are those of distances from the sample's first value of the group, so that a mean far above the deviation
// costs no digits and equal values have their own mean. They are gathered by batches of pixels and joined by Chan's
// formula, those of threads in two plain passes, and those of parts likewise, in double. Where the squares exceed the
// range of float (deviations above some 1e19), the block measures its part again with x scaled by 2^-80; the sign of a
// part's squares says so, and the sign of a total's inverse that x is to be scaled where it is used. So a finite sample
// never gives a NaN.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/channels_last.hpp"
#include "kernels/layer_norm/row.cuh"
#include "kernels/layer_norm/rows.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/st_global_cs.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

struct LayerNormLastStatistic {
  void* data;  // null: there is none
  tile::AnyType type;
  std::int64_t sample, group;  // strides
};

struct LayerNormLastArgs {
  const void* x;
  const void* dy;
  void* out;
  tile::AnyType x_type;
  tile::AnyType out_type;
  bool out_as_x;
  bool rms;
  bool packs_in_groups;  // no pack of 16 bytes has channels of two groups
  LayerNormParameter scale;
  LayerNormParameter bias;
  LayerNormLastStatistic mean;  // forward: written; backward: read
  LayerNormLastStatistic inverse;
  LayerNormTensor dscale, dbias;
  std::int64_t x_sample, dy_sample, out_sample;  // strides
  std::int64_t pixels;
  std::int32_t samples, groups, of_group, channels;
  tile::FastDivmod by_packs;  // threads of a block
  tile::FastDivmod by_parts;  // blocks
  tile::FastDivmod by_group;  // channels
  tile::FastDivmod by_entry;  // entries of a row of threads
  float epsilon;
  float one_over_count;  // 1 / elements of a set
  float* partials;       // forward [sample][part][group] pairs; backward [sample][part][dscale, dbias][channel]
  float2* totals;        // [sample][group]
  float* sums;           // backward: [sample][dscale, dbias][channel]
  std::int32_t parameter_blocks;
  LayerNormLastCut cut;
};

// The block's part of a sample, and the thread's place in it.
template <class T>
struct LayerNormLastPlace {
  static constexpr int N = tile::kPackWidth<T>;
  std::uint32_t sample, part;
  std::int64_t begin;    // pixel of the sample
  std::int32_t pixels;   // of the part
  std::int32_t row;      // the thread's first pixel
  std::int32_t channel;  // and first channel
  bool active;

  __device__ __forceinline__ LayerNormLastPlace(const LayerNormLastArgs& args, std::uint32_t block) {
    sample = args.by_parts.divmod(block, &part);
    begin = part * args.cut.slice;
    pixels = static_cast<std::int32_t>(min(args.cut.slice, args.pixels - begin));
    std::uint32_t pack;
    row = static_cast<std::int32_t>(args.by_packs.divmod(threadIdx.x, &pack));
    channel = static_cast<std::int32_t>(pack) * N;
    active = row < args.cut.rows;
  }
  // Of the thread's first pixel in a tensor.
  __device__ __forceinline__ std::int64_t at(const LayerNormLastArgs& args, std::int64_t stride) const {
    return sample * stride + (begin + row) * args.channels + channel;
  }
};

// What is written is not to take the place of x in the L2.
template <class T, int N>
__device__ __forceinline__ void store_streaming(T* to, const tile::Pack<T, N>& pack) {
  uint4 bits;
  memcpy(&bits, &pack, sizeof bits);
  ptx::st_global_cs(reinterpret_cast<uint4*>(to), bits);
}

// body(first) for the thread's pixels, kFlight of them at a time, and rest(pixel) for those left. kBack: the last ones
// first, as the L2 may still have them.
template <int kFlight, bool kBack, class Body, class Rest>
__device__ __forceinline__ void for_pixels(int row, int rows, int pixels, const Body& body, const Rest& rest) {
  const int count = pixels > row ? (pixels - row + rows - 1) / rows : 0;
  const int batches = count / kFlight;
  const auto tail = [&] {
#pragma unroll 1
    for (int i = batches * kFlight; i < count; ++i) rest(i * rows);
  };
  if constexpr (kBack) {
    tail();
    for (int i = (batches - 1) * kFlight; i >= 0; i -= kFlight) body(i * rows);
  } else {
    for (int i = 0; i < batches * kFlight; i += kFlight) body(i * rows);
    tail();
  }
}

// The same for x and dy of the backward pass: use(pack of x, pack of dy, pixel).
template <int N, bool kBack, class T, class Use>
__device__ __forceinline__ void for_pixels_of_both(int row, int rows, int pixels, const T* x, const T* dy,
                                                   std::int64_t step, const Use& use) {
  constexpr int kFlight = kLnLastBackwardFlight;
  for_pixels<kFlight, kBack>(
      row, rows, pixels,
      [&](int pixel) {
        tile::Pack<T, N> of_x[kFlight], of_dy[kFlight];
#pragma unroll
        for (int u = 0; u < kFlight; ++u) {
          of_x[u] = tile::load_pack<T, N>(x + (pixel + u * rows) * step);
          of_dy[u] = tile::load_pack<T, N>(dy + (pixel + u * rows) * step);
        }
#pragma unroll
        for (int u = 0; u < kFlight; ++u) use(of_x[u], of_dy[u], pixel + u * rows);
      },
      [&](int pixel) {
        use(tile::load_pack<T, N>(x + pixel * step), tile::load_pack<T, N>(dy + pixel * step), pixel);
      });
}

// The moments of N channels over several pixels: all channels have the same count.
template <int N>
struct LayerNormLastMoments {
  float count = 0;
  float mean[N] = {};
  float squares[N] = {};

  // Of value * factor - base.
  template <int kBatch, class Pack>
  __device__ __forceinline__ void add(const Pack (&packs)[kBatch], const float (&base)[N], float factor) {
    constexpr float kShare = 1.0f / kBatch;
    const float all = count + kBatch;
    const float share = __fdividef(kBatch, all);
    const float cross = count * share;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float values[kBatch];
      float middle = 0;
#pragma unroll
      for (int u = 0; u < kBatch; ++u) {
        values[u] = tile::widen<float>(packs[u].get(i)) * factor - base[i];
        middle += values[u] * kShare;
      }
      if constexpr (kBatch > 1) {
#pragma unroll
        for (int u = 0; u < kBatch; ++u) squares[i] += (values[u] - middle) * (values[u] - middle);
      }
      const float distance = middle - mean[i];
      squares[i] += distance * cross * distance;
      mean[i] += distance * share;
    }
    count = all;
  }
};

// Parts of a group, by `lanes` lanes of which each has some: for_parts(body) calls body(values, elements) for the
// lane's own. Their mean, and the sum of squared deviations from it, each by its own pass.
template <class ForParts>
__device__ __forceinline__ float2 moments_joined(int lanes, float one_over, const ForParts& for_parts) {
  const auto over_lanes = [lanes](float value) {
#pragma unroll 1
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
  };
  float mean = 0, squares = 0;
  for_parts([&](float2 values, float elements) { mean += values.x * elements; });
  mean = over_lanes(mean) * one_over;
  for_parts([&](float2 values, float elements) {
    const float distance = values.x - mean;
    squares += values.y + distance * distance * elements;
  });
  return make_float2(mean, over_lanes(squares));
}

template <class T>
__global__ void __launch_bounds__(kLnLastPacks, 2)
    layer_norm_last_moments(const __grid_constant__ LayerNormLastArgs args) {
  constexpr int N = tile::kPackWidth<T>;
  constexpr bool kMayExceed = !std::is_same_v<T, tile::Half>;  // squares of halves always fit
  using Pack = tile::Pack<T, N>;
  auto* const entries = reinterpret_cast<float2*>(tile::dynamic_shared());
  const LayerNormLastCut& cut = args.cut;
  const LayerNormLastPlace<T> place(args, blockIdx.x);
  ptx::griddepcontrol_launch_dependents();
  const T* const x = static_cast<const T*>(args.x) + place.at(args, args.x_sample);
  const std::int64_t step = args.channels;
  float first_values[N];
  if (place.active) {
    const T* const of_sample = static_cast<const T*>(args.x) + place.sample * args.x_sample;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const std::uint32_t group = args.by_group.quotient(static_cast<std::uint32_t>(place.channel + i));
      first_values[i] = tile::widen<float>(of_sample[group * static_cast<std::uint32_t>(args.of_group)]);
    }
  }
  // Entries of a row of threads: one for each pack, or for each channel.
  const int wide = args.packs_in_groups ? 1 : N;
  const auto of_entry = static_cast<int>(args.by_entry.divisor);
  const int entry_row = cut.packs * wide;
  const auto threads = static_cast<int>(blockDim.x);
  const auto thread = static_cast<int>(threadIdx.x);
  int lanes = 32;  // that join a group
  while (lanes > 1 && lanes * args.groups > threads) lanes /= 2;
  const float one_over_slice = 1.0f / (static_cast<float>(place.pixels) * static_cast<float>(args.of_group));
  auto* const mine = reinterpret_cast<float2*>(args.partials) + static_cast<std::int64_t>(blockIdx.x) * args.groups;

  // Whether a group's squares exceed the range.
  const auto measure = [&](float factor, bool again) {
    if (place.active) {
      LayerNormLastMoments<N> gathered;
      float base[N];
#pragma unroll
      for (int i = 0; i < N; ++i) base[i] = first_values[i] * factor;
      for_pixels<kLnLastFlight, false>(
          place.row, cut.rows, place.pixels,
          [&](int pixel) {
            Pack packs[kLnLastFlight];
#pragma unroll
            for (int u = 0; u < kLnLastFlight; ++u) packs[u] = tile::load_pack<T, N>(x + (pixel + u * cut.rows) * step);
            gathered.add(packs, base, factor);
          },
          [&](int pixel) {
            const Pack packs[1] = {tile::load_pack<T, N>(x + pixel * step)};
            gathered.add(packs, base, factor);
          });
      if (args.packs_in_groups) {
        float mean = 0, squares = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) mean += gathered.mean[i] * (1.0f / N);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float distance = gathered.mean[i] - mean;
          squares += gathered.squares[i] + distance * distance * gathered.count;
        }
        entries[place.row * cut.packs + place.channel / N] = make_float2(mean, squares);
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i)
          entries[place.row * args.channels + place.channel + i] = make_float2(gathered.mean[i], gathered.squares[i]);
      }
    }
    __syncthreads();
    bool exceeds = false;
    const int count = cut.rows * of_entry;
    for (int first = 0; first < args.groups; first += threads / lanes) {  // all lanes of a warp alike
      const int group = first + thread / lanes;
      const bool there = group < args.groups;
      const float2 moments = moments_joined(lanes, one_over_slice, [&](const auto& body) {
        for (int e = there ? thread % lanes : count; e < count; e += lanes) {
          std::uint32_t within;
          const auto of_row = static_cast<int>(args.by_entry.divmod(static_cast<std::uint32_t>(e), &within));
          const int pixels = max((place.pixels - of_row + cut.rows - 1) / cut.rows, 0);
          body(entries[of_row * entry_row + group * of_entry + static_cast<int>(within)],
               static_cast<float>(pixels * (N / wide)));
        }
      });
      if (!there || thread % lanes != 0) continue;
      if (!again) {
        mine[group] = moments;
        exceeds = exceeds || !(moments.y <= kLnGreatest);
      } else if (!(mine[group].y <= kLnGreatest)) {
        // The other groups keep what the first attempt gave: small values vanish when they are scaled.
        mine[group] = make_float2(moments.x, -moments.y);
      }
    }
    return exceeds;
  };
  const bool exceeds = measure(1.0f, false);
  if constexpr (kMayExceed) {
    if (__syncthreads_or(exceeds ? 1 : 0) != 0) measure(kLnDown, true);
  }
}

template <class T>
__global__ void __launch_bounds__(kLnLastPacks, 2)
    layer_norm_last_apply(const __grid_constant__ LayerNormLastArgs args) {
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  const LayerNormLastCut& cut = args.cut;
  const LayerNormLastPlace<T> place(args, blockIdx.x);
  if (!place.active) return;
  float scale[N], bias[N];
  fill(scale, 1.0f);
  fill(bias, 0.0f);
  if (args.scale.data != nullptr) load_parameters(args.scale, place.channel, scale);
  if (args.bias.data != nullptr) load_parameters(args.bias, place.channel, bias);
  ptx::griddepcontrol_wait();
  float mean[N], factor[N];
  bool scaled = false;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const auto group = args.by_group.quotient(static_cast<std::uint32_t>(place.channel + i));
    const float2 total = args.totals[static_cast<std::int64_t>(place.sample) * args.groups + group];
    mean[i] = total.x;
    scale[i] *= fabsf(total.y);
    factor[i] = total.y < 0 ? kLnDown : 1.0f;
    scaled = scaled || total.y < 0;
  }
  const T* const x = static_cast<const T*>(args.x) + place.at(args, args.x_sample);
  const std::int64_t out = place.at(args, args.out_sample);
  const std::int64_t step = args.channels;
  const auto write = [&](const Pack& pack, int pixel, const auto& normalized) {
    float values[N];
    tile::widen_pack<float>(pack, values);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = normalized(values[i], i);
    store_values<T>(args.out_type, args.out_as_x, args.out, out + pixel * step, values);
  };
  const auto plain = [&](float value, int i) { return (value - mean[i]) * scale[i] + bias[i]; };
  if (scaled || !args.out_as_x) {
#pragma unroll 1
    for (int pixel = place.row; pixel < place.pixels; pixel += cut.rows) {
      const int at = pixel - place.row;
      write(tile::load_pack<T, N>(x + at * step), at,
            [&](float value, int i) { return (value * factor[i] - mean[i]) * scale[i] + bias[i]; });
    }
    return;
  }
  T* const y = static_cast<T*>(args.out) + out;
  const auto store = [&](const Pack& pack, int pixel) {
    float values[N];
    tile::widen_pack<float>(pack, values);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = plain(values[i], i);
    store_streaming(y + pixel * step, tile::narrow_pack<T>(values));
  };
  for_pixels<kLnLastFlight, true>(
      place.row, cut.rows, place.pixels,
      [&](int pixel) {
        Pack packs[kLnLastFlight];
#pragma unroll
        for (int u = 0; u < kLnLastFlight; ++u) packs[u] = tile::load_pack<T, N>(x + (pixel + u * cut.rows) * step);
#pragma unroll
        for (int u = 0; u < kLnLastFlight; ++u) store(packs[u], pixel + u * cut.rows);
      },
      [&](int pixel) { store(tile::load_pack<T, N>(x + pixel * step), pixel); });
}

// Backward: mean and inverse of the thread's channels.
template <int N>
__device__ __forceinline__ void load_statistics(const LayerNormLastArgs& args, std::uint32_t sample, int channel,
                                                float (&mean)[N], float (&inverse)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const std::int64_t group = args.by_group.quotient(static_cast<std::uint32_t>(channel + i));
    mean[i] = args.mean.data == nullptr
                  ? 0.0f
                  : load_one(args.mean.type, args.mean.data, sample * args.mean.sample + group * args.mean.group);
    inverse[i] =
        load_one(args.inverse.type, args.inverse.data, sample * args.inverse.sample + group * args.inverse.group);
  }
}

template <class T>
__global__ void __launch_bounds__(kLnLastPacks, 2)
    layer_norm_last_sums(const __grid_constant__ LayerNormLastArgs args) {
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  auto* const entries = reinterpret_cast<float2*>(tile::dynamic_shared());
  const LayerNormLastCut& cut = args.cut;
  const LayerNormLastPlace<T> place(args, blockIdx.x);
  ptx::griddepcontrol_launch_dependents();
  if (place.active) {
    float mean[N], inverse[N];
    load_statistics(args, place.sample, place.channel, mean, inverse);
    const T* const x = static_cast<const T*>(args.x) + place.at(args, args.x_sample);
    const T* const dy = static_cast<const T*>(args.dy) + place.at(args, args.dy_sample);
    const std::int64_t step = args.channels;
    float dscale[N] = {}, dbias[N] = {};
    const auto add = [&](const Pack& of_x, const Pack& of_dy, int) {
      float values[N], gradients[N];
      tile::widen_pack<float>(of_x, values);
      tile::widen_pack<float>(of_dy, gradients);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        dbias[i] += gradients[i];
        dscale[i] += gradients[i] * ((values[i] - mean[i]) * inverse[i]);
      }
    };
    for_pixels_of_both<N, false>(place.row, cut.rows, place.pixels, x, dy, step, add);
#pragma unroll
    for (int i = 0; i < N; ++i)
      entries[place.row * args.channels + place.channel + i] = make_float2(dscale[i], dbias[i]);
  }
  __syncthreads();
  float* const mine = args.partials + static_cast<std::int64_t>(blockIdx.x) * 2 * args.channels;
  for (int c = static_cast<int>(threadIdx.x); c < args.channels; c += static_cast<int>(blockDim.x)) {
    float2 sum = make_float2(0, 0);
    for (int r = 0; r < cut.rows; ++r) {
      const float2 part = entries[r * args.channels + c];
      sum.x += part.x;
      sum.y += part.y;
    }
    mine[c] = sum.x;
    mine[args.channels + c] = sum.y;
  }
}

template <class T>
__global__ void __launch_bounds__(kLnLastPacks, 2) layer_norm_last_dx(const __grid_constant__ LayerNormLastArgs args) {
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  const LayerNormLastCut& cut = args.cut;
  if (static_cast<int>(blockIdx.x) < args.parameter_blocks) {
    ptx::griddepcontrol_wait();
    const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (at >= 2 * args.channels) return;
    const LayerNormTensor& to = at < args.channels ? args.dscale : args.dbias;
    if (to.data == nullptr) return;
    float sum = 0;
#pragma unroll 8
    for (int sample = 0; sample < args.samples; ++sample)
      sum += args.sums[static_cast<std::int64_t>(sample) * 2 * args.channels + at];
    tile::store_any(to.type, to.data, at < args.channels ? at : at - args.channels, sum);
    return;
  }
  const LayerNormLastPlace<T> place(args, blockIdx.x - static_cast<unsigned>(args.parameter_blocks));
  if (!place.active) return;
  float mean[N], slope[N], weight[N], shift[N];
  fill(weight, 1.0f);
  if (args.scale.data != nullptr) load_parameters(args.scale, place.channel, weight);
  load_statistics(args, place.sample, place.channel, mean, slope);
  ptx::griddepcontrol_wait();
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const auto group = args.by_group.quotient(static_cast<std::uint32_t>(place.channel + i));
    const float2 means = args.totals[static_cast<std::int64_t>(place.sample) * args.groups + group];
    const float inverse = slope[i];
    weight[i] *= inverse;
    slope[i] = -inverse * (inverse * means.y);
    shift[i] = args.rms ? 0 : -inverse * means.x;
  }
  const T* const x = static_cast<const T*>(args.x) + place.at(args, args.x_sample);
  const T* const dy = static_cast<const T*>(args.dy) + place.at(args, args.dy_sample);
  T* const dx = static_cast<T*>(args.out) + place.at(args, args.out_sample);
  const std::int64_t step = args.channels;
  const auto write = [&](const Pack& of_x, const Pack& of_dy, int pixel) {
    float values[N], gradients[N];
    tile::widen_pack<float>(of_x, values);
    tile::widen_pack<float>(of_dy, gradients);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = gradients[i] * weight[i] + ((values[i] - mean[i]) * slope[i] + shift[i]);
    store_streaming(dx + pixel * step, tile::narrow_pack<T>(values));
  };
  for_pixels_of_both<N, true>(place.row, cut.rows, place.pixels, x, dy, step, write);
}

}  // namespace gpudnn::kernels
