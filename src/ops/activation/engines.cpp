// The activation engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/activation.hpp"
#include "ops/activation/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/activation/cuda_engines.hpp"
#endif

namespace gpudnn::activation {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"elementwise", GPUDNN_BACKEND_CUDA, supports_elementwise_cuda, elementwise_cuda},
#endif
    host_reference<host::activation, Problem, Args>(),
};

// x f'(x) by f alone, at most; docs/numerics.md.
double change_at(const Problem& problem, double f) {
  switch (problem.mode) {
    case GPUDNN_ACTIVATION_SIGMOID:
      return f * (1 + std::fabs(std::log(f)));
    case GPUDNN_ACTIVATION_SWISH:
      return 2 * f * (1 + std::fabs(std::log(std::fabs(problem.coef) * f)));
    default:
      return f;
  }
}

verify::Bound bound_of(const Problem& problem, const Args& args) {
  const DataType type = problem.backward ? problem.dx.type : problem.y.type;
  const double u = numerics::unit_roundoff(numerics::compute_type(type));
  if (problem.mode == GPUDNN_ACTIVATION_RELU || problem.mode == GPUDNN_ACTIVATION_CLIPPED_RELU ||
      problem.mode == GPUDNN_ACTIVATION_IDENTITY) {
    return args.alpha == 1 && args.beta == 0 ? verify::exact() : verify::relative(2 * u);
  }
  // The gradient may be formed from x or from y, which was rounded.
  if (problem.backward || args.beta != 0) return verify::whole(type);
  const double smallest = numerics::least_normal(type);
  const double alpha = std::fabs(args.alpha);
  return verify::by_value([=](double value) {
    const double f = alpha == 0 ? 0 : std::max(value / alpha, smallest);
    return alpha * (numerics::curve_slack(u, f, change_at(problem, f)) + smallest) + 2 * u * value;
  });
}

void describe(Problem& problem, Args& args, verify::Check* check) {
  const verify::Bound bound = bound_of(problem, args);
  check->on_magnitudes([&args] {
    args.alpha = std::fabs(args.alpha);
    args.beta = std::fabs(args.beta);
  });
  // Of a kink the gradient asks on which side x lies.
  check->read("x", args.x, &problem.x, problem.backward ? verify::Magnitude::kept : verify::Magnitude::absolute);
  if (problem.backward) {
    check->read("y", args.y, &problem.y);
    check->read("dy", args.dy, &problem.dy);
    check->write("dx", args.out, &problem.dx, args.beta != 0, bound);
  } else {
    check->write("y", args.out, &problem.y, args.beta != 0, bound);
  }
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.backward ? problem.dx : problem.y) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::activation
