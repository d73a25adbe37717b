// Launchers of the kernels of local response and divisive normalization.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "kernels/lrn/lrn.hpp"
#include "ops/loop_nest.hpp"
#include "ops/lrn/cuda_engines.hpp"

namespace gpudnn::lrn {
namespace {

// Dimensions go to image, channel, and the last of depth, height, width.
int place_of(const TensorGeometry& tensor, int dim) { return dim < 2 ? dim : 5 - tensor.rank + dim; }

void take_spatial(const Problem& problem, kernels::LrnParams* params) {
  const TensorGeometry& out = problem.backward ? problem.dx : problem.y;
  for (int i = 0; i < problem.x.rank; ++i) {
    const int place = place_of(problem.x, i);
    params->dims[place] = problem.x.dims[i];
    params->x_strides[place] = problem.x.strides[i];
    params->out_strides[place] = out.strides[i];
  }
}

void take_channels(const Problem& problem, kernels::LrnParams* params) {
  std::array<TensorGeometry, 3> tensors = {problem.x, problem.x, problem.y};
  if (problem.backward) tensors = {problem.x, problem.dy, problem.dx};
  params->channels = problem.x.dims[1];
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    params->channel_strides[t] = tensors[t].strides[1];
    tensors[t].dims[1] = 1;
  }
  params->pixels = make_loop_nest(tensors);
}

kernels::LrnParams lrn_params(const Problem& problem, const Args& args) {
  kernels::LrnParams params;
  params.type = element_type(problem.x.type);
  params.backward = problem.backward;
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.n = problem.n;
  params.before = before(problem);
  params.weight = weight(problem);
  params.exponent = problem.beta;
  params.k = problem.k;
  params.x = args.x;
  params.means = args.means;
  params.dy = problem.backward ? args.dy : args.x;
  params.temp = args.temp;
  params.temp2 = args.temp2;
  params.out = args.out;
  params.means_gradient = args.means_gradient;
  if (problem.spatial) {
    take_spatial(problem, &params);
  } else {
    take_channels(problem, &params);
  }
  return params;
}

Status launch_columns(const LaunchSite& site, kernels::LrnParams params) {
  params.multiprocessors = site.device.multiprocessors;
  kernels::launch_lrn_columns(params, site.stream);
  return cuda::launch_status("lrn_columns");
}

}  // namespace

Support supports_rows_cuda(const Problem& problem, const Device&) {
  if (problem.spatial) return Support::no("the window is a spatial one");
  return kernels::lrn_rows_fit(lrn_params(problem, {}))
             ? Support::yes()
             : Support::no("the window is not 5 channels, or channels do not go in packs of 16 bytes, or f64");
}

Status rows_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::LrnParams params = lrn_params(problem, args);
  if (!kernels::lrn_rows_fit(params)) return launch_columns(site, params);  // a pointer is not aligned
  kernels::launch_lrn_rows(params, site.stream);
  return cuda::launch_status("lrn_rows");
}

Support supports_columns_cuda(const Problem& problem, const Device&) {
  if (problem.spatial) return Support::no("the window is a spatial one");
  return kernels::lrn_columns_fit(lrn_params(problem, {}))
             ? Support::yes()
             : Support::no("the window is not 5 channels, or the type is f64");
}

Status columns_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  return launch_columns(site, lrn_params(problem, args));
}

Support supports_ring_cuda(const Problem& problem, const Device&) {
  return problem.spatial ? Support::no("the window is a spatial one") : Support::yes();
}

Status ring_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_lrn_ring(lrn_params(problem, args), site.stream);
  return cuda::launch_status("lrn_ring");
}

Support supports_spatial_cuda(const Problem& problem, const Device&) {
  return problem.spatial ? Support::yes() : Support::no("the window runs over channels");
}

Status spatial_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_lrn_spatial(lrn_params(problem, args), site.stream);
  return cuda::launch_status("lrn_spatial");
}

}  // namespace gpudnn::lrn
