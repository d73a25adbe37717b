// Instances of the Hopper matrix product: TF32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/gemm_sm90.cuh"

namespace gpudnn::kernels::matmul::sm90 {

template LaunchTile launch_of<float>(int, bool);

}  // namespace gpudnn::kernels::matmul::sm90
