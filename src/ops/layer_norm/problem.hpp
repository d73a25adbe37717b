// Normalization of sets of a tensor's elements by their own statistics: layer, RMS, instance, group and adaptive layer
// normalization.
//
//   forward   xhat = (x - mean) * inverse;  inverse = 1 / sqrt(var + epsilon);  y = scale * xhat + bias
//             mean and var = mean((x - mean)^2) are those of a set; RMS: mean is 0
//   backward  g = dy * scale;  dx = inverse * (g - mean(g) - xhat * mean(g * xhat))     (RMS without the mean of g)
//             dscale = sum(dy * xhat);  dbias = sum(dy)
//
//   around    forward, before: x = round(x + residual), which may be written; behind: v = f(y), amax = max |v|,
//             y = factor * v
//
// `axes` names the dimensions that a set runs along; mean and inverse have extent 1 there. `by` names those along which
// scale and bias vary: the axes (layer), channels (instance), channels within groups too (group), samples and axes
// (adaptive). Group normalization is that of a tensor whose channels are two dimensions, groups and channels of a
// group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "kernels/matmul/epilogue.hpp"

namespace gpudnn::layer_norm {

enum class Mode : std::int32_t { layer, rms, instance, group, ada };
enum class Pass : std::int32_t { infer, train, backward };

// What stands around a forward pass.
struct Around {
  bool residual = false;  // it and the sum have x's type, extents and strides
  bool sum = false;       // is written
  kernels::matmul::Activation activation = kernels::matmul::Activation::identity;
  kernels::matmul::ActivationParams function;
  bool drops_nan = false;  // of ReLU
  bool factor = false;     // a float
  bool amax = false;       // a float

  [[nodiscard]] bool is_there() const noexcept {
    return residual || factor || amax || activation != kernels::matmul::Activation::identity;
  }
};

struct Problem {
  Mode mode = Mode::layer;
  Pass pass = Pass::infer;
  std::uint32_t axes = 0;
  std::uint32_t by = 0;
  double epsilon = 1e-5;
  // A tensor that is not there has rank 0.
  TensorGeometry x;
  TensorGeometry out;      // y, or dx
  TensorGeometry dy;       // backward
  TensorGeometry scale;    // of any pass
  TensorGeometry bias;     // forward
  TensorGeometry mean;     // train: written; backward: read; not of RMS
  TensorGeometry inverse;  // train: written; backward: read
  TensorGeometry dscale;   // backward
  TensorGeometry dbias;
  Around around;

  [[nodiscard]] bool backward() const noexcept { return pass == Pass::backward; }
};

struct Args {
  const void* x = nullptr;
  const void* dy = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  const void* saved_mean = nullptr;     // backward
  const void* saved_inverse = nullptr;  // backward
  void* out = nullptr;
  void* mean = nullptr;     // train
  void* inverse = nullptr;  // train
  void* dscale = nullptr;
  void* dbias = nullptr;
  const void* residual = nullptr;
  void* sum = nullptr;
  const void* factor = nullptr;  // where the handle computes; null: `number`
  double number = 1;
  void* amax = nullptr;
  void* workspace = nullptr;  // at a multiple of 16
  std::size_t workspace_bytes = 0;
};

// x with its channels (dimension 1) as groups and channels of a group.
[[nodiscard]] TensorGeometry with_groups(const TensorGeometry& x, std::int64_t groups) noexcept;
// The packed tensor with x's extents along `dims` and 1 elsewhere.
[[nodiscard]] TensorGeometry along(const TensorGeometry& x, std::uint32_t dims, DataType type) noexcept;
// The axes and `by` that a mode has of itself.
[[nodiscard]] std::uint32_t usual_axes(Mode mode, int rank) noexcept;
[[nodiscard]] std::uint32_t usual_by(Mode mode, std::uint32_t axes) noexcept;

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);

// Bytes of workspace with which the fastest engine runs; without it another one takes the problem.
[[nodiscard]] std::size_t workspace_bytes(const Device& device, const Problem& problem);

[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::layer_norm
