// Gradient of the maximum over windows 3x3 with step 2 and padding 1, of floats: packed NCHW planes, and images of
// packed NHWC with three channels. Even extents, rows in packs of 4 pixels.
//
// With the maximum of a window known, an element gets the window's gradient where it equals it and none before it did.
// So nothing is stored on the way: a thread walks down 4 columns of a plane, two rows of x and one of windows a step,
// keeps the last row and what the windows sent there, and has two windows abreast for each channel. The pixel before
// its first comes from the lane on the left, the gradients for its last column from the lane on the right, both by
// shuffles. The last lane at work of each warp only lends: the next warp's first one does its columns. Strips share the
// three rows at their seam.
//
// Least bytes: x, dy and dx once. About 18 instructions an element, where the copy rate leaves 55.
//
// NaNs are passed over: they equal no maximum. So a NaN stands for an element outside the image, too. (Propagating them
// is left to planes_fixed_sm80.cuh.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/pooling_math.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

constexpr int kFloatsThreads = 128;
template <int kChannels>
inline constexpr int kFloatsBlocks = kChannels == 1 ? 6 : 3;  // on a multiprocessor

struct FloatsArgs {
  const float* x;
  const float* dy;
  float* out;
  std::int32_t row_packs;     // of 4 pixels
  std::int32_t warp_packs;    // of a row, for each warp but the last; below 32
  std::int32_t windows_high;  // half the height
  std::int32_t strip;         // rows of windows
  std::uint32_t warps;        // planes times strips times warps of a row
  tile::FastDivmod by_row_warps;
  tile::FastDivmod by_strips;
};

// A row of one channel as the thread's two windows see it, or what they send to a row: [window][column].
struct FloatsRow {
  float at[2][3];
};

template <int kChannels>
__global__ void __launch_bounds__(kFloatsThreads, kFloatsBlocks<kChannels>)
    pooling_planes_floats(const __grid_constant__ FloatsArgs args) {
  constexpr unsigned kAll = 0xffffffffu;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const std::uint32_t warp = blockIdx.x * (kFloatsThreads / 32) + threadIdx.x / 32;
  if (warp >= args.warps) return;
  std::uint32_t row_warp, strip;
  const std::uint32_t plane = args.by_strips.divmod(args.by_row_warps.divmod(warp, &row_warp), &strip);
  const std::int32_t pack = static_cast<std::int32_t>(row_warp) * args.warp_packs + lane;
  const bool there = pack < args.row_packs && lane <= args.warp_packs;
  const bool writes = there && lane < args.warp_packs;
  const bool leftmost = pack == 0, rightmost = pack + 1 >= args.row_packs;
  const std::int32_t high = args.windows_high;
  const std::int32_t first = static_cast<std::int32_t>(strip) * args.strip;
  const std::int32_t last = min(first + args.strip, high);
  const std::int32_t row_step = args.row_packs * kChannels;  // packs of a row
  const std::int64_t plane_packs = std::int64_t{2} * high * row_step;
  // Row 2 first - 1, which may lie outside. Pointers move down with the steps.
  const std::int64_t begin = plane * plane_packs + pack * kChannels + (2 * first - 1) * std::int64_t{row_step};
  const float4* x = reinterpret_cast<const float4*>(args.x) + begin;
  const float2* dy = reinterpret_cast<const float2*>(args.dy) + plane * (plane_packs / 2) + pack * kChannels +
                     first * std::int64_t{row_step};
  float4* out = reinterpret_cast<float4*>(args.out) + begin;

  struct Elements {
    float of[4 * kChannels];  // four pixels
  };
  struct Gradients {
    float of[2 * kChannels];  // two windows
  };
  const float outside = __uint_as_float(0x7fffffffu);  // a NaN
  const auto load_row = [&](bool inside) {
    Elements made;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const float4 four = inside ? x[c] : float4{outside, outside, outside, outside};
      made.of[4 * c] = four.x;
      made.of[4 * c + 1] = four.y;
      made.of[4 * c + 2] = four.z;
      made.of[4 * c + 3] = four.w;
    }
    x += row_step;
    return made;
  };
  const auto load_gradients = [&](bool inside) {
    Gradients made;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const float2 two = inside ? dy[c] : float2{0.0f, 0.0f};
      made.of[2 * c] = two.x;
      made.of[2 * c + 1] = two.y;
    }
    dy += row_step;
    return made;
  };
  // Column k of window w is pixel 2 w + k - 1 of the thread's.
  const auto spread = [&](const Elements& row, int channel) {
    FloatsRow seen;
    const float before = __shfl_up_sync(kAll, row.of[3 * kChannels + channel], 1);
    seen.at[0][0] = leftmost ? outside : before;
    seen.at[0][1] = row.of[channel];
    seen.at[0][2] = seen.at[1][0] = row.of[kChannels + channel];
    seen.at[1][1] = row.of[2 * kChannels + channel];
    seen.at[1][2] = row.of[3 * kChannels + channel];
    return seen;
  };
  const auto widest_of = [](const float(&three)[3]) { return fmaxf(fmaxf(three[0], three[1]), three[2]); };
  const auto write = [&](const Elements& row, bool inside) {
    if (inside) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        tile::Pack<float, 4> four;
#pragma unroll
        for (int i = 0; i < 4; ++i) four.data[i] = row.of[4 * c + i];
        tile::store_pack<float, 4>(reinterpret_cast<float*>(out + c), four);
      }
    }
    out += row_step;
  };

  struct Channel {
    FloatsRow above;
    float above_most[2];
    FloatsRow sent;  // by the windows before, to the row above
  };
  Channel channels[kChannels];
  // A warp begins in the middle of a row: its first lane needs the pixel before. It looks at the pack before.
  const bool looks_back = there && lane == 0 && !leftmost;
  const auto before_of = [&](const float4* row, int channel, bool inside) {
    return inside ? reinterpret_cast<const float*>(row)[channel - kChannels] : outside;
  };
  struct Before {
    float of[kChannels];
  };
  const auto load_before = [&](bool inside) {  // of the row that x stands on
    Before made;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) made.of[c] = before_of(x, c, inside && looks_back);
    return made;
  };
  const auto seen_of = [&](const Elements& row, const Before& before, int channel) {
    FloatsRow seen = spread(row, channel);
    if (looks_back) seen.at[0][0] = before.of[channel];
    return seen;
  };
  {
    const Before before = load_before(first > 0);
    const Elements row = load_row(there && first > 0);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      channels[c].above = seen_of(row, before, c);
#pragma unroll
      for (int w = 0; w < 2; ++w) channels[c].above_most[w] = widest_of(channels[c].above.at[w]);
      channels[c].sent = {};
    }
  }
  bool inside = there && first < high;
  Before next_before_middle = load_before(inside);
  Elements next_middle = load_row(inside);
  Before next_before_low = load_before(inside);
  Elements next_low = load_row(inside);
  Gradients next_dy = load_gradients(inside);
