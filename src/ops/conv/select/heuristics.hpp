// The heuristic's parts: the model's ranking, what measurements change in it, and the ranking that calls use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/plan.hpp"
#include "ops/conv/select/tuned_file.hpp"

namespace gpudnn::conv {

// The choices of the engines given by their models alone, best first, none above `workspace_limit` bytes.
[[nodiscard]] std::vector<Choice> rank_by_model(std::span<const ConvEngine> engines, const Problem& problem,
                                                const Device& device, std::size_t workspace_limit);

// What a call has: bytes of workspace, and the alignment of its tensors' addresses.
struct Limits {
  std::size_t workspace;
  std::size_t alignment;
};

// The first of `measured` within the limits, whose engine is asked only whether it has the problem's epilogue too, or
// else the first by the models; without an engine if there is none. An engine that cannot have it is not asked for
// candidates: by its bound, it is slower than others are by their models.
[[nodiscard]] Choice best_within(std::span<const ConvEngine> engines, std::span<const Choice> measured,
                                 const Problem& problem, const Device& device, const Limits& limits);

// The model's part of it: the first of those whose time and `more` seconds do not exceed best->seconds, which they are
// written to. False, and `best` as it was, if there is none. `inner`: of the engines that may run on packed copies.
bool find_best(std::span<const ConvEngine> engines, const Problem& problem, const Device& device, const Limits& limits,
               bool inner, double more, Choice* best);

[[nodiscard]] TunedRow row_of(const Choice& choice);

// Moves the rows' choices to the front, in the rows' order. A row that names none of the choices is passed over: its
// engine does not take this problem, or no longer has that config.
void put_measured_first(std::span<const TunedRow> rows, Source source, std::vector<Choice>* choices);

// rank(), with what Find measured in this process or an earlier one before it.
using Ranking = std::shared_ptr<const std::vector<Choice>>;
[[nodiscard]] Ranking rank_with_measurements(gpudnnHandle_t handle, const Problem& problem);

// The first of it within the limits, without ranking the others; without an engine if there is none. The handle keeps
// the one without limits: a program asks for the algorithm, then for the workspace, then it runs.
[[nodiscard]] Choice choose(gpudnnHandle_t handle, const Problem& problem, const Limits& limits);

[[nodiscard]] const char* source_name(Source source) noexcept;

}  // namespace gpudnn::conv
