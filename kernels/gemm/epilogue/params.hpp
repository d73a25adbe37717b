// What the epilogue of a matrix product gets. Plain data.
//
//   v = alpha * sum + beta * c + bias;  v = f(v);  amax = max(amax, |v|);  d = convert(scale_d * v)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/epilogue/activation.hpp"

namespace gpudnn::kernels::gemm {

using matmul::Element;

// c, bias or d: an element for each (m, n), stride 0 where it is repeated. Strides in elements.
struct Matrix {
  void* data = nullptr;  // only read but of d; null: there is none
  Element type = Element::bf16;
  bool vectors = false;  // filled in by the plan: 8 neighbours along n are one aligned vector (f32: two)
  std::int64_t m_stride = 0;
  std::int64_t n_stride = 0;
  std::int64_t batch_stride[2] = {};
};

// A call may change pointers and scalars without a new plan; addresses keep the alignment they were planned with.
struct Epilogue {
  float alpha = 1;
  float beta = 0;  // 0: c is not read
  const float* descale_a = nullptr;
  const float* descale_b = nullptr;
  const float* scale_d = nullptr;
  float* amax = nullptr;  // 0 before the launch
  ActivationArgs<float> activation;
  Matrix c;
  Matrix bias;
  Matrix d;
};

}  // namespace gpudnn::kernels::gemm
