// The epilogue of the Fourier convolution, of one element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fft/fft_simt.hpp"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"

namespace gpudnn::kernels::fft {

// f(alpha * scale * sum + addend_scale * addend + bias).
__device__ __forceinline__ float finish(const InverseParams& p, std::int32_t channel, std::int64_t addend_offset,
                                        float sum) {
  float factor = p.alpha;
  if (p.has_scale) factor *= gemm::channel_value<float>(p.scale, channel * p.scale_step, true);
  float v[1] = {sum * factor};
  if (p.addend_scale != 0.0f) v[0] += p.addend_scale * static_cast<const float*>(p.addend)[addend_offset];
  if (p.has_bias) v[0] += gemm::channel_value<float>(p.bias, channel * p.bias_step, true);
  gemm::activate_by_call(p.activation, v);
  return v[0];
}

}  // namespace gpudnn::kernels::fft
