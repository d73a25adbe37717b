// The softmax engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/softmax.hpp"
#include "ops/softmax/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/softmax/cuda_engines.hpp"
#endif

namespace gpudnn::softmax {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"rows", GPUDNN_BACKEND_CUDA, supports_rows_cuda, rows_cuda},
    {"columns", GPUDNN_BACKEND_CUDA, supports_columns_cuda, columns_cuda},
    {"strided", GPUDNN_BACKEND_CUDA, supports_strided_cuda, strided_cuda},
#endif
    host_reference<host::softmax, Problem, Args>(),
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.backward ? problem.dx : problem.y) == 0) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::softmax
