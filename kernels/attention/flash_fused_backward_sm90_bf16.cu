// flash_fused_backward_sm90 for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_fused_backward_sm90_launch.cuh"

namespace gpudnn::kernels {

void launch_flash_fused_backward_sm90(const FlashFusedBackwardParams& params, const FlashFusedDqParams& dq,
                                      tile::ElementType type, int dim, CUstream_st* stream) {
  if (type == tile::ElementType::f16) return flash_sm90::launch_fused_f16(params, dq, dim, stream);
  if (params.is_turned) {
    using Config = flash_sm90::FusedConfig<tile::BFloat16, 128, flash_sm90::FusedKind::turned>;
    return flash_sm90::launch_fused_config<Config>(params, dq, stream);
  }
  if (params.is_scaled) {
    return flash_sm90::launch_fused_kind<tile::BFloat16, flash_sm90::FusedKind::scaled>(params, dq, dim, stream);
  }
  flash_sm90::launch_fused_type<tile::BFloat16>(params, dq, dim, stream);
}

}  // namespace gpudnn::kernels
