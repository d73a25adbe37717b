// What the launch function of the column-buffer kernel takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

struct CUstream_st;

namespace gpudnn::kernels {

constexpr int kColumnSpatial = 3;

// One spatial dimension; those that an image lacks, in front, have extents of 1. Output q and tap t read the input at
// q * stride + t * tap_step + base where that lies in [0, extent).
struct ColumnDimension {
  std::int64_t extent = 1;  // of the input
  std::int64_t outputs = 1;
  std::int64_t taps = 1;
  std::int64_t stride = 1;
  std::int64_t tap_step = 0;  // negative: a flipped filter
  std::int64_t base = 0;
  std::int64_t step = 0;  // elements from one input position to the next
};

// columns[(c, taps), (n, outputs)] of x[n, c, ...]; packed.
struct ColumnParams {
  int element_bytes = 4;
  std::int64_t images = 1;
  std::int64_t channels = 1;
  std::int64_t image_step = 0;
  std::int64_t channel_step = 0;
  ColumnDimension dims[kColumnSpatial];
  const void* x = nullptr;
  void* columns = nullptr;
  int multiprocessors = 1;
};
// False, with nothing launched, where the numbers are beyond its 32-bit indices: the gather does those.
bool launch_columns(const ColumnParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
