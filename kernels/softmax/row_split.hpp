// How a row that begins anywhere is cut into aligned packs and single elements. Index arithmetic only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::kernels {

// How a row of `length` elements splits when its first element stands `skew` elements past a multiple of `width`.
struct RowSplit {
  std::int64_t head;   // elements before the first pack
  std::int64_t packs;  // whole packs
  std::int64_t tail;   // elements after the last

  GPUDNN_HOST_DEVICE RowSplit(std::int64_t length, int skew, int width) {
    head = skew == 0 ? 0 : width - skew;
    if (head > length) head = length;
    packs = (length - head) / width;
    tail = length - head - packs * width;
  }
  // The single element of a thread, or -1: the head's for the first `width` threads, the tail's for the next.
  GPUDNN_HOST_DEVICE std::int64_t single(std::int64_t thread, int width) const {
    if (thread < head) return thread;
    if (thread >= width && thread < width + tail) return head + packs * width + thread - width;
    return -1;
  }
};

}  // namespace gpudnn::kernels
