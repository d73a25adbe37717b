// flash_float8_sm90's forward kernel for e4m3.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_float8_sm90_forward_launch.cuh"

namespace gpudnn::kernels {

void launch_flash_float8_forward_sm90(const FlashFloat8Params& params, tile::AnyType type, int shape,
                                      int multiprocessors, CUstream_st* stream) {
  if (type == tile::AnyType::e5m2) return flash_sm90::launch_float8_e5m2(params, shape, multiprocessors, stream);
  flash_sm90::launch_float8_type<tile::Float8E4M3>(params, shape, multiprocessors, stream);
}

}  // namespace gpudnn::kernels
