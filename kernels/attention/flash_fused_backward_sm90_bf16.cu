// flash_fused_backward_sm90 for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_fused_backward_sm90_launch.cuh"

namespace gpudnn::kernels {

void launch_flash_fused_backward_sm90(const FlashFusedBackwardParams& params, const FlashFusedDqParams& dq,
                                      tile::ElementType type, int dim, CUstream_st* stream) {
  if (type == tile::ElementType::f16) return flash_sm90::launch_fused_f16(params, dq, dim, stream);
  using flash_sm90::FusedConfig;
  using flash_sm90::FusedKind;
  if (params.is_turned && params.gradients_are_e5m2) {
    return flash_sm90::launch_fused_config<FusedConfig<tile::BFloat16, 128, FusedKind::wide_turned>>(params, dq,
                                                                                                     stream);
  }
  if (params.is_turned) {
    return flash_sm90::launch_fused_config<FusedConfig<tile::BFloat16, 128, FusedKind::turned>>(params, dq, stream);
  }
  if (params.is_scaled) {
    return flash_sm90::launch_fused_kind<tile::BFloat16, FusedKind::scaled>(params, dq, dim, stream);
  }
  flash_sm90::launch_fused_type<tile::BFloat16>(params, dq, dim, stream);
}

}  // namespace gpudnn::kernels
