// supports() of the engines of floating-point numbers that ask for nothing of the device but its compute capability.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"
#include "ops/conv/padding.hpp"

namespace gpudnn::conv {

// kReason gives null where the engine takes the problem.
template <auto kReason, int kCapability = 0, bool kTakesUnevenPadding = true>
[[nodiscard]] Support float_supports(const Problem& problem, const Device& device) {
  static_assert(kCapability == 0 || kCapability == 80, "the text names 8.0");
  if (const char* const against = integer_unsupported_reason(problem)) return Support::no(against);
  if (const char* const against = kTakesUnevenPadding ? nullptr : uneven_padding_unsupported_reason(problem))
    return Support::no(against);
  if (kCapability > 0 && device.compute_capability() < kCapability)
    return Support::no("it needs compute capability 8.0");
  return {kReason(problem)};
}

}  // namespace gpudnn::conv
