// Queries and searches: what the first handle does for them, and the search's parts, as its tests use them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// Queries a few small problems and throws the answers away. The first query of a process parses the measured table,
// asks the driver what engines need of it, and finds its code and data cold, which takes longer than the 20 us that a
// query may; the first CUDA handle, which costs milliseconds in any case, pays for it.
void warm_up_queries(gpudnnHandle_t handle);

// The choices in the order of their measurement, none above the limit: each engine's first, since a model may err about
// an engine as a whole, then the others as they are ranked; with one that needs no workspace among them.
[[nodiscard]] std::vector<Choice> search_order(const std::vector<Choice>& choices, std::size_t workspace_limit);

// measure_algorithms() over the choices given. The winners go to the tuning cache, and the handle forgets the plans
// that it has for the problem.
[[nodiscard]] Status measure_algorithms_among(const std::vector<Choice>& ranked, gpudnnHandle_t handle,
                                              const Problem& problem, const Args& args, void* workspace,
                                              std::size_t workspace_bytes, std::vector<Performance>* rows);

}  // namespace gpudnn::conv
