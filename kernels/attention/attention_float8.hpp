// The numbers that come with attention in 8-bit floats. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpudnn::kernels {

// What the general engine makes of the greatest p of a row before it rounds P forward: the greatest power of two of P's
// type, which has it exactly; scale_s would leave it to be rounded as all others are.
constexpr float kGreatestE4M3 = 256;
constexpr float kGreatestE5M2 = 32768;

// Each is one float in device memory. A null factor or scale is 1; a null maximum is not wanted.
//   s = scale q k^T * scores;  P = round(p * scale_s);  o = round(P v * output * scale_o)
//   delta = sum(dO o) * delta;  dp = dO v^T * dp;  dS = round(p (dp - delta) * scale * scale_ds)
//   dv = round(P^T dO * dv * scale_dv);  dq = round(dS k * dq * scale_dq);  dk = round(dS^T q * dk * scale_dk)
// where a name of two factors stands for their product: what undoes the scales of the two operands. The greatest
// magnitudes are those before the scale of the same name; of what a pass does not make they are 0.
struct AttentionFloat8 {
  const float* scores[2] = {};
  const float* output[2] = {};
  const float* delta[2] = {};
  const float* dp[2] = {};
  const float* dq[2] = {};
  const float* dk[2] = {};
  const float* dv[2] = {};
  const float* scale_s = nullptr;
  const float* scale_o = nullptr;
  const float* scale_ds = nullptr;
  const float* scale_dq = nullptr;
  const float* scale_dk = nullptr;
  const float* scale_dv = nullptr;
  float* amax_s = nullptr;
  float* amax_o = nullptr;
  float* amax_ds = nullptr;
  float* amax_dq = nullptr;
  float* amax_dk = nullptr;
  float* amax_dv = nullptr;
};

}  // namespace gpudnn::kernels
