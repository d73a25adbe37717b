// Cases of local response and divisive normalization: their data, their oracle, their run through the interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/api_run.hpp"

namespace gpudnn::test {

struct LrnDescriptor : Descriptor<gpudnnLRNDescriptor_t, gpudnnCreateLRNDescriptor, gpudnnDestroyLRNDescriptor> {
  LrnDescriptor() = default;
  explicit LrnDescriptor(const lrn::Problem& problem);
};

// The means are in `z`. There is no y for backward: its numbers are not read.
[[nodiscard]] Values make_values(const LrnCase& c);
// Of dx, or of dMeans where the problem asks for it.
[[nodiscard]] Expected naive(const LrnCase& c, const Values& values);
[[nodiscard]] Outcome run(const Backend& backend, const LrnCase& c, const Values& values, const RunOptions& = {});
[[nodiscard]] LrnCase random_lrn(Random& random);

}  // namespace gpudnn::test
