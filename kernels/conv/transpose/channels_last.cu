// Instances and launches of the copies between strided and packed channels-last tensors.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/transpose/channels_last.cuh"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/least.hpp"
#include "kernels/tile/waits_by_pdl.hpp"

namespace gpudnn::kernels::channels_last {
namespace {

template <auto kKernel, class Tasks>
void launch_kernel(const Tasks& tasks, std::uint32_t blocks, std::uint32_t shared, bool overlaps, CUstream_st* stream) {
  const bool overlapping = overlaps && tile::waits_by_pdl<kKernel>();
  tile::launch_kernel(kKernel, {blocks, kThreads, shared, 1, overlapping}, stream, tasks);
}

template <bool kPack, int kMaximum>
void launch(const Copy* copies, int count, bool overlaps, CUstream_st* stream) {
  static constexpr Tasks<kMaximum> kNone;
  Tasks<kMaximum> tasks = kNone;  // with the bytes between its members: arguments are compared by them
  std::uint32_t blocks = 0;
  std::uint32_t shared = 0;
  for (const Copy* copy = copies; copy != copies + count; ++copy) {
    Task& task = tasks.of[tasks.count++];
    task = *copy->task;
    task.strided = copy->strided;
    task.packed = copy->packed;
    task.first_block = blocks;
    blocks += task.blocks;
    shared = tile::greatest(shared, task.shared_bytes);
  }
  if (blocks == 0) return;
  if (tasks.of[0].shape.element_bytes == 2) {
    launch_kernel<&copy_tasks<std::uint16_t, kPack, kMaximum>>(tasks, blocks, shared, overlaps, stream);
  } else {
    launch_kernel<&copy_tasks<std::uint32_t, kPack, kMaximum>>(tasks, blocks, shared, overlaps, stream);
  }
}

}  // namespace

void launch_pack(const Copy* copies, int count, CUstream_st* stream) {
  if (count <= 2) return launch<true, 2>(copies, count, false, stream);
  launch<true, kMaxCopies>(copies, count, false, stream);
}
void launch_unpack(const Copy& copy, bool overlaps, CUstream_st* stream) {
  launch<false, 1>(&copy, 1, overlaps, stream);
}

}  // namespace gpudnn::kernels::channels_last
