// A pointwise program as kernels run it: steps of a machine with an accumulator. Plain data.
//
// The machine works on E elements at once. It has an accumulator a, a second operand b, a predicate for each element,
// and temporaries. A step fetches b, lets a = op(a, b), rounds a to a type, keeps a in a temporary, and stores a in an
// output; all but the operation may be absent. What a step costs beside its arithmetic (its fetch from the parameters,
// two or three branches that all threads take alike) is shared by the E elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/any_type.hpp"
#include "kernels/tile/pointwise_op.hpp"

namespace gpudnn::tile {

constexpr int kProgramSteps = 80;
constexpr int kProgramInputs = 12;
constexpr int kProgramOutputs = 4;
constexpr int kProgramTemps = 24;

// Where b comes from: nowhere, the accumulator itself, the step's immediate, a temporary, an input.
enum class StepSource : std::uint8_t { none, self, immediate, temp, input };

// The machine's own operations follow those of the interface.
constexpr int kStepLoad = kPointwiseOps;              // a = b
constexpr int kStepPredicate = kPointwiseOps + 1;     // predicate = a != 0
constexpr int kStepAddImmediate = kPointwiseOps + 2;  // a = a + immediate, without b
constexpr int kStepMulImmediate = kPointwiseOps + 3;
constexpr int kStepMaxImmediate = kPointwiseOps + 4;
constexpr int kStepMinImmediate = kPointwiseOps + 5;
// The commonest operations of the interface once more, among the machine's own, which are few: the compiler makes of a
// switch a tree of branches, of 3 levels for these and of 6 for all.
constexpr int kStepAdd = kPointwiseOps + 6;
constexpr int kStepMul = kPointwiseOps + 7;
// With the operands the other way round, where the accumulator holds the second one.
constexpr int kStepSubFrom = kPointwiseOps + 8;  // a = b - a
constexpr int kStepDivFrom = kPointwiseOps + 9;  // a = b / a
constexpr int kStepOps = kPointwiseOps + 10;

// The immediate is p[2]: operations with three parameters take b from elsewhere.
constexpr int kStepImmediate = 2;

template <class C>
struct alignas(16) ProgramStep {
  // In bits: op 0 to 6, source 7 to 9, slot 10 to 15, drops_nan 17; what follows the operation: rounding type
  // + 1 at 18 to 21, temporary + 1 at 22 to 26, output + 1 at 27 to 29.
  std::uint32_t word = 0;
  C p[3] = {};
};
static_assert(kStepOps <= 128 && kProgramTemps < 32 && kProgramOutputs < 8 && kProgramInputs <= 64,
              "a step's word has place for them");

struct StepFields {
  int op = kStepLoad;
  StepSource source = StepSource::none;
  int slot = 0;
  bool drops_nan = false;
  int round = 0;
  int keep = 0;
  int store = 0;

  // The op's number among the machine's own operations, where it has one.
  [[nodiscard]] constexpr int machine_op() const {
    return op == static_cast<int>(PointwiseOp::add)   ? kStepAdd
           : op == static_cast<int>(PointwiseOp::mul) ? kStepMul
                                                      : op;
  }
  [[nodiscard]] constexpr std::uint32_t word() const {
    return static_cast<std::uint32_t>(machine_op()) | static_cast<std::uint32_t>(source) << 7 |
           static_cast<std::uint32_t>(slot) << 10 | static_cast<std::uint32_t>(drops_nan) << 17 |
           static_cast<std::uint32_t>(round) << 18 | static_cast<std::uint32_t>(keep) << 22 |
           static_cast<std::uint32_t>(store) << 27;
  }
};
constexpr std::uint32_t kStepDropsNan = 1u << 17;

template <class C>
struct ProgramCode {
  std::int32_t steps = 0;
  std::int32_t temps = 0;
  ProgramStep<C> step[kProgramSteps];
};

}  // namespace gpudnn::tile
