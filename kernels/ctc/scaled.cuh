// Numbers m * 2^e with an exponent of their own: sums and products over any range, with the digits of m.
// SPDX-License-Identifier: Apache-2.0
//
// The probability of a path falls by a factor of the alphabet's size or so with each step, far below what a float
// holds. Its logarithm fits, but a logarithm of 2000 in a float is known to 1e-4, which is then the relative error of
// the probability. Here the mantissa keeps its 24 bits whatever the exponent is, and a sum costs shifts and
// multiply-adds in place of exponentials and a logarithm.
#pragma once

#include <cstdint>

namespace gpudnn::kernels {

// Zero is m = 0 with e = kZeroExponent, below every other. Other exponents are held within +-kMaxExponent and those of
// emissions within +-kMaxEmission, so no difference or sum of two leaves the range of an int. (A path that is less
// probable than e to the -372 millionth counts as that.)
constexpr int kZeroExponent = -(1 << 30);
constexpr int kMaxExponent = 1 << 29;
constexpr int kMaxEmission = 1 << 28;

template <class C>
struct alignas(2 * sizeof(C)) Scaled {
  C m;
  int e;
};

template <class C>
struct FloatBits;
template <>
struct FloatBits<float> {
  static constexpr int kBias = 127;
  static constexpr float kInverseLog2 = 1.44269502e+00f;      // 1 / log 2, rounded,
  static constexpr float kInverseLog2Rest = 1.92596303e-08f;  // and the rest
  static __device__ __forceinline__ float power(int biased) { return __int_as_float(biased << 23); }
  static __device__ __forceinline__ int biased_exponent(float m) { return __float_as_int(m) >> 23 & 0xff; }
  static __device__ __forceinline__ float with_exponent_0(float m) {
    return __int_as_float((__float_as_int(m) & 0x807fffff) | 0x3f800000);
  }
};
template <>
struct FloatBits<double> {
  static constexpr int kBias = 1023;
  static constexpr double kInverseLog2 = 1.4426950408889634;
  static constexpr double kInverseLog2Rest = 2.0355273740931033e-17;
  static __device__ __forceinline__ double power(int biased) { return __hiloint2double(biased << 20, 0); }
  static __device__ __forceinline__ int biased_exponent(double m) { return __double2hiint(m) >> 20 & 0x7ff; }
  static __device__ __forceinline__ double with_exponent_0(double m) {
    return __hiloint2double((__double2hiint(m) & 0x800fffff) | 0x3ff00000, __double2loint(m));
  }
};

// 2^difference of a difference of at most 0; 0 where that is no normal number.
template <class C>
__device__ __forceinline__ C scale_down(int difference) {
  const int biased = difference + FloatBits<C>::kBias;
  return FloatBits<C>::power(biased > 0 ? biased : 0);
}

// The same number with 1 <= |m| < 2. What is neither finite nor zero stays as it is.
template <class C>
__device__ __forceinline__ Scaled<C> normalized(C m, int e) {
  using Bits = FloatBits<C>;
  const int biased = Bits::biased_exponent(m);
  if (biased == 0) return {C(0), kZeroExponent};
  if (biased == 2 * Bits::kBias + 1) return {m, 0};
  const int exponent = e + biased - Bits::kBias;
  const int held = exponent > -kMaxExponent ? exponent : -kMaxExponent;
  return {Bits::with_exponent_0(m), held < kMaxExponent ? held : kMaxExponent};
}

// a + b + c, not normalized: |m| is at most the sum of theirs.
template <class C>
__device__ __forceinline__ Scaled<C> sum_of(const Scaled<C>& a, const Scaled<C>& b, const Scaled<C>& c) {
  const int larger = a.e > b.e ? a.e : b.e;
  const int e = larger > c.e ? larger : c.e;
  return {a.m * scale_down<C>(a.e - e) + b.m * scale_down<C>(b.e - e) + c.m * scale_down<C>(c.e - e), e};
}

// exp(x). A positive infinity becomes a NaN, as in the softmax that x belongs to.
template <class C>
__device__ __forceinline__ Scaled<C> scaled_exp(C x) {
  using Bits = FloatBits<C>;
  const C infinity = Bits::power(2 * Bits::kBias + 1);
  if (x == -infinity) return {C(0), kZeroExponent};
  const C product = x * Bits::kInverseLog2;
  const C whole = floor(product);
  if (!(whole < static_cast<C>(kMaxEmission))) return {x < infinity ? C(1) : x - x, kMaxEmission};  // x - x: a NaN
  if (whole < static_cast<C>(-kMaxEmission)) return {C(1), -kMaxEmission};
  const C rest = fma(x, Bits::kInverseLog2, -product) + x * Bits::kInverseLog2Rest;
  return {exp2((product - whole) + rest), static_cast<int>(whole)};
}

// x itself, a probability.
template <class C>
__device__ __forceinline__ Scaled<C> scaled_value(C x) {
  constexpr int kLift = 64;  // so that a subnormal number becomes a normal one
  const bool small = FloatBits<C>::biased_exponent(x) < kLift;
  return normalized(small ? x * FloatBits<C>::power(FloatBits<C>::kBias + kLift) : x, small ? -kLift : 0);
}

}  // namespace gpudnn::kernels
