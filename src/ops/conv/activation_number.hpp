// The number that a problem has for an activation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/matmul/epilogue.hpp"

namespace gpudnn::conv {

// Of ReLU that of the plain one.
[[nodiscard]] std::int32_t activation_number(kernels::matmul::Activation function) noexcept;

}  // namespace gpudnn::conv
