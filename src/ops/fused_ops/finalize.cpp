// The engines of the statistics' last step.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/finalize.hpp"

#include "host/fused_ops.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/fused_ops/cuda_engines.hpp"
#endif

namespace gpudnn::fused_ops {
namespace {

constexpr Engine<FinalizeProblem, FinalizeArgs> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"finalize_statistics", GPUDNN_BACKEND_CUDA, supports_finalize_cuda, finalize_cuda},
#endif
    host_reference<host::finalize_statistics, FinalizeProblem, FinalizeArgs>(),
};

}  // namespace

std::string to_text(const FinalizeProblem& problem) {
  const ChannelVector& result = problem.vectors[kEqScale];
  return std::string("finalize ") + (problem.training ? "train" : "infer") + " c" + std::to_string(problem.channels) +
         (result.present && result.type != GPUDNN_DATA_FLOAT ? std::string(" eq=") + data_type_name(result.type) : "");
}

Status run(gpudnnHandle_t handle, const FinalizeProblem& problem, const FinalizeArgs& args) {
  if (problem.channels == 0) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(std::span<const Engine<FinalizeProblem, FinalizeArgs>>(kEngines), handle, problem, args);
}

}  // namespace gpudnn::fused_ops
