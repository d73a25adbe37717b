// Activations on the host, on tensors and on single values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/activation/problem.hpp"

namespace gpudnn::host {

// f(x). With GPUDNN_NOT_PROPAGATE_NAN, ReLU and clipped ReLU make 0 of a NaN; every other function passes it on.
[[nodiscard]] double activate(gpudnnActivationMode_t mode, gpudnnNanPropagation_t nan, double coef, double x) noexcept;

void activation(const activation::Problem& problem, const activation::Args& args);

}  // namespace gpudnn::host
