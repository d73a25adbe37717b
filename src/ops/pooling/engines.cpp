// The pooling engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "host/pooling.hpp"
#include "ops/pooling/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/pooling/cuda_engines.hpp"
#endif

namespace gpudnn::pooling {
namespace {

Support supports_all(const Problem&, const Device&) { return Support::yes(); }

Status launch_host(const LaunchSite&, const Problem& problem, const Args& args) {
  host::pooling(problem, args);
  return GPUDNN_STATUS_SUCCESS;
}

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"planes_fixed", GPUDNN_BACKEND_CUDA, supports_planes_fixed_cuda, planes_fixed_cuda},
    {"channels_fixed", GPUDNN_BACKEND_CUDA, supports_channels_fixed_cuda, channels_fixed_cuda},
    {"rows_fixed", GPUDNN_BACKEND_CUDA, supports_rows_fixed_cuda, rows_fixed_cuda},
    {"planes", GPUDNN_BACKEND_CUDA, supports_planes_cuda, planes_cuda},
    {"windows", GPUDNN_BACKEND_CUDA, supports_windows_cuda, windows_cuda},
#endif
    {"host_reference", GPUDNN_BACKEND_HOST, supports_all, launch_host},
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.backward ? problem.dx : problem.y) == 0) return GPUDNN_STATUS_SUCCESS;
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::pooling
