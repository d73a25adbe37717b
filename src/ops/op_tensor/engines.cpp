// The engines of the two-operand tensor operation, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/op_tensor.hpp"
#include "ops/op_tensor/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/op_tensor/cuda_engines.hpp"
#endif

namespace gpudnn::op_tensor {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"elementwise", GPUDNN_BACKEND_CUDA, supports_elementwise_cuda, elementwise_cuda},
    {"mixed", GPUDNN_BACKEND_CUDA, supports_mixed_cuda, mixed_cuda},
#endif
    host_reference<host::op_tensor, Problem, Args>(),
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.c) == 0) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::op_tensor
