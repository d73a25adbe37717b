// A complex discrete Fourier transform of 16, 32 or 64 points in the registers of one thread.
//
// Decimation in frequency: log2 N stages of N / 2 butterflies (a + b, (a - b) w) with w a power of exp(-2 pi i / N),
// all indices known to the compiler. Frequency k ends in place bit_reversed(k). The inverse without its division by N
// is the same with real and imaginary parts exchanged on both sides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::kernels::fft {

// cos(2 pi k / 64) for k up to a quarter.
__device__ __forceinline__ float cosine_of_64(int k) {
  constexpr float kValues[17] = {1.0f,
                                 0.99518472667219693f,
                                 0.98078528040323044f,
                                 0.95694033573220886f,
                                 0.92387953251128674f,
                                 0.88192126434835503f,
                                 0.83146961230254524f,
                                 0.77301045336273696f,
                                 0.70710678118654752f,
                                 0.63439328416364549f,
                                 0.55557023301960222f,
                                 0.47139673682599764f,
                                 0.38268343236508977f,
                                 0.29028467725446236f,
                                 0.19509032201612827f,
                                 0.09801714032956060f,
                                 0.0f};
  return k <= 16 ? kValues[k] : -kValues[32 - k];
}
__device__ __forceinline__ float sine_of_64(int k) { return k <= 16 ? cosine_of_64(16 - k) : cosine_of_64(k - 16); }

template <int kN>
__device__ __forceinline__ constexpr int bit_reversed(int k) {
  int reversed = 0;
  for (int bit = 1; bit < kN; bit *= 2) reversed = reversed * 2 + (k / bit) % 2;
  return reversed;
}

template <int kN, int kHalf = kN / 2>
__device__ __forceinline__ void transform(float (&re)[kN], float (&im)[kN]) {
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) {
    const int j = i % kHalf;
    const int a = i / kHalf * 2 * kHalf + j;
    const int b = a + kHalf;
    const int angle = j * (32 / kHalf);  // of 64
    const float dr = re[a] - re[b];
    const float di = im[a] - im[b];
    re[a] += re[b];
    im[a] += im[b];
    if (angle == 0) {
      re[b] = dr;
      im[b] = di;
    } else if (angle == 16) {
      re[b] = di;
      im[b] = -dr;
    } else {
      const float c = cosine_of_64(angle);
      const float s = sine_of_64(angle);
      re[b] = dr * c + di * s;
      im[b] = di * c - dr * s;
    }
  }
  if constexpr (kHalf > 1) transform<kN, kHalf / 2>(re, im);
}

}  // namespace gpudnn::kernels::fft
