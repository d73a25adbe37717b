// Instances of the Hopper implicit GEMM: bf16, the filter gradient.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.cuh"

namespace gpudnn::kernels::sm90 {

template LaunchShape launch_of<tile::BFloat16, Direction::filter_gradient>(int);

}  // namespace gpudnn::kernels::sm90
