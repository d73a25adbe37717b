// A pointwise program whose stores fold dimensions: column sums of a gradient beside the gradient, the greatest
// magnitude of what is quantized, norms. One kernel reads, computes, stores what is stored element by element, and
// folds.
//
//   program_reduce   a block has `lanes` threads side by side over results and the others over the folded elements, 8
//   of them
//                    at once; each thread folds its own in order, then the block's rows meet in shared memory, halving.
//   program_join     one thread a result folds the splits' partial results in order.
//
// Every order is fixed by the problem and the device, so results are the same bits in each run. Sums are in the compute
// type: of n elements, at most n / (8 rows splits) + 3 + log2(rows) + splits roundings one after another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/program.cuh"
#include "kernels/pointwise/program_reduce.hpp"

namespace gpudnn::kernels {

// In the order of gpudnnReduceTensorOp_t.
enum class Fold : std::int32_t { add, mul, min, max, amax, avg, norm1, norm2 };

template <class C>
__device__ __forceinline__ C fold_start(Fold fold) {
  switch (fold) {
    case Fold::mul:
      return C(1);
    case Fold::min:
      return C(HUGE_VALF);
    case Fold::max:
      return -C(HUGE_VALF);
    default:
      return C(0);
  }
}
// An element as it is folded in.
template <class C>
__device__ __forceinline__ C fold_in(Fold fold, C value) {
  if (fold == Fold::amax || fold == Fold::norm1) return fabs(value);
  return fold == Fold::norm2 ? value * value : value;
}
template <class C>
__device__ __forceinline__ C fold_two(Fold fold, C a, C b) {
  switch (fold) {
    case Fold::mul:
      return a * b;
    case Fold::min:
      return tile::pointwise::smaller(a, b);
    case Fold::max:
    case Fold::amax:
      return tile::pointwise::larger(a, b);
    default:
      return a + b;
  }
}
template <class C>
__device__ __forceinline__ C fold_end(Fold fold, C total, C folded) {
  return fold == Fold::avg ? total / folded : fold == Fold::norm2 ? sqrt(total) : total;
}

template <class C>
struct ReduceArgs {
  std::uint32_t results = 0;
  std::uint32_t folded = 0;
  std::uint32_t run = 0;  // folded elements of a split
  std::int32_t kept = 0;  // loops over results
  std::int32_t rank = 0;  // of both
  std::int32_t lanes = 1;
  bool across = false;
  std::int32_t fold[tile::kProgramOutputs] = {};
  C* partial = nullptr;                    // [output][split][result], or null
  tile::FastDivmod dims[tile::kMaxLoops];  // of each group fastest first: results, then folded elements
  ScalarTensor in[tile::kProgramInputs];
  ScalarTensor out[tile::kProgramOutputs];
  tile::ProgramCode<C> code;
};
static_assert(sizeof(ReduceArgs<double>) <= 4090, "kernel parameters");

template <class C, int E>
struct ReduceContext : KeptValues<C, E, kProgramReduceThreads> {
  const ReduceArgs<C>& args;
  std::uint32_t result;
  std::uint32_t first;  // folded element
  std::uint32_t step;   // to the next of the E
  std::uint32_t end;
  C total[tile::kProgramOutputs];

  __device__ __forceinline__ std::int64_t offset_of_result(const ScalarTensor& tensor) const {
    std::uint32_t rest = result;
    std::int64_t offset = 0;
#pragma unroll 1
    for (int d = 0; d < args.kept; ++d) {
      std::uint32_t at;
      rest = args.dims[d].divmod(rest, &at);
      offset += at * tensor.strides[d];
    }
    return offset;
  }

  __device__ __forceinline__ void offsets(const ScalarTensor& tensor, std::int64_t (&offset)[E]) const {
    const std::int64_t base = offset_of_result(tensor);
    std::uint32_t rest[E];
#pragma unroll
    for (int i = 0; i < E; ++i) {
      rest[i] = min(first + i * step, end - 1);
      offset[i] = base;
    }
#pragma unroll 1
    for (int d = args.kept; d < args.rank; ++d) {
      const tile::FastDivmod by = args.dims[d];
      const std::int64_t stride = tensor.strides[d];
#pragma unroll
      for (int i = 0; i < E; ++i) {
        std::uint32_t at;
        rest[i] = by.divmod(rest[i], &at);
        offset[i] += at * stride;
      }
    }
  }

  __device__ __forceinline__ void fetch(int input, C (&b)[E]) const {
    const ScalarTensor& tensor = args.in[input];
    std::int64_t offset[E];
    offsets(tensor, offset);
    fetch_elements(tensor, offset, b);
  }

