// Instances and launches of the copies between strided and packed channels-last tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/conv/channels_last.cuh"

namespace gpudnn::kernels::channels_last {
namespace {

template <bool kPack>
void launch(Tasks tasks, CUstream_st* stream) {
  std::uint32_t blocks = 0;
  std::uint32_t shared = 0;
  for (int i = 0; i < tasks.count; ++i) {
    tasks.of[i].first_block = blocks;
    blocks += tasks.of[i].blocks;
    shared = std::max(shared, tasks.of[i].shared_bytes);
  }
  if (blocks == 0) return;
  if (tasks.of[0].shape.element_bytes == 2) {
    copy_tasks<std::uint16_t, kPack><<<blocks, kThreads, shared, stream>>>(tasks);
  } else {
    copy_tasks<std::uint32_t, kPack><<<blocks, kThreads, shared, stream>>>(tasks);
  }
}

}  // namespace

void launch_pack(const Tasks& tasks, CUstream_st* stream) { launch<true>(tasks, stream); }
void launch_unpack(const Tasks& tasks, CUstream_st* stream) { launch<false>(tasks, stream); }

}  // namespace gpudnn::kernels::channels_last
