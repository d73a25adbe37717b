// What engines that transform their data may be off by, beyond the sums of products as defined.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"
#include "support/cases.hpp"

namespace gpudnn::test {

// Adds to the slack of each element what docs/numerics.md allows the family; nothing for the direct ones.
void widen_for_family(const ConvCase& c, const Values& values, conv::Family family, Expected* expected);

}  // namespace gpudnn::test
