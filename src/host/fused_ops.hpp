// The fused operations' own stages on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/fused_ops/finalize.hpp"

namespace gpudnn::host {

void channel_affine(const fused_ops::AffineProblem& problem, const fused_ops::AffineArgs& args);
void finalize_statistics(const fused_ops::FinalizeProblem& problem, const fused_ops::FinalizeArgs& args);

}  // namespace gpudnn::host
