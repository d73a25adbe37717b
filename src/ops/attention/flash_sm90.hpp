// What the launchers of the flash engines share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_sm90.hpp"
#include "ops/attention/problem.hpp"

namespace gpudnn::attention {

constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;
constexpr double kLog2E = 1.4426950408889634;
constexpr std::int64_t kBytesOfQueries = 2 + 2 + 4;  // of an element of q, dO and dq
constexpr std::int64_t kWorthSharing = 1024;         // rows of q that meet a tile of keys: from here on blocks share it

// Of stats, max or sum_exp; null data where the problem has none.
[[nodiscard]] kernels::FlashRowValues row_values(const Tensor& tensor, void* data);

// A tensor map of boxes of 64 elements x `rows`, swizzled over 128 bytes. False where the driver refuses.
// `is_streamed`: what it reads is read once, so a miss of the L2 had better bring a box's row and nothing beside it.
[[nodiscard]] bool encode(const Tensor& tensor, const void* data, std::int64_t rows, tile::TensorMap* map,
                          bool is_streamed = false);

// What the backward engines refuse but for bias, dBias and dSink.
struct FlashTakes {
  bool ragged = false;
  bool dropout = false;
  bool alibi = false;
  std::int64_t widest = 128;  // head dimension: 128, 192 or 256
};
[[nodiscard]] Support supports_backward_sm90(const Problem& problem, const Device& device, const FlashTakes& takes);
// Parts of a group of query heads, so that their tiles of keys, `tiles` without parts, fill the `blocks` that run at
// once: with the causal mask, whose tiles differ, some for each.
[[nodiscard]] std::int64_t parts_of_group(const Problem& problem, std::int64_t tiles, std::int64_t blocks);
// In tiles of `stream` queries, how far apart the places are where tiles of `keys` keys start (QueryTiles): as many as
// a window has, where bounds on both sides make one and the L2 does not hold what is `read` until a tile of keys gets
// to where its neighbour has started. Else each starts at its own end, and none waits for another.
[[nodiscard]] std::int32_t walk_period(const kernels::FlashMask& mask, std::int64_t keys, std::int64_t stream,
                                       std::int64_t read, const Device& device);
// Adds up dk or dv of the parts: sums of `rows` rows of each head, `built_dim` columns.
struct PartialSums {
  const float* dk = nullptr;
  const float* dv = nullptr;
  std::int64_t rows = 0;
  std::int32_t parts = 1;
  std::int32_t dim_qk = 0;  // of the sums
  std::int32_t dim_v = 0;
  float scale_dk = 1;
  float scale_dv = 1;
};
void launch_sums_of_parts(const LaunchSite& site, const Problem& problem, const Args& args, const PartialSums& sums);
// lse and delta, of `pitch` rows of each head, at `workspace`.
[[nodiscard]] kernels::FlashDeltaParams delta_params(const Problem& problem, const Args& args, std::int64_t pitch,
                                                     void* workspace);

// flash_fused_backward_sm90 in two parts: where lse and delta go, what is to be zero; and all that follows. `numbers`:
// of 8-bit floats, which come as copies in bf16, or as they are and turned by `byte_maps`.
struct FusedByteMaps {
  bool gradients_are_e5m2 = false;  // dO and dS; else e4m3, as all others
  tile::TensorMap q, k, v, d_o;
  tile::TensorMap q_turned, k_turned, d_o_turned;
};
[[nodiscard]] kernels::FlashDeltaParams fused_delta_params(const LaunchSite& site, const Problem& problem,
                                                           const Args& args);
[[nodiscard]] Status fused_backward_behind_delta(const LaunchSite& site, const Problem& problem, const Args& args,
                                                 const kernels::FlashDeltaParams& delta,
                                                 const kernels::AttentionFloat8* numbers,
                                                 const FusedByteMaps* byte_maps);

[[nodiscard]] kernels::FlashMask mask_of(const Problem& problem, const Args& args);

// Heads whose tiles are visited together: with the causal mask, tiles of different lengths, as many as leave their k
// and v in the L2; else all tiles are alike and one head after the other reads k and v once.
[[nodiscard]] std::int32_t heads_of_section(const Problem& problem, const Device& device, std::int64_t heads,
                                            std::int64_t length);

// What the engines that gather rows by copies of 16 bytes refuse: elements of the head dimension must lie side by side,
// all else at multiples of 8 elements. Null: nothing.
[[nodiscard]] const char* unsupported_gather_layout(const Tensor& tensor);
[[nodiscard]] const char* unsupported_gather(const Problem& problem, const Device& device);

}  // namespace gpudnn::attention
