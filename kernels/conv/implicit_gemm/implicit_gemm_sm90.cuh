// Implicit-GEMM convolution for Hopper: warp-specialised, persistent, on wgmma and TMA.
//
// C[m, n] = sum over k of A[m, k] * B[k, n], as implicit_gemm_sm90.hpp tells for each direction.
//
// Data flow of a block, one per multiprocessor:
//   producer    warp 0, one thread of it where copies start. For each work item and k tile it waits for an empty
//   stage and starts the
//               copies that fill it: A by im2col boxes (pixels x 128 bytes of channels), B by filter boxes (forward and
//               data gradient) or im2col boxes (filter gradient). All land in rows of 128 bytes (64 where channels are
//               few), in the swizzle that wgmma reads.
//   consumers   the other 2 or 3 warpgroups. They wait for a full stage, multiply it into their registers, and release
//               the stage before. A tile done, they combine, round and stage 64 x 128 bytes at a time in shared memory;
//               TMA takes them to C, or 16-byte stores do where C's rows are not even.
//
// Operands in shared memory. K-major: a row is an m (or n), its bytes are k. MN-major: a row is a k, 128 bytes of m (or
// n); wgmma transposes. Forward has both K-major, the data gradient B MN-major, the filter gradient both MN-major: so
// no tensor is ever transposed. TF32 has no MN-major form: its filter gradient is a kernel of its own
// (implicit_gemm_sm90_wgrad_tf32.cuh).
//
// Limits: channels of a group fill whole 16-byte vectors; 32-bit pixel counts; tensors packed along channels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_cluster_split_k.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_epilogue.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_fused.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_multiply.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_producer.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_stream_k.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_swap_ab.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/setmaxnreg.cuh"

