// What flash_fused_backward_sm90's kernels are told, and their launch functions. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_sections.hpp"
#include "kernels/attention/flash_sm90.hpp"

namespace gpudnn::kernels {

constexpr std::int32_t kFlashFusedRows = 128;  // of a tile of keys
// Rows of a tile of queries; lse and delta are padded to a multiple of it.
constexpr std::int32_t flash_fused_stream(int dim_qk) { return dim_qk == 64 ? 112 : dim_qk == 192 ? 32 : 64; }
// What the kernels are built for: head dimensions of q and k, and of v beside them.
constexpr std::int32_t flash_fused_dim_v(int dim_qk) { return dim_qk == 192 ? 128 : dim_qk; }

// Maps of ragged tensors that end where their last row does, which the device alone knows. Made in the workspace.
struct FlashBoundedMaps {
  tile::TensorMap q, k, v, d_o;
};
struct FlashBoundMapsParams {
  FlashBoundedMaps maps;  // without an end
  AttentionTensor q, k, v, d_o;
  FlashMask mask;
  std::int32_t batch = 0;
  FlashBoundedMaps* out = nullptr;
};
void launch_flash_bound_maps_sm90(const FlashBoundMapsParams& params, CUstream_st* stream);

struct FlashFusedBackwardParams {
  tile::TensorMap q, k, v, d_o;
  tile::TensorMap dk, dv;
  // The same tensors' sequences, where they start at ragged offsets: a map has all rows in one batch, and those of what
  // is read end with the last sequence's rows.
  bool is_ragged = false;
  const FlashBoundedMaps* bounded = nullptr;
  AttentionTensor q_rows, k_rows, v_rows, d_o_rows, dk_rows, dv_rows;
  std::int32_t dim_qk = 0;
  std::int32_t dim_v = 0;
  // Boxes of 64 keys x a tile's queries.
  bool has_bias = false;
  bool bias_has_heads = false;  // else one for all
  bool bias_has_batches = false;
  // Or a number for each key, and either ALiBi, whose rest lse has, or dropout.
  bool has_options_of_keys = false;
  AttentionBias key_bias;               // of heads of k
  const float* alibi_slopes = nullptr;  // of heads of q, as many as of k
  bool drops = false;                   // with a threshold that is not 0
  AttentionDropout dropout;
  float keep_scale = 1;       // of what dropout keeps
  bool writes_dbias = false;  // of all batches, heads, queries and keys; tiles that nothing sees are left as they are
  tile::TensorMap bias, dbias;
  // Of 8-bit floats in copies of 16 bits, which take bf16 and no bias: factors of the scores and of dP, and the
  // greatest magnitude of dS with them.
  bool is_scaled = false;
  // With dim 128, all products of e4m3, or e5m2 in dO and dS: v is a map of bytes, q, k and d_o are maps of turned
  // copies beside those of bytes. P and dS are rounded after these numbers.
  bool is_turned = false;
  bool gradients_are_e5m2 = false;
  tile::TensorMap q_bytes, k_bytes, d_o_bytes;
  const float* scale_p = nullptr;
  const float* scale_ds = nullptr;
  const float* score_factors[2] = {};
  const float* dp_factors[2] = {};
  float* amax_ds = nullptr;
  FlashMask mask;
  const float* lse = nullptr;  // as FlashDeltaParams has them
  const float* delta = nullptr;
  std::int64_t pitch = 0;
  float* dq = nullptr;  // {batch, query heads, query tiles} of tiles, each in the order of fragments; null: no dq
  // Where one tile of keys makes all of dq (head dimension 64, no options): boxes of a tile's queries.
  bool dq_is_whole = false;
  tile::TensorMap dq_rows;
  std::uint32_t* added = nullptr;    // {batch, query heads, query tiles}: the key tile that added last, plus 1; from 0
  std::uint32_t* tickets = nullptr;  // key tiles that blocks have taken; from 0
  std::int32_t heads = 0;            // of k and v
  std::int32_t group = 1;            // query heads for each of them
  std::int32_t parts = 1;            // that the heads of a group are shared by
  std::int32_t members = 1;          // of a group in a part; the last one may have fewer
  std::int32_t query_parts = 1;      // that the tiles of queries of so many heads are shared by; they divide `parts`
  // Sums of the parts: {parts, batch, heads of k, rows of a tile's multiple, head dimension}.
  float* partial_dk = nullptr;
  float* partial_dv = nullptr;
  std::int64_t partial_rows = 0;
  std::int32_t batch = 0;
  std::int32_t key_tiles = 0;
  std::int32_t query_tiles = 0;
  // Rows of the first tile of queries before the first query, of head dimension 64 alone; and how far apart the places
  // are where key tiles start (QueryTiles).
  std::int32_t lead = 0;
  std::int32_t period = 1;
  std::int32_t run_tiles = 0;    // of keys; of runs of so many every other one goes down, the last one up; 0: all go up
  bool alternates = false;       // every other round of blocks visits its tiles of queries upwards
  FlashSections sections;        // of parts, whose ascending tiles of keys go together
  tile::FastDivmod by_parts;     // of a head
  std::int32_t batch_heads = 0;  // of k and v, each part apart
  std::int32_t blocks = 0;       // no more than run at once
  bool writes_dk = false;
  bool writes_dv = false;
  float scale_log2 = 0;
  float scale = 0;
  float result_scale = 0;  // of dq and dk: the scale, unless dS has it
};

// dq in 16 bits from its tiles.
struct FlashFusedDqParams {
  const float* tiles = nullptr;
  const std::uint32_t* added = nullptr;
  AttentionTensor dq;
  FlashMask mask;
  std::int32_t heads = 0;
  std::int32_t dim = 0;
  std::int32_t query_tiles = 0;
  std::int32_t lead = 0;
  std::int32_t batch_heads = 0;
  float scale = 0;
};

// As launch_flash_delta_sm90, with `lead` rows before each head's first one, which are as those beyond the sequence.
void launch_flash_fused_delta_sm90(const FlashDeltaParams& params, std::int32_t lead, tile::ElementType type,
                                   CUstream_st* stream);
// dim_qk is 64 or 128, or 96 or 192 without bias, ALiBi, dropout and 8-bit floats.
void launch_flash_fused_backward_sm90(const FlashFusedBackwardParams& params, const FlashFusedDqParams& dq,
                                      tile::ElementType type, int dim_qk, CUstream_st* stream);

}  // namespace gpudnn::kernels
