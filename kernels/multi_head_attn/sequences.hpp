// What the kernels of the classic multi-head attention are told: sequences in the caller's memory and their rows side
// by side, and what a call keeps for later ones. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/dropout/mask.hpp"
#include "kernels/tile/element_type.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// The state of the generators in a forward call, which its backward calls read again.
struct MhaDropout {
  std::uint64_t attn_seed;
  std::uint64_t attn_calls;
  std::uint64_t post_seed;
  std::uint64_t post_calls;
};

// Sequences {time, batch, beam} of vectors, and rows {batch, beam, step} of as many elements: step s is time
// first_time + s. Row (b, beam, s) lies within its sequence where that time is below lengths[b * beams + beam].
struct MhaSequences {
  void* memory = nullptr;
  void* rows = nullptr;
  const std::int32_t* lengths = nullptr;
  std::int64_t strides[3] = {};  // of memory, in elements: time, batch, beam
  std::int64_t columns = 0;
  std::int32_t batch = 0;
  std::int32_t beam = 0;
  std::int32_t steps = 0;
  std::int32_t first_time = 0;
  std::int32_t heads = 1;          // scatter: vectors of a row, which are added up
  bool has_dropout = false;        // by the post dropout's mask
  double padding = 0;              // scatter: what elements beyond the lengths become
  const void* residual = nullptr;  // scatter: added to what is within the lengths
  std::int64_t residual_strides[3] = {};
};

constexpr int kMaxMhaSequences = 4;

struct MhaSequencesParams {
  tile::ElementType type = tile::ElementType::f32;
  int count = 0;
  MhaSequences sequences[kMaxMhaSequences];
  const MhaDropout* dropout = nullptr;
  std::uint32_t threshold = 0;
  double scale = 1;
};

// Bit i of a mask decides on element i of the rows of out.
GPUDNN_HOST_DEVICE bool mha_is_kept(const MhaDropout& dropout, std::uint32_t threshold, std::uint64_t element) {
  PhiloxBlock block[1] = {counter_of_group(element / kMaskGroup, dropout.post_calls)};
  philox(block, static_cast<std::uint32_t>(dropout.post_seed), static_cast<std::uint32_t>(dropout.post_seed >> 32));
  return is_kept(block[0], static_cast<int>(element % kMaskGroup), threshold);
}

// Memory -> rows; elements beyond the lengths become 0, whatever lies there.
void launch_mha_gather(const MhaSequencesParams& params, CUstream_st* stream);
// Rows -> memory.
void launch_mha_scatter(const MhaSequencesParams& params, CUstream_st* stream);

// Reads the generators' states into `dropout` and counts the call; a null state is left out.
void launch_mha_start_dropout(DropoutStates* attn, DropoutStates* post, MhaDropout* dropout, CUstream_st* stream);
// Numbers in host memory to the device, by way of kernel arguments, so that the caller's array may go and a captured
// graph keeps them; `repeats` copies, one behind the other.
void launch_mha_store(const std::int32_t* host, std::int64_t count, int repeats, std::int32_t* to, CUstream_st* stream);
void launch_mha_copy(const std::int32_t* from, std::int64_t count, std::int32_t* to, CUstream_st* stream);

}  // namespace gpudnn::kernels
