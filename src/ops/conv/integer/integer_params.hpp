// From a convolution of integers to the parameters of its kernels. No CUDA is needed for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/integer/integer.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

// Where the tensor's elements lie, axes from the last on. A run of channels is a vector, or all of them where they are
// neighbours.
[[nodiscard]] kernels::integer::Tensor integer_tensor(const TensorGeometry& tensor);

// Everything but pointers, scalars and what depends on the kernel's chunk of channels.
[[nodiscard]] kernels::integer::Params integer_params(const Problem& problem);

// Chunks of so many channels.
void set_chunks(std::uint32_t channels, kernels::integer::Params* params);

void set_integer_epilogue(const Problem& problem, const Args& args, kernels::integer::Params* params);

// A reason against 32-bit indices, or null.
[[nodiscard]] const char* integer_index_unsupported_reason(const Problem& problem);

// Whether channels of x and w come in aligned groups of so many bytes, within a group of the convolution.
[[nodiscard]] bool channels_in_vectors(const Problem& problem, std::int64_t bytes);

}  // namespace gpudnn::conv
