// The text of a fused operation plan: the pattern and the stages that it was made into, each in its own words.
//   fused scale_bias_activation_conv_bnstats | conv fwd f16 nhwc n8c64h28w28 k64r3s3 ... | affine fwd f16 nhwc
//       n8c64h28w28 scale=f16 bias=f16 act=relu
//   fused bn_finalize_statistics_training | finalize train c256
// What is not in the text: which outputs the caller wanted, and how pointers were promised.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/fused_ops/plan.hpp"

namespace gpudnn::fused_ops {

struct Stages {
  gpudnnFusedOps_t ops = GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS;
  std::optional<conv::Problem> conv;
  std::optional<AffineProblem> affine;
  std::optional<norm::Problem> norm;
  std::optional<FinalizeProblem> finalize;  // with all of its vectors, packed f32
};

[[nodiscard]] std::optional<AffineProblem> affine_from_text(std::string_view line, std::string* why);
[[nodiscard]] std::optional<FinalizeProblem> finalize_from_text(std::string_view line, std::string* why);

[[nodiscard]] std::string to_text(const Stages& stages);
[[nodiscard]] std::optional<Stages> from_text(std::string_view line, std::string* why);

}  // namespace gpudnn::fused_ops
