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
#include "kernels/matmul/epilogue.hpp"

namespace gpudnn::conv {

constexpr int kMaxSpatial = 3;

enum class Direction : std::int32_t { forward = 0, dgrad = 1, wgrad = 2 };

// Activations behind those of gpudnnActivationMode_t.
constexpr std::int32_t kGelu = 7;
constexpr std::int32_t kGeluTanh = 8;
constexpr std::int32_t kSoftplus = 9;

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
  // The fused epilogue of forward. -1, a gpudnnActivationMode_t, or a function of this file that has no such number.
  std::int32_t activation = -1;
  std::int32_t has_bias = 0;
  std::int32_t has_z = 0;          // it adds alpha2 * z
  std::int32_t has_scale = 0;      // it multiplies each output channel's sums
  std::int32_t float_vectors = 0;  // bias and scale are f32, and y is of 16 bits or integers; else they are of y's type
  TensorGeometry x;                // n, c, spatial... (of a vector type: extents count scalars, strides vectors)
  TensorGeometry w;                // k, c / groups, taps...
  TensorGeometry y;                // n, k, spatial...
  TensorGeometry z;                // as y; rank 0 without has_z
  std::int64_t bias_stride = 0;    // between the bias of one output channel and the next
  std::int64_t scale_stride = 0;
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
  // The fused epilogue of forward: out = act(alpha * scale * conv + alpha2 * z + bias).
  double alpha2 = 0;
  const void* z = nullptr;
  const void* bias = nullptr;
  const void* scale = nullptr;
  double activation_coef = 0;  // ceiling of clipped ReLU, alpha of ELU, beta of swish and softplus
  double relu_lower = 0;       // of ReLU and clipped ReLU: what is below it becomes lower + slope * (x - lower)
  double relu_slope = 0;
  bool propagate_nan = false;  // of ReLU and clipped ReLU
  // Of forward, where the engine's sums_workspace says so: the sums of `out` and of its squares by channel, as it is
  // stored; contiguous. Either may be null.
  float* sum = nullptr;
  float* squares = nullptr;
};

[[nodiscard]] inline const TensorGeometry& output(const Problem& problem) noexcept {
  return problem.direction == Direction::forward ? problem.y
         : problem.direction == Direction::dgrad ? problem.x
                                                 : problem.w;
}

// A convolution of 8-bit integers: forward, summed in 32-bit integers, its epilogue in float.
[[nodiscard]] inline bool is_integer(const Problem& problem) noexcept { return !is_floating(problem.x.type); }
// Of an engine that multiplies floating-point numbers: a reason against, or null.
[[nodiscard]] inline const char* integer_unsupported_reason(const Problem& problem) noexcept {
  return is_integer(problem) ? "it multiplies floating-point numbers, not integers" : nullptr;
}

[[nodiscard]] kernels::matmul::Activation activation_of(const Problem& problem) noexcept;

// Multiply-adds times two: the operations of the mathematics, not of any algorithm.
[[nodiscard]] double flops(const Problem& problem) noexcept;

// The filter packed with its output channels innermost: c, taps, k. That is how the data gradient multiplies by it.
[[nodiscard]] TensorGeometry packed_by_output(const TensorGeometry& filter) noexcept;

// Bytes of the three tensors, as they lie.
[[nodiscard]] double bytes_of_tensors(const Problem& problem) noexcept;

// Extent of the output along spatial dimension i; negative or zero when the dilated filter does not fit.
[[nodiscard]] std::int64_t output_extent(const Problem& problem, int i) noexcept;

// Adds a bias of one value for each output channel to the problem, of y's type or, beside 16 bits, f32; refuses a
// tensor of any other shape.
[[nodiscard]] Status set_bias(Problem* problem, const TensorGeometry& bias);

// What lies behind the image: as much as before it, or what y's extents tell (padding.hpp).
enum class PaddingBehind : std::int8_t { same, any };

// Refuses what makes no sense (BAD_PARAM) or is not built (NOT_SUPPORTED), naming argument, value and remedy.
[[nodiscard]] Status validate(const Problem& problem, PaddingBehind behind = PaddingBehind::same);

[[nodiscard]] std::string to_text(const Problem& problem);
// Nothing if `line` is no convolution problem; *why says what was wrong.
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);

}  // namespace gpudnn::conv
