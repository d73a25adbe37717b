// The bias-gradient engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/bias_grad.hpp"
#include "ops/bias_grad/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/bias_grad/cuda_engines.hpp"
#endif

namespace gpudnn::bias_grad {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"cluster_sum", GPUDNN_BACKEND_CUDA, supports_cluster_sum_cuda, cluster_sum_cuda},
#endif
    host_reference<host::bias_grad, Problem, Args>(),
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  const double terms = static_cast<double>(element_count(problem.dy)) / static_cast<double>(element_count(problem.db));
  const double u = numerics::unit_roundoff(numerics::compute_type(problem.dy.type));
  check->on_magnitudes([&args] {
    args.alpha = std::fabs(args.alpha);
    args.beta = std::fabs(args.beta);
  });
  check->read("dy", args.dy, &problem.dy);
  check->write("db", args.db, &problem.db, args.beta != 0,
               verify::relative(numerics::sum_bound(problem.dy.type, terms) + 2 * u));
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.db) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::bias_grad
