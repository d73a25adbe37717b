// The log: one line for each call, to a file or stream by environment variable, and to the user's callback.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/error.hpp"

namespace gpudnn {

// Whether anybody listens at this severity. One relaxed load: cheap enough for every call.
[[nodiscard]] bool log_enabled(gpudnnSeverity_t severity) noexcept;

// Whether the log listens to every call, or a profiler does: what calls are about is then described. One relaxed load.
[[nodiscard]] bool problems_wanted() noexcept;
// Whether a profiler does.
[[nodiscard]] bool is_traced() noexcept;

// Writes one line to the destination and hands it to the callback, if they listen at this severity.
[[gnu::cold, gnu::format(printf, 4, 5)]] void log_line(gpudnnSeverity_t severity, gpudnnHandle_t handle, Status status,
                                                       const char* format, ...) noexcept;

void set_log_callback(unsigned mask, void* user_data, gpudnnCallback_t callback) noexcept;
void get_log_callback(unsigned* mask, void** user_data, gpudnnCallback_t* callback) noexcept;

}  // namespace gpudnn
