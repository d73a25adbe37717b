// Ranges that a profiler shows on the thread's time line (NVTX). Two implementations: trace_cuda.cpp in a build with
// CUDA, trace_none.cpp in one without.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpudnn::trace {

// Whether a profiler listens; asked of the process once.
[[nodiscard]] bool attached() noexcept;
// Ranges of a thread nest. Called where a profiler listens.
void begin(const char* text) noexcept;
void end() noexcept;

}  // namespace gpudnn::trace
