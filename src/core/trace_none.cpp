// The ranges of a build without CUDA: no profiler is asked.
// SPDX-License-Identifier: Apache-2.0
#include "core/trace.hpp"

namespace gpudnn::trace {

bool attached() noexcept { return false; }
void begin(const char*) noexcept {}
void end() noexcept {}

}  // namespace gpudnn::trace
