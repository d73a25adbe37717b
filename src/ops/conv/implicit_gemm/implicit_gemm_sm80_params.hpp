// From a convolution problem to the parameters of the mma.sync implicit GEMM: those of the SIMT one, with the widest
// vectors that each operand allows. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm80.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_simt_params.hpp"

namespace gpudnn::conv {

// The sizes of sm80_params(problem), and its loads, alone: a query has no time for the rest.
struct Sm80Shape {
  SimtShape gemm;
  kernels::sm80::Load a, b;
};
[[nodiscard]] Sm80Shape sm80_shape(const Problem& problem);

// Everything but the pointers, the scalars and what depends on the config; for pointers aligned to 16 bytes.
[[nodiscard]] kernels::sm80::Params sm80_params(const Problem& problem);

// Narrows the copies and stores to what the pointers' alignment allows.
void restrict_sm80_to_alignment(tile::ElementType type, kernels::sm80::Params* params);

// The row to run with the loads as they are: `row`, or one that has an instance for halves.
[[nodiscard]] int sm80_row_for_loads(int row, const kernels::sm80::Params& params);

// Adds what depends on the tile and the split; returns the number of blocks.
std::uint32_t set_sm80_config(const Config& config, tile::ElementType type, kernels::simt::Params* params);

// Null, or why the engine's index arithmetic cannot hold the problem.
[[nodiscard]] const char* sm80_index_unsupported_reason(const Problem& problem);

// What no candidate stays below, without building parameters: by operations and bytes, and by tiles and loads.
[[nodiscard]] double sm80_least_seconds(const Problem& problem, int multiprocessors);
[[nodiscard]] double sm80_closer_seconds(const Problem& problem, int multiprocessors);
// The cost model: each tile without a split and, where `splits` are wanted, with its best one, and with its best one
// in a modest workspace.
void sm80_candidates(const Problem& problem, int multiprocessors, bool splits, std::vector<Candidate>* candidates);
// The first of the fastest of them within `bound` seconds; false if there is none.
[[nodiscard]] bool sm80_fastest(const Problem& problem, int multiprocessors, double bound, Candidate* fastest);

}  // namespace gpudnn::conv
