// Instances and launches of the kernels that run pointwise programs with reductions.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/pointwise/program_reduce.cuh"

namespace gpudnn::kernels {
namespace {

// Strides of the kept loops, then of the folded ones, each group fastest first.
void set_tensor(const ProgramReduceParams& params, const ProgramTensor& from, ScalarTensor* to) {
  const int rank = params.program.rank;
  to->data = from.is_index ? reinterpret_cast<char*>(from.start) : static_cast<char*>(from.data);
  to->type = static_cast<std::uint8_t>(from.type);
  to->is_index = from.is_index;
  for (int i = 0; i < params.kept; ++i) to->strides[i] = from.strides[params.kept - 1 - i];
  for (int i = params.kept; i < rank; ++i) to->strides[i] = from.strides[rank - 1 - (i - params.kept)];
}

void set_dims(const ProgramReduceParams& params, tile::FastDivmod* dims) {
  const int rank = params.program.rank;
  for (int i = 0; i < rank; ++i) {
    const int from = i < params.kept ? params.kept - 1 - i : rank - 1 - (i - params.kept);
    dims[i] = tile::FastDivmod(static_cast<std::uint32_t>(params.program.dims[from]));
  }
}

template <class C>
void join(const ProgramReduceParams& params, const ReduceArgs<C>& reduced, cudaStream_t stream) {
  for (int o = 0; o < params.program.outputs; ++o) {
    if (params.fold[o] == kNotFolded) continue;
    JoinArgs<C> args;
    args.results = reduced.results;
    args.splits = params.splits;
    args.kept = params.kept;
    args.fold = params.fold[o];
    args.folded = static_cast<C>(reduced.folded);
    args.partial = reduced.partial + std::int64_t{o} * params.splits * reduced.results;
    set_dims(params, args.dims);
    args.out = reduced.out[o];
    const unsigned blocks = (args.results + kProgramReduceThreads - 1) / kProgramReduceThreads;
    cuda::launch_kernel(&program_join<C>, {blocks, kProgramReduceThreads}, stream, args);
  }
}

template <class C, int E>
void launch(const ProgramReduceParams& params, const tile::ProgramCode<C>& code, cudaStream_t stream) {
  const ProgramParams& program = params.program;
  std::int64_t results = 1;
  std::int64_t folded = 1;
  for (int i = 0; i < program.rank; ++i) (i < params.kept ? results : folded) *= program.dims[i];
  const ReduceTiling tiling = reduce_tiling(results, folded, params.across, program.multiprocessors);
  ReduceArgs<C> args;
  args.results = static_cast<std::uint32_t>(results);
  args.folded = static_cast<std::uint32_t>(folded);
  args.run = static_cast<std::uint32_t>((folded + params.splits - 1) / params.splits);
  args.kept = params.kept;
  args.rank = program.rank;
  args.lanes = tiling.lanes;
  args.across = params.across;
  args.partial = params.splits > 1 ? static_cast<C*>(params.workspace) : nullptr;
  set_dims(params, args.dims);
  for (int t = 0; t < program.inputs; ++t) set_tensor(params, program.in[t], &args.in[t]);
  for (int o = 0; o < tile::kProgramOutputs; ++o) {
    args.fold[o] = o < program.outputs ? params.fold[o] : kNotFolded;
    set_tensor(params, program.out[o], &args.out[o]);
  }
  args.code = code;
  const auto tiles = static_cast<unsigned>((results + tiling.lanes - 1) / tiling.lanes);
  const std::size_t shared = sizeof(C) * E * kProgramReduceThreads * static_cast<std::size_t>(code.temps);
  if (shared > 40 * 1024) {
    cuda::allow_shared_memory<&program_reduce<C, E>>(int{sizeof(C)} * E * kProgramReduceThreads * tile::kProgramTemps);
  }
  cuda::launch_kernel(&program_reduce<C, E>,
                      {dim3(tiles, static_cast<unsigned>(params.splits)), kProgramReduceThreads, shared}, stream, args);
  if (params.splits > 1) join(params, args, stream);
}

}  // namespace

void launch_program_reduce(const ProgramReduceParams& params, CUstream_st* stream) {
  if (params.program.is_double) {
    launch<double, kProgramReduceElements / 2>(params, *params.program.code64, stream);
  } else {
    launch<float, kProgramReduceElements>(params, *params.program.code, stream);
  }
}

}  // namespace gpudnn::kernels
