// The taps of a filter gradient that rounds the taps of a filter row up to whole octets, and where dw has them: plain
// data, shared by launchers and kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::kernels {

constexpr int kOctet = 8;  // taps that lie together

struct FilterTaps {
  tile::FastDivmod row_octets;  // of a filter row
  std::uint32_t row_taps = 0;
  tile::FastDivmod channels;
  std::uint32_t height = 1;
  std::uint32_t width = 1;
  std::uint32_t filters = 0;
  bool mirrored = false;
  std::int64_t step_k = 0;  // of dw, in elements
  std::int64_t step_c = 0;
  std::int64_t step_r = 0;
  std::int64_t step_s = 0;
};

}  // namespace gpudnn::kernels
