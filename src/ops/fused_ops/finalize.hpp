// From sums or running statistics to the scale and bias that batch normalization amounts to, for each channel:
//
//   training   mean = sum / m        var = squares / m - mean^2 (at least 0)        inverse = 1 / sqrt(var + epsilon)
//              running_mean = (1 - factor) * running_mean + factor * mean, the variance with var * m / (m - 1)
//   inference  mean and var are the running ones
//   both       eqscale = scale * inverse        eqbias = bias - mean * eqscale
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "core/engine.hpp"
#include "ops/fused_ops/channel_affine.hpp"

namespace gpudnn::fused_ops {

enum FinalizeVector : std::int32_t {
  kSum,
  kSquares,
  kBnScale,
  kBnBias,
  kSavedMean,
  kSavedInverse,
  kRunningMean,
  kRunningVariance,
  kEqScale,
  kEqBias,
  kFinalizeVectors
};

struct FinalizeProblem {
  bool training = false;
  std::int64_t channels = 0;
  ChannelVector vectors[kFinalizeVectors];  // those that the caller has
};

struct FinalizeArgs {
  std::int64_t count = 1;  // m, elements behind each sum
  double factor = 1;
  double epsilon = 0;
  void* vectors[kFinalizeVectors] = {};
};

[[nodiscard]] std::string to_text(const FinalizeProblem& problem);
[[nodiscard]] Status run(gpudnnHandle_t handle, const FinalizeProblem& problem, const FinalizeArgs& args);

}  // namespace gpudnn::fused_ops
