// A tensor as TMA sees it, and the box of it that a copy moves: what a tensor map is made of, as plain
// data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn {

// Dimensions from the fastest on.
struct TmaBoxes {
  int rank = 5;  // 3 to 5
  std::int64_t extent[5] = {1, 1, 1, 1, 1};
  std::int64_t step[4] = {16, 16, 16, 16};  // bytes between neighbours along the dimensions from the second on
  std::int32_t box[5] = {1, 1, 1, 1, 1};
};

}  // namespace gpudnn
