// The element types that are told at run time: the floating ones and the integers; the last four are those of pointwise
// programs alone. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::tile {

enum class AnyType : std::int32_t { f32, f64, f16, bf16, i8, u8, i32, i64, boolean, e4m3, e5m2 };

constexpr int any_type_bytes(AnyType type) {
  switch (type) {
    case AnyType::f64:
    case AnyType::i64:
      return 8;
    case AnyType::f32:
    case AnyType::i32:
      return 4;
    case AnyType::f16:
    case AnyType::bf16:
      return 2;
    default:
      return 1;
  }
}

}  // namespace gpudnn::tile
