// From a convolution of 8-bit floats to the parameters of the Hopper kernel, and what its configs cost. No CUDA is
// needed for it, so that tests can check it anywhere.
//
// Only graphs reach it: no entry point of the classic interface takes 8-bit floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/float8/float8_sm90.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"

namespace gpudnn::conv {

// The tensors of `conv` have types of their own: the two that are read 8-bit floats, the written one any of those,
// f16, bf16 or f32. Of the epilogue it says whether there is a bias, and the activation.
struct Float8Problem {
  Problem conv;
  DataType bias_type = GPUDNN_DATA_FLOAT;
  bool promotes = true;  // sums leave the tensor core's accumulator every 128 terms
};

// The pointers and numbers of a call.
struct Float8Args {
  Args conv;  // alpha, tensors, bias and activation
  const float* factors[kernels::float8::kMaxFactors] = {};
  const float* c_factors[kernels::float8::kMaxFactors] = {};
  double c_alpha = 1;
  float* amax = nullptr;
};

// What lies in the workspace: a copy of the filter, or the operands as halves and a place for the result in halves,
// which nobody reads; then partial sums.
struct Float8Plan {
  Sm90Plan gemm;                   // its workspace counts for nothing
  kernels::float8::Params params;  // but for `gemm`, pointers and scalars
  int tile = 0;
  bool is_wgrad = false;
  bool transposes = false;
  kernels::float8::TransposeParams transposition;  // but for the pointers
  std::int64_t filter_step[4] = {};                // of a filter gradient, in elements: s, r, t, k
  std::int64_t filter_base = 0;
  std::size_t elements[2] = {};  // of x and dy that become halves
  std::size_t places[2] = {};    // of their copies; the first one of the filter's too
  std::size_t result_at = 0;
  std::size_t partials_at = 0;
  std::size_t workspace = 0;
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* float8_sm90_unsupported_reason(const Float8Problem& problem);
[[nodiscard]] Float8Plan float8_sm90_plan(const Float8Problem& problem, const Config& config);
void float8_sm90_candidates(const Float8Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
