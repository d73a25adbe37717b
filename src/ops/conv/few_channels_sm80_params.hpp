// From a convolution problem to the parameters of the kernels for few channels, and the model of their time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/conv/few_channels_sm80.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] tile::ElementType few_channels_type(const Problem& problem);
[[nodiscard]] kernels::few_channels::Kernel few_channels_kernel(Direction direction);

// Null, or why the shapes, the filter's dilation or the sizes do not fit the kernels.
[[nodiscard]] const char* few_channels_shape_obstacle(const Problem& problem);

// What the problem says.
[[nodiscard]] kernels::few_channels::Params few_channels_params(const Problem& problem);

// Chooses the tile of positions for a row of the tile list, and the blocks; false if shared memory does not hold the
// least one.
[[nodiscard]] bool set_few_channels_tile(int row, int splits, const Device& device,
                                         kernels::few_channels::Params* params);

// The blocks alone, once the tile is chosen.
void set_few_channels_splits(int row, int splits, const Device& device, kernels::few_channels::Params* params);
// The tile alone, and of that the sizes, which a query has to know: its divisors cannot divide.
[[nodiscard]] bool draft_few_channels_tile(int row, const Device& device, kernels::few_channels::Params* params);

// How x is staged and what depends on it: `vectors` where layout and pointer allow loads of 16 bytes.
void set_few_channels_patch(int row, bool vectors, kernels::few_channels::Params* params);
// Whether the layouts allow them, given aligned pointers.
[[nodiscard]] bool image_allows_vectors(const kernels::few_channels::Params& params, tile::ElementType type,
                                        kernels::few_channels::Kernel kernel);
[[nodiscard]] bool filters_allow_vectors(const kernels::few_channels::Params& params,
                                         const kernels::few_channels::Strides& strides, tile::ElementType type);

[[nodiscard]] std::size_t few_channels_workspace_bytes(int row, const kernels::few_channels::Params& params,
                                                       int splits);

// Expected seconds of a row with the tile set.
[[nodiscard]] double few_channels_seconds(int row, const kernels::few_channels::Params& params, double bytes,
                                          double multiprocessors);
// What none of the rows stays below, by a few operations on the problem.
[[nodiscard]] double few_channels_least_seconds(
    const Problem& problem, double multiprocessors,
    std::span<const kernels::few_channels::TileRow> rows = kernels::few_channels::kTiles);

}  // namespace gpudnn::conv
