// The loads of the Hopper filter gradient by rows of patches: the thread that starts TMA's copies, and the
// warps that write image rows in patches. See smem_im2col_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/conv/small_c/smem_im2col_wgrad_sm90.hpp"
#include "kernels/conv/wgrad_splits.cuh"
#include "kernels/ptx/cvt_tf32.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_4d.cuh"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::smem_im2col_wgrad {

template <class T>
inline constexpr ElementType kTypeOf = std::is_same_v<T, float>        ? ElementType::f32
                                       : std::is_same_v<T, tile::Half> ? ElementType::f16
                                                                       : ElementType::bf16;

template <class Element, int kShape>
struct Instance {
  using T = Element;
  static constexpr int kTaps = kShapes[kShape].taps;
  static constexpr std::uint32_t kRowOctets = kShapes[kShape].row_octets;
  static constexpr ElementType kType = kTypeOf<T>;
  static constexpr std::uint32_t kStepPixels = step_pixels(kType);
  static constexpr int kBoxFilters = kBoxBytes / bytes_of(kType);
  static constexpr int kThreads = 32 * (1 + kExpanders) + 128;
};

struct Barriers {
  std::uint64_t dy_full[kMaxStages];
  std::uint64_t dy_empty[kMaxStages];
  std::uint64_t raw_full[kMaxStages];
  std::uint64_t raw_empty[kMaxStages];
  std::uint64_t slot_full[kMaxStages];
  std::uint64_t slot_empty[kMaxStages];
};
static_assert(kExpanders == 7, "the other warps of the first two warpgroups");
static_assert(sizeof(Barriers) <= kRingOffset, "the barriers' place");

__device__ __forceinline__ std::uint32_t columns_of(const Params& p, const Place& at) {
  return min(p.tile_w.divisor, p.out_w - at.strip * p.tile_w.divisor);
}

// Each row of dy, behind the groups that its window sees and the row before has not brought: all of them where a strip
// begins.
template <class I>
__device__ __forceinline__ void produce(const Params& p, Barriers& barriers, unsigned char* shared) {
  const Share share = share_of_block(p);
  const auto filter = static_cast<std::int32_t>(share.part) * kFilters;
  Place at = {};
  tile::RingState dy;
  tile::RingState raw;
  for (std::uint32_t i = 0; i < share.count(); ++i, ++at.row) {
    const bool begins = i == 0 || at.row == p.rows.divisor;
    if (begins) at = place_of(p, share.first + i);
    for (std::uint32_t g = begins ? 0 : p.groups - 1; g < p.groups; ++g) {
      tile::wait(&barriers.raw_empty[raw.stage], raw.parity ^ 1);
      if (threadIdx.x == 0) {
        const std::int32_t vector = p.first_vector + static_cast<std::int32_t>(at.strip * p.strip_vectors);
        ptx::mbarrier_arrive_expect_tx(&barriers.raw_full[raw.stage], p.raw_copy_bytes);
        ptx::tma_tile_3d(shared + p.raw_offset + raw.stage * p.raw_bytes, &p.x, &barriers.raw_full[raw.stage],
                         2 * vector, static_cast<std::int32_t>(at.row + g) * p.stride_h - p.pad_h,
                         static_cast<std::int32_t>(at.image));
      }
      raw.next(p.raws);
    }
    tile::wait(&barriers.dy_empty[dy.stage], dy.parity ^ 1);
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(&barriers.dy_full[dy.stage], p.stage_bytes);
      unsigned char* const to = shared + kRingOffset + dy.stage * p.stage_bytes;
#pragma unroll
      for (int box = 0; box < kFilters / I::kBoxFilters; ++box) {
        ptx::tma_tile_4d(to + static_cast<std::uint32_t>(box) * p.tile_w.divisor * kBoxBytes, &p.dy,
                         &barriers.dy_full[dy.stage], filter + box * I::kBoxFilters,
                         static_cast<std::int32_t>(at.strip * p.tile_w.divisor), static_cast<std::int32_t>(at.row),
                         static_cast<std::int32_t>(at.image));
      }
    }
    dy.next(p.stages);
  }
}

// --- the expanders ---------------------------------------------------------------------------------------------------

// An octet from the five words that it touches.
__device__ __forceinline__ uint4 octet_of(const std::uint32_t* words, std::uint32_t bits, bool exists) {
  const auto word = [&](int k) { return exists ? __funnelshift_r(words[k], words[k + 1], bits) : 0; };
  return make_uint4(word(0), word(1), word(2), word(3));
}

