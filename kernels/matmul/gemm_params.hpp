// The parameters of the matrix product kernels that take any strides: gemm_simt and gemm_sm80. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/epilogue/activation.hpp"

namespace gpudnn::kernels::matmul {

// a or b. A row is an index of m (of a) or of n (of b). Strides in elements.
struct GemmOperand {
  const void* data = nullptr;
  Element type = Element::f32;
  bool along_k = false;  // neighbours in k are closer in memory than rows
  bool vectors = false;  // four neighbours along that direction are one aligned load
  std::int64_t row_stride = 0;
  std::int64_t k_stride = 0;
  std::int64_t batch_stride[2] = {};
  std::int64_t repeat[2] = {1, 1};  // batches of d that one batch of it serves
};

// c, bias or d: an element for each (m, n), stride 0 where it is repeated.
struct GemmMatrix {
  void* data = nullptr;  // only read but of d; null: there is none
  Element type = Element::f32;
  bool vectors = false;  // four neighbours along n are one aligned store
  std::int64_t m_stride = 0;
  std::int64_t n_stride = 0;
  std::int64_t batch_stride[2] = {};
};

// Extents that device memory tells; null: there is none.
struct GemmOverrides {
  const void* m = nullptr;
  const void* n = nullptr;
  const void* k = nullptr;
  bool wide = false;      // 64-bit
  bool by_outer = false;  // one for each outer batch, else one for each batch
};

struct GemmParams {
  GemmOperand a;
  GemmOperand b;
  GemmMatrix c;
  GemmMatrix bias;
  GemmMatrix d;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batches = 1;
  std::int64_t inner_batches = 1;
  double alpha = 1;
  double beta = 0;
  gemm::ActivationArgs<double> activation;
  const float* descale_a = nullptr;
  const float* descale_b = nullptr;
  const float* scale_d = nullptr;
  float* amax = nullptr;  // 0 before the launch
  GemmOverrides overrides;
  bool has_padding = false;
  double padding = 0;
};

constexpr int kGemmThreads = 256;

}  // namespace gpudnn::kernels::matmul
