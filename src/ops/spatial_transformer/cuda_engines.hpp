// The CUDA engine of the spatial transformer, which supports everything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/spatial_transformer/problem.hpp"

namespace gpudnn::spatial_transformer {

[[nodiscard]] Status gather_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::spatial_transformer
