// Running transforms and column buffers: by the tensor operations where a plain change of layout is all, else by the
// gather.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/gather.hpp"
#include "kernels/gather/columns.hpp"
#include "ops/any_type.hpp"
#include "ops/tensor/problem.hpp"
#include "ops/transform/problem.hpp"

namespace gpudnn::transform {
namespace {

bool is_identity(const Transform& t) noexcept {
  for (int i = 0; i < t.rank; ++i) {
    if (t.before[i] != 0 || t.after[i] != 0 || t.fold[i] != 1) return false;
  }
  return true;
}

Status launch_gather(const LaunchSite& site, const kernels::GatherMap& map, DataType in_type, DataType out_type,
                     const Args& args) {
#ifdef GPUDNN_WITH_CUDA
  if (site.device.backend == GPUDNN_BACKEND_CUDA) {
    call_context().engine = "gather";
    kernels::GatherParams params;
    params.in_type = any_type(in_type);
    params.out_type = any_type(out_type);
    params.alpha = args.alpha;
    params.beta = args.beta;
    params.in = args.in;
    params.out = args.out;
    params.map = map;
    const cuda::DeviceScope scope(site.device);
    kernels::launch_gather(params, site.stream);
    return cuda::launch_status("gather");
  }
#endif
  (void)site;
  call_context().engine = "host_gather";
  host::gather(map, in_type, out_type, args.alpha, args.beta, args.in, args.out);
  return GPUDNN_STATUS_SUCCESS;
}

void describe(TensorGeometry& in, TensorGeometry& out, Args& args, verify::Check* check) {
  const bool is_wide = out.type == GPUDNN_DATA_DOUBLE || out.type == GPUDNN_DATA_INT32;
  const double u = numerics::unit_roundoff(is_wide ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT);
  const bool plain = args.alpha == 1 && args.beta == 0;
  check->read("the input", args.in, &in);
  check->write("the output", args.out, &out, args.beta != 0, plain ? verify::exact() : verify::relative(2 * u));
  check->on_magnitudes([&args] {
    args.alpha = std::fabs(args.alpha);
    args.beta = std::fabs(args.beta);
  });
}

template <class Problem, class Launch>
Status run_gather(gpudnnHandle_t handle, const Problem& problem, const TensorGeometry& in, const TensorGeometry& out,
                  const kernels::GatherMap& map, const Args& args, const Launch& launch) {
  if (!verify::watching()) [[likely]]
    return launch();
  if (data_type_lanes(in.type) > 1 || data_type_lanes(out.type) > 1) {
    verify::note_not_covered(handle, "transforms of vector types are not covered");
    return launch();
  }
  TensorGeometry in_copy = in;
  TensorGeometry out_copy = out;
  Args args_copy = args;
  return verify::run({.handle = handle,
                      .problem = to_text(problem),
                      .engine = nullptr,
                      .describe = [&](verify::Check* check) { describe(in_copy, out_copy, args_copy, check); },
                      .launch = launch,
                      .reference = [&]() -> Status {
                        host::gather(map, in_copy.type, out_copy.type, args_copy.alpha, args_copy.beta, args_copy.in,
                                     args_copy.out);
                        return GPUDNN_STATUS_SUCCESS;
                      }});
}

#ifdef GPUDNN_WITH_CUDA
kernels::ColumnParams column_params(const ColumnProblem& problem, const void* x, void* columns) {
  kernels::ColumnParams params;
  params.element_bytes = static_cast<int>(data_type_bits(problem.x.type) / 8);
  params.images = problem.x.dims[0];
  params.channels = problem.x.dims[1];
  params.image_step = problem.x.strides[0];
  params.channel_step = problem.x.strides[1];
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t dilation = problem.dilation[i];
    params.dims[kernels::kColumnSpatial - problem.spatial + i] = {
        problem.x.dims[2 + i],
        problem.outputs[i],
        problem.taps[i],
        problem.stride[i],
        problem.flip ? -dilation : dilation,
        -problem.pad[i] + (problem.flip ? (problem.taps[i] - 1) * dilation : 0),
        problem.x.strides[2 + i]};
  }
  params.x = x;
  params.columns = columns;
  return params;
}
#endif

}  // namespace

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  if (is_identity(problem.transform) && is_floating(problem.in.type) && is_floating(problem.out.type)) {
    tensor::Problem plain;
    plain.operation = tensor::Operation::transform;
    plain.a = problem.in;
    plain.c = problem.out;
    tensor::Args plain_args;
    plain_args.alpha = args.alpha;
    plain_args.beta = args.beta;
    plain_args.a = args.in;
    plain_args.c = args.out;
    return tensor::run(handle, plain, plain_args);
  }
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.out) == 0) return GPUDNN_STATUS_SUCCESS;
  const kernels::GatherMap map = make_map(problem);
  return run_gather(handle, problem, problem.in, problem.out, map, args,
                    [&] { return launch_gather(launch_site(handle), map, problem.in.type, problem.out.type, args); });
}

namespace {

Status launch_columns(const LaunchSite& site, const ColumnProblem& problem, const kernels::GatherMap& map,
                      const Args& args) {
#ifdef GPUDNN_WITH_CUDA
  if (site.device.backend == GPUDNN_BACKEND_CUDA && data_type_bits(problem.x.type) > 8) {
    kernels::ColumnParams params = column_params(problem, args.in, args.out);
    params.multiprocessors = site.device.multiprocessors;
    const cuda::DeviceScope scope(site.device);
    if (kernels::launch_columns(params, site.stream)) {
      call_context().engine = "columns";
      return cuda::launch_status("columns");
    }
  }
#endif
  return launch_gather(site, map, problem.x.type, problem.x.type, args);
}

}  // namespace

Status run_columns(gpudnnHandle_t handle, const ColumnProblem& problem, const void* x, void* columns) {
  const kernels::GatherMap map = make_map(problem);
  note_problem_lazily([&] { return to_text(problem); });
  if (map.count() == 0) return GPUDNN_STATUS_SUCCESS;
  Args args;
  args.in = x;
  args.out = columns;
  return run_gather(handle, problem, problem.x, verify::vector_of(problem.x.type, map.count()), map, args,
                    [&] { return launch_columns(launch_site(handle), problem, map, args); });
}

Status run_copies(gpudnnHandle_t handle, const kernels::CopyPart (&parts)[kernels::kCopyParts]) {
#ifdef GPUDNN_WITH_CUDA
  const LaunchSite site = launch_site(handle);
  if (site.device.backend == GPUDNN_BACKEND_CUDA) {
    call_context().engine = "copy";
    const cuda::DeviceScope scope(site.device);
    kernels::launch_copy(parts, site.stream);
    return cuda::launch_status("copy_bytes");
  }
#endif
  (void)handle;
  call_context().engine = "host_copy";
  for (const kernels::CopyPart& part : parts) {
    if (part.bytes > 0) std::memmove(part.to, part.from, part.bytes);
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::transform
