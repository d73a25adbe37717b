// The pooling engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/pooling.hpp"
#include "ops/pooling/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/pooling/cuda_engines.hpp"
#endif

namespace gpudnn::pooling {
namespace {

Support supports_all(const Problem&, const Device&) { return Support::yes(); }

Status launch_host(const LaunchSite&, const Problem& problem, const Args& args) {
  host::pooling(problem, args);
  return GPUDNN_STATUS_SUCCESS;
}

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"planes_fixed", GPUDNN_BACKEND_CUDA, supports_planes_fixed_cuda, planes_fixed_cuda},
    {"channels_fixed", GPUDNN_BACKEND_CUDA, supports_channels_fixed_cuda, channels_fixed_cuda},
    {"rows_fixed", GPUDNN_BACKEND_CUDA, supports_rows_fixed_cuda, rows_fixed_cuda},
    {"planes", GPUDNN_BACKEND_CUDA, supports_planes_cuda, planes_cuda},
    {"windows", GPUDNN_BACKEND_CUDA, supports_windows_cuda, windows_cuda},
#endif
    {"host_reference", GPUDNN_BACKEND_HOST, supports_all, launch_host},
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  const bool is_average = problem.mode == GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ||
                          problem.mode == GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
  double terms = 1;
  for (int i = 0; i < problem.spatial; ++i) terms *= static_cast<double>(problem.window[i]);
  const double u = numerics::unit_roundoff(numerics::compute_type(problem.x.type));
  const verify::Bound sum = verify::relative(numerics::sum_bound(problem.x.type, terms) + 2 * u);
  check->on_magnitudes([&args] {
    args.alpha = std::fabs(args.alpha);
    args.beta = std::fabs(args.beta);
  });
  if (problem.backward) {
    // The maximum's place is that of the numbers as they are.
    if (!is_average) check->read("x", args.x, &problem.x, verify::Magnitude::kept);
    check->read("dy", args.dy, &problem.dy);
    check->write("dx", args.out, &problem.dx, args.beta != 0, sum);
  } else if (is_average) {
    check->read("x", args.x, &problem.x);
    check->write("y", args.out, &problem.y, args.beta != 0, sum);
  } else {
    // A window without elements gives the lowest number of the type, so the type stays.
    const bool plain = args.alpha == 1 && args.beta == 0;
    check->read_as_is("x", args.x, problem.x);
    check->write_as_is("y", args.out, problem.y, args.beta != 0,
                       plain ? verify::exact() : verify::whole(problem.y.type));
  }
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.backward ? problem.dx : problem.y) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::pooling
