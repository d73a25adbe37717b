// The engines of the statistics' last step.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/finalize.hpp"

#include "core/verify.hpp"
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

void describe(FinalizeProblem& problem, FinalizeArgs& args, verify::Check* check) {
  for (int v = 0; v < kFinalizeVectors; ++v) {
    ChannelVector& vector = problem.vectors[v];
    if (!vector.present) continue;
    const TensorGeometry geometry = verify::vector_of(vector.type, problem.channels, vector.stride);
    const bool is_running = v == kRunningMean || v == kRunningVariance;
    if (v < kSavedMean || (is_running && !problem.training)) {
      check->read("an input vector", args.vectors[v], geometry);
    } else {
      check->write("an output vector", args.vectors[v], geometry, is_running, verify::whole(vector.type));
    }
    vector.type = GPUDNN_DATA_DOUBLE;
  }
}

}  // namespace

std::string to_text(const FinalizeProblem& problem) {
  const ChannelVector& result = problem.vectors[kEqScale];
  return std::string("finalize ") + (problem.training ? "train" : "infer") + " c" + std::to_string(problem.channels) +
         (result.present && result.type != GPUDNN_DATA_FLOAT ? std::string(" eq=") + data_type_name(result.type) : "");
}

Status run(gpudnnHandle_t handle, const FinalizeProblem& problem, const FinalizeArgs& args) {
  if (problem.channels == 0) return GPUDNN_STATUS_SUCCESS;
  const std::span<const Engine<FinalizeProblem, FinalizeArgs>> engines = kEngines;
  return verify::run_first_engine(engines, handle, problem, args, describe);
}

}  // namespace gpudnn::fused_ops
