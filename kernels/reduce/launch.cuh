// From the parameters of a reduction to the launch of its kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/reduce/join.cuh"
#include "kernels/reduce/reduce.cuh"
#include "kernels/reduce/short.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {

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
  if constexpr (!kIndexed) {
    if (params.rule.family == ReduceFamily::sum && !params.rule.root) {  // terms are behind us: sums of any kind
      reduce_join<C, kIndexed, ReduceKind::plain_sum><<<blocks, kReduceJoinThreads, 0, stream>>>(args);
      return;
    }
  }
  reduce_join<C, kIndexed, ReduceKind::any><<<blocks, kReduceJoinThreads, 0, stream>>>(args);
}

template <class T, int N>
ReduceArgs<T> make_reduce_args(const ReduceParams& params) {
  const ReduceShape& shape = params.shape;
  const bool columns = shape.way == ReduceWay::columns;
  const tile::HostNest& kept = params.loops.kept;
  ReduceArgs<T> args;
  args.a = static_cast<const T*>(params.a);
  args.in_type = params.in_type;
  args.partials = shape.splits > 1 ? params.workspace : nullptr;
  args.key = 0;
  args.clustered = false;
  args.stores_packs = false;
  args.rule = params.rule;
  args.output = make_reduce_output<ReduceCompute<T>>(params);
  const tile::HostNest packed = columns ? tile::packed_nest(kept, N) : kept;
  args.kept = tile::LoopNest<3>(packed);
  args.kept_nested = packed.rank > 2;
  args.kept_fast = tile::FastDivmod(static_cast<std::uint32_t>(packed.dims[packed.rank - 1]));
  for (int t = 0; t < 3; ++t) {
    args.kept_steps[t] = packed.strides[t][packed.rank - 1];
    args.kept_slow[t] = packed.rank > 1 ? packed.strides[t][packed.rank - 2] : 0;
  }
  const bool ragged = !columns && N > 1 && !(tile::is_aligned(params.a, 16) && reduce_even(params.loops, false, N));
  args.reduced = tile::make_line_nest(params.loops.reduced, columns ? 1 : N, ragged);
  args.outputs = static_cast<std::uint32_t>(packed.count());
  args.chunk = (args.reduced.count + shape.splits - 1) / shape.splits;
  args.lanes = static_cast<std::uint32_t>(shape.lanes);
  args.depth = static_cast<std::uint32_t>(shape.depth);
  return args;
}

// Whether the splits meet within the kernel, and how. The simple kernels alone can do so.
template <class T>
void join_within_kernel(const ReduceParams& params, ReduceArgs<T>* args) {
  const ReduceShape& shape = params.shape;
  if (shape.splits <= 1) return;
  if (shape.way == ReduceWay::rows && args->outputs * shape.splits <= kReducePosts) {
    args->key = tile::mailbox_key(params.c);
    args->partials = nullptr;
  }
  if (shape.way == ReduceWay::columns && params.has_clusters && shape.splits <= kReduceCluster) {
    args->clustered = true;
    args->partials = nullptr;
  }
}

template <class T, int N, ReduceKind kKind>
void launch_reduce_clusters(const ReduceArgs<T>& args, dim3 blocks, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = dim3(kReduceThreads);
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 1;
  attribute.val.clusterDim.y = blocks.y;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  (void)cudaLaunchKernelEx(&config, reduce_columns<T, N, false, kKind>, args);
}

// Short rows one behind the other, and enough of them for a block on each multiprocessor's places.
template <class T>
bool are_runs(const ReduceParams& params, const ReduceArgs<T>& args) {
  const tile::HostNest& kept = params.loops.kept;
  const std::int64_t packs = args.reduced.count;
  return kept.rank == 1 && params.loops.reduced.rank == 1 && kept.strides[0][0] == params.loops.reduced.dims[0] &&
         packs > 1 && packs <= kReduceRunMost &&
         args.outputs * packs / kReduceRunPacks >= std::int64_t{2} * params.multiprocessors;
}

// Sums of rows that are longer take eight packs to a lane at once.
template <class T, int N, ReduceKind kKind>
void launch_reduce_short(ReduceArgs<T> args, cudaStream_t stream) {
  for (args.depth = 0; 1u << args.depth < args.lanes;) ++args.depth;
  const std::uint32_t rows = kReduceThreads / args.lanes;
  const unsigned blocks = (args.outputs + rows - 1) / rows;
  if constexpr (kKind == ReduceKind::plain_sum) {
    if (args.reduced.count > kReduceLoads * args.lanes) {
      reduce_short<T, N, kKind, 2 * kReduceLoads><<<blocks, kReduceThreads, 0, stream>>>(args);
      return;
    }
  }
  reduce_short<T, N, kKind, kReduceLoads><<<blocks, kReduceThreads, 0, stream>>>(args);
}

