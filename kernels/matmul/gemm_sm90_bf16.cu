// Instances of the Hopper matrix product: bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/gemm_sm90.cuh"

namespace gpudnn::kernels::matmul::sm90 {

template LaunchTile launch_of<tile::BFloat16>(int, bool);

}  // namespace gpudnn::kernels::matmul::sm90
