// Instances of the Hopper matrix product: 8 bit floats.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/gemm_sm90.cuh"

namespace gpudnn::kernels::matmul::sm90 {

template LaunchTile launch_of<tile::Float8E4M3>(int, bool);

}  // namespace gpudnn::kernels::matmul::sm90
