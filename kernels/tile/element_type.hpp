// The floating element types, as launchers name them to the kernels' launch functions. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::tile {

enum class ElementType : std::int32_t { f32, f64, f16, bf16 };

constexpr int element_bytes(ElementType type) {
  return type == ElementType::f64 ? 8 : type == ElementType::f32 ? 4 : 2;
}

}  // namespace gpudnn::tile
