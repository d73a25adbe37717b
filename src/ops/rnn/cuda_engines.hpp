// The CUDA engines of recurrent networks. Rows of the engine list, best first:
//   resident_sm90  the recurrent weights stay in registers over the steps, one launch a sweep
//   split_sm90     they stay in shared memory, each block with a square of the matrix
//   streaming      one launch a step; takes all
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ops/rnn/stages.hpp"

namespace gpudnn::rnn {

[[nodiscard]] Support supports_resident(const Problem& problem, const Device& device);
[[nodiscard]] Status resident_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Support supports_split(const Problem& problem, const Device& device);
[[nodiscard]] Status split_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Status streaming_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

// Stages::weights of Hopper.
[[nodiscard]] bool takes_weights_sm90(const Site& site, double multiplications, bool in_slices);
[[nodiscard]] Status weights_sm90(const Site& site, std::span<const WeightProducts> list, std::int64_t rows,
                                  std::span<float> partials, bool adds);

}  // namespace gpudnn::rnn