#pragma unroll 1
  for (std::int32_t step = 0; step <= args.strip; ++step) {  // the same number for all of a warp
    const std::int32_t window = first + step;
    const Elements middle_row = next_middle, low_row = next_low;
    const Before before_middle = next_before_middle, before_low = next_before_low;
    const Gradients gradients = next_dy;
    inside = there && window + 1 < high && step < args.strip;
    next_before_middle = load_before(inside);
    next_middle = load_row(inside);
    next_before_low = load_before(inside);
    next_low = load_row(inside);
    next_dy = load_gradients(inside);
    Elements upper, lower;  // rows 2 window - 1 and 2 window
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      Channel& channel = channels[c];
      const FloatsRow middle = seen_of(middle_row, before_middle, c), low = seen_of(low_row, before_low, c);
      FloatsRow to_above, to_middle, to_low;
      float low_most[2];
#pragma unroll
      for (int w = 0; w < 2; ++w) {
        low_most[w] = widest_of(low.at[w]);
        const float most = fmaxf(fmaxf(channel.above_most[w], widest_of(middle.at[w])), low_most[w]);
        const float gradient = gradients.of[w * kChannels + c];
        bool found = false;
        const auto give = [&](const FloatsRow& row, FloatsRow* to) {
#pragma unroll
          for (int k = 0; k < 3; ++k) {
            const bool chosen = row.at[w][k] == most && !found;
            to->at[w][k] = chosen ? gradient : 0.0f;
            found = found || chosen;
          }
        };
        give(channel.above, &to_above);
        give(middle, &to_middle);
        give(low, &to_low);
      }
      const FloatsRow& sent = channel.sent;
      // What the neighbour on the right sends to this thread's last column: from its first window.
      float right_above = __shfl_down_sync(kAll, sent.at[0][0] + to_above.at[0][0], 1);
      float right_middle = __shfl_down_sync(kAll, to_middle.at[0][0], 1);
      if (rightmost) right_above = right_middle = 0.0f;
      upper.of[c] = sent.at[0][1] + to_above.at[0][1];
      upper.of[kChannels + c] = sent.at[0][2] + sent.at[1][0] + (to_above.at[0][2] + to_above.at[1][0]);
      upper.of[2 * kChannels + c] = sent.at[1][1] + to_above.at[1][1];
      upper.of[3 * kChannels + c] = sent.at[1][2] + to_above.at[1][2] + right_above;
      lower.of[c] = to_middle.at[0][1];
      lower.of[kChannels + c] = to_middle.at[0][2] + to_middle.at[1][0];
      lower.of[2 * kChannels + c] = to_middle.at[1][1];
      lower.of[3 * kChannels + c] = to_middle.at[1][2] + right_middle;
      channel.above = low;
      channel.above_most[0] = low_most[0];
      channel.above_most[1] = low_most[1];
      channel.sent = to_low;
    }
    write(upper, writes && step > 0 && window <= last);
    write(lower, writes && window < last);
  }
}

}  // namespace gpudnn::kernels
