// From a convolution problem to the parameters of the SIMT implicit GEMM: the mapping, and the choice of load modes.
// No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm_simt.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// The sizes that the cost model and the workspace query need.
struct SimtShape {
  kernels::tile::ElementType type;
  bool wide;
  double m, n, k;  // of one group and one class, m and k at their largest
  double useful_k;  // average over the classes
  std::uint32_t classes;
  std::uint32_t groups;
};
[[nodiscard]] SimtShape simt_shape(const kernels::simt::Params& params, kernels::tile::ElementType type);

// Everything but the pointers, the scalars and what depends on the config.
[[nodiscard]] kernels::simt::Params simt_params(const Problem& problem);

// Adds what depends on the tile and the split; returns the number of blocks.
std::uint32_t set_simt_config(const Config& config, kernels::simt::Params* params);

// Null, or why the index arithmetic cannot hold the problem.
[[nodiscard]] const char* simt_index_obstacle(const Problem& problem);

// Whether loads or stores by vectors need pointers aligned to a whole vector; they become scalar otherwise.
void restrict_to_alignment(const void* a, const void* b, const void* c, const void* z, kernels::tile::ElementType type,
                           kernels::simt::Params* params);

}  // namespace gpudnn::conv
