// From a problem to the parameters of the kernels that take any strides, in two steps: what needs no pointers, and the
// pointers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/matmul/gemm_params.hpp"
#include "ops/matmul/problem.hpp"

namespace gpudnn::matmul {

struct AnyStrides {
  kernels::matmul::GemmParams params;
  std::int32_t scales = 0;
  std::int32_t overrides = 0;
  bool has_c = false;
  bool has_bias = false;
  bool swapped = false;  // the kernel makes the transpose of d: its a is our b
  // Where strides allow vectors; the addresses have their say at the launch.
  bool a_vectors = false;
  bool b_vectors = false;
  bool d_vectors = false;
  std::size_t vector_bytes = 0;  // of operands; 0: four elements, of at most 16 bytes
};

[[nodiscard]] AnyStrides any_strides(const Problem& problem, bool swapped, std::size_t vector_bytes);
// The parameters of one call.
[[nodiscard]] kernels::matmul::GemmParams with_pointers(const AnyStrides& prepared, const Args& args);

}  // namespace gpudnn::matmul
