// Instances and launch of softmax over long rows in shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax/ring_sm90.cuh"
#include "kernels/tile/cached_query.hpp"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kMaxTogether = 3;

// A block's dynamic shared memory where `together` share a multiprocessor of 228 KB; 1 KB of each is the system's.
constexpr int shared_of(int together) { return (228 / together - 1) * 1024; }

struct RingPlan {
  int cluster = 0;  // none fits
  int together = 1;
  RingShape shape = {};
};

template <class T>
RingPlan plan_with(std::int64_t packs, int inputs, int cluster, int together, int threads) {
  const std::int64_t each = (packs + cluster - 1) / cluster;
  const std::int64_t bytes = each * inputs * 16;
  const std::int64_t stages = (shared_of(together) - static_cast<int>(sizeof(RingShared<T>))) / bytes;
  RingPlan plan;
  if (stages < 3) return plan;
  plan.cluster = cluster;
  plan.together = together;
  plan.shape.threads = threads;
  plan.shape.stages = static_cast<std::int32_t>(stages < kRingMostStages ? stages : kRingMostStages);
  plan.shape.block_packs = static_cast<std::int32_t>(each);
  plan.shape.stage_bytes = static_cast<std::int32_t>(bytes);
  return plan;
}

// The smallest cluster, as it has most to do between its meetings, and of its blocks as many on a multiprocessor as
// fit. One block alone is no cluster, and could not send itself its totals; more than 8 may not find a place
// everywhere. Where the terms are kept a pass is so short that a block alone on its multiprocessor would leave it idle
// between them: then two go before a small cluster.
template <class T>
RingPlan plan_ring(std::int64_t packs, int inputs, bool keeps) {
  for (int cluster = 2; cluster <= kRingMostCluster; cluster *= 2) {
    const bool alone = !keeps || cluster >= 8;
    for (int together = 3; together > (alone && !(inputs == 1 && cluster == 4) ? 0 : 1); --together) {
      const int threads = together > 1 ? 256 : inputs == 1 && cluster == 2 ? 384 : kRingMostThreads;
      const RingPlan plan = plan_with<T>(packs, inputs, cluster, together, threads);
      if (plan.cluster != 0) return plan;
    }
  }
  return {};
}

// Lets the kernel have its shared memory and asks how many of its clusters the device runs side by side. False where it
// takes none, or where the code is for an older target.
bool clusters_that_run(const void* kernel, const RingPlan& plan, int* clusters) {
  cudaFuncAttributes about = {};
  if (cudaFuncGetAttributes(&about, kernel) != cudaSuccess || about.ptxVersion < 90) return false;
  const auto set = [&](cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute(kernel, attribute, value) == cudaSuccess;
  };
  if (!set(cudaFuncAttributeMaxDynamicSharedMemorySize, shared_of(1)) ||
      !set(cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared) ||
      (plan.cluster > 8 && !set(cudaFuncAttributeNonPortableClusterSizeAllowed, 1))) {
    return false;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(plan.cluster));
  config.blockDim = dim3(static_cast<unsigned>(plan.shape.threads + 32));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_of(plan.together));
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(plan.cluster);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaOccupancyMaxActiveClusters(clusters, kernel, &config) == cudaSuccess;
}

// The same, asked once for each device and plan; 0 for none.
template <auto kKernel>
int resident(const RingPlan& plan) {
  static int known[kMaxTogether + 1][kRingMostCluster + 1][tile::kDevicesKnown] = {};
  return tile::cached_query(known[plan.together][plan.cluster], [&] {
    int clusters = 0;
    if (clusters_that_run(reinterpret_cast<const void*>(kKernel), plan, &clusters)) return clusters;
    (void)cudaGetLastError();  // it is an answer, no failure of the call
    return 0;
  });
}

template <class T, bool kBackward>
bool launch(SoftmaxArgs<T> args, const tile::LoopNest<3>& rows, cudaStream_t stream) {
  const bool keeps = !kBackward && std::is_same_v<T, float> && !args.logarithm;
  RingPlan plan = plan_ring<T>(args.length / tile::kPackWidth<T>, kBackward ? 2 : 1, keeps);
  plan.shape.keeps = keeps;
  if (keeps && plan.shape.stages > 3) plan.shape.stages = 3;
  if (plan.cluster == 0) return false;
  const int clusters = resident<softmax_ring<T, kBackward>>(plan);
  if (clusters == 0) return false;
  args.cluster = plan.cluster;
  const auto running = static_cast<std::uint32_t>(clusters);
  std::uint32_t used = tile::least(rows.count, running);
  // Pairs of blocks on all multiprocessors: as few as take no more turns, so that the last turn is as full as the
  // others. Larger clusters leave multiprocessors without a block as it is.
  if (plan.cluster == 2) {
    const std::uint32_t turns = (rows.count + used - 1) / used;
    used = (rows.count + turns - 1) / turns;
  }
  tile::launch_clusters_shared(softmax_ring<T, kBackward>, used, plan.cluster, plan.shape.threads + 32,
                               shared_of(plan.together), stream, args, rows, plan.shape);
  return true;
}

}  // namespace

template <class T>
bool launch_softmax_ring(const SoftmaxArgs<T>& args, const tile::LoopNest<3>& rows, bool backward,
                         CUstream_st* stream) {
  return backward ? launch<T, true>(args, rows, stream) : launch<T, false>(args, rows, stream);
}
template bool launch_softmax_ring(const SoftmaxArgs<float>&, const tile::LoopNest<3>&, bool, CUstream_st*);
template bool launch_softmax_ring(const SoftmaxArgs<tile::Half>&, const tile::LoopNest<3>&, bool, CUstream_st*);
template bool launch_softmax_ring(const SoftmaxArgs<tile::BFloat16>&, const tile::LoopNest<3>&, bool, CUstream_st*);

}  // namespace gpudnn::kernels
