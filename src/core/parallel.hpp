// The host backend's threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace gpudnn {

// Threads that parallel_for uses at most, the caller's included (GPUDNN_HOST_THREADS, else the cores of the process).
[[nodiscard]] int host_threads() noexcept;

// Calls body(begin, end) on disjoint ranges that cover [0, count), on several threads, and returns when all are done.
// Which range runs where never changes a result: each index is worked on by one call alone. `grain` is the least
// number of indices that pay for a thread. The first exception of a body is thrown on.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace gpudnn
