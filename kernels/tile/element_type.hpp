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
// 4 bits of exponent and 3 of mantissa, without infinity, up to 448; and 5 and 2, up to 57344. Operands and results of
// matrix products alone (kernels/ptx/cvt_f8.cuh converts).
struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};

enum class ElementType : std::int32_t { f32, f64, f16, bf16 };

constexpr int element_bytes(ElementType type) {
  return type == ElementType::f64 ? 8 : type == ElementType::f32 ? 4 : 2;
}

}  // namespace gpudnn::tile
