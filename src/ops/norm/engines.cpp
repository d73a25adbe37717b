// The normalization engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/norm.hpp"
#include "ops/norm/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/norm/cuda_engines.hpp"
#include "ops/norm/plan.hpp"
#endif

namespace gpudnn::norm {
namespace {

Support supports_all(const Problem&, const Device&) { return Support::yes(); }

Status launch_host(const LaunchSite&, const Problem& problem, const Args& args) {
  host::norm(problem, args);
  return GPUDNN_STATUS_SUCCESS;
}

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"apply", GPUDNN_BACKEND_CUDA, supports_apply_cuda, apply_cuda},
    {"segments", GPUDNN_BACKEND_CUDA, supports_segments_cuda, segments_cuda},
    {"split", GPUDNN_BACKEND_CUDA, supports_split_cuda, split_cuda},
    {"cluster", GPUDNN_BACKEND_CUDA, supports_cluster_cuda, cluster_cuda},
#endif
    {"host_reference", GPUDNN_BACKEND_HOST, supports_all, launch_host},
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

std::size_t workspace_bytes(gpudnnHandle_t handle, const Problem& problem) {
#ifdef GPUDNN_WITH_CUDA
  if (handle->device->backend == GPUDNN_BACKEND_CUDA) return cuda_workspace_bytes(handle, problem);
#endif
  (void)handle, (void)problem;
  return 0;
}

std::size_t reserve_bytes(const Device& device, const Problem& problem) {
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA) return cuda_reserve_bytes(problem);
#endif
  (void)device;
  return host::norm_reserve_bytes(problem);
}

Status run(gpudnnHandle_t handle, Problem problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.x) == 0) return GPUDNN_STATUS_SUCCESS;
#ifdef GPUDNN_WITH_CUDA
  std::shared_ptr<const LaunchPlan> plan;
  if (handle->device->backend == GPUDNN_BACKEND_CUDA) {
    note_pointers(args, &problem);
    plan = find_plan(handle, problem);
    problem.plan = plan.get();
  }
#endif
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::norm
