// The element-wise stage of fused operation plans, with one factor and addend for each channel:
//
//   forward   y = f(scale * x + bias + z_scale * z + z_bias), and one bit for each element: whether f has slope 1 there
//   gate      y = x where the bit is set, else 0
//
// f is ReLU, clipped ReLU or the identity. A vector that is absent stands for 1 (a scale) or 0 (a bias).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::fused_ops {

// One value for each channel.
struct ChannelVector {
  bool present = false;
  DataType type = GPUDNN_DATA_FLOAT;
  std::int64_t stride = 0;
};
enum VectorIndex : std::int32_t { kScale, kBias, kZScale, kZBias, kVectors };

// The bits lie in rows of whole 32-bit words, one row for each place of an image (n, then the spatial dimensions, in
// row-major order), channel c at bit c % 32 of word c / 32; the bits behind the last channel are zero.
enum class Bits : std::int32_t { none, write, read };

struct AffineProblem {
  gpudnnActivationMode_t mode = GPUDNN_ACTIVATION_IDENTITY;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  double coef = 0;  // the ceiling of clipped ReLU
  Bits bits = Bits::none;
  TensorGeometry x;
  TensorGeometry z;  // rank 0: none
  TensorGeometry y;
  ChannelVector vectors[kVectors];
};

struct AffineArgs {
  const void* x = nullptr;
  const void* z = nullptr;
  void* y = nullptr;
  const void* vectors[kVectors] = {};
  void* bits = nullptr;
};

// The dimensions of a tensor without its channels, for loops over places.
[[nodiscard]] TensorGeometry without_channels(const TensorGeometry& tensor) noexcept;
[[nodiscard]] inline std::int64_t bit_row_bytes(const TensorGeometry& y) noexcept { return (y.dims[1] + 31) / 32 * 4; }
// 32-bit words that the bits of y take.
[[nodiscard]] std::int64_t bit_words(const TensorGeometry& y) noexcept;

[[nodiscard]] Status validate(const AffineProblem& problem);
[[nodiscard]] std::string to_text(const AffineProblem& problem);
[[nodiscard]] std::span<const Engine<AffineProblem, AffineArgs>> affine_engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const AffineProblem& problem, const AffineArgs& args);

}  // namespace gpudnn::fused_ops
