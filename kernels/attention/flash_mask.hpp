// Which columns the flash engines' rows see: lengths and bounds. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::kernels {

// Lengths and bounds in 32 bits: rows and columns are below 2^30.
struct FlashMask {
  const std::int32_t* lengths_q = nullptr;
  const std::int32_t* lengths_kv = nullptr;
  std::int32_t length_q = 0;
  std::int32_t length_kv = 0;
  std::int32_t left = 0;
  std::int32_t right = 0;
  bool has_left = false;
  bool has_right = false;
  bool bottom_right = false;
};

constexpr std::int32_t kFlashBackwardPitch = 128;  // rows of lse and delta are padded to a multiple of it

}  // namespace gpudnn::kernels
