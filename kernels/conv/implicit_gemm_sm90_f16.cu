// Instances of the Hopper implicit GEMM: f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm_sm90.cuh"

namespace gpudnn::kernels::sm90 {

GPUDNN_SM90_INSTANCES(tile::Half, Direction::forward)
GPUDNN_SM90_INSTANCES(tile::Half, Direction::data_gradient)
GPUDNN_SM90_INSTANCES(tile::Half, Direction::filter_gradient)

}  // namespace gpudnn::kernels::sm90
