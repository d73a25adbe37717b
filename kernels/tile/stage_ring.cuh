// The stages of a pipeline in shared memory, taken in turn by those who fill and those who empty them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace gpudnn::tile {

// The stages in turn; the parity flips at each round.
template <int kStages>
struct PipelineState {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void skip(std::uint32_t count) {
    const std::uint32_t sum = static_cast<std::uint32_t>(stage) + count;
    parity ^= sum / kStages & 1u;
    stage = static_cast<int>(sum % kStages);
  }
};

// The same where their number is known at launch only.
struct RingState {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next(std::uint32_t stages) {
    const bool wraps = ++stage == stages;
    stage = wraps ? 0 : stage;
    parity ^= wraps ? 1u : 0u;
  }
};

__device__ __forceinline__ void wait(std::uint64_t* barrier, std::uint32_t parity) {
  while (!ptx::mbarrier_try_wait(barrier, parity)) {
  }
}

}  // namespace gpudnn::tile
