// Device memory that the blocks of one grid share, for grids that the caller gives no workspace, and the meeting of
// their results there: each block posts what it has, and the grid's last block collects it in a fixed order.
//
// A word that is posted is its own message: free words are zero, posted ones are not (a value is stored with its bits
// turned round; the one NaN that would be zero is stored as another). So no counter and no fence stands between the
// blocks and the one that collects, which waits for a word by reading it again. It puts the zeros back.
//
// The slots are static. A grid takes a free one under its key, an address that no two grids at work can share because
// they would write to it both: block 0 as it starts, while the others look for the key when they have something to
// leave. The last block gives the slot back as it was found, so the next grid needs no preparation.
//
// It cannot hang: a device runs at most 128 grids at a time and a slot is held by a grid at work only, so block 0 finds
// a free one of 136 without waiting for anybody; the others wait for block 0, which is dispatched before them; and the
// last block waits for others, all of which are dispatched before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/tile/mailbox_key.hpp"

namespace gpudnn::tile {

constexpr unsigned kMailboxes = 136;

static __device__ MailboxKey mailbox_keys[kMailboxes];  // 0: free

// Memory of a slot.
template <int kBytes>
struct Mailboxes {
  uint4 words[kMailboxes][kBytes / sizeof(uint4)];
};

__device__ __forceinline__ unsigned mailbox_start(MailboxKey key) {
  return static_cast<unsigned>(key * 0x9e3779b97f4a7c15ull >> 32) % kMailboxes;
}
__device__ __forceinline__ unsigned mailbox_next(unsigned slot) { return slot + 1 < kMailboxes ? slot + 1 : 0; }
__device__ __forceinline__ MailboxKey mailbox_read(unsigned slot) {
  return *static_cast<volatile MailboxKey*>(&mailbox_keys[slot]);
}

// By one thread of block 0, at its start.
__device__ __forceinline__ void mailbox_take(MailboxKey key) {
  unsigned slot = mailbox_start(key);
  while (atomicCAS(&mailbox_keys[slot], 0ull, key) != 0ull) slot = mailbox_next(slot);
}

// What the key's first place holds, for mailbox_find: read while there is something else to do.
__device__ __forceinline__ MailboxKey mailbox_glance(MailboxKey key) { return mailbox_read(mailbox_start(key)); }

// By any thread that has something to leave or to collect. The first place is looked at again and again beside the
// others, for block 0 may only be about to take it.
__device__ __forceinline__ unsigned mailbox_find(MailboxKey key, MailboxKey seen) {
  const unsigned start = mailbox_start(key);
  unsigned other = start;
  while (seen != key) {
    other = mailbox_next(other);
    const MailboxKey elsewhere = mailbox_read(other);
    seen = mailbox_read(start);
    if (elsewhere == key) return other;
  }
  return start;
}

// By one thread of the last block, after all of its threads have collected and met.
__device__ __forceinline__ void mailbox_leave(unsigned slot) {
  __threadfence();
  *static_cast<volatile MailboxKey*>(&mailbox_keys[slot]) = 0;
}

// The last block of the grid, which collects.
__device__ __forceinline__ bool grid_block_is_last() {
  return blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1;
}

__device__ __forceinline__ void grid_post(void* memory, std::uint32_t index, float value) {
  const unsigned turned = ~__float_as_uint(value);
  static_cast<volatile unsigned*>(memory)[index] = turned != 0 ? turned : 0x80000000u;
}
__device__ __forceinline__ void grid_post(void* memory, std::uint32_t index, double value) {
  const auto turned = ~static_cast<unsigned long long>(__double_as_longlong(value));
  static_cast<volatile unsigned long long*>(memory)[index] = turned != 0 ? turned : 0x8000000000000000ull;
}

template <class C>
struct GridWord {
  using type = unsigned;
  static __device__ __forceinline__ C value(type turned) { return __uint_as_float(~turned); }
};
template <>
struct GridWord<double> {
  using type = unsigned long long;
  static __device__ __forceinline__ double value(type turned) {
    return __longlong_as_double(static_cast<long long>(~turned));
  }
};

// Waits for the words at first, first + step, ... below `end`, at most U of them, frees them, and leaves zeros in the
// values of the others. All are under way at once.
template <int U, class C>
__device__ __forceinline__ void grid_collect(void* memory, std::uint32_t first, std::uint32_t step, std::uint32_t end,
                                             C (&values)[U]) {
  using Word = typename GridWord<C>::type;
  auto* const words = static_cast<volatile Word*>(memory);
  Word turned[U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (first + u * step < end) turned[u] = words[first + u * step];
  }
#pragma unroll
  for (int u = 0; u < U; ++u) {
    values[u] = C(0);
    if (first + u * step >= end) continue;
    while (turned[u] == 0) turned[u] = words[first + u * step];
    words[first + u * step] = 0;
    values[u] = GridWord<C>::value(turned[u]);
  }
}

}  // namespace gpudnn::tile
