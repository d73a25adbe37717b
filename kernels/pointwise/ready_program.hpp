// A launch of a pointwise program without its pointers and numbers: made once, filled in at each launch. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/program.hpp"
#include "kernels/pointwise/program_compiled_sm90.hpp"
#include "kernels/pointwise/program_staged_sm90.hpp"

namespace gpudnn::kernels {

struct StagedLaunch {
  int width = 8;
  bool any = false;
  StagedForm usual = StagedForm::spread;
  int multiprocessors = 1;
};

// What an execution fills in: the pointer of an input or output, or a number that a step takes.
struct ReadyPlace {
  std::uint16_t offset = 0;  // in the arguments, in bytes
  std::int8_t number = 0;    // of the input or output; of the input that is the number
  bool negates = false;
};

struct ReadyProgram {
  enum class Kind : std::uint8_t { none, compiled, staged };
  static constexpr int kMaxNumbers = 32;

  Kind kind = Kind::none;
  int instance = -1;  // compiled
  StagedLaunch staged;
  int inputs = 0;
  int outputs = 0;
  int numbers = 0;
  ReadyPlace input[tile::kProgramInputs];
  ReadyPlace output[tile::kProgramOutputs];
  ReadyPlace value[kMaxNumbers];
  int bytes = 0;  // of the arguments
  alignas(StagedArgs) unsigned char args[sizeof(StagedArgs)] = {};
};
static_assert(sizeof(CompiledArgs) <= sizeof(StagedArgs), "room for both");

// For pointers at multiples of kReadyAlignment, which `params` does not name; numbers are those of the code, where
// `scalar` has no input for a step: its number, negated where `negates` says so, is then the step's immediate. The kind
// is none where the program is launched in another way.
constexpr int kReadyAlignment = 32;
void make_ready(const ProgramParams& params, const std::int8_t* scalar, const bool* negates, ReadyProgram* ready);

// False, with nothing launched, where a pointer lies otherwise.
bool launch_ready(const ReadyProgram& ready, const void* const* inputs, const double* numbers, void* const* outputs,
                  CUstream_st* stream);

}  // namespace gpudnn::kernels
