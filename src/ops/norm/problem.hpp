// The normalization problem: batch normalization per channel or per activation, with an optional addend and activation.
//
//   train     xhat = (x - mean) / sqrt(var + epsilon) with the batch's mean and var of each set of elements
//             y = alpha * f(scale * xhat + bias + z) + beta * y
//   infer     the same with given mean and var
//   backward  g = dy * f';  dbias = sum(g);  dscale = sum(g * xhat);  dz = g
//             dx = alpha * scale / sqrt(var + epsilon) * (g - dbias / m - xhat * dscale / m) + beta * dx
//
// A set is a channel (all images and pixels), or, per activation, one element of the image (all images).
//
// Several GPUs share statistics (`peers` > 1): each normalizes images of its own by the mean and variance of the images
// of all, which have as many of them each, and its backward pass takes the sums of all. dscale and dbias are the sums
// of all divided by the number of GPUs, so that an average over GPUs, which data-parallel training takes of gradients,
// leaves them as they are. docs/graph.md says what the GPUs write to each other's buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::norm {

enum class Pass : std::int32_t { train, infer, backward };

struct LaunchPlan;

struct Problem {
  Pass pass = Pass::train;
  bool per_activation = false;
  gpudnnBatchNormOps_t ops = GPUDNN_BATCHNORM_OPS_BN;
  gpudnnActivationMode_t mode = GPUDNN_ACTIVATION_RELU;  // with an activation
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  double coef = 0;  // the ceiling of clipped ReLU
  double epsilon = 1e-5;
  bool running = true;         // train: the running pair is updated
  bool saved = true;           // train: the saved pair is written; backward: it is read
  bool masks = true;           // with an activation: forward leaves the mask that backward reads
  bool inverse_given = false;  // infer: 1 / sqrt(var + epsilon) is given for var
  int peers = 1;               // GPUs that share statistics
  // What a call brings, of which the text says nothing.
  std::size_t scratch = SIZE_MAX;    // bytes of workspace
  int alignment = 16;                // bytes that all data pointers are multiples of, 16 at most
  const LaunchPlan* plan = nullptr;  // of the CUDA engines
  TensorGeometry x;
  TensorGeometry y;       // train, infer
  TensorGeometry z;       // with an addend: of forward
  TensorGeometry dy;      // backward
  TensorGeometry dx;      // backward
  TensorGeometry dz;      // backward with an addend
  TensorGeometry params;  // scale, bias and their gradients
  TensorGeometry stats;   // mean and variance, running, saved or given
};

struct Args {
  double alpha = 1;
  double beta = 0;
  double alpha_param = 1;
  double beta_param = 0;
  double factor = 1;  // exponentialAverageFactor
  const void* x = nullptr;
  const void* z = nullptr;
  const void* dy = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;  // y or dx
  void* dz = nullptr;
  void* dscale = nullptr;
  void* dbias = nullptr;
  void* running_mean = nullptr;
  void* running_variance = nullptr;
  const void* old_mean = nullptr;  // what the running pair was before; null: it is updated in place
  const void* old_variance = nullptr;
  void* saved_mean = nullptr;             // train
  void* saved_inverse = nullptr;          // train: 1 / sqrt(var + epsilon)
  const void* given_mean = nullptr;       // infer: estimated; backward: saved
  const void* given_deviation = nullptr;  // infer: estimated variance; backward: saved 1 / sqrt(var + epsilon)
  void* mask = nullptr;                   // the reserve space: where f has slope 1; written by train, read by backward
  void* const* peers = nullptr;           // one buffer for each GPU that shares statistics
  void* scratch = nullptr;                // the workspace, if there is one
  std::size_t scratch_bytes = 0;
};

// Statistics over N (per activation), else over N and all dimensions from the third on.
[[nodiscard]] inline bool is_reduced(const Problem& problem, int dim) noexcept {
  return dim == 0 || (!problem.per_activation && dim >= 2);
}
// The dims of parameters and statistics: those of x with 1 where it is reduced.
[[nodiscard]] TensorGeometry parameter_geometry(const TensorGeometry& x, bool per_activation) noexcept;
// Whether f has slopes 0 and 1, so that forward leaves a bit for each element to backward.
[[nodiscard]] bool has_mask(const Problem& problem) noexcept;

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);

// Bytes of workspace with which the fastest engine runs; every engine list ends with one that needs none.
[[nodiscard]] std::size_t workspace_bytes(gpudnnHandle_t handle, const Problem& problem);
// The same for this problem alone, with pointers aligned as it says.
[[nodiscard]] std::size_t workspace_bytes(const Device& device, const Problem& problem);
// Floats of a buffer of statistics that `problem.peers` GPUs share.
[[nodiscard]] std::int64_t peer_buffer_floats(const Problem& problem) noexcept;
// Bytes of the mask. It depends on x, per_activation and the activation alone, so that forward and backward agree.
[[nodiscard]] std::size_t reserve_bytes(const Device& device, const Problem& problem);

[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, Problem problem, const Args& args);

}  // namespace gpudnn::norm
