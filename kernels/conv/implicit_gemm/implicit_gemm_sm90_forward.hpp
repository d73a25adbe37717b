// Which file has a forward instance of the Hopper implicit GEMM.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.hpp"

namespace gpudnn::kernels::sm90 {

constexpr int kForwardParts = 3;
constexpr int part_of_shape(int shape) { return kernel_of_shape(shape) % kForwardParts; }

// Null for a shape of another part, or one that forward does not have.
template <class T, int kPart>
LaunchShape launch_of_forward(int shape);

// With that epilogue alone. Null for a shape without such an instance.
template <class T, Epilogue kEpilogue>
LaunchShape launch_of_forward_epilogue(int shape);

}  // namespace gpudnn::kernels::sm90
