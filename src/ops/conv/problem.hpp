// The convolution problem: everything about the work but the pointers.
//
//   forward           y = x * w
//   dgrad    dx = the gradient of x, from dy and w
//   wgrad  dw = the gradient of w, from x and dy
//
// x, w and y stand for the tensor or its gradient; the direction says which one is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/geometry.hpp"
#include "gpudnn/cnn.h"

namespace gpudnn::conv {

constexpr int kMaxSpatial = 3;

enum class Direction : std::int32_t { forward = 0, dgrad = 1, wgrad = 2 };

// The names of the three descriptors in the interface, for refusals.
struct Names {
  const char* x;
  const char* w;
  const char* y;
};
[[nodiscard]] const Names& names_of(Direction direction) noexcept;

// Plain data without padding: compared, hashed and cached as bytes.
struct Problem {
  std::int32_t tag = 0x636f6e76;  // "conv": keys of different operations differ
  Direction direction = Direction::forward;
  std::int32_t spatial = 2;  // 1 to 3 spatial dimensions
  std::int32_t groups = 1;
  gpudnnConvolutionMode_t mode = GPUDNN_CROSS_CORRELATION;  // GPUDNN_CONVOLUTION mirrors the filter
  DataType compute = GPUDNN_DATA_FLOAT;                     // type of the accumulator that was asked for
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
  std::int32_t activation = -1;  // a gpudnnActivationMode_t, or -1: the fused epilogue of forward
  std::int32_t has_bias = 0;
  std::int32_t has_z = 0;        // the fused epilogue adds alpha2 * z
  TensorGeometry x;              // n, c, spatial...
  TensorGeometry w;              // k, c / groups, taps...
  TensorGeometry y;              // n, k, spatial...
  TensorGeometry z;              // as y; rank 0 without has_z
  std::int64_t bias_stride = 0;  // between the bias of one output channel and the next
  std::int64_t pad[kMaxSpatial] = {};
  std::int64_t stride[kMaxSpatial] = {};
  std::int64_t dilation[kMaxSpatial] = {};

  bool operator==(const Problem&) const = default;
};

// The pointers and scalars of one call. `x`, `w`, `y` are the inputs that the direction has; `out` is the third.
struct Args {
  double alpha = 1;
  double beta = 0;
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
  void* out = nullptr;
  // The fused epilogue of forward: out = act(alpha * conv + alpha2 * z + bias).
  double alpha2 = 0;
  const void* z = nullptr;
  const void* bias = nullptr;
  double activation_coef = 0;
  bool propagate_nan = false;  // of ReLU and clipped ReLU
};

[[nodiscard]] inline const TensorGeometry& output(const Problem& problem) noexcept {
  return problem.direction == Direction::forward ? problem.y
         : problem.direction == Direction::dgrad ? problem.x
                                                 : problem.w;
}

// Multiply-adds times two: the operations of the mathematics, not of any algorithm.
[[nodiscard]] double flops(const Problem& problem) noexcept;

// Pairs of a filter tap and an output pixel that it belongs to, at the least: what lies in the padding counts, and in
// the data gradient each tap reaches the pixels of one stride phase of the stride.
[[nodiscard]] double least_reached(const Problem& problem) noexcept;

// The filter packed with its output channels innermost: c, taps, k. That is how the data gradient multiplies by it.
[[nodiscard]] TensorGeometry packed_by_output(const TensorGeometry& filter) noexcept;

// Bytes of the three tensors, as they lie.
[[nodiscard]] double bytes_of_tensors(const Problem& problem) noexcept;

// Extent of the output along spatial dimension i; negative or zero when the dilated filter does not fit.
[[nodiscard]] std::int64_t output_extent(const Problem& problem, int i) noexcept;

// Adds a bias of one value for each output channel to the problem; refuses a tensor of any other shape.
[[nodiscard]] Status set_bias(Problem* problem, const TensorGeometry& bias);

// Refuses what makes no sense (BAD_PARAM) or is not built (NOT_SUPPORTED), naming argument, value and remedy.
[[nodiscard]] Status validate(const Problem& problem);

[[nodiscard]] std::string to_text(const Problem& problem);
// Nothing if `line` is no convolution problem; *why says what was wrong.
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);

}  // namespace gpudnn::conv
