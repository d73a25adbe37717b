// Instances of the Hopper implicit GEMM: bf16, forward, bias and ReLU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_forward.cuh"

namespace gpudnn::kernels::sm90 {

template LaunchShape launch_of_forward_epilogue<tile::BFloat16, Epilogue::bias_relu>(int);

}  // namespace gpudnn::kernels::sm90