// The octets of a pixel. What they are made of is all loaded first where the number of octets is known.
template <class I>
__device__ __forceinline__ void write_patch_row(const Params& p, const std::uint32_t* from, std::uint32_t bits,
                                                bool exists, unsigned char* to, bool twice) {
  constexpr std::uint32_t kAtOnce = I::kRowOctets > 0 ? I::kRowOctets : 1;
  const std::uint32_t ring_bytes = p.slots * p.slot_bytes;
#pragma unroll 1
  for (std::uint32_t first = 0; first < p.row_octets; first += kAtOnce) {
    std::uint32_t words[4 * kAtOnce + 1];
#pragma unroll
    for (std::uint32_t k = 0; k <= 4 * kAtOnce; ++k) words[k] = from[k];
    uint4 octets[kAtOnce];
#pragma unroll
    for (std::uint32_t o = 0; o < kAtOnce; ++o) octets[o] = octet_of(words + 4 * o, bits, exists);
#pragma unroll
    for (std::uint32_t o = 0; o < kAtOnce; ++o) *reinterpret_cast<uint4*>(to + o * p.plane_bytes) = octets[o];
    if (twice) {
#pragma unroll
      for (std::uint32_t o = 0; o < kAtOnce; ++o) {
        *reinterpret_cast<uint4*>(to + ring_bytes + o * p.plane_bytes) = octets[o];
      }
    }
    if constexpr (I::kRowOctets > 0) break;
    from += 4 * kAtOnce;
    to += kAtOnce * p.plane_bytes;
  }
}

// What a thread writes of each group: an octet's pixels in TF32, a pixel's octets in 16 bits.
struct Item {
  std::uint32_t row;    // of the group; none where the group has no more
  std::uint32_t pixel;  // the first one
  std::uint32_t from;   // words from the group, rounded down
  std::uint32_t bits;   // of the first word that are not wanted
  std::uint32_t to;     // bytes from the group's place
};

// A pixel.
__device__ __forceinline__ Item pixel_item(const Params& p, std::uint32_t number) {
  Item item;
  item.row = p.tile_w.divmod(number, &item.pixel);
  const std::uint32_t element = p.first_shift + item.pixel * p.pixel_elements;
  item.from = item.row * p.raw_row_words + element / 2;
  item.bits = element % 2 * 16;
  item.to = item.row * p.row_octets * p.plane_bytes + item.pixel * kOctet * 2;
  return item;
}

// In TF32 a factor has to be written with its pixels together: 8 taps of pixels 0, 2, 4 and 6 of eight, then of 1, 3, 5
// and 7. It is the order in which the other factor's fragments come by pairs of filters.
__device__ __forceinline__ Item tap_item(const Params& p, std::uint32_t number) {
  Item item;
  std::uint32_t tap = 0;
  std::uint32_t group = 0;
  const std::uint32_t place = p.row_columns.divmod(number, &tap);
  item.row = p.tile_groups.divmod(place / 2, &group);
  item.pixel = group * 8 + place % 2;
  item.from = item.row * p.raw_row_words + p.first_shift + item.pixel * p.pixel_elements + tap;
  item.bits = 0;
  item.to = (item.row * p.row_octets + tap / kOctet) * p.plane_bytes + (group * 2 + place % 2) * kCoreBytes +
            tap % kOctet * 16;
  return item;
}

// The ring of groups, from one place in it on.
struct SlotPlace {
  unsigned char* to;
  std::uint32_t ring_bytes;
  std::uint32_t rows_before;  // of a window that sees the group behind the ring's end
};

__device__ __forceinline__ bool is_twice(const Params& p, const SlotPlace& slot, const Item& item) {
  return slot.rows_before + item.row < p.taps.height;
}

template <class I>
__device__ __forceinline__ void write_pixel(const Params& p, const unsigned char* raw, const SlotPlace& slot,
                                            std::uint32_t columns, const Item& item) {
  write_patch_row<I>(p, reinterpret_cast<const std::uint32_t*>(raw) + item.from, item.bits, item.pixel < columns,
                     slot.to + item.to, is_twice(p, slot, item));
}

