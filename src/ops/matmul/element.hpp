// From the interface's data types to those that the kernels of matrix products tell apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data_type.hpp"
#include "kernels/matmul/epilogue.hpp"

namespace gpudnn::matmul {

// Of the types that validate() lets through.
[[nodiscard]] constexpr kernels::matmul::Element element_of(DataType type) noexcept {
  using kernels::matmul::Element;
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return Element::f64;
    case GPUDNN_DATA_HALF:
      return Element::f16;
    case GPUDNN_DATA_BFLOAT16:
      return Element::bf16;
    case GPUDNN_DATA_FP8_E4M3:
      return Element::e4m3;
    case GPUDNN_DATA_FP8_E5M2:
      return Element::e5m2;
    case GPUDNN_DATA_INT8:
      return Element::i8;
    case GPUDNN_DATA_INT32:
      return Element::i32;
    default:
      return Element::f32;
  }
}

}  // namespace gpudnn::matmul