namespace gpudnn::kernels::sm90 {

template <class I>
__device__ __forceinline__ void consume(const Params& p, Shared<I>& shared, int consumer) {
  tile::PipelineState<I::kStages> turn;
  std::uint32_t sequence = 0;
  int area = 0;
  Bias<I> bias;
  ChannelTotals<I> totals;
  if constexpr (kHasFusedEpilogue<I>) {
    if (wants_totals<I>(p)) ptx::griddepcontrol_launch_dependents();
    if (kIsBiasRelu<I> || p.is_fused) bias.fetch_first(p, consumer);
  }
  const std::uint32_t last = end_index<I>(p);
  // The fused epilogue leaves no register for it.
  const auto end = [&] { return kHasFusedEpilogue<I> ? end_index<I>(p) : last; };
  for (std::uint32_t index = first_index<I>(p); index < end(); index = next_index<I>(p, index), ++sequence) {
    const Work work = work_item<I>(p, index);
    if (I::kPingPong && sequence % I::kConsumers != static_cast<std::uint32_t>(consumer)) {
      turn.skip(work.k_end - work.k_begin + addend_stages<I>(p));
      continue;
    }
    float sum[I::kRowBlocks][I::kBN / 2];
    if constexpr (kHasFusedEpilogue<I>) {
      if ((kIsBiasRelu<I> || p.is_fused) && p.has_bias) bias.take(p, shared, work, consumer);
      begin_sums<I>(p, shared, consumer, bias, sum);
      if (kIsBiasRelu<I> || p.is_fused) bias.fetch(p, index + bias.step(), consumer);
    } else {
      clear<I>(sum);
    }
    add_products<I>(shared, work, sequence, consumer, sum, &turn, addend_stages<I>(p) > 0);
    if constexpr (kHasFusedEpilogue<I> && !kIsBiasRelu<I>) {
      if (p.is_fused) {
        // Apart from what most layers have, which is a bias and ReLU.
        if (!p.is_simple) [[unlikely]]
          finish_fused<I>(p, shared, work, consumer, bias, sum, &turn);
        store_fused<I>(p, shared, work, consumer, sum, &area, &totals);
        continue;
      }
    }
    if constexpr (kIsBiasRelu<I>) {
      store_fused<I>(p, shared, work, consumer, sum, &area, &totals);
    } else if constexpr (I::kClusterSplitK) {
      meet_cluster<I>();
      if (p.splits == 2) {
        finish_pair<I>(p, shared, work, consumer, sum, &area);
      } else {
        keep_sums<I>(shared, consumer, sum);
        meet_cluster_again();
        join_sums<I>(p, shared);
      }
    } else if constexpr (I::kSwapped) {
      store_swap_ab<I>(p, shared, work, consumer, sum, &area);
    } else if (!kHasFusedEpilogue<I> && (p.splits > 1 || is_fixup_cta<I>(p))) {
      store_partials<I>(p, work, consumer, sum);
      if (is_fixup_cta<I>(p)) publish_fixup(p, work, consumer);
    } else {
      if constexpr (I::kStreamK) {
        if (p.fixup_ctas > 0) add_fixup<I>(p, work, consumer, sum);
      }
      store<I>(p, shared, work, consumer, sum, &area);
    }
  }
  if constexpr (kHasFusedEpilogue<I>) store_totals_of_block<I>(p, consumer, &totals);
  // TMA reads the staging area until then.
  if (threadIdx.x % I::kThreadsOfBox == 0) ptx::bulk_wait_group_read<0>();
}

// The start of a block is a chain of accesses to memory that nobody has touched yet (parameters, tensor maps, code), so
// its links are forged side by side: each warp makes some of the barriers, for one warp takes some 40 cycles for each.
// All meet at one barrier instruction: synccheck takes several for a
// divergence. A work item found before it and used after it would be faster still, but then the compiler no longer
// knows that it is the same in all lanes, and the loads' loop takes a quarter longer.
template <class I>
__device__ __forceinline__ void make_barriers(const Params& p, Shared<I>& shared, unsigned warp) {
  // They lie one after the other: full, empty, fetched, paired.
  constexpr unsigned kPipeline = 2 * I::kStages;
  constexpr unsigned kPaired = kPipeline + I::kConsumers;
  constexpr unsigned kAll = I::kClusterSplitK ? kPaired + I::kConsumers : I::kPingPong ? kPaired : kPipeline;
  static_assert(offsetof(Shared<I>, paired) == offsetof(Shared<I>, full) + kPaired * sizeof(std::uint64_t));
  if (threadIdx.x % 32 != 0) return;
  if (warp == 0) {
    ptx::prefetch_tensormap(&p.a[0]);
    ptx::prefetch_tensormap(&p.b);
  }
#pragma unroll 1
  for (unsigned i = warp; i < kAll; i += I::kThreads / 32) {
    unsigned arrivals = i < I::kStages ? 1 : i < kPipeline ? I::kTileWarps : 4;
    if (I::kClusterSplitK && i >= kPaired) arrivals = 1;
    ptx::mbarrier_init(&shared.full[0] + i, arrivals);
    ptx::fence_mbarrier_init();
    if constexpr (I::kClusterSplitK) {
      if (i >= kPaired) expect_pair<I>(shared, i - kPaired);
    }
  }
  if constexpr (kHasFusedEpilogue<I> && !kIsBiasRelu<I>) {
    if (p.adds_boxes && warp == 1) ptx::prefetch_tensormap(&p.addend_map);
  }
  if (warp == 1 && I::kDirection == Direction::data_gradient) {
    for (std::uint32_t i = 1; i < p.phases; ++i) ptx::prefetch_tensormap(&p.a[i]);
  }
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) implicit_gemm_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  make_barriers<I>(p, shared, threadIdx.x / 32);
  __syncwarp();
  start_together<I>();
  if (I::kStreamK && p.fixup_ctas > 0 && blockIdx.x == 0 && threadIdx.x == 128) tile::mailbox_take(p.fixup_key);
  __syncwarp();
  if (warp < 4) {
    ptx::setmaxnreg_dec<kProducerRegisters>();
    if (warp == 0) produce<I>(p, shared);
    meet_cluster<I>();
    if (I::kClusterSplitK && p.splits > 2) meet_cluster_again();  // the consumers' sums
  } else {
    if ((ptx::shared_address(raw) & 1023u) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    consume<I>(p, shared, warp / 4 - 1);
  }
  // No block leaves while another may still read its shared memory. Of a pair each has waited for what the other
  // writes.
  if constexpr (I::kClusterSplitK) {
    if (p.splits > 2) meet_cluster_again();
  }
}

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<I>));
  static_assert(kBytes <= 227 * 1024, "shared memory of a block");
  cuda::allow_shared_memory<&implicit_gemm_sm90<I>>(kBytes);
  const unsigned cluster = I::kClusterSplitK ? params.splits : 1;
  const cuda::LaunchConfig config = {blocks, I::kThreads, kBytes, cluster, params.filter_by_pdl};
  if (I::kStreamK && params.fixup_ctas > 0) {
    Params with_key = params;
    with_key.fixup_key = cuda::mailbox_key(params.c);
    cuda::launch_kernel(&implicit_gemm_sm90<I>, config, stream, with_key);
    return;
  }
  cuda::launch_kernel(&implicit_gemm_sm90<I>, config, stream, params);
  if constexpr (!I::kClusterSplitK && !I::kSwapped && !kHasFusedEpilogue<I>) {
    if (params.splits > 1) launch_reduction<I>(params, stream);
  }
}

// Null for a shape that the direction does not have.
template <class T, Direction kDirection, int kShape, Epilogue kEpilogue = Epilogue::any>
constexpr LaunchShape launch_of_instance() {
  if constexpr (!has_shape(kShapes[kShape], kDirection, sizeof(T)) ||
                !has_epilogue(kShapes[kShape], kDirection, sizeof(T), kEpilogue)) {
    return nullptr;
  } else {
    return &launch_instance<Instance<T, kDirection, kernel_of_shape(kShape), kEpilogue>>;
  }
}

template <class T, Direction kDirection>
LaunchShape launch_of(int shape) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchShape kLaunches[] = {launch_of_instance<T, kDirection, static_cast<int>(kIndex)>()...};
    return kLaunches[shape];
  }
  (std::make_index_sequence<kShapeCount>());
}

}  // namespace gpudnn::kernels::sm90
