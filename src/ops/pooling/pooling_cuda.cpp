// Launchers of the pooling kernels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pooling/pooling.hpp"
#include "ops/loop_nest.hpp"
#include "ops/pooling/cuda_engines.hpp"

namespace gpudnn::pooling {
namespace {

// What the kernels of fixed windows are compiled for; older devices have the general ones.
constexpr const char* kNeedsAmpere = "it needs compute capability 8.0";

kernels::PoolingMode kernel_mode(gpudnnPoolingMode_t mode) noexcept {
  switch (mode) {
    case GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING:
      return kernels::PoolingMode::average_with_padding;
    case GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING:
      return kernels::PoolingMode::average_without_padding;
    default:
      return kernels::PoolingMode::max;
  }
}

// Spatial dimensions go to the last of depth, height, width.
kernels::PoolingStrides kernel_strides(const TensorGeometry& tensor) {
  kernels::PoolingStrides strides;
  strides.n = tensor.strides[0];
  strides.c = tensor.strides[1];
  for (int i = 2; i < tensor.rank; ++i) strides.spatial[3 - tensor.rank + i] = tensor.strides[i];
  return strides;
}

kernels::PoolingParams pooling_params(const Problem& problem, const Device& device, const Args& args) {
  kernels::PoolingParams params;
  params.type = element_type(problem.x.type);
  params.backward = problem.backward;
  params.mode = kernel_mode(problem.mode);
  params.propagate_nan = problem.nan == GPUDNN_PROPAGATE_NAN;
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.x = args.x;
  params.dy = args.dy;
  params.out = args.out;
  params.images = problem.x.dims[0];
  params.channels = problem.x.dims[1];
  for (int i = 0; i < problem.spatial; ++i) {
    const int dim = 3 - problem.spatial + i;
    params.shape.window[dim] = static_cast<std::int32_t>(problem.window[i]);
    params.shape.pad[dim] = static_cast<std::int32_t>(problem.pad[i]);
    params.shape.stride[dim] = static_cast<std::int32_t>(problem.stride[i]);
    params.shape.x[dim] = static_cast<std::int32_t>(problem.x.dims[2 + i]);
    params.shape.y[dim] = static_cast<std::int32_t>(problem.y.dims[2 + i]);
  }
  params.shape.finish();
  params.x_strides = kernel_strides(problem.x);
  params.dy_strides = kernel_strides(problem.dy);
  params.out_strides = kernel_strides(problem.backward ? problem.dx : problem.y);
  params.multiprocessors = device.multiprocessors;
  params.shared_memory = device.shared_memory_per_block;
  return params;
}

bool all_tensors(const Problem& problem, bool (*is)(const TensorGeometry&)) {
  return is(problem.x) && (problem.backward ? is(problem.dx) && is(problem.dy) : is(problem.y));
}
bool nchw(const TensorGeometry& tensor) { return is_packed_nchw(tensor); }
bool nhwc(const TensorGeometry& tensor) { return is_packed_nhwc(tensor); }

// The planes of packed NHWC: a line of a plane holds all channels of its pixels.
kernels::PoolingParams interleaved_params(const Problem& problem, const Device& device, const Args& args) {
  kernels::PoolingParams params = pooling_params(problem, device, args);
  params.interleaved = params.channels;
  return params;
}

Status launch_windows(const LaunchSite& site, const kernels::PoolingParams& params) {
  kernels::launch_pooling_windows(params, site.stream);
  return cuda::launch_status("pooling_windows");
}

}  // namespace

Support supports_planes_fixed_cuda(const Problem& problem, const Device& device) {
  if (device.compute_capability() < 80) return Support::no(kNeedsAmpere);
  if (!all_tensors(problem, nchw)) return Support::no("a tensor is not packed NCHW");
  if (!kernels::pooling_planes_fixed_fit(pooling_params(problem, device, {}))) {
    return Support::no("the window is none of 2x2/2, 3x3/2 and 3x3/1 in f32, f16 or bf16, or rows are too long");
  }
  return Support::yes();
}

Status planes_fixed_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_pooling_planes_fixed(pooling_params(problem, site.device, args), site.stream);
  return cuda::launch_status("pooling_planes_fixed");
}

Support supports_channels_fixed_cuda(const Problem& problem, const Device& device) {
  if (device.compute_capability() < 80) return Support::no(kNeedsAmpere);
  return kernels::pooling_channels_fixed_fit(pooling_params(problem, device, {}))
             ? Support::yes()
             : Support::no("the window is none of 2x2/2, 3x3/2 and 3x3/1, or channels do not go in packs of 16 bytes");
}

Status channels_fixed_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::PoolingParams params = pooling_params(problem, site.device, args);
  if (!kernels::pooling_channels_fixed_fit(params)) return launch_windows(site, params);  // a pointer is not aligned
  kernels::launch_pooling_channels_fixed(params, site.stream);
  return cuda::launch_status("pooling_channels_fixed");
}

Support supports_rows_fixed_cuda(const Problem& problem, const Device& device) {
  if (device.compute_capability() < 80) return Support::no(kNeedsAmpere);
  if (!all_tensors(problem, nhwc)) return Support::no("a tensor is not packed NHWC");
  if (!kernels::pooling_planes_fixed_fit(interleaved_params(problem, device, {}))) {
    return Support::no("the window is none of 2x2/2, 3x3/2 and 3x3/1 in f32, f16 or bf16, or rows are too long");
  }
  return Support::yes();
}

Status rows_fixed_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_pooling_planes_fixed(interleaved_params(problem, site.device, args), site.stream);
  return cuda::launch_status("pooling_rows_fixed");
}

Support supports_planes_cuda(const Problem& problem, const Device& device) {
  if (!all_tensors(problem, nchw)) return Support::no("a tensor is not packed NCHW");
  if (!kernels::pooling_planes_fit(pooling_params(problem, device, {}))) {
    return Support::no("a plane does not fit into shared memory");
  }
  return Support::yes();
}

Status planes_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_pooling_planes(pooling_params(problem, site.device, args), site.stream);
  return cuda::launch_status("pooling_planes");
}

Support supports_windows_cuda(const Problem&, const Device&) { return Support::yes(); }

Status windows_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  return launch_windows(site, pooling_params(problem, site.device, args));
}

}  // namespace gpudnn::pooling
