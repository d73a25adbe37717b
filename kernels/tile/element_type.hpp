// The floating element types: as launchers name them to the kernels' launch functions, plain data; and the types of C++
// that hold them on the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

struct __half;
struct __nv_bfloat16;

namespace gpudnn::tile {

using Half = __half;
using BFloat16 = __nv_bfloat16;

enum class ElementType : std::int32_t { f32, f64, f16, bf16 };

constexpr int element_bytes(ElementType type) {
  return type == ElementType::f64 ? 8 : type == ElementType::f32 ? 4 : 2;
}

}  // namespace gpudnn::tile
