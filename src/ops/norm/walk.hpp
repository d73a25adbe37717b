// From the tensors of a normalization to the way that the kernels go through them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/walk.hpp"
#include "ops/norm/problem.hpp"

namespace gpudnn::norm {

// What of the walk does not depend on pointers. `access` is the widest for pointers that are aligned to it.
[[nodiscard]] kernels::NormWalk make_walk(const Problem& problem);

// Whether 32-bit indices count the units of a line and the lines across; 2^34 elements of a set fit.
[[nodiscard]] bool walk_fits(const Problem& problem) noexcept;

// Bytes of the mask of a problem with this x: one for each unit.
[[nodiscard]] std::size_t mask_bytes(const Problem& problem);

}  // namespace gpudnn::norm
