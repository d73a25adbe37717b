// The engines of pointwise programs, best first.
// SPDX-License-Identifier: Apache-2.0
#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/pointwise.hpp"
#include "ops/pointwise/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/pointwise/cuda_engines.hpp"
#include "ops/pointwise/prepared.hpp"
#endif

namespace gpudnn::pointwise {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"program", GPUDNN_BACKEND_CUDA, supports_program_cuda, program_cuda},
    {"program_reduce", GPUDNN_BACKEND_CUDA, supports_program_reduce_cuda, program_reduce_cuda},
#endif
    host_reference<host::pointwise, Problem, Args>(),
};

bool is_empty(const Problem& problem) noexcept {
  for (int i = 0; i < problem.rank; ++i) {
    if (problem.dims[i] == 0) return true;
  }
  return false;
}

void describe(Problem& problem, Args& args, verify::Check* check) {
  // Results are rounded on the way; where two engines differ in the last bit before, they differ by as much behind.
  DataType coarsest = problem.program.compute;
  const auto consider = [&coarsest](DataType type) {
    if (numerics::normwise_bound(type) > numerics::normwise_bound(coarsest)) coarsest = type;
  };
  for (int i = 0; i < problem.program.instructions; ++i) consider(problem.program.code[i].type);
  for (int i = 0; i < problem.program.stores; ++i) consider(problem.stores[i].type);
  for (int i = 0; i < problem.program.loads; ++i) {
    if (problem.program.load_kind[i] == LoadKind::tensor) check->read("an input", args.loads[i], &problem.loads[i]);
  }
  for (int i = 0; i < problem.program.stores; ++i) {
    check->write("an output", args.stores[i], &problem.stores[i], false, verify::whole(coarsest));
  }
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

std::size_t workspace_size(const Problem& problem, const Device& device) {
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA && !is_empty(problem)) return workspace_size_cuda(problem, device);
#endif
  (void)problem, (void)device;
  return 0;
}

Status prepare(const Problem& problem, const Device& device, std::shared_ptr<const Prepared>* prepared) {
  prepared->reset();
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA && !is_empty(problem)) {
    auto made = std::make_shared<Prepared>();
    GPUDNN_TRY(prepare_cuda(problem, made.get()));
    if (!has_reduction(problem)) make_ready(device, &made->parts.front());
    *prepared = std::move(made);
  }
#endif
  (void)problem, (void)device;
  return GPUDNN_STATUS_SUCCESS;
}

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (is_empty(problem)) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::pointwise
