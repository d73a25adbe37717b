// The parts of a search, as its tests use them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// The choices in the order of their measurement, none above the limit: each engine's first, since a model may err about
// an engine as a whole, then the others as they are ranked; with one that needs no workspace among them.
[[nodiscard]] std::vector<Choice> search_order(const std::vector<Choice>& choices, std::size_t workspace_limit);

// Seconds since some fixed moment. A search times the host's launches, and itself, by one; its tests bring their own.
using Clock = double (*)();
[[nodiscard]] double seconds_of_steady_clock();

// measure_algorithms() over the choices given. The winners go to the tuning cache, and the handle forgets the plans
// that it has for the problem.
[[nodiscard]] Status measure_algorithms_among(const std::vector<Choice>& ranked, gpudnnHandle_t handle,
                                              const Problem& problem, const Args& args, void* workspace,
                                              std::size_t workspace_bytes, std::vector<Performance>* rows,
                                              Clock seconds_now = &seconds_of_steady_clock);

}  // namespace gpudnn::conv
