// What a launch of a pointwise program on a CUDA device needs and its pointers do not change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/pointwise/ready_program.hpp"
#include "ops/pointwise/loops.hpp"
#include "ops/pointwise/lower.hpp"

namespace gpudnn::pointwise {

// The stores that one kernel makes: all of a program without reductions, else those that fold the same dimensions.
struct PreparedPart {
  Problem problem;             // with these stores alone
  int store[kMaxStores] = {};  // the number of each in the whole problem
  FoldLoops fold;              // without reductions its loops alone
  Lowered lowered;
  std::shared_ptr<const kernels::ReadyProgram> ready;  // null where each launch is made anew
};

struct Prepared {
  std::vector<PreparedPart> parts;
};

[[nodiscard]] bool has_reduction(const Problem& problem) noexcept;
// The parts of a problem, not lowered yet.
[[nodiscard]] std::vector<PreparedPart> parts_of(const Problem& problem);
// The parts, lowered. NOT_SUPPORTED where the program is too long.
[[nodiscard]] Status prepare_cuda(const Problem& problem, Prepared* prepared);
// Lets the launch of a part without reductions be filled in, where it can.
void make_ready(const Device& device, PreparedPart* part);

}  // namespace gpudnn::pointwise
