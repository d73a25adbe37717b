// The engines of pointwise programs, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/pointwise.hpp"
#include "ops/pointwise/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/pointwise/cuda_engines.hpp"
#endif

namespace gpudnn::pointwise {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"program", GPUDNN_BACKEND_CUDA, supports_program_cuda, program_cuda},
    {"program_reduce", GPUDNN_BACKEND_CUDA, supports_program_reduce_cuda, program_reduce_cuda},
#endif
    host_reference<host::pointwise, Problem, Args>(),
};

bool is_empty(const Problem& problem) noexcept {
  for (int i = 0; i < problem.rank; ++i) {
    if (problem.dims[i] == 0) return true;
  }
  return false;
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

std::size_t workspace_size(const Problem& problem, const Device& device) {
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA && !is_empty(problem)) return workspace_size_cuda(problem, device);
#endif
  (void)problem, (void)device;
  return 0;
}

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (is_empty(problem)) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::pointwise
