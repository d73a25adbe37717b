// Instances of the Hopper implicit GEMM: tf32, forward, part 1.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_forward.cuh"

namespace gpudnn::kernels::sm90 {

template LaunchShape launch_of_forward<float, 1>(int);

}  // namespace gpudnn::kernels::sm90
