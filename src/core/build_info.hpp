// Which build this is, for the log.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpudnn {

// The commit of the sources, abbreviated; "unknown" where they were not configured in a git checkout.
[[nodiscard]] const char* build_commit() noexcept;

}  // namespace gpudnn
