// What the launch of pointwise programs with operands in registers takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

struct CUstream_st;

namespace gpudnn::kernels {

constexpr int kRegisterInputs = 3;
constexpr int kRegisterWords = 4;         // of a pack
constexpr int kRegisterMaxElements = 16;  // of a thread

struct VectorArgs;

// `width`: elements of a pack, 8 or 4.
void launch_registers(int width, const VectorArgs& args, int multiprocessors, CUstream_st* stream);

}  // namespace gpudnn::kernels
