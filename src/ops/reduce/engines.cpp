// The reduction engines. Each takes everything, so there is one for each backend.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/reduce.hpp"
#include "ops/reduce/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/reduce/cuda_engines.hpp"
#endif

namespace gpudnn::reduce {

std::size_t workspace_size(const Problem& problem, const Device& device) {
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA) return workspace_cuda(problem, device);
#endif
  (void)problem, (void)device;
  return 0;
}

namespace {

verify::Bound bound_of(const Problem& problem, const Args& args) {
  const auto n = static_cast<double>(reduced_count(problem));
  const bool is_wide = problem.compute == GPUDNN_DATA_DOUBLE || problem.a.type == GPUDNN_DATA_INT32;
  const DataType compute = is_wide ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  const double u = numerics::unit_roundoff(compute);
  const double sum = numerics::sum_bound(compute, n);
  switch (problem.op) {
    case GPUDNN_REDUCE_TENSOR_ADD:
    case GPUDNN_REDUCE_TENSOR_NORM1:
    case GPUDNN_REDUCE_TENSOR_AVG:
      return verify::relative(sum + 3 * u);
    case GPUDNN_REDUCE_TENSOR_MIN:
    case GPUDNN_REDUCE_TENSOR_MAX:
    case GPUDNN_REDUCE_TENSOR_AMAX:
      if (args.alpha == 1 && args.beta == 0) return verify::exact();
      break;
    case GPUDNN_REDUCE_TENSOR_NORM2:
      if (args.beta == 0) return verify::by_value([=](double value) { return (0.5 * sum + 4 * u) * value; });
      break;
    case GPUDNN_REDUCE_TENSOR_MUL:
    case GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
      if (args.beta == 0) {
        const double alpha = std::fabs(args.alpha);
        return verify::by_value([=](double value) { return (1.01 * n + 2) * u * value + alpha * 1e-37; });
      }
      break;
  }
  return verify::whole(problem.c.type);
}

void describe(Problem& problem, Args& args, verify::Check* check) {
  const verify::Bound bound = bound_of(problem, args);
  if (has_indices(problem)) {
    const TensorGeometry places =
        verify::vector_of(GPUDNN_DATA_UINT8, static_cast<std::int64_t>(indices_size(problem)));
    check->write_as_is("indices", args.indices, places, false, verify::exact());
  }
  check->read("a", args.a, &problem.a);
  check->write("c", args.c, &problem.c, args.beta != 0, bound);
  check->on_magnitudes([&args] {
    args.alpha = std::fabs(args.alpha);
    args.beta = std::fabs(args.beta);
  });
}

Status launch(const LaunchSite& site, const Problem& problem, const Args& args) {
#ifdef GPUDNN_WITH_CUDA
  if (site.device.backend == GPUDNN_BACKEND_CUDA) {
    call_context().engine = "rows_and_columns";
    const cuda::DeviceScope scope(site.device);
    return reduce_cuda(site, problem, args);
  }
#endif
  (void)site;
  call_context().engine = "host_reference";
  host::reduce(problem, args);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
           std::size_t workspace_bytes) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.a) == 0 || element_count(problem.c) == 0) return GPUDNN_STATUS_SUCCESS;
  const LaunchSite site = launch_site(handle, workspace, workspace_bytes);
  if (!verify::watching()) [[likely]]
    return launch(site, problem, args);
  Problem problem_copy = problem;
  Args args_copy = args;
  return verify::run({.handle = handle,
                      .problem = to_text(problem),
                      .engine = nullptr,
                      .describe = [&](verify::Check* check) { describe(problem_copy, args_copy, check); },
                      .launch = [&] { return launch(site, problem, args); },
                      .reference =
                          [&] {
                            return launch({host_device(), nullptr}, problem_copy, args_copy);
                          }});
}

}  // namespace gpudnn::reduce
