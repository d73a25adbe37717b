// Room for a tensor map of TMA (TMA): the driver's CUtensorMap, without its header. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::tile {

struct alignas(128) TensorMap {
  std::uint64_t opaque[16];
};

}  // namespace gpudnn::tile
