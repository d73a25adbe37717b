// The CUDA engines of attention; engines.cpp has their rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/attention/problem.hpp"

namespace gpudnn::attention {

[[nodiscard]] Support supports_attention_simt(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t attention_simt_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status attention_simt(const LaunchSite& site, const Problem& problem, const Args& args);

// Whether it takes tiles of 64 rows: head dimensions up to 128, few rows and columns.
[[nodiscard]] bool is_short_forward_sm90(const Problem& problem);
[[nodiscard]] Support supports_flash_forward_sm90(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t flash_forward_sm90_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status flash_forward_sm90(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_flash_short_sm80(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t flash_short_sm80_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status flash_short_sm80(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_flash_float8_sm90(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t flash_float8_sm90_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status flash_float8_sm90(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_flash_float8_backward_sm90(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t flash_float8_backward_sm90_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status flash_float8_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_decode_sm90(const Problem& problem, const Device& device);
[[nodiscard]] Support supports_flash_gather_sm90(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t flash_gather_sm90_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status flash_gather_sm90(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_flash_fused_backward_sm90(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t flash_fused_backward_sm90_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status flash_fused_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_flash_wide_backward_sm90(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t flash_wide_backward_sm90_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status flash_wide_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_flash_gather_backward_sm90(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t flash_gather_backward_sm90_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status flash_gather_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_flash_sm80(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t flash_sm80_workspace(const Problem& problem, const Device& device);
[[nodiscard]] Status flash_sm80(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::attention
