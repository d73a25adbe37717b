// The workspace of a launch: what convolution engines ask of it alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "core/handle.hpp"

namespace gpudnn::conv {

[[nodiscard]] inline Status require_workspace(const LaunchSite& site, std::size_t needed) {
  GPUDNN_REQUIRE(site.workspace_bytes >= needed && (needed == 0 || site.workspace != nullptr), GPUDNN_STATUS_BAD_PARAM,
                 "the workspace has %zu bytes; this plan needs %zu", site.workspace_bytes, needed);
  return GPUDNN_STATUS_SUCCESS;
}

// The first address from the pointer on that is a multiple of `alignment`, a power of two.
[[nodiscard]] inline void* align_up(void* pointer, std::uintptr_t alignment) noexcept {
  return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(pointer) + alignment - 1) & ~(alignment - 1));
}

}  // namespace gpudnn::conv
