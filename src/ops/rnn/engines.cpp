// The engines of recurrent networks, best first.
// SPDX-License-Identifier: Apache-2.0
#include "core/verify.hpp"
#include "ops/rnn/stages.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/rnn/cuda_engines.hpp"
#endif

namespace gpudnn::rnn {
namespace {

Status host_stages(const LaunchSite& site, const Problem& problem, const Args& args) {
  return run_stages(kHostStages, site, problem, args);
}

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"resident_sm90", GPUDNN_BACKEND_CUDA, supports_resident, resident_cuda},
    {"split_sm90", GPUDNN_BACKEND_CUDA, supports_split, split_cuda},
    {"streaming", GPUDNN_BACKEND_CUDA, supports_all<Problem>, streaming_cuda},
#endif
    {"host_reference", GPUDNN_BACKEND_HOST, supports_all<Problem>, host_stages},
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  verify::note_not_covered(handle, "recurrent networks are not covered but for matrix products inside");
  GPUDNN_TRY(run_first_engine(engines(), handle, problem, args));
  // The products inside have left their own.
  note_problem_lazily([&] { return to_text(problem); });
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::rnn
