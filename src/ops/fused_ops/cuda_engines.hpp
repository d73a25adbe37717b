// The CUDA engines of the fused operations' own stages; each takes everything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/fused_ops/channel_sums.hpp"
#include "ops/fused_ops/finalize.hpp"

namespace gpudnn::fused_ops {

[[nodiscard]] Support supports_channel_affine_cuda(const AffineProblem& problem, const Device& device);
[[nodiscard]] Status channel_affine_cuda(const LaunchSite& site, const AffineProblem& problem, const AffineArgs& args);
[[nodiscard]] Support supports_finalize_cuda(const FinalizeProblem& problem, const Device& device);
[[nodiscard]] Status finalize_cuda(const LaunchSite& site, const FinalizeProblem& problem, const FinalizeArgs& args);

[[nodiscard]] bool takes_sums_cuda(const SumsProblem& problem, const Device& device, std::size_t* workspace);
[[nodiscard]] Status sums_cuda(const LaunchSite& site, const SumsProblem& problem, const SumsArgs& args);

}  // namespace gpudnn::fused_ops
