// The row of cuBLASLt, which is loaded at run time where it is installed; GPUDNN_CUBLAS=0 turns it off.
// Its model is below its speed on purpose: it is taken where our kernels lack tensor cores for the problem, not else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/matmul/engine.hpp"

namespace gpudnn::matmul {

[[nodiscard]] Support cublaslt_supports(const Problem& problem, const Device& device);
void cublaslt_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] std::size_t cublaslt_workspace(const Problem& problem, const Config& config, const Device& device);
[[nodiscard]] std::shared_ptr<const void> cublaslt_prepare(const Problem& problem, const Config& config,
                                                           const Device& device);
[[nodiscard]] Status cublaslt_launch(const LaunchSite& site, const void* prepared, const Args& args);

// Configs "algo0" to "algo7": what its heuristic proposes, best first. candidates() has the first alone.
constexpr int kCublasltAlgorithms = 8;
// Null, or why the library cannot be used here.
[[nodiscard]] const char* cublaslt_missing();

}  // namespace gpudnn::matmul
