// The attention engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "host/attention.hpp"
#include "ops/attention/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/attention/cuda_engines.hpp"
#endif

namespace gpudnn::attention {
namespace {

std::size_t no_workspace(const Problem&, const Device&) { return 0; }

constexpr AttentionEngine kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"decode_sm90", GPUDNN_BACKEND_CUDA, 16, supports_decode_sm90, flash_gather_sm90_workspace, flash_gather_sm90},
    {"flash_forward_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_forward_sm90, flash_forward_sm90_workspace,
     flash_forward_sm90},
    {"flash_backward_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_backward_sm90, flash_backward_sm90_workspace,
     flash_backward_sm90},
    {"flash_gather_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_gather_sm90, flash_gather_sm90_workspace,
     flash_gather_sm90},
    {"flash_gather_backward_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_gather_backward_sm90,
     flash_gather_backward_sm90_workspace, flash_gather_backward_sm90},
    {"attention_simt", GPUDNN_BACKEND_CUDA, 1, supports_all<Problem>, attention_simt_workspace, attention_simt},
#endif
    {"host_reference", GPUDNN_BACKEND_HOST, 1, supports_all<Problem>, no_workspace,
     [](const LaunchSite&, const Problem& problem, const Args& args) -> Status {
       host::attention(problem, args);
       return GPUDNN_STATUS_SUCCESS;
     }},
};

// The greatest power of two, up to 256, that all pointers of tensors are multiples of.
int alignment_of(const Args& args) noexcept {
  std::uintptr_t bits = 256;
  const void* const pointers[] = {args.q.data, args.k.data,  args.v.data,  args.d_o.data,
                                  args.o.data, args.dq.data, args.dk.data, args.dv.data};
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<int>(bits & (~bits + 1));
}

bool runs_on(const AttentionEngine& engine, const Device& device, const Problem& problem) {
  const EngineFilter filter(kEngines, device.backend);
  return engine.backend == device.backend && filter.reason_against(engine.name) == nullptr &&
         engine.supports(problem, device);
}

}  // namespace

std::span<const AttentionEngine> engines() noexcept { return kEngines; }

const AttentionEngine* choose(const Device& device, const Problem& problem, int alignment) noexcept {
  for (const AttentionEngine& engine : kEngines) {
    if (engine.alignment <= alignment && runs_on(engine, device, problem)) return &engine;
  }
  return nullptr;
}

std::size_t workspace_bytes(const Device& device, const Problem& problem) {
  constexpr std::size_t kAligned = 240;  // from a multiple of 16 to one of 256 bytes
  std::size_t most = 0;
  for (const AttentionEngine& engine : kEngines) {
    if (!runs_on(engine, device, problem)) continue;
    most = std::max(most, engine.workspace(problem, device));
    if (engine.alignment == 1) break;
  }
  return most == 0 ? 0 : most + kAligned;
}

Status run_engine(const AttentionEngine& engine, gpudnnHandle_t handle, const Problem& problem, const Args& args,
                  void* workspace, std::size_t workspace_size) {
  const Device& device = *handle->device;
  call_context().engine = engine.name;
  const std::size_t needed = engine.workspace(problem, device);
  const std::size_t skipped = needed == 0 ? 0 : (256 - reinterpret_cast<std::uintptr_t>(workspace) % 256) % 256;
  GPUDNN_REQUIRE(needed == 0 || (workspace != nullptr && workspace_size >= needed + skipped), GPUDNN_STATUS_BAD_PARAM,
                 "the workspace has %zu bytes; %s needs %zu, as workspace_bytes() says", workspace_size, engine.name,
                 workspace_bytes(device, problem));
  const LaunchSite site = launch_site(handle, static_cast<char*>(workspace) + skipped, needed);
  if (device.backend == GPUDNN_BACKEND_HOST) return engine.launch(site, problem, args);
  const cuda::DeviceScope scope(device);
  return engine.launch(site, problem, args);
}

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
           std::size_t workspace_size) {
  note_problem_lazily([&] { return to_text(problem); });
  GPUDNN_TRY(validate(problem, args));
  if (problem.batch() == 0 || problem.heads_q() == 0) return GPUDNN_STATUS_SUCCESS;
  const AttentionEngine* const engine = choose(*handle->device, problem, alignment_of(args));
  GPUDNN_REQUIRE(engine != nullptr, GPUDNN_STATUS_NOT_SUPPORTED, "no engine of this backend takes %s",
                 to_text(problem).c_str());
  return run_engine(*engine, handle, problem, args, workspace, workspace_size);
}

}  // namespace gpudnn::attention
