// Graphs that the soak builds anew each time. Apart from it, as the C++ face has names of its own for what the library
// has inside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gpudnn/gpudnn.h"

namespace gpudnn::test {

constexpr int kGraphs = 5;
// Builds graph number `which`, makes its memory, runs it on data of its own, and hands the output out. A failure is the
// thread's last one, with its text.
[[nodiscard]] gpudnnStatus_t run_graph(gpudnnHandle_t handle, int which, std::vector<float>* output);

// Whether two runs of a graph gave the same bits. Memory that runs out never changes which engine runs.
[[nodiscard]] bool agree(const std::vector<float>& first, const std::vector<float>& second);

}  // namespace gpudnn::test
