// 32 KiB of device memory that the blocks of one grid share, for grids that the caller gives no workspace: the
// last block to arrive joins what all have left there, in a fixed order.
//
// The slots are static. A grid takes a free one under its key, an address that no two grids at work can share because
// they would write to it both: block 0 as it starts, while the others look for the key when they have something to
// leave. The last one gives the slot back as it was found, so the next grid needs no preparation.
//
// It cannot hang: a device runs at most 128 grids at a time and a slot is held by a grid at work only, so block 0 finds
// a free one of 136 without waiting for anybody; and the others wait for block 0, which is dispatched before them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::tile {

constexpr unsigned kGridSlots = 136;
constexpr int kGridSlotBytes = 32768;

struct GridSlot {
  unsigned long long key;  // 0: free
  unsigned arrived;
};

static __device__ GridSlot grid_slots[kGridSlots];
static __device__ uint4 grid_slot_memory[kGridSlots][kGridSlotBytes / sizeof(uint4)];

__device__ __forceinline__ unsigned long long grid_slot_key(const void* output) {
  return reinterpret_cast<unsigned long long>(output);
}
__device__ __forceinline__ unsigned grid_slot_start(unsigned long long key) {
  return static_cast<unsigned>(key * 0x9e3779b97f4a7c15ull >> 32) % kGridSlots;
}

// By one thread of block 0, at its start.
__device__ __forceinline__ void grid_slot_take(const void* output) {
  const unsigned long long key = grid_slot_key(output);
  unsigned slot = grid_slot_start(key);
  while (atomicCAS(&grid_slots[slot].key, 0ull, key) != 0ull) slot = slot + 1 < kGridSlots ? slot + 1 : 0;
}

// By one thread of any block, once it has something to leave.
__device__ __forceinline__ unsigned grid_slot_find(const void* output) {
  const unsigned long long key = grid_slot_key(output);
  unsigned slot = grid_slot_start(key);
  while (*static_cast<volatile unsigned long long*>(&grid_slots[slot].key) != key) {
    slot = slot + 1 < kGridSlots ? slot + 1 : 0;
  }
  return slot;
}

// Whether this is the last of `parts` to arrive. By one thread, after all of its block have written and met; if so, the
// block meets again and may then read what the others left.
__device__ __forceinline__ bool grid_slot_arrive(unsigned slot, unsigned parts) {
  __threadfence();
  const bool last = atomicAdd(&grid_slots[slot].arrived, 1u) == parts - 1;
  __threadfence();
  return last;
}

// By one thread of the last block, after all of its threads have read and met.
__device__ __forceinline__ void grid_slot_leave(unsigned slot) {
  grid_slots[slot].arrived = 0;
  __threadfence();
  atomicExch(&grid_slots[slot].key, 0ull);
}

}  // namespace gpudnn::tile