template <class T, int N, bool kIndexed, ReduceKind kKind>
void launch_reduce_kind(const ReduceParams& params, ReduceArgs<T> args, cudaStream_t stream) {
  const ReduceShape& shape = params.shape;
  if constexpr (!kIndexed && kKind != ReduceKind::any) join_within_kernel(params, &args);
  const auto blocks_of = [&](std::uint32_t side_by_side) {
    return dim3((args.outputs + side_by_side - 1) / side_by_side, static_cast<unsigned>(shape.splits));
  };
  switch (shape.way) {
    case ReduceWay::groups:
      if constexpr (!kIndexed && (kKind == ReduceKind::plain_sum || kKind == ReduceKind::largest)) {
        if (are_runs(params, args)) {
          args.lanes = static_cast<std::uint32_t>(args.reduced.count);
          args.depth = kReduceRunPacks / args.lanes;
          const unsigned blocks = (args.outputs + args.depth - 1) / args.depth;
          reduce_runs<T, N, kKind><<<blocks, kReduceThreads, 0, stream>>>(args);
          break;
        }
      }
      if constexpr (kKind == ReduceKind::any) {
        reduce_groups<T, N, kIndexed>
            <<<blocks_of(kReduceThreads / args.lanes * (static_cast<unsigned>(kReduceLoads) >> args.depth)),
               kReduceThreads, 0, stream>>>(args);
      } else {
        launch_reduce_short<T, N, kKind>(args, stream);
      }
      break;
    case ReduceWay::rows:
      reduce_rows<T, N, kIndexed, kKind><<<blocks_of(1), kReduceRowThreads, 0, stream>>>(args);
      break;
    case ReduceWay::columns:
      if constexpr (!kIndexed && kKind != ReduceKind::any) {
        args.stores_packs = args.lanes == kReduceThreads && shape.splits == 1 && args.output.beta == 0 &&
                            args.kept_steps[1] == N && args.kept_slow[1] % N == 0 && tile::is_aligned(params.c, 16);
        if (args.clustered) return launch_reduce_clusters<T, N, kKind>(args, blocks_of(args.lanes), stream);
      }
      reduce_columns<T, N, kIndexed, kKind><<<blocks_of(args.lanes), kReduceThreads, 0, stream>>>(args);
      break;
  }
  if (args.partials != nullptr) launch_reduce_join<ReduceCompute<T>, kIndexed>(params, stream);
}

template <class T>
bool is_simple(const ReduceParams& params, const ReduceArgs<T>& args) {
  const auto last_of = [](const tile::HostNest& nest, int tensor) {
    std::int64_t offset = 0;
    for (int i = 0; i < nest.rank; ++i) offset += (nest.dims[i] - 1) * nest.strides[tensor][i];
    return offset;
  };
  return args.reduced.is_simple() && !args.kept_nested && params.out_type == params.in_type &&
         (params.shape.way != ReduceWay::groups || args.reduced.lines == 1) &&
         last_of(params.loops.kept, 0) + last_of(params.loops.reduced, 0) <= INT32_MAX &&
         last_of(params.loops.kept, 1) <= INT32_MAX;
}

// The usual rules over simple loops have kernels of their own.
template <class T, int N, bool kIndexed>
void launch_reduce_pack(const ReduceParams& params, cudaStream_t stream) {
  const ReduceArgs<T> args = make_reduce_args<T, N>(params);
  if constexpr (!kIndexed && N > 1 && std::is_same_v<tile::Compute<T>, float>) {
    const ReduceRule& rule = params.rule;
    if (is_simple(params, args)) {
      if (rule.family == ReduceFamily::sum && (rule.magnitude || rule.square)) {
        return launch_reduce_kind<T, N, kIndexed, ReduceKind::sum>(params, args, stream);
      }
      if (rule.family == ReduceFamily::sum) {
        return launch_reduce_kind<T, N, kIndexed, ReduceKind::plain_sum>(params, args, stream);
      }
      if (rule.family == ReduceFamily::extremum && !rule.nan_wins) {
        return launch_reduce_kind<T, N, kIndexed, ReduceKind::largest>(params, args, stream);
      }
    }
  }
  launch_reduce_kind<T, N, kIndexed, ReduceKind::any>(params, args, stream);
}

// Packs where the shape has them and, for columns, the pointer allows them; integers always go one by one.
template <class T, bool kIndexed>
void launch_reduce_piece(const ReduceParams& params, cudaStream_t stream) {
  if constexpr (!std::is_same_v<T, AnyInteger>) {
    if (params.shape.width > 1 && (params.shape.way != ReduceWay::columns || tile::is_aligned(params.a, 16))) {
      return launch_reduce_pack<T, tile::kPackWidth<T>, kIndexed>(params, stream);
    }
  }
  launch_reduce_pack<T, 1, kIndexed>(params, stream);
}

// More outputs than 31 bits can count go in pieces, each with its own corner of the tensors. So many are never split.
template <class T, bool kIndexed>
void launch_reduce_typed(const ReduceParams& params, cudaStream_t stream) {
  if (params.loops.kept.count() <= tile::kMaxIterations) return launch_reduce_piece<T, kIndexed>(params, stream);
  tile::for_each_piece(params.loops.kept, tile::kMaxIterations, {},
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
