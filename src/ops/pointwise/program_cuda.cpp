// Launcher of the kernels that run pointwise programs.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/pointwise/program.hpp"
#include "ops/any_type.hpp"
#include "ops/pointwise/cuda_engines.hpp"
#include "ops/pointwise/prepared.hpp"

namespace gpudnn::pointwise {
namespace {

static_assert(kMaxLoads == tile::kProgramInputs && kMaxStores == tile::kProgramOutputs, "one number for each");

}  // namespace

kernels::ProgramParams program_params(const Problem& problem, const Args& args, const Loops& loops,
                                      const Device& device) {
  const Program& program = problem.program;
  kernels::ProgramParams params;
  params.is_double = program.compute == GPUDNN_DATA_DOUBLE;
  params.rank = loops.rank;
  params.inputs = program.loads;
  params.outputs = program.stores;
  params.multiprocessors = device.multiprocessors;
  params.runs_compiled = device.has_clusters();
  std::copy_n(loops.dims, loops.rank, params.dims);
  for (int i = 0; i < program.loads; ++i) {
    kernels::ProgramTensor& in = params.in[i];
    in.present = program.load_kind[i] != LoadKind::scalar;
    in.is_index = program.load_kind[i] == LoadKind::index;
    if (program.load_kind[i] == LoadKind::tensor) in.type = any_type(problem.loads[i].type);
    in.data = const_cast<void*>(args.loads[i]);  // NOLINT: one struct for inputs and outputs
    std::copy_n(loops.load_strides[i], loops.rank, in.strides);
  }
  for (int o = 0; o < program.stores; ++o) {
    kernels::ProgramTensor& out = params.out[o];
    out.present = true;
    out.type = any_type(problem.stores[o].type);
    out.data = args.stores[o];
    std::copy_n(loops.store_strides[o], loops.rank, out.strides);
  }
  return params;
}

Support supports_program_cuda(const Problem& problem, const Device&) {
  return has_reduction(problem) ? Support::no("a store has a reduction") : Support::yes();
}

void make_ready(const Device& device, PreparedPart* part) {
  if (part->problem.program.compute == GPUDNN_DATA_DOUBLE) return;
  kernels::ProgramParams params = program_params(part->problem, {}, part->fold.loops, device);
  tile::ProgramCode<float> code;
  constexpr double kNumbers[kMaxLoads] = {};
  bind(part->lowered, kNumbers, &code);
  params.code = &code;
  auto ready = std::make_shared<kernels::ReadyProgram>();
  kernels::make_ready(params, part->lowered.scalar, part->lowered.negates, ready.get());
  if (ready->kind != kernels::ReadyProgram::Kind::none) part->ready = std::move(ready);
}

Status program_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  Prepared made;
  if (args.prepared == nullptr) GPUDNN_TRY(prepare_cuda(problem, &made));
  const PreparedPart& part = (args.prepared == nullptr ? made : *args.prepared).parts.front();
  if (part.ready == nullptr ||
      !kernels::launch_ready(*part.ready, args.loads, args.scalars, args.stores, site.stream)) {
    kernels::ProgramParams params = program_params(problem, args, part.fold.loops, site.device);
    tile::ProgramCode<float> code;
    tile::ProgramCode<double> code64;
    if (params.is_double) {
      bind(part.lowered, args.scalars, &code64);
      params.code64 = &code64;
    } else {
      bind(part.lowered, args.scalars, &code);
      params.code = &code;
    }
    kernels::launch_program(params, site.stream);
  }
  return cuda::launch_status("pointwise program");
}

}  // namespace gpudnn::pointwise
