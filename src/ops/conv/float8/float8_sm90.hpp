// The convolution of 8-bit floats on Hopper, as the graph interface runs it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine.hpp"
#include "ops/conv/float8/float8_sm90_params.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support float8_sm90_supports(const Float8Problem& problem, const Device& device);

// A plan with its tensor maps.
struct Float8Prepared {
  Float8Plan plan;
  std::uint32_t blocks = 0;
  bool encoded = false;
};
[[nodiscard]] std::shared_ptr<const Float8Prepared> float8_sm90_prepare(const Float8Problem& problem,
                                                                        const Config& config, const Device& device);
[[nodiscard]] Status float8_sm90_launch(const LaunchSite& site, const Float8Prepared& prepared, const Float8Args& args);

}  // namespace gpudnn::conv
