// Launcher of the spatial-transformer kernels.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/spatial_transformer/spatial_transformer.hpp"
#include "ops/loop_nest.hpp"
#include "ops/spatial_transformer/cuda_engines.hpp"

namespace gpudnn::spatial_transformer {
namespace {

kernels::SamplerImage image_of(const TensorGeometry& tensor) {
  kernels::SamplerImage image;
  image.height = tensor.dims[2];
  image.width = tensor.dims[3];
  std::copy_n(tensor.strides, 4, image.strides);
  return image;
}

Status affine_grid(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::AffineGridParams params;
  params.type = element_type(problem.y.type);
  params.images = problem.y.dims[0];
  params.height = problem.y.dims[2];
  params.width = problem.y.dims[3];
  params.in = problem.operation == Operation::grid_forward ? args.theta : args.grid;
  params.out = args.out;
  params.multiprocessors = site.device.multiprocessors;
  params.has_clusters = site.device.has_clusters();
  if (problem.operation == Operation::grid_forward) {
    kernels::launch_affine_grid_forward(params, site.stream);
  } else {
    kernels::launch_affine_grid_backward(params, site.stream);
  }
  return cuda::launch_status("affine_grid");
}

// dgrid is written last; until then its memory is at hand, unless its old contents count or it is also an input's.
void lend_grid_gradient(const Problem& problem, const Args& args, kernels::SamplerParams* params) {
  const std::size_t bytes = size_in_bytes(grid_geometry(problem));
  const auto apart = [&](const void* other, std::size_t other_bytes) {
    const auto a = reinterpret_cast<std::uintptr_t>(args.dgrid);
    const auto b = reinterpret_cast<std::uintptr_t>(other);
    return a + bytes <= b || b + other_bytes <= a;
  };
  if (args.grid_beta != 0 || !apart(args.grid, bytes) || !apart(args.dy, size_in_bytes(problem.y)) ||
      !apart(args.x, size_in_bytes(problem.x)) || !apart(args.out, size_in_bytes(problem.dx))) {
    return;
  }
  params->scratch = args.dgrid;
  params->scratch_bytes = bytes;
}

kernels::SamplerParams sampler_params(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::SamplerParams params;
  params.type = element_type(problem.y.type);
  params.images = problem.y.dims[0];
  params.channels = problem.y.dims[1];
  params.image = image_of(problem.x);
  params.sample = image_of(problem.y);
  params.x = args.x;
  params.grid = args.grid;
  params.dy = args.dy;
  params.multiprocessors = site.device.multiprocessors;
  params.shared_memory_per_block = site.device.shared_memory_per_block;
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.out = args.out;
  return params;
}

Status sampler_gradients(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::SamplerParams params = sampler_params(site, problem, args);
  params.image = image_of(problem.dx);
  if (element_count(problem.dx) > 0) {
    lend_grid_gradient(problem, args, &params);
    kernels::launch_sampler_image_gradient(params, site.stream);
    GPUDNN_TRY(cuda::launch_status("sampler_image_gradient"));
    params.follows_image_gradient = true;
  }
  params.image = image_of(problem.x);
  params.alpha = args.grid_alpha;
  params.beta = args.grid_beta;
  params.out = args.dgrid;
  kernels::launch_sampler_grid_gradient(params, site.stream);
  return cuda::launch_status("sampler_grid_gradient");
}

}  // namespace

Status gather_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  if (is_grid(problem.operation)) return affine_grid(site, problem, args);
  if (problem.operation == Operation::sample_forward) {
    kernels::launch_sampler_forward(sampler_params(site, problem, args), site.stream);
    return cuda::launch_status("sampler_forward");
  }
  return sampler_gradients(site, problem, args);
}

}  // namespace gpudnn::spatial_transformer