__device__ __forceinline__ uint4 load_taps(const Params& p, const unsigned char* raw, std::uint32_t columns,
                                           const Item& item) {
  const float* const from = reinterpret_cast<const float*>(raw) + item.from;
  const auto word = [&](std::uint32_t j) {
    return item.pixel + 2 * j < columns ? ptx::cvt_rna_tf32(from[2 * j * p.pixel_elements]) : 0;
  };
  return make_uint4(word(0), word(1), word(2), word(3));
}
__device__ __forceinline__ void store_taps(const Params& p, const SlotPlace& slot, const Item& item,
                                           const uint4& taps) {
  *reinterpret_cast<uint4*>(slot.to + item.to) = taps;
  if (is_twice(p, slot, item)) *reinterpret_cast<uint4*>(slot.to + item.to + slot.ring_bytes) = taps;
}

// The items of a group that are a thread's. Where the first few are is known beforehand.
template <class I>
struct Items {
  static constexpr bool kIsTf32 = I::kType == ElementType::f32;
  static constexpr std::uint32_t kKnown = kIsTf32 ? 3 : 1;
  static constexpr std::uint32_t kThreads = 32 * kExpanders;
  Item known[kKnown];
  std::uint32_t count;  // of a group

  static __device__ __forceinline__ Item at(const Params& p, std::uint32_t number) {
    if constexpr (kIsTf32) {
      return tap_item(p, number);
    } else {
      return pixel_item(p, number);
    }
  }
  __device__ __forceinline__ explicit Items(const Params& p) {
#pragma unroll
    for (std::uint32_t i = 0; i < kKnown; ++i) known[i] = at(p, threadIdx.x - 32 + i * kThreads);
    count = p.group_rows * (kIsTf32 ? p.tile_groups.divisor * 2 * p.row_columns.divisor : p.tile_w.divisor);
  }
  __device__ __forceinline__ void write(const Params& p, const unsigned char* raw, const SlotPlace& slot,
                                        std::uint32_t columns) const {
    if constexpr (kIsTf32) {
      uint4 taps[kKnown];
#pragma unroll
      for (std::uint32_t i = 0; i < kKnown; ++i) {
        if (known[i].row < p.group_rows) taps[i] = load_taps(p, raw, columns, known[i]);
      }
#pragma unroll
      for (std::uint32_t i = 0; i < kKnown; ++i) {
        if (known[i].row < p.group_rows) store_taps(p, slot, known[i], taps[i]);
      }
    } else {
      if (known[0].row < p.group_rows) write_pixel<I>(p, raw, slot, columns, known[0]);
    }
#pragma unroll 1
    for (std::uint32_t number = threadIdx.x - 32 + kKnown * kThreads; number < count; number += kThreads) {
      const Item item = at(p, number);
      if constexpr (kIsTf32) {
        store_taps(p, slot, item, load_taps(p, raw, columns, item));
      } else {
        write_pixel<I>(p, raw, slot, columns, item);
      }
    }
  }
};

template <class I>
__device__ __forceinline__ void expand(const Params& p, Barriers& barriers, unsigned char* shared) {
  const Share share = share_of_block(p);
  Place at = {};
  tile::RingState raw;
  tile::RingState slot;
  const Items<I> items(p);
  std::uint32_t columns = 0;
#pragma unroll 1
  for (std::uint32_t i = 0; i < share.count(); ++i, ++at.row) {
    const bool begins = i == 0 || at.row == p.rows.divisor;
    if (begins) {
      at = place_of(p, share.first + i);
      columns = columns_of(p, at);
    }
#pragma unroll 1
    for (std::uint32_t g = begins ? 0 : p.groups - 1; g < p.groups; ++g) {
      tile::wait(&barriers.slot_empty[slot.stage], slot.parity ^ 1);
      tile::wait(&barriers.raw_full[raw.stage], raw.parity);
      const SlotPlace place = {shared + p.slot_offset + slot.stage * p.slot_bytes, p.slots * p.slot_bytes,
                               (slot.stage + 1) * p.group_rows};
      items.write(p, shared + p.raw_offset + raw.stage * p.raw_bytes, place, columns);
      ptx::fence_proxy_async();  // wgmma will read what was written
      ptx::mbarrier_arrive(&barriers.slot_full[slot.stage]);
      ptx::mbarrier_arrive(&barriers.raw_empty[raw.stage]);
      raw.next(p.raws);
      slot.next(p.slots);
    }
  }
}

}  // namespace gpudnn::kernels::smem_im2col_wgrad
