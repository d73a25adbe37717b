// The dropout engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/dropout.hpp"
#include "ops/dropout/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/dropout/cuda_engines.hpp"
#endif

namespace gpudnn::dropout {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"philox", GPUDNN_BACKEND_CUDA, supports_all<Problem>, philox_cuda},
#endif
    host_reference<host::dropout, Problem, Args>(),
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.out) == 0) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(engines(), handle, problem, args);
}

Status start_states(gpudnnHandle_t handle, void* states, std::uint64_t seed) {
  auto* const typed = static_cast<States*>(states);
#ifdef GPUDNN_WITH_CUDA
  const LaunchSite site = launch_site(handle);
  if (site.device.backend == GPUDNN_BACKEND_CUDA) {
    const cuda::DeviceScope scope(site.device);
    return start_states_cuda(site, typed, seed);
  }
#else
  (void)handle;
#endif
  *typed = {seed, 0, 0, 0};
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::dropout
