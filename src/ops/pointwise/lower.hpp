// From a program to the steps of the machine that kernels run (kernels/tile/program.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/program.hpp"
#include "ops/pointwise/problem.hpp"

namespace gpudnn::pointwise {

// Inputs and outputs of the steps have the numbers of loads and stores.
struct Lowered {
  tile::ProgramCode<double> code;
  // Load whose scalar is the step's immediate, or -1; negated where `negates` says so.
  std::int8_t scalar[tile::kProgramSteps] = {};
  bool negates[tile::kProgramSteps] = {};
};

struct LowerOptions {
  // Of epilogues: the load that the accumulators hold before the first step, or -1. The value of store 0 is then left
  // in them; the other stores are made.
  int accumulator = -1;
  int most_temps = tile::kProgramTemps;
};

// NOT_SUPPORTED where the program needs more steps or more temporaries than the machine has. `store_type` of each store
// saves a rounding that the store makes anyway.
[[nodiscard]] Status lower(const Program& program, const DataType* store_type, Lowered* lowered,
                           const LowerOptions& options = {});

// The steps with the scalars in their places, in the compute type C.
template <class C>
void bind(const Lowered& lowered, const double* scalars, tile::ProgramCode<C>* code) {
  code->steps = lowered.code.steps;
  code->temps = lowered.code.temps;
  for (int s = 0; s < code->steps; ++s) {
    const tile::ProgramStep<double>& from = lowered.code.step[s];
    tile::ProgramStep<C>& to = code->step[s];
    to.word = from.word;
    for (int i = 0; i < 3; ++i) to.p[i] = static_cast<C>(from.p[i]);
    if (lowered.scalar[s] < 0) continue;
    const double value = scalars[lowered.scalar[s]];
    to.p[tile::kStepImmediate] = static_cast<C>(lowered.negates[s] ? -value : value);
  }
}

}  // namespace gpudnn::pointwise
