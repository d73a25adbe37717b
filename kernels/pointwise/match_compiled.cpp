// The search for the compiled program of a code.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise/match_compiled.hpp"

#include <cstring>

namespace gpudnn::kernels::compiled {
namespace {

// The place of `number` among the first `count` numbers, where it is put if it is new; -1 where there is no place left.
int place_of(int number, int most, std::uint8_t* numbers, int* count) {
  for (int i = 0; i < *count; ++i) {
    if (numbers[i] == number) return i;
  }
  if (*count == most) return -1;
  numbers[*count] = static_cast<std::uint8_t>(number);
  return (*count)++;
}

// Whether the row is the program of these words.
bool is_same(const Program& row, const std::uint32_t* words, int steps) {
  for (int s = 0; s < steps; ++s) {
    if (row.words[s] != words[s]) return false;
  }
  return row.steps == steps;
}

}  // namespace

Match match(const tile::ProgramCode<float>& code) {
  Match found;
  if (code.steps > kMaxSteps) return found;
  std::uint32_t words[kMaxSteps];
  for (int s = 0; s < code.steps; ++s) {
    std::uint32_t word = code.step[s].word;
    if (static_cast<tile::StepSource>(word >> 7 & 7u) == tile::StepSource::input) {
      const int slot = place_of(static_cast<int>(word >> 10 & 63u), kMaxInputs, found.in, &found.inputs);
      if (slot < 0) return found;
      word = (word & ~(63u << 10)) | static_cast<std::uint32_t>(slot) << 10;
    }
    if (const int store = static_cast<int>(word >> 27 & 7u); store != 0) {
      const int output = place_of(store - 1, kMaxOutputs, found.out, &found.outputs);
      if (output < 0) return found;
      word = (word & ~(7u << 27)) | static_cast<std::uint32_t>(output + 1) << 27;
    }
    words[s] = word;
  }
  for (int row = 0; row < kProgramCount && found.row < 0; ++row) {
    if (is_same(kPrograms[row], words, code.steps)) found.row = row;
  }
  return found;
}

char letter_of(tile::AnyType type, bool is_index) {
  using tile::AnyType;
  if (is_index) return 'i';
  if (type == AnyType::f16 || type == AnyType::bf16) return 'h';
  if (type == AnyType::f32) return 'f';
  return tile::any_type_bytes(type) == 1 ? 'b' : '\0';
}

int instance_of(int row, bool odd, const char (&in)[kMaxInputs], const char (&out)[kMaxOutputs]) {
  for (int i = 0; i < kInstanceCount; ++i) {
    const Instance& one = kInstances.all[i];
    if (one.row == row && one.odd == odd && std::memcmp(one.in, in, sizeof in) == 0 &&
        std::memcmp(one.out, out, sizeof out) == 0)
      return i;
  }
  return -1;
}

}  // namespace gpudnn::kernels::compiled
