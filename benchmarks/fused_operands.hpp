// Which tensors a fused operation plan reads and writes: one table for the task that makes them and the run that passes
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "data.hpp"
#include "ops/fused_ops/text.hpp"

namespace gpudnn::bench {

constexpr std::int64_t kFusedCount = 16;  // elements behind each sum that statistics are finalized from

struct FusedOperand {
  gpudnnFusedOpsConstParamLabel_t desc;
  gpudnnFusedOpsConstParamLabel_t placeholder;
  gpudnnFusedOpsVariantParamLabel_t label;
  TensorGeometry geometry;
  bool is_output = false;
  bool is_read = false;  // an output that is read too
  bool is_filter = false;
  Fill fill = Fill::normal;
};

// In order; the first that is an output is the task's.
[[nodiscard]] std::vector<FusedOperand> fused_operands(const fused_ops::Stages& stages);
[[nodiscard]] gpudnnActivationMode_t fused_activation(const fused_ops::Stages& stages);

}  // namespace gpudnn::bench
