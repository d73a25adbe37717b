// What a convolution's epilogue is told, shared by launchers and kernels: plain data.
//
//   out = f(alpha * scale * sum + addend_scale * addend + bias)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/epilogue/activation.hpp"

namespace gpudnn::kernels::conv {

struct EpilogueParams {
  // Filled in for each launch.
  void* out = nullptr;
  const void* addend = nullptr;
  const void* bias = nullptr;
  float alpha = 1;
  float addend_scale = 0;  // 0: the addend is not read
  gemm::ActivationArgs<float> activation;
  bool is_plain = false;  // the sum

  // Fixed by the problem.
  bool has_bias = false;
  bool float_vectors = false;  // bias and scale are of floats, else of the data's type
  std::int64_t bias_step = 0;  // bytes
};

struct ScaledEpilogueParams : EpilogueParams {
  const void* scale = nullptr;
  bool has_scale = false;
  std::int64_t scale_step = 0;  // bytes
};

}  // namespace gpudnn::kernels::conv
