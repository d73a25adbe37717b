// Visiting the elements of several tensors of the same dims side by side, without a division for each element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/geometry.hpp"

namespace gpudnn::host {

// The row-major order of the dims of tensors[0], which all tensors have; a stride of 0 repeats an element. Neighbouring
// dimensions that are contiguous in every tensor are one.
template <std::size_t kTensors>
class Walk {
 public:
  explicit Walk(const TensorGeometry (&tensors)[kTensors]) {
    TensorGeometry merged[kTensors];
    for (std::size_t t = 0; t < kTensors; ++t) {
      merged[t] = tensors[t];
      merged[t].rank = tensors[0].rank;
    }
    rank_ = merge_dimensions(merged, static_cast<int>(kTensors));
    count_ = element_count(merged[0]);
    for (int i = 0; i < rank_; ++i) {
      dims_[i] = merged[0].dims[i];
      for (std::size_t t = 0; t < kTensors; ++t) strides_[i][t] = merged[t].strides[i];
    }
    plain_ = true;
    for (const std::int64_t stride : strides_[rank_ - 1]) plain_ = plain_ && stride == 1;
  }

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }

  // Calls body(offset in tensors[0], offset in tensors[1], ...) for elements [begin, end) in their order.
  template <class Body>
  void for_each(std::int64_t begin, std::int64_t end, const Body& body) const {
    visit(begin, end, body, std::make_index_sequence<kTensors>{});
  }

 private:
  using Offsets = std::array<std::int64_t, kTensors>;

  template <class Body, std::size_t... kTensor>
  void visit(std::int64_t begin, std::int64_t end, const Body& body, std::index_sequence<kTensor...>) const {
    if (begin >= end) return;
    const int last = rank_ - 1;
    std::int64_t at[kMaxRank];
    std::int64_t rest = begin;
    Offsets offsets{};
    for (int i = last; i >= 0; --i) {
      at[i] = rest % dims_[i];
      rest /= dims_[i];
      ((offsets[kTensor] += at[i] * strides_[i][kTensor]), ...);
    }
    while (true) {
      const std::int64_t run = std::min(dims_[last] - at[last], end - begin);
      const Offsets first = offsets;
      const Offsets steps = strides_[last];
      if (plain_) {
        for (std::int64_t i = 0; i < run; ++i) body((first[kTensor] + i)...);
      } else {
        for (std::int64_t i = 0; i < run; ++i) body((first[kTensor] + i * steps[kTensor])...);
      }
      begin += run;
      if (begin >= end) return;
      // The run ended its row: back to the row's start, and on to the next.
      ((offsets[kTensor] -= at[last] * strides_[last][kTensor]), ...);
      at[last] = 0;
      for (int i = last - 1; i >= 0; --i) {
        ((offsets[kTensor] += strides_[i][kTensor]), ...);
        if (++at[i] < dims_[i]) break;
        ((offsets[kTensor] -= dims_[i] * strides_[i][kTensor]), ...);
        at[i] = 0;
      }
    }
  }

  int rank_ = 0;
  std::int64_t count_ = 0;
  std::int64_t dims_[kMaxRank] = {};
  Offsets strides_[kMaxRank] = {};
  bool plain_ = false;  // every tensor's elements lie side by side along the last dimension
};

}  // namespace gpudnn::host
