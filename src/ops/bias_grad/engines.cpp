// The bias-gradient engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/bias_grad.hpp"
#include "ops/bias_grad/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/bias_grad/cuda_engines.hpp"
#endif

namespace gpudnn::bias_grad {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"cluster_sum", GPUDNN_BACKEND_CUDA, supports_cluster_sum_cuda, cluster_sum_cuda},
#endif
    host_reference<host::bias_grad, Problem, Args>(),
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.db) == 0) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::bias_grad
