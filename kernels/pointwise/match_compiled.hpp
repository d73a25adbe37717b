// Which compiled program runs a program's code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/compiled_programs.hpp"

namespace gpudnn::kernels::compiled {

// The code with inputs and outputs numbered in the order of their first use, and the compiled program that is the same.
struct Match {
  int row = -1;
  int inputs = 0;
  int outputs = 0;
  std::uint8_t in[kMaxInputs] = {};  // the number in the code of an input of the row
  std::uint8_t out[kMaxOutputs] = {};
};

// The row is -1 where the code has to be interpreted.
[[nodiscard]] Match match(const tile::ProgramCode<float>& code);

// A type's letter in compiled_programs.hpp; 0 where it has none.
[[nodiscard]] char letter_of(tile::AnyType type, bool is_index);
// The row's kernel for these types, a letter each (compiled_programs.hpp); -1 where there is none.
[[nodiscard]] int instance_of(int row, bool odd, const char (&in)[kMaxInputs], const char (&out)[kMaxOutputs]);

}  // namespace gpudnn::kernels::compiled
