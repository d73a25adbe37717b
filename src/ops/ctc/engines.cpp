// The CTC-loss engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "core/verify.hpp"
#include "host/ctc_loss.hpp"
#include "ops/ctc/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/ctc/cuda_engines.hpp"
#endif

namespace gpudnn::ctc {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"log_walk", GPUDNN_BACKEND_CUDA, supports_all<Problem>, log_walk_cuda},
#endif
    host_reference<host::ctc_loss, Problem, Args>(),
};

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  const std::size_t needed = workspace_size(problem);
  GPUDNN_REQUIRE(args.workspace_bytes >= needed, GPUDNN_STATUS_BAD_PARAM,
                 "workSpaceSizeInBytes is %zu; this call needs %zu (gpudnnGetCTCLossWorkspaceSize)",
                 args.workspace_bytes, needed);
  GPUDNN_REQUIRE(args.workspace != nullptr || needed == 0, GPUDNN_STATUS_BAD_PARAM,
                 "workspace is null; it must point to %zu bytes", needed);
  GPUDNN_REQUIRE(reinterpret_cast<std::uintptr_t>(args.workspace) % 16 == 0, GPUDNN_STATUS_BAD_PARAM,
                 "workspace (%p) must be aligned to 16 bytes", args.workspace);
  if (problem.x.dims[1] == 0) return GPUDNN_STATUS_SUCCESS;
  verify::note_not_covered(handle, "the CTC loss is not covered");
  return run_first_engine(engines(), handle, problem, args);
}

}  // namespace gpudnn::ctc
