// The attention engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "core/verify.hpp"
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
    {"flash_short_sm80", GPUDNN_BACKEND_CUDA, 16, supports_flash_short_sm80, flash_short_sm80_workspace,
     flash_short_sm80},
    {"decode_sm90", GPUDNN_BACKEND_CUDA, 16, supports_decode_sm90, flash_gather_sm90_workspace, flash_gather_sm90},
    {"flash_forward_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_forward_sm90, flash_forward_sm90_workspace,
     flash_forward_sm90},
    {"flash_fused_backward_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_fused_backward_sm90,
     flash_fused_backward_sm90_workspace, flash_fused_backward_sm90},
    {"flash_wide_backward_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_wide_backward_sm90,
     flash_wide_backward_sm90_workspace, flash_wide_backward_sm90},
    {"flash_float8_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_float8_sm90, flash_float8_sm90_workspace,
     flash_float8_sm90},
    {"flash_float8_backward_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_float8_backward_sm90,
     flash_float8_backward_sm90_workspace, flash_float8_backward_sm90},
    {"flash_gather_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_gather_sm90, flash_gather_sm90_workspace,
     flash_gather_sm90},
    {"flash_gather_backward_sm90", GPUDNN_BACKEND_CUDA, 16, supports_flash_gather_backward_sm90,
     flash_gather_backward_sm90_workspace, flash_gather_backward_sm90},
    {"flash_sm80", GPUDNN_BACKEND_CUDA, 2, supports_flash_sm80, flash_sm80_workspace, flash_sm80},
    {"attention_simt", GPUDNN_BACKEND_CUDA, 1, supports_attention_simt, attention_simt_workspace, attention_simt},
#endif
    {"host_reference", GPUDNN_BACKEND_HOST, 1, supports_all<Problem>, no_workspace,
     [](const LaunchSite&, const Problem& problem, const Args& args) -> Status {
       host::attention(problem, args);
       return GPUDNN_STATUS_SUCCESS;
     }},
};

// The bytes from an address to the next multiple of 256.
std::size_t bytes_to_line(const void* address) noexcept {
  return (256 - reinterpret_cast<std::uintptr_t>(address) % 256) % 256;
}

// The greatest power of two, up to 256, that all pointers of tensors are multiples of.
int alignment_of(const Problem& problem, const Args& args) noexcept {
  std::uintptr_t bits = 256;
  const void* const bias = problem.bias.rank != 0 ? args.bias : nullptr;
  const void* const dbias = problem.dbias.rank != 0 ? args.dbias : nullptr;
  const void* const pointers[] = {args.q.data, args.k.data, args.v.data,  args.d_o.data, bias,
                                  dbias,       args.o.data, args.dq.data, args.dk.data,  args.dv.data};
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<int>(bits & (~bits + 1));
}

void describe(Problem& problem, Args& args, verify::Check* check) {
  for (const Tensor* tensor : {&problem.q, &problem.k, &problem.v, &problem.o, &problem.d_o}) {
    if (tensor->is_ragged()) return check->give_up("a ragged tensor does not tell how much memory it has");
  }
  if (problem.is_8_bit()) {
    return check->give_up("what 8-bit attention rounds in between depends on the order of its sums");
  }
  const bool backward = problem.backward != 0;
  // What every output is summed from are the tensors of this type.
  const verify::Bound bound = verify::whole(problem.type());
  const auto input = [&](const char* name, auto& data, Tensor* tensor) {
    if (tensor->exists()) check->read(name, data.data, &tensor->geometry);
  };
  const auto output = [&](const char* name, Data<void*>& data, Tensor* tensor) {
    if (tensor->exists()) check->write(name, data.data, &tensor->geometry, false, bound);
  };
  const auto vector = [](DataType type, std::int64_t count) { return verify::vector_of(type, count); };
  const std::int64_t batch = problem.batch();
  const DataType integer = problem.seed_bits == 64 ? GPUDNN_DATA_INT64 : GPUDNN_DATA_INT32;
  check->read_as_is("the block mask", args.block_mask, problem.block_mask);
  check->read_as_is("the page table of k", args.page_table_k, problem.page_table_k);
  check->read_as_is("the page table of v", args.page_table_v, problem.page_table_v);
  check->read_as_is("the lengths of q", args.length_q, vector(GPUDNN_DATA_INT32, batch));
  check->read_as_is("the lengths of k and v", args.length_kv, vector(GPUDNN_DATA_INT32, batch));
  check->read_as_is("the slopes", args.alibi_slopes, vector(GPUDNN_DATA_FLOAT, problem.heads_q()));
  check->read_as_is("the sinks", args.sink, vector(GPUDNN_DATA_FLOAT, problem.heads_q()));
  check->read_as_is("the seed", args.seed, vector(integer, 1));
  check->read_as_is("the offset", args.offset, vector(integer, 1));
  input("q", args.q, &problem.q);
  input("k", args.k, &problem.k);
  input("v", args.v, &problem.v);
  check->read("the bias", args.bias, &problem.bias);
  if (backward) {
    input("o", args.o, &problem.o);
    input("stats", args.stats, &problem.stats);
    input("dO", args.d_o, &problem.d_o);
    output("dq", args.dq, &problem.dq);
    output("dk", args.dk, &problem.dk);
    output("dv", args.dv, &problem.dv);
    check->write("dbias", args.dbias, &problem.dbias, false, bound);
    check->write_as_is("dsink", args.dsink, vector(GPUDNN_DATA_FLOAT, problem.heads_q()), false, bound);
    return;
  }
  output("o", args.o, &problem.o);
  output("stats", args.stats, &problem.stats);
  output("max", args.max, &problem.max);
  output("sum_exp", args.sum_exp, &problem.sum_exp);
  check->write("the dropout mask", args.dropout_mask, &problem.dropout_mask, false, verify::exact());
}

