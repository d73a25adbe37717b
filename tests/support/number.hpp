// The tests' own reading and rounding of the library's number formats, written apart from the library's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "gpudnn/gpudnn.h"

namespace gpudnn::test {

[[nodiscard]] std::size_t element_size(gpudnnDataType_t type);
// Stores `value` rounded to nearest even; integers and 8-bit floats are held at the ends of their range.
void encode(double value, gpudnnDataType_t type, void* place);
[[nodiscard]] double decode(const void* place, gpudnnDataType_t type);
[[nodiscard]] double round_to_type(double value, gpudnnDataType_t type);

// Half the distance from 1 to the next number: the relative error of one rounding.
[[nodiscard]] double unit_roundoff(gpudnnDataType_t type);
// The spacing of the subnormal numbers of f32 and f64.
[[nodiscard]] constexpr double least_subnormal(gpudnnDataType_t type) {
  return type == GPUDNN_DATA_DOUBLE ? 0x1p-1074 : 0x1p-149;
}
[[nodiscard]] double greatest_finite(gpudnnDataType_t type);
// The type that operations on `type` compute in: double for double, else float.
[[nodiscard]] constexpr gpudnnDataType_t compute_type(gpudnnDataType_t type) {
  return type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
}

}  // namespace gpudnn::test
