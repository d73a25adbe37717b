// The floating element types: as launchers name them to the kernels' launch functions, plain data; and the types of C++
// that hold them on the device. The 16-bit ones are their bits alone (numeric.cuh converts them): the toolkit's types
// bring 10,000 lines of headers, which nearly every kernel would read four times and call nothing of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::tile {

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

enum class ElementType : std::int32_t { f32, f64, f16, bf16 };

constexpr int element_bytes(ElementType type) {
  return type == ElementType::f64 ? 8 : type == ElementType::f32 ? 4 : 2;
}

}  // namespace gpudnn::tile