bool runs_on(const AttentionEngine& engine, const Device& device, const Problem& problem) {
  const EngineFilter filter(kEngines, device.backend);
  return engine.backend == device.backend && filter.reason_against(engine.name) == nullptr &&
         engine.supports(problem, device);
}

// An engine and the workspace that it wants, which it is asked for once a call.
struct Choice {
  const AttentionEngine* engine = nullptr;
  std::size_t bytes = 0;
};
Choice choose_with_bytes(const Device& device, const Problem& problem, int alignment, std::size_t workspace_size) {
  for (const AttentionEngine& engine : kEngines) {
    if (engine.alignment > alignment || !runs_on(engine, device, problem)) continue;
    const std::size_t bytes = engine.workspace(problem, device);
    if (bytes <= workspace_size) return {&engine, bytes};
  }
  return {};
}

Status launch_choice(const Choice& choice, gpudnnHandle_t handle, const Problem& problem, const Args& args,
                     void* workspace, std::size_t workspace_size) {
  const AttentionEngine& engine = *choice.engine;
  const Device& device = *handle->device;
  call_context().engine = engine.name;
  const std::size_t needed = choice.bytes;
  const std::size_t skipped = needed == 0 ? 0 : bytes_to_line(workspace);
  GPUDNN_REQUIRE(needed == 0 || (workspace != nullptr && workspace_size >= needed + skipped), GPUDNN_STATUS_BAD_PARAM,
                 "the workspace has %zu bytes; %s needs %zu, as workspace_bytes() says", workspace_size, engine.name,
                 workspace_bytes(device, problem));
  const LaunchSite site = launch_site(handle, static_cast<char*>(workspace) + skipped, needed);
  const auto launch = [&] {
    if (device.backend == GPUDNN_BACKEND_HOST) return engine.launch(site, problem, args);
    const cuda::DeviceScope scope(device);
    return engine.launch(site, problem, args);
  };
  if (!verify::watching()) [[likely]]
    return launch();
  Problem problem_copy = problem;
  Args args_copy = args;
  return verify::run({.handle = handle,
                      .problem = to_text(problem),
                      .engine = engine.name,
                      .describe = [&](verify::Check* check) { describe(problem_copy, args_copy, check); },
                      .launch = launch,
                      .reference = [&]() -> Status {
                        host::attention(problem_copy, args_copy);
                        return GPUDNN_STATUS_SUCCESS;
                      }});
}

}  // namespace

std::span<const AttentionEngine> engines() noexcept { return kEngines; }

const AttentionEngine* choose(const Device& device, const Problem& problem, int alignment, std::size_t workspace_size) {
  return choose_with_bytes(device, problem, alignment, workspace_size).engine;
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
  return launch_choice({&engine, engine.workspace(problem, *handle->device)}, handle, problem, args, workspace,
                       workspace_size);
}

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
           std::size_t workspace_size) {
  note_problem_lazily([&] { return to_text(problem); });
  GPUDNN_TRY(validate(problem, args));
  if (problem.batch() == 0 || problem.heads_q() == 0) return GPUDNN_STATUS_SUCCESS;
  const int alignment = alignment_of(problem, args);
  // A graph's plan asked for the workspace before numbers that come with the data, as the bounds of a window, were
  // known.
  const std::size_t skipped = std::min(bytes_to_line(workspace), workspace_size);
  Choice choice = choose_with_bytes(*handle->device, problem, alignment, workspace_size - skipped);
  // Its refusal tells what it needs.
  if (choice.engine == nullptr) choice = choose_with_bytes(*handle->device, problem, alignment, SIZE_MAX);
  GPUDNN_REQUIRE(choice.engine != nullptr, GPUDNN_STATUS_NOT_SUPPORTED, "no engine of this backend takes %s",
                 to_text(problem).c_str());
  return launch_choice(choice, handle, problem, args, workspace, workspace_size);
}

}  // namespace gpudnn::attention
