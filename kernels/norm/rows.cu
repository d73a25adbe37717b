// Instances and launch of the normalization over rows.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/launch_args.cuh"
#include "kernels/norm/rows.cuh"
#include "kernels/tile/dispatch.cuh"
#include "kernels/tile/shared_memory.cuh"

namespace gpudnn::kernels {
namespace {

template <class T, bool kBackward, bool kElements>
void launch(const NormParams& params, cudaStream_t stream) {
  const NormArgs<T> args = norm_args<T>(params);
  const int shared = kNormRowsSharedBytes<tile::Compute<T>> +
                     params.cached * params.threads * static_cast<int>(sizeof(Unit<T>)) * (kBackward ? 2 : 1);
  tile::allow_shared_memory<norm_rows<T, kBackward, kElements>>(tile::kAllThatABlockMayHave);
  const std::int64_t sets = params.walk.cross.count;
  if (params.stage == NormStage::whole) {
    tile::launch_clusters_shared(norm_rows<T, kBackward, kElements>, sets, params.parts, params.threads, shared, stream,
                                 args, params.walk);
  } else {
    tile::launch_clusters_shared(norm_rows<T, kBackward, kElements>, sets * params.parts, 1, params.threads, shared,
                                 stream, args, params.walk);
  }
}

}  // namespace

void launch_norm_rows(const NormParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (sizeof(T) < 8) {
      const NormWalk& walk = params.walk;
      if (walk.access > static_cast<int>(sizeof(T)) && walk.lines.rank == 1 && walk.cross.rank == 1) {
        params.backward ? launch<T, true, false>(params, stream) : launch<T, false, false>(params, stream);
        return;
      }
    }
    using Any = tile::Compute<T>;  // one instance takes every type but double
    params.backward ? launch<Any, true, true>(params, stream) : launch<Any, false, true>(params, stream);
  });
}

}  // namespace gpudnn::kernels
