// The spatial transformer's engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/spatial_transformer.hpp"
#include "ops/spatial_transformer/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/spatial_transformer/cuda_engines.hpp"
#endif

namespace gpudnn::spatial_transformer {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"gather", GPUDNN_BACKEND_CUDA, supports_all<Problem>, gather_cuda},
#endif
    host_reference<host::spatial_transformer, Problem, Args>(),
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.y) == 0 && problem.operation != Operation::sample_backward) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::spatial_transformer
