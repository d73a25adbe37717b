// From a convolution problem to the parameters of the kernels for few channels, and the model of their time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/conv/small_c/small_c_sm80.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] tile::ElementType small_c_type(const Problem& problem);
[[nodiscard]] kernels::small_c::Kernel small_c_kernel(Direction direction);

// Null, or why the shapes, the filter's dilation or the sizes do not fit the kernels.
[[nodiscard]] const char* small_c_shape_unsupported_reason(const Problem& problem);

// What the problem says.
[[nodiscard]] kernels::small_c::Params small_c_params(const Problem& problem);

// Chooses the tile of positions for a row of the tile list, and the blocks; false if shared memory does not hold the
// least one.
[[nodiscard]] bool set_small_c_tile(int row, int splits, const Device& device, kernels::small_c::Params* params);

// The blocks alone, once the tile is chosen.
void set_small_c_splits(int row, int splits, const Device& device, kernels::small_c::Params* params);
// The tile alone, and of that the sizes, which a query has to know: its divisors cannot divide.
[[nodiscard]] bool draft_small_c_tile(int row, const Device& device, kernels::small_c::Params* params);

// How x is staged and what depends on it: `vectors` where layout and pointer allow loads of 16 bytes.
void set_small_c_patch(int row, bool vectors, kernels::small_c::Params* params);
// Whether the layouts allow them, given aligned pointers.
[[nodiscard]] bool image_allows_vectors(const kernels::small_c::Params& params, tile::ElementType type,
                                        kernels::small_c::Kernel kernel);
[[nodiscard]] bool filters_allow_vectors(const kernels::small_c::Params& params,
                                         const kernels::small_c::Strides& strides, tile::ElementType type);

[[nodiscard]] std::size_t small_c_workspace_bytes(int row, const kernels::small_c::Params& params, int splits);

// Expected seconds of a row with the tile set.
[[nodiscard]] double small_c_seconds(int row, const kernels::small_c::Params& params, double bytes,
                                     double multiprocessors);
// What none of the rows stays below, by a few operations on the problem.
[[nodiscard]] double small_c_least_seconds(const Problem& problem, double multiprocessors,
                                           std::span<const kernels::small_c::TileRow> rows = kernels::small_c::kTiles);

}  // namespace gpudnn::conv
