// The heuristic: every engine's candidates by expected time. And the classic algorithm numbers that stand for them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/environment.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

std::vector<Choice> rank(const Problem& problem, const Device& device) {
  static const std::size_t library_limit = environment_workspace_limit();
  std::vector<Choice> choices;
  std::vector<Candidate> candidates;
  for (const ConvEngine& engine : engines()) {
    if (engine.backend != device.backend || !engine.supports(problem, device)) continue;
    candidates.clear();
    engine.candidates(problem, device, &candidates);
    for (const Candidate& candidate : candidates) {
      if (candidate.workspace > library_limit) continue;
      choices.push_back({&engine, candidate.config, candidate.workspace, candidate.seconds});
    }
  }
  // Stable, so that of equals the engine that stands first in the list wins, always the same one.
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
  return choices;
}

int algorithm_count(Direction direction) noexcept {
  switch (direction) {
    case Direction::forward:
      return GPUDNN_CONVOLUTION_FWD_ALGO_COUNT;
    case Direction::backward_data:
      return GPUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
    case Direction::backward_filter:
      return GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  }
  return 0;
}

// The numbers that programs pick when they have no memory to spare: IMPLICIT_GEMM and DIRECT forward, ALGO_0 backward.
bool algorithm_needs_no_workspace(Direction direction, int algorithm) noexcept {
  if (direction == Direction::forward) {
    return algorithm == GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM || algorithm == GPUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
  }
  return algorithm == 0;
}

}  // namespace gpudnn::conv
