// From a convolution of any layout to the packed channels-last problem that stands for it, and the copies between the
// two. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/transpose/channels_last.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

constexpr std::size_t kPackingAlignment = 256;

struct PackedOperand {
  bool packed = false;     // else the caller's tensor is used as it is
  std::size_t offset = 0;  // in the workspace
  kernels::channels_last::Task task;
};

struct NhwcForm {
  Problem inner;
  PackedOperand x, w, y, z, bias;
  std::size_t bytes = 0;  // of all packed tensors, each aligned
  double dram_bytes = 0;  // that the copies read and write
  int launches = 0;       // of copies
};

// Channels are padded to whole vectors of 16 bytes, or left as they are. Null, or why there is no such form.
[[nodiscard]] const char* make_nhwc_form(const Problem& problem, bool padded, NhwcForm* form);

[[nodiscard]] inline const PackedOperand& output(const NhwcForm& form) noexcept {
  return form.inner.direction == Direction::forward ? form.y
         : form.inner.direction == Direction::dgrad ? form.x
                                                    : form.w;
}

}  // namespace gpudnn::conv
