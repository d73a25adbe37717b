// The activation engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/activation.hpp"
#include "ops/activation/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/activation/cuda_engines.hpp"
#endif

namespace gpudnn::activation {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"elementwise", GPUDNN_BACKEND_CUDA, supports_elementwise_cuda, elementwise_cuda},
#endif
    host_reference<host::activation, Problem, Args>(),
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.backward ? problem.dx : problem.y) == 0) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::activation
