// A complex discrete Fourier transform of 16, 32 or 64 points in the registers of one thread.
//
// Decimation in frequency: log2 N stages of N / 2 butterflies (a + b, (a - b) w) with w a power of exp(-2 pi i / N),
// all indices known to the compiler. Frequency k ends in place bit_reversed(k). The inverse without its division by N
// is the same with real and imaginary parts exchanged on both sides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::kernels::fft {

// cos(2 pi k / 64) as the sum of two floats, the lower one only where it is more than a fifth of the higher one's last
// place: for k up to a quarter.
struct Cosine {
  float high, low;
};
__device__ __forceinline__ Cosine cosine_of_64(int k) {
  constexpr double kValues[17] = {1.0,
                                  0.99518472667219693,
                                  0.98078528040323044,
                                  0.95694033573220886,
                                  0.92387953251128674,
                                  0.88192126434835503,
                                  0.83146961230254524,
                                  0.77301045336273696,
                                  0.70710678118654752,
                                  0.63439328416364549,
                                  0.55557023301960222,
                                  0.47139673682599764,
                                  0.38268343236508977,
                                  0.29028467725446236,
                                  0.19509032201612827,
                                  0.09801714032956060,
                                  0.0};
  constexpr double kLeast = 1.2e-8;
  const double value = k <= 16 ? kValues[k] : -kValues[32 - k];
  const auto high = static_cast<float>(value);
  const double low = value - static_cast<double>(high);
  return {high, low > kLeast || low < -kLeast ? static_cast<float>(low) : 0.0f};
}
__device__ __forceinline__ Cosine sine_of_64(int k) { return k <= 16 ? cosine_of_64(16 - k) : cosine_of_64(k - 16); }

// a c + b d, of constants that the compiler knows. Rounded to one float each they were half of the mean square of a
// Fourier convolution's error.
__device__ __forceinline__ float sum_of_products(float a, Cosine c, float b, Cosine d) {
  if (c.low != 0.0f && d.low != 0.0f) return fmaf(a, c.high, fmaf(b, d.high, fmaf(a, c.low, b * d.low)));
  if (c.low != 0.0f) return fmaf(a, c.high, fmaf(b, d.high, a * c.low));
  if (d.low != 0.0f) return fmaf(a, c.high, fmaf(b, d.high, b * d.low));
  return fmaf(a, c.high, b * d.high);
}

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
      const Cosine c = cosine_of_64(angle);
      const Cosine s = sine_of_64(angle);
      re[b] = sum_of_products(dr, c, di, s);
      im[b] = sum_of_products(di, c, -dr, s);
    }
  }
  if constexpr (kHalf > 1) transform<kN, kHalf / 2>(re, im);
}

}  // namespace gpudnn::kernels::fft
