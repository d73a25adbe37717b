// Plans, as the calls and the searches share them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// No engine asks for addresses at multiples of more.
constexpr std::size_t kMaxAlignment = 16;
// Of the tensors' addresses, up to that.
[[nodiscard]] std::size_t alignment_of(const Args& args) noexcept;

// The bytes of a caller's workspace that engines may use: none of one at an odd address.
[[nodiscard]] std::size_t usable_workspace(const void* workspace, std::size_t bytes) noexcept;

// What the choice's engine prepares, beside the choice.
[[nodiscard]] std::shared_ptr<const Plan> prepare_plan(const Choice& choice, const Problem& problem,
                                                       const Device& device);

// Launches it, with the device current and the engine noted for the log.
[[nodiscard]] Status launch_plan(const LaunchSite& site, const Plan& plan, const Args& args);

// The same on the handle's stream, by GPUDNN_VERIFY compared with the reference: what calls go through, and searches,
// which take times, do not.
[[nodiscard]] Status launch_verified(gpudnnHandle_t handle, const Problem& problem, const Plan& plan, const Args& args,
                                     void* workspace, std::size_t workspace_bytes);

// Makes later calls on the handle rank anew for this problem, with any workspace and any fused epilogue.
void forget_plans(gpudnnHandle_t handle, const Problem& problem);

}  // namespace gpudnn::conv
