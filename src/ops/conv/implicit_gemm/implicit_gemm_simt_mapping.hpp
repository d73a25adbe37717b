// A convolution as a matrix product with separable addresses: what each digit of the indices m, n and k adds to the
// places in the tensors. The first step from a problem to the parameters of the SIMT implicit GEMM.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "kernels/conv/implicit_gemm/implicit_gemm_simt.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv::mapping {

using kernels::simt::kDigits;
using std::int64_t;

// Spatial vectors are front-padded: the last dimension is always at index 2.
struct Spatial {
  int64_t of[3];
  int64_t& operator[](int i) { return of[i]; }
  int64_t operator[](int i) const { return of[i]; }
};

// Steps in elements.
struct Tensor {
  int64_t outer = 0;    // step of the image, or of the filter
  int64_t channel = 0;  // step of the channel
  Spatial spatial = {{0, 0, 0}};
  int64_t base = 0;
};

// A problem with three spatial dimensions.
struct Conv {
  int64_t images, channels, filters;  // channels and filters of one group
  Spatial x, r, y;                    // extents of image, filter, output
  Spatial pad, stride, dilation;
  Tensor xs, ws, ys, zs;
};

// What a step of a digit adds in the two tensors that the index addresses (and z): elements, and positions.
struct Step {
  int64_t offset = 0;
  Spatial position = {{0, 0, 0}};
};
struct Digit {
  int64_t radix = 1;  // the largest over the phases
  Step first;
  Step second;
  int64_t addend = 0;
  bool varies = false;  // between phases
};
using Digits = std::array<Digit, kDigits>;

// Indices m (A, C), n (B, C), k (A, B), bases, and the extents that bound the positions.
struct Gemm {
  Digits m, n, k;
  Step a_base, b_base, c_base;
  Spatial a_extent, b_extent, c_extent;
  bool a_checked[3], b_checked[3], c_checked[3];
  int64_t a_group, b_group, c_group, z_group;
  bool tap_digits_first = false;
  bool has_phases = false;
};

// Pixels that lie like one row are merged where the filter sees them as one.
[[nodiscard]] Conv normalize(const Problem& problem);
[[nodiscard]] Gemm make_gemm(const Conv& conv, Direction direction);

// `value` along dimension i, 0 along the others.
[[nodiscard]] inline Spatial unit(int i, int64_t value) {
  Spatial s = {{0, 0, 0}};
  s[i] = value;
  return s;
}
// The numbers that an index has.
[[nodiscard]] int64_t count(const Digits& digits);

}  // namespace gpudnn::conv::mapping
