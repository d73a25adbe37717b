// Forward pooling of packed NCHW planes of floats with windows of step 1, and the gradient of such an average.
//
// A thread walks down a column of windows and keeps what the last two rows made, so each row is read once: three loads
// at fixed distances, which need one address. Elements left and right of the row are read as they come, from the rows
// above and below or the slack around the planes, and replaced. About 20 instructions an output, where the copy rate
// leaves 55; the kernel for any step (planes_fixed.cuh) takes 45, as each element has an address of its own.
//
// The gradient of an average of step 1 is a sum over windows too: over the gradients dy, each divided by what its
// window was divided by, with padding 2 - p. The divisor is a product of one for the row and one for the column.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/planes_halves.cuh"

namespace gpudnn::kernels {

template <bool kMax, bool kNan, bool kGradient>
__global__ void __launch_bounds__(kPlanesFixedThreads) pooling_planes_lines(PlanesFixedArgs<float> args) {
  constexpr int kWindow = 3;
  const StagedPlanes<float> staged = stage_rows<float, kWindow, 1>(args, planes_fixed_shared + kRunSlack);
  const PlanesWork& work = staged.work;
  const std::int32_t wide = args.windows_wide, out_area = args.windows_high * wide;
  const auto units =
      work.planes * static_cast<std::int32_t>(args.by_window_chunks.divisor * args.by_window_row.divisor);
  for (auto u = static_cast<std::int32_t>(threadIdx.x); u < units; u += kPlanesFixedThreads) {
    const PlanesUnit unit = planes_unit<1>(u, args.by_window_row, args.by_window_chunks, args.by_interleaved,
                                           args.window_strip, work.planes);
    if (unit.row >= work.rows) continue;
    const std::int32_t start = unit.column - args.pad[1];
    const float* const image = staged.x + unit.plane * args.x_pitch + start;
    const std::int32_t first = work.first_row + unit.row;
    const std::int32_t windows = min(args.window_strip, work.rows - unit.row);
    float* target = args.out + (work.first_plane + unit.plane) * out_area + first * wide + unit.column;
    bool inside[kWindow];
    float weights[kWindow];
#pragma unroll
    for (int k = 0; k < kWindow; ++k) {
      inside[k] = start + k >= 0 && start + k < args.width;
      weights[k] = gradient_weight<kWindow>(args, 1, start + k);
    }
    const auto load = [&](std::int32_t at) {
      const float* const from = image + at * args.row;
      float across = 0.0f;
      if constexpr (kMax) {
        across = inside[0] ? from[0] : max_identity<float, kNan>();
#pragma unroll
        for (int k = 1; k < kWindow; ++k) {
          across = max_of<kNan>(across, inside[k] ? from[k] : max_identity<float, kNan>());
        }
      } else if (clamped(at, staged.low, staged.high) == at) {
#pragma unroll
        for (int k = 0; k < kWindow; ++k) {
          const float value = inside[k] ? from[k] : 0.0f;
          across += kGradient ? value * weights[k] : value;
        }
        if constexpr (kGradient) across *= gradient_weight<kWindow>(args, 0, at);
      }
      return across;
    };
    const auto put = [&](float value) {
      float one[1] = {value};
      store_scaled<float, 1>(one, args.alpha, args.beta, target);
      target += wide;
    };
    std::int32_t row = first - args.pad[0];
    if constexpr (kMax) {
      const auto load_row = [&](std::int32_t at) { return load(clamped(at, staged.low, staged.high)); };
      float both = load_row(row), last = load_row(row + 1);
      both = max_of<kNan>(both, last);
#pragma unroll 1
      for (std::int32_t r = 0; r < windows; ++r) {
        const float next = load_row(row + r + 2);
        const float most = max_of<kNan>(both, next);
        both = max_of<kNan>(last, next);
        last = next;
        put(finish_max<kNan>(most, false));
      }
    } else {
      float both = load(row), last = load(row + 1);
      both += last;
      const float across = inverse_of_area<float>(1, inside_count<kWindow>(start, args.width));
#pragma unroll 1
      for (std::int32_t r = 0; r < windows; ++r) {
        const float next = load(row + r + 2);
        float scale = 1.0f / (kWindow * kWindow);
        if (kGradient) {
          scale = 1.0f;
        } else if (!args.count_padding) {
          scale = across * inverse_of_area<float>(inside_count<kWindow>(row + r, args.height), 1);
        }
        put((both + next) * scale);
        both = last + next;
        last = next;
      }
    }
  }
}

}  // namespace gpudnn::kernels
