// From a call to its backend.
// SPDX-License-Identifier: Apache-2.0
#include "host/multi_head_attn.hpp"
#include "ops/multi_head_attn/buffers.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/multi_head_attn/cuda_engines.hpp"
#endif

namespace gpudnn::mha {
namespace {

constexpr std::uintptr_t kAlignment = 16;

Status require_space(const void* space, std::size_t bytes, std::size_t needed, const char* name) {
  if (needed == 0) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_REQUIRE(space != nullptr && bytes >= needed, GPUDNN_STATUS_BAD_PARAM,
                 "%s has %zu bytes; this call needs %zu, as gpudnnGetMultiHeadAttnBuffers says", name,
                 space != nullptr ? bytes : 0, needed);
  GPUDNN_REQUIRE(reinterpret_cast<std::uintptr_t>(space) % kAlignment == 0, GPUDNN_STATUS_BAD_PARAM,
                 "%s (%p) must be aligned to %d bytes", name, space, static_cast<int>(kAlignment));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  GPUDNN_TRY(validate(problem));
  GPUDNN_TRY(validate(problem, args));
  Buffers buffers;
  const Device& device = *handle->device;
  const BufferBytes needed = place(problem, device, args.workspace, args.reserve, &buffers);
  GPUDNN_TRY(require_space(args.workspace, args.workspace_bytes, needed.workspace, "workSpace"));
  GPUDNN_TRY(require_space(args.reserve, args.reserve_bytes, needed.reserve, "reserveSpace"));
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA) {
    const cuda::DeviceScope scope(device);
    GPUDNN_TRY(run_cuda(handle, problem, args, buffers));
    note_problem_lazily([&] { return to_text(problem); });
    return GPUDNN_STATUS_SUCCESS;
  }
#endif
  call_context().engine = "host_reference";
  host::multi_head_attn(problem, args, buffers);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::mha
