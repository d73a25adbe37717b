// From the parameters of a reduction to the launch of its kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/reduce/reduce.cuh"
#include "kernels/tile/dispatch.cuh"

namespace gpudnn::kernels {

// A window is a run of the slowest loop, and the loops under it; or, where those are too long, the loops under the
// first one that leaves them short enough.
inline ReduceElements make_reduce_elements(const tile::HostNest& nest) {
  ReduceElements elements;
  elements.count = nest.count();
  int split = 0;
  std::int64_t under = elements.count / nest.dims[0];
  while (under > tile::kMostIterations) under /= nest.dims[++split];
  tile::HostNest within = nest;
  tile::HostNest windows;
  windows.tensors = within.tensors = 1;
  windows.rank = split + 1;
  std::copy_n(nest.dims, windows.rank, windows.dims);
  std::copy_n(nest.strides[0], windows.rank, windows.strides[0]);
  std::int64_t run = 1;  // iterations of loop `split` in a window
  if (split == 0) {
    run = tile::kMostIterations / under;
    if (run > nest.dims[0]) run = nest.dims[0];
    windows.dims[0] = (nest.dims[0] + run - 1) / run;
    windows.strides[0][0] *= run;
  }
  within.rank = nest.rank - split;
  for (int i = 0; i < within.rank; ++i) {
    within.dims[i] = nest.dims[split + i];
    within.strides[0][i] = nest.strides[0][split + i];
  }
  within.dims[0] = run;
  elements.window = under * run;
  elements.within = tile::LoopNest<1>(within);
  elements.windows = tile::LoopNest<1>(windows);
  return elements;
}

template <class C>
ReduceOutput<C> make_reduce_output(const ReduceParams& params) {
  return {params.out_type, params.index_bytes,           params.c,
          params.indices,  static_cast<C>(params.alpha), static_cast<C>(params.beta)};
}

template <class C, bool kIndexed>
void launch_reduce_join(const ReduceParams& params, cudaStream_t stream) {
  ReduceJoinArgs<C> args;
  args.partials = params.workspace;
  args.rule = params.rule;
  args.output = make_reduce_output<C>(params);
  args.kept = tile::LoopNest<3>(params.loops.kept);
  args.outputs = static_cast<std::uint32_t>(params.loops.kept.count());
  args.splits = static_cast<std::uint32_t>(params.shape.splits);
  args.lanes = kReduceJoinThreads;
  // Up to 8 splits for a thread, in one round of loads; at least 32 bytes side by side where there are as many.
  while (args.lanes > 8 && kReduceJoinThreads / args.lanes * 8 < args.splits) args.lanes /= 2;
  while (args.lanes > 1 && args.lanes / 2 >= args.outputs) args.lanes /= 2;
  const std::uint32_t blocks = (args.outputs + args.lanes - 1) / args.lanes;
  reduce_join<C, kIndexed><<<blocks, kReduceJoinThreads, 0, stream>>>(args);
}

template <class T, int N, bool kIndexed>
void launch_reduce_pack(const ReduceParams& params, cudaStream_t stream) {
  using C = ReduceCompute<T>;
  const ReduceShape& shape = params.shape;
  const tile::HostNest& kept = params.loops.kept;
  const tile::HostNest& reduced = params.loops.reduced;
  ReduceArgs<T> args;
  args.a = static_cast<const T*>(params.a);
  args.in_type = params.in_type;
  args.partials = shape.splits > 1 ? params.workspace : nullptr;
  args.rule = params.rule;
  args.output = make_reduce_output<C>(params);
  args.kept = tile::LoopNest<3>(shape.columns ? tile::packed_nest(kept, N) : kept);
  args.reduced = make_reduce_elements(shape.columns ? reduced : tile::packed_nest(reduced, N));
  args.outputs = static_cast<std::uint32_t>(kept.count() / (shape.columns ? N : 1));
  args.chunk = (args.reduced.count + shape.splits - 1) / shape.splits;
  args.lanes = static_cast<std::uint32_t>(shape.lanes);
  const std::uint32_t side_by_side = shape.columns ? args.lanes : kReduceThreads / args.lanes;
  const dim3 blocks((args.outputs + side_by_side - 1) / side_by_side, static_cast<unsigned>(shape.splits));
  if (shape.columns) {
    reduce_columns<T, N, kIndexed><<<blocks, kReduceThreads, 0, stream>>>(args);
  } else {
    reduce_rows<T, N, kIndexed><<<blocks, kReduceThreads, 0, stream>>>(args);
  }
  if (shape.splits > 1) launch_reduce_join<C, kIndexed>(params, stream);
}

// Packs where shape and pointer allow them; integers always go one by one.
template <class T, bool kIndexed>
void launch_reduce_piece(const ReduceParams& params, cudaStream_t stream) {
  if constexpr (!std::is_same_v<T, AnyInteger>) {
    if (params.shape.width > 1 && tile::is_aligned(params.a, 16)) {
      return launch_reduce_pack<T, tile::kPackWidth<T>, kIndexed>(params, stream);
    }
  }
  launch_reduce_pack<T, 1, kIndexed>(params, stream);
}

// More outputs than 31 bits can count go in pieces, each with its own corner of the tensors. So many are never split.
template <class T, bool kIndexed>
void launch_reduce_typed(const ReduceParams& params, cudaStream_t stream) {
  if (params.loops.kept.count() <= tile::kMostIterations) return launch_reduce_piece<T, kIndexed>(params, stream);
  tile::for_each_piece(params.loops.kept, tile::kMostIterations, {},
                       [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                         ReduceParams part = params;
                         part.loops.kept = piece;
                         part.a = static_cast<const std::byte*>(params.a) + offsets[0] * any_type_bytes(params.in_type);
                         part.c = static_cast<std::byte*>(params.c) + offsets[1] * any_type_bytes(params.out_type);
                         if (params.indices != nullptr) {
                           part.indices = static_cast<std::byte*>(params.indices) + offsets[2] * params.index_bytes;
                         }
                         launch_reduce_piece<T, kIndexed>(part, stream);
                       });
}

template <bool kIndexed>
void launch_reduce_any(const ReduceParams& params, cudaStream_t stream) {
  switch (params.in_type) {
    case tile::AnyType::f64:
      return launch_reduce_typed<double, kIndexed>(params, stream);
    case tile::AnyType::f32:
      return launch_reduce_typed<float, kIndexed>(params, stream);
    case tile::AnyType::f16:
      return launch_reduce_typed<tile::Half, kIndexed>(params, stream);
    case tile::AnyType::bf16:
      return launch_reduce_typed<tile::BFloat16, kIndexed>(params, stream);
    default:
      return launch_reduce_typed<AnyInteger, kIndexed>(params, stream);
  }
}

// Of the two translation units.
void launch_reduce_values(const ReduceParams& params, CUstream_st* stream);
void launch_reduce_places(const ReduceParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
