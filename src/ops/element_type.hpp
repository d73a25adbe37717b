// From the interface's data types to the kernels' element types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data_type.hpp"
#include "kernels/tile/element_type.hpp"

namespace gpudnn {

// The four floating types.
[[nodiscard]] inline tile::ElementType element_type(DataType type) noexcept {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return tile::ElementType::f64;
    case GPUDNN_DATA_HALF:
      return tile::ElementType::f16;
    case GPUDNN_DATA_BFLOAT16:
      return tile::ElementType::bf16;
    default:
      return tile::ElementType::f32;
  }
}

}  // namespace gpudnn
