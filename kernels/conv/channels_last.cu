// Instances and launches of the copies between strided and packed channels-last tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/conv/channels_last.cuh"

namespace gpudnn::kernels::channels_last {
namespace {

template <bool kPack, int kMost>
void launch(std::span<const Copy> copies, CUstream_st* stream) {
  Tasks<kMost> tasks;
  std::uint32_t blocks = 0;
  std::uint32_t shared = 0;
  for (const Copy& copy : copies) {
    Task& task = tasks.of[tasks.count++];
    task = *copy.task;
    task.strided = copy.strided;
    task.packed = copy.packed;
    task.first_block = blocks;
    blocks += task.blocks;
    shared = std::max(shared, task.shared_bytes);
  }
  if (blocks == 0) return;
  if (tasks.of[0].shape.element_bytes == 2) {
    copy_tasks<std::uint16_t, kPack, kMost><<<blocks, kThreads, shared, stream>>>(tasks);
  } else {
    copy_tasks<std::uint32_t, kPack, kMost><<<blocks, kThreads, shared, stream>>>(tasks);
  }
}

}  // namespace

void launch_pack(std::span<const Copy> copies, CUstream_st* stream) {
  if (copies.size() <= 2) return launch<true, 2>(copies, stream);
  launch<true, kMostCopies>(copies, stream);
}
void launch_unpack(const Copy& copy, CUstream_st* stream) { launch<false, 1>({&copy, 1}, stream); }

}  // namespace gpudnn::kernels::channels_last
