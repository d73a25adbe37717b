// Instances of the Hopper implicit GEMM: tf32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm_sm90.cuh"

namespace gpudnn::kernels::sm90 {

GPUDNN_SM90_INSTANCES(float, Direction::forward)
GPUDNN_SM90_INSTANCES(float, Direction::data_gradient)

}  // namespace gpudnn::kernels::sm90
