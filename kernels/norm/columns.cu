// Instances and launch of the normalization over columns.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/columns.cuh"
#include "kernels/norm/launch_args.cuh"

namespace gpudnn::kernels {

void launch_norm_columns(const NormParams& params, CUstream_st* stream) {
  const std::int64_t tiles = (static_cast<std::int64_t>(params.walk.line_units()) + params.lanes - 1) / params.lanes;
  with_norm_instance(params, [&]<class T, bool kBackward, bool kElements>() {
    launch_stage<norm_columns<T, kBackward, kElements>, T>(params, tiles, kNormColumnsSharedBytes<tile::Compute<T>>,
                                                           stream);
  });
}

}  // namespace gpudnn::kernels
