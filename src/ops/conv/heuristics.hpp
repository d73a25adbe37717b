// The heuristic's parts: the model's ranking, what measurements change in it, and the ranking that calls use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/tuned_file.hpp"

namespace gpudnn::conv {

// The choices of the engines given by their models alone, best first, none above `workspace_limit` bytes.
[[nodiscard]] std::vector<Choice> rank_by_model(std::span<const ConvEngine> engines, const Problem& problem,
                                                const Device& device, std::size_t workspace_limit);

// Of these the best, the best without a workspace, and those that `measured` names, for tensors at multiples of 16
// bytes. An engine that can hold none of them is not asked for candidates: it is slower by its bound than others are by
// their models, or comes after a choice that `measured` names.
[[nodiscard]] std::vector<Choice> rank_within_reach(std::span<const ConvEngine> engines,
                                                    std::span<const TunedRow> measured, const Problem& problem,
                                                    const Device& device, std::size_t workspace_limit);

// Moves the rows' choices to the front, in the rows' order. A row that names none of the choices is passed over: its
// engine does not take this problem, or no longer has that config.
void put_measured_first(std::span<const TunedRow> rows, Source source, std::vector<Choice>* choices);

// Which choices a ranking has to hold: all, or those of rank_within_reach.
enum class Reach { best, all };
// rank(), with what Find measured in this process or an earlier one before it: what calls and queries go by. The handle
// keeps what rank() said: a program asks for the algorithm, then for the workspace, then it runs.
using Ranking = std::shared_ptr<const std::vector<Choice>>;
[[nodiscard]] Ranking rank_with_measurements(gpudnnHandle_t handle, const Problem& problem, Reach reach);

[[nodiscard]] const char* source_name(Source source) noexcept;

}  // namespace gpudnn::conv
