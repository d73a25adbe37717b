// Instances of the Hopper implicit GEMM: f16, forward. A module for each direction: its first call loads it.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.cuh"

namespace gpudnn::kernels::sm90 {

template LaunchShape launch_of<tile::Half, Direction::forward>(int);

}  // namespace gpudnn::kernels::sm90
