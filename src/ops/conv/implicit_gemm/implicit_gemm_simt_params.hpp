// From a convolution problem to the parameters of the SIMT implicit GEMM: the mapping, and the choice of load modes.
// No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/cost_model.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_simt.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// The sizes that the cost models need.
struct SimtShape {
  tile::ElementType type;
  bool wide;
  double m, n, k;   // of one group and one phase, m and k at their largest
  double useful_k;  // average over the phases
  std::uint32_t phases;
  std::uint32_t groups;
  bool stores_vectors;  // where the pointers allow it
};
[[nodiscard]] tile::ElementType tile_type(const Problem& problem);

// Which neighbours each operand's loads take.
struct SimtLoadModes {
  kernels::simt::LoadMode a, b;
};

// The sizes of simt_params(problem), for the cost models. `modes` gets the modes for vectors of each
// of `vectors` bytes.
[[nodiscard]] SimtShape simt_shape(const Problem& problem, std::span<const int> vectors = {},
                                   SimtLoadModes* modes = nullptr);

// Everything but the pointers, the scalars and what depends on the config. `wide` asks for 64-bit indices, which are
// taken in any case where the problem needs them. The modes speak of vectors of 4 elements, or 2 doubles.
[[nodiscard]] kernels::simt::Params simt_params(const Problem& problem, bool wide = false);

// Adds what depends on the tile and the split; returns the number of blocks.
std::uint32_t set_simt_config(const Config& config, kernels::simt::Params* params);

// The pointers and scalars of a call.
void set_simt_pointers(Direction direction, const Args& args, kernels::simt::Params* params);

// Null, or why the index arithmetic cannot hold the problem; then `wide` says whether it needs 64-bit indices.
[[nodiscard]] const char* simt_index_unsupported_reason(const Problem& problem, bool* wide = nullptr);

// Of the epilogue of a thread block, whose threads store elements or vectors of four one after the other. `blocks`
// share a multiprocessor.
[[nodiscard]] double store_seconds(double elements_of_thread, bool vectors, double warps, double blocks);
// Seconds of a tile in so many splits, whose sums take `partial_bytes`, from the footprint of one without any.
[[nodiscard]] double seconds_in_splits(const Problem& problem, const SimtShape& shape, const Footprint& whole,
                                       int splits, std::size_t partial_bytes, double elements_of_thread,
                                       const DeviceRates& rates);

// The configs with their expected times.
void simt_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

// Whether loads or stores by vectors need pointers aligned to a whole vector; they become scalar otherwise.
void restrict_to_alignment(const void* a, const void* b, const void* c, const void* z, tile::ElementType type,
                           kernels::simt::Params* params);

}  // namespace gpudnn::conv
