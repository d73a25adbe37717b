// From a convolution of any layout to the packed channels-last problem that stands for it, and the copies between the
// two. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/transpose/channels_last.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

constexpr std::size_t kPackingAlignment = 256;

struct PlacedOperand {
  bool packed = false;     // else the caller's tensor is used as it is
  std::size_t offset = 0;  // in the workspace
};
struct PackedOperand : PlacedOperand {
  kernels::channels_last::Task task;
};

template <class Operand>
struct NhwcFormOf {
  Problem inner;
  Operand x, w, y, z, bias;
  std::size_t bytes = 0;  // of all packed tensors, each aligned
  double seconds = 0;     // that the copies take, by the model
};
using NhwcForm = NhwcFormOf<PackedOperand>;
using NhwcOutline = NhwcFormOf<PlacedOperand>;

// Channels are padded to whole vectors of 16 bytes, or left as they are. Null, or why there is no such form.
[[nodiscard]] const char* make_nhwc_form(const Problem& problem, bool padded, NhwcForm* form);
// The same but for the operands' tasks, which a query has no time for.
[[nodiscard]] const char* outline_nhwc_form(const Problem& problem, bool padded, NhwcOutline* form);

// What no form stays below.
struct LeastForm {
  double seconds = 0;  // of the copies of the tensors that are not packed channels-last, and of their launch
  double bytes = 0;    // of the inner problem's tensors
  double wider = 1;    // the inner problem's products over the problem's
};
[[nodiscard]] LeastForm least_form(const Problem& problem);

template <class Operand>
[[nodiscard]] const Operand& output(const NhwcFormOf<Operand>& form) noexcept {
  return form.inner.direction == Direction::forward ? form.y
         : form.inner.direction == Direction::dgrad ? form.x
                                                    : form.w;
}

}  // namespace gpudnn::conv
