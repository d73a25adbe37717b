// Instances of the Hopper implicit GEMM: f16, forward, the sums as they are.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_forward.cuh"

namespace gpudnn::kernels::sm90 {

template LaunchShape launch_of_forward_epilogue<tile::Half, Epilogue::plain>(int);

}  // namespace gpudnn::kernels::sm90
