// From the interface's data types to those that kernels tell apart at run time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data_type.hpp"
#include "kernels/tile/any_type.hpp"

namespace gpudnn {

// The floating types, the integers i8, u8, i32, i64, and bool, f8e4m3, f8e5m2; of a vector type its lanes.
[[nodiscard]] constexpr tile::AnyType any_type(DataType type) noexcept {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return tile::AnyType::f64;
    case GPUDNN_DATA_HALF:
      return tile::AnyType::f16;
    case GPUDNN_DATA_BFLOAT16:
      return tile::AnyType::bf16;
    case GPUDNN_DATA_INT8:
    case GPUDNN_DATA_INT8x4:
    case GPUDNN_DATA_INT8x32:
      return tile::AnyType::i8;
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_UINT8x4:
      return tile::AnyType::u8;
    case GPUDNN_DATA_INT32:
      return tile::AnyType::i32;
    case GPUDNN_DATA_INT64:
      return tile::AnyType::i64;
    case GPUDNN_DATA_BOOLEAN:
      return tile::AnyType::boolean;
    case GPUDNN_DATA_FP8_E4M3:
      return tile::AnyType::e4m3;
    case GPUDNN_DATA_FP8_E5M2:
      return tile::AnyType::e5m2;
    default:
      return tile::AnyType::f32;
  }
}

}  // namespace gpudnn
