// Instances and launch of the normalization over rows.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/launch_args.cuh"
#include "kernels/norm/rows.cuh"

namespace gpudnn::kernels {

void launch_norm_rows(const NormParams& params, CUstream_st* stream) {
  with_norm_instance(params, [&]<class T, bool kBackward, bool kElements>() {
    launch_stage<norm_rows<T, kBackward, kElements>, T>(params, params.walk.cross.count,
                                                        kNormRowsSharedBytes<tile::Compute<T>>, stream);
  });
}

}  // namespace gpudnn::kernels
