// The launch functions of the general attention engine. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// `row_windows`, if not null, holds the columns [first, end) that each row of every batch and head sees besides, as
// pairs in device memory.
void launch_attention_forward_simt(const AttentionParams& params, CUstream_st* stream,
                                   const std::int32_t* row_windows = nullptr);
// Writes the dropout mask alone, which forward does itself where it has memory.
void launch_attention_dropout_mask_simt(const AttentionParams& params, CUstream_st* stream);
// Every gradient that has memory; `params.delta` is workspace.
void launch_attention_backward_simt(const AttentionParams& params, CUstream_st* stream,
                                    const std::int32_t* row_windows = nullptr);
// dSink, from delta, of which a head has `pitch` rows.
void launch_attention_dsink_simt(const AttentionParams& params, std::int64_t pitch, CUstream_st* stream);

}  // namespace gpudnn::kernels
