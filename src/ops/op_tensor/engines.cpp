// The engines of the two-operand tensor operation, best first.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/op_tensor.hpp"
#include "ops/op_tensor/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/op_tensor/cuda_engines.hpp"
#endif

namespace gpudnn::op_tensor {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"elementwise", GPUDNN_BACKEND_CUDA, supports_elementwise_cuda, elementwise_cuda},
    {"mixed", GPUDNN_BACKEND_CUDA, supports_mixed_cuda, mixed_cuda},
#endif
    host_reference<host::op_tensor, Problem, Args>(),
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  const double u =
      numerics::unit_roundoff(problem.compute == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT);
  const bool adds_one = problem.op == GPUDNN_OP_TENSOR_ADD || problem.op == GPUDNN_OP_TENSOR_NOT;
  check->on_magnitudes([&args] {
    args.alpha1 = std::fabs(args.alpha1);
    args.alpha2 = std::fabs(args.alpha2);
    args.beta = std::fabs(args.beta);
  });
  check->read("a", args.a, &problem.a);
  if (has_b(problem.op)) check->read("b", args.b, &problem.b);
  // NOT of magnitudes is at most 1 below that of the operand.
  check->write("c", args.c, &problem.c, args.beta != 0, verify::by_magnitude([=](double value, double magnitude) {
                 return 4 * u * (value + magnitude + (adds_one ? 2 : 0));
               }));
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.c) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::op_tensor
