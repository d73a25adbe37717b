// The tensor engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/tensor.hpp"
#include "ops/tensor/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/tensor/cuda_engines.hpp"
#endif

namespace gpudnn::tensor {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"fill", GPUDNN_BACKEND_CUDA, supports_fill_cuda, fill_cuda},
    {"transpose", GPUDNN_BACKEND_CUDA, supports_transpose_cuda, transpose_cuda},
    {"linear", GPUDNN_BACKEND_CUDA, supports_linear_cuda, linear_cuda},
#endif
    host_reference<host::tensor, Problem, Args>(),
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.c) == 0) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::tensor
