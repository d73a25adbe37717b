// Instances and launch of the normalization over columns.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/columns.cuh"
#include "kernels/norm/launch_args.cuh"
#include "kernels/tile/dispatch.cuh"
#include "kernels/tile/shared_memory.cuh"

namespace gpudnn::kernels {
namespace {

template <class T, bool kBackward, bool kElements>
void launch(const NormParams& params, cudaStream_t stream) {
  const NormArgs<T> args = norm_args<T>(params);
  const int shared = kNormColumnsSharedBytes<tile::Compute<T>> +
                     params.cached * params.threads * static_cast<int>(sizeof(Unit<T>)) * (kBackward ? 2 : 1);
  tile::allow_shared_memory<norm_columns<T, kBackward, kElements>>(tile::kAllThatABlockMayHave);
  const std::int64_t tiles = (static_cast<std::int64_t>(params.walk.line_units()) + params.lanes - 1) / params.lanes;
  if (params.stage == NormStage::whole) {
    tile::launch_clusters_shared(norm_columns<T, kBackward, kElements>, tiles, params.parts, params.threads, shared,
                                 stream, args, params.walk);
  } else {
    tile::launch_clusters_shared(norm_columns<T, kBackward, kElements>, tiles * params.parts, 1, params.threads, shared,
                                 stream, args, params.walk);
  }
}

}  // namespace

void launch_norm_columns(const NormParams& params, CUstream_st* stream) {
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
