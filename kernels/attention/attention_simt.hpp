// The launch functions of the general attention engine. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

void launch_attention_forward_simt(const AttentionParams& params, CUstream_st* stream);
// Every gradient that has memory; `params.delta` is workspace.
void launch_attention_backward_simt(const AttentionParams& params, CUstream_st* stream);
// delta = sum over the columns of dO o, for rows within the sequences' lengths.
void launch_attention_delta_simt(const AttentionParams& params, CUstream_st* stream);
// dSink, from delta.
void launch_attention_dsink_simt(const AttentionParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
