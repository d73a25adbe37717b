// The heuristic's parts: the model's ranking, what measurements change in it, and the ranking that calls use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/plan.hpp"
#include "ops/conv/select/tuned_file.hpp"

namespace gpudnn::conv {

// The choices of the engines given by their models alone, best first, none above `workspace_limit` bytes.
[[nodiscard]] std::vector<Choice> rank_by_model(std::span<const ConvEngine> engines, const Problem& problem,
                                                const Device& device, std::size_t workspace_limit,
                                                EnginePredicate wanted = nullptr);

// What a call has: bytes of workspace, and the alignment of its tensors' addresses; and the family that it asks for.
struct Limits {
  std::size_t workspace;
  std::size_t alignment;
  Family family = Family::direct;
};

[[nodiscard]] TunedRow row_of(const Choice& choice);

// Whether the row names the choice.
[[nodiscard]] bool names(const TunedRow& row, const Choice& choice);

// Moves the rows' choices to the front, in the rows' order. A row that names none of the choices is passed over: its
// engine does not take this problem, or no longer has that config.
void put_measured_first(std::span<const TunedRow> rows, Source source, std::vector<Choice>* choices);

// rank(), with what Find measured in this process or an earlier one before it.
[[nodiscard]] std::vector<Choice> rank_with_measurements(const Problem& problem, const Device& device,
                                                         EnginePredicate wanted);

// The same of all engines. The handle keeps it: a program asks for
// the algorithm, then for the workspace, then it runs.
using Ranking = std::shared_ptr<const std::vector<Choice>>;
[[nodiscard]] Ranking rank_with_measurements(gpudnnHandle_t handle, const Problem& problem);

// The first of it within the limits: of the family, else a direct one; without an engine if there is none.
[[nodiscard]] Choice choose(gpudnnHandle_t handle, const Problem& problem, const Limits& limits);

[[nodiscard]] const char* source_name(Source source) noexcept;

}  // namespace gpudnn::conv
