// Which problems may use the matrix units. Legality of the math type, the same for every engine that has them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/environment.hpp"
#include "core/math_type.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

// A reason against, or null. Products of halves are exact in float, so half and bfloat16 use the matrix units unless
// GPUDNN_FMA_MATH forbids it; float is cut to TF32 there, so it needs a math type that says so.
[[nodiscard]] inline const char* tensor_math_unsupported_reason(const Problem& problem) noexcept {
  switch (problem.x.type) {
    case DataType{GPUDNN_DATA_HALF}:
    case DataType{GPUDNN_DATA_BFLOAT16}:
      return problem.math == GPUDNN_FMA_MATH ? "math=fma forbids the matrix units" : nullptr;
    case DataType{GPUDNN_DATA_FLOAT}:
      return allows_tf32(problem.math) ? nullptr : "the math type does not allow TF32 (math=tensor does)";
    default:
      return "the matrix units take f16, bf16 and f32 (as TF32) only";
  }
}

// Whether floats may be multiplied on the matrix units in terms of bfloat16, which keep all bits of a float: a reason
// against, or null.
[[nodiscard]] inline const char* fp32_split_off_reason() noexcept {
  static const bool is_on = environment_fp32_split();
  return is_on ? nullptr : "GPUDNN_FP32_SPLIT is 0";
}

// The same of a float problem without TF32.
[[nodiscard]] inline const char* fp32_split_unsupported_reason(const Problem& problem) noexcept {
  if (problem.x.type != GPUDNN_DATA_FLOAT) return "it splits floats only";
  if (allows_tf32(problem.math)) return "the math type allows TF32, which is faster";
  return fp32_split_off_reason();
}

}  // namespace gpudnn::conv