  __device__ __forceinline__ void store(int output, const C (&a)[E]) {
    if (args.fold[output] != kNotFolded) return fold_all(output, a);
    const ScalarTensor& tensor = args.out[output];
    const auto type = static_cast<tile::AnyType>(tensor.type);
    std::int64_t offset[E];
    offsets(tensor, offset);
#pragma unroll
    for (int i = 0; i < E; ++i) {
      if (first + i * step < end) tile::write_any(type, tensor.data + offset[i] * bytes_of_type(type), a[i]);
    }
  }

  __device__ __forceinline__ void fold_all(int output, const C (&a)[E]) {
    const auto fold = static_cast<Fold>(args.fold[output]);
    C value[E];
#pragma unroll
    for (int i = 0; i < E; ++i) value[i] = first + i * step < end ? fold_in(fold, a[i]) : fold_start<C>(fold);
#pragma unroll
    for (int width = E / 2; width > 0; width /= 2) {
#pragma unroll
      for (int i = 0; i < width; ++i) value[i] = fold_two(fold, value[i], value[i + width]);
    }
#pragma unroll
    for (int o = 0; o < tile::kProgramOutputs; ++o) {
      if (o == output) total[o] = fold_two(fold, total[o], value[0]);
    }
  }
};

template <class C, int E>
__global__ void __launch_bounds__(kProgramReduceThreads) program_reduce(const __grid_constant__ ReduceArgs<C> params) {
  __shared__ SharedCopy<ReduceArgs<C>> copy;
  copy_to_shared(params, &copy);
  const ReduceArgs<C>& args = copy.get();
  __shared__ C meeting[kProgramReduceThreads];
  const std::uint32_t rows = kProgramReduceThreads / args.lanes;
  const std::uint32_t lane = args.across ? threadIdx.x % args.lanes : threadIdx.x / rows;
  const std::uint32_t row = args.across ? threadIdx.x / args.lanes : threadIdx.x % rows;
  const std::uint32_t result = blockIdx.x * args.lanes + lane;
  const std::uint32_t begin = blockIdx.y * args.run;
  const std::uint32_t end = min(begin + args.run, args.folded);
  ReduceContext<C, E> context{{}, args, result, begin + row, rows, end, {}};
#pragma unroll
  for (int o = 0; o < tile::kProgramOutputs; ++o) {
    context.total[o] = fold_start<C>(static_cast<Fold>(args.fold[o]));
  }
  if (result < args.results) {
    for (; context.first < end; context.first += rows * E) {
      C a[E] = {};
      tile::run_program(args.code, a, context);
    }
  }
#pragma unroll
  for (int o = 0; o < tile::kProgramOutputs; ++o) {
    if (args.fold[o] == kNotFolded) continue;
    const auto fold = static_cast<Fold>(args.fold[o]);
    C* const column = meeting + lane * rows;
    column[row] = context.total[o];
    for (std::uint32_t half = rows / 2; half > 0; half /= 2) {
      __syncthreads();
      if (row < half) column[row] = fold_two(fold, column[row], column[row + half]);
    }
    if (row == 0 && result < args.results) {
      if (args.partial != nullptr) {
        args.partial[(std::int64_t{o} * gridDim.y + blockIdx.y) * args.results + result] = column[0];
      } else {
        const ScalarTensor& tensor = args.out[o];
        const auto type = static_cast<tile::AnyType>(tensor.type);
        tile::write_any(type, tensor.data + context.offset_of_result(tensor) * bytes_of_type(type),
                        fold_end(fold, column[0], static_cast<C>(args.folded)));
      }
    }
    __syncthreads();
  }
}

template <class C>
struct JoinArgs {
  std::uint32_t results = 0;
  std::int32_t splits = 1;
  std::int32_t kept = 0;
  std::int32_t fold = 0;
  C folded = 1;
  const C* partial = nullptr;  // [split][result]
  tile::FastDivmod dims[tile::kMaxLoops];
  ScalarTensor out;
};

template <class C>
__global__ void __launch_bounds__(kProgramReduceThreads) program_join(const __grid_constant__ JoinArgs<C> args) {
  const std::uint32_t result = blockIdx.x * kProgramReduceThreads + threadIdx.x;
  if (result >= args.results) return;
  const auto fold = static_cast<Fold>(args.fold);
  C total = fold_start<C>(fold);
#pragma unroll 8
  for (int split = 0; split < args.splits; ++split) {
    total = fold_two(fold, total, args.partial[std::int64_t{split} * args.results + result]);
  }
  std::uint32_t rest = result;
  std::int64_t offset = 0;
#pragma unroll 1
  for (int d = 0; d < args.kept; ++d) {
    std::uint32_t at;
    rest = args.dims[d].divmod(rest, &at);
    offset += at * args.out.strides[d];
  }
  const auto type = static_cast<tile::AnyType>(args.out.type);
  tile::write_any(type, args.out.data + offset * bytes_of_type(type), fold_end(fold, total, args.folded));
}

}  // namespace gpudnn::kernels
