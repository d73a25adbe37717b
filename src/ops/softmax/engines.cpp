// The softmax engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/softmax.hpp"
#include "ops/softmax/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/softmax/cuda_engines.hpp"
#endif

namespace gpudnn::softmax {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"rows", GPUDNN_BACKEND_CUDA, supports_rows_cuda, rows_cuda},
    {"columns", GPUDNN_BACKEND_CUDA, supports_columns_cuda, columns_cuda},
    {"strided", GPUDNN_BACKEND_CUDA, supports_strided_cuda, strided_cuda},
#endif
    host_reference<host::softmax, Problem, Args>(),
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  if (problem.backward) {
    check->read("y", args.y, &problem.y);
    check->read("dy", args.dy, &problem.dy);
    check->write("dx", args.out, &problem.dx, args.beta != 0, verify::whole(problem.dx.type));
    return;
  }
  double n = static_cast<double>(problem.x.rank > 1 ? problem.x.dims[1] : 1);
  for (int i = 2; i < problem.x.rank && problem.mode == GPUDNN_SOFTMAX_MODE_INSTANCE; ++i) {
    n *= static_cast<double>(problem.x.dims[i]);
  }
  const double u = numerics::unit_roundoff(numerics::compute_type(problem.x.type));
  const double smallest = numerics::least_normal(problem.y.type);
  const bool is_log = problem.algorithm == GPUDNN_SOFTMAX_LOG;
  const double alpha = std::fabs(args.alpha);
  // The distance below the greatest input is at most -log of the result, and that and log(sum) make the logarithm.
  const auto slack = [=](double value) {
    const double result = alpha == 0 ? 0 : value / alpha;
    const double own = is_log ? numerics::log_softmax_slack(u, n, result, 0)
                              : numerics::softmax_slack(u, n, -std::log(std::max(result, smallest)), result) + smallest;
    return alpha * own + 2 * u * value;
  };
  check->read("x", args.x, &problem.x);
  check->write("y", args.out, &problem.y, args.beta != 0,
               args.beta == 0 ? verify::by_value(slack) : verify::whole(problem.y.type));
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.backward ? problem.dx : problem.y) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::softmax
