// The launch functions of the general attention engine for 8-bit floats. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"
#include "kernels/attention/attention_float8.hpp"
#include "kernels/tile/any_type.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// Each tensor has its own type: e4m3, e5m2, f16, bf16 or f32. What p and dS are rounded to: e4m3, e5m2, or f32, which
// leaves them.
struct AttentionFloat8Params : AttentionParams {
  AttentionFloat8 numbers;
  tile::AnyType q_type, k_type, v_type, o_type, d_o_type, dq_type, dk_type, dv_type;
  tile::AnyType p_type, ds_type;
};

// Sets the greatest magnitudes that are asked for to 0.
void launch_attention_clear_amax(const AttentionFloat8& numbers, CUstream_st* stream);
void launch_attention_forward_float8_simt(const AttentionFloat8Params& params, CUstream_st* stream);
// Every gradient that has memory, and dSink; `params.delta` is workspace.
void launch_attention_backward_float8_simt(const AttentionFloat8Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
