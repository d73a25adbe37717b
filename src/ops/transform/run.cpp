// Running transforms and column buffers: by the tensor operations where a plain change of layout is all, else by the
// gather.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

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

Status run_gather(gpudnnHandle_t handle, const kernels::GatherMap& map, DataType in_type, DataType out_type,
                  const Args& args) {
  const LaunchSite site = launch_site(handle);
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
  return run_gather(handle, make_map(problem), problem.in.type, problem.out.type, args);
}

Status run_columns(gpudnnHandle_t handle, const ColumnProblem& problem, const void* x, void* columns) {
  const kernels::GatherMap map = make_map(problem);
  note_problem_lazily([&] { return to_text(problem); });
  if (map.count() == 0) return GPUDNN_STATUS_SUCCESS;
#ifdef GPUDNN_WITH_CUDA
  const LaunchSite site = launch_site(handle);
  if (site.device.backend == GPUDNN_BACKEND_CUDA) {
    kernels::ColumnParams params = column_params(problem, x, columns);
    params.multiprocessors = site.device.multiprocessors;
    const cuda::DeviceScope scope(site.device);
    if (kernels::launch_columns(params, site.stream)) {
      call_context().engine = "columns";
      return cuda::launch_status("columns");
    }
  }
#endif
  Args args;
  args.in = x;
  args.out = columns;
  return run_gather(handle, map, problem.x.type, problem.x.type, args);
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
