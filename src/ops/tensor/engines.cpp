// The tensor engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/tensor.hpp"
#include "ops/tensor/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/tensor/cuda_engines.hpp"
#endif

namespace gpudnn::tensor {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"fill", GPUDNN_BACKEND_CUDA, supports_fill_cuda, fill_cuda},
    {"transpose", GPUDNN_BACKEND_CUDA, supports_transpose_cuda, transpose_cuda},
    {"linear", GPUDNN_BACKEND_CUDA, supports_linear_cuda, linear_cuda},
#endif
    host_reference<host::tensor, Problem, Args>(),
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  const bool keeps_type = !is_floating(problem.c.type) || problem.operation == Operation::set;
  const bool is_update =
      problem.operation == Operation::scale || (problem.operation != Operation::set && args.beta != 0);
  if (keeps_type) {
    if (problem.operation != Operation::set) check->read_as_is("a", args.a, problem.a);
    return check->write_as_is("c", args.c, problem.c, is_update, verify::exact());
  }
  check->on_magnitudes([&args] {
    args.alpha = std::fabs(args.alpha);
    args.beta = std::fabs(args.beta);
  });
  const bool plain = args.alpha == 1 && args.beta == 0;
  const double u = numerics::unit_roundoff(numerics::compute_type(problem.c.type));
  if (problem.operation != Operation::scale) check->read("a", args.a, &problem.a);
  check->write("c", args.c, &problem.c, is_update, plain ? verify::exact() : verify::relative(2 * u));
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.c) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::tensor
