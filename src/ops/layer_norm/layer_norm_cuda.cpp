// Launchers of the layer-normalization kernels.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "kernels/layer_norm/channels_last.hpp"
#include "kernels/layer_norm/layer_norm.hpp"
#include "ops/any_type.hpp"
#include "ops/layer_norm/cuda_engines.hpp"
#include "ops/loop_nest.hpp"

namespace gpudnn::layer_norm {
namespace {

// The dimensions in `kept` of six tensors with x's extents; x, the last one, gives the order. One that is not there or
// has extent 1 does not move.
tile::HostNest nest_of(const Problem& problem, std::uint32_t kept,
                       const std::array<const TensorGeometry*, kernels::kLnSlots>& tensors) {
  std::array<TensorGeometry, kernels::kLnSlots> stretched;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    TensorGeometry& tensor = stretched[t] = problem.x;
    for (int i = 0; i < tensor.rank; ++i) {
      const bool moves = tensors[t]->rank > 0 && tensors[t]->dims[i] > 1;
      tensor.strides[i] = moves ? tensors[t]->strides[i] : 0;
      if ((kept >> i & 1u) == 0) tensor.dims[i] = 1;
    }
  }
  return make_loop_nest(stretched);
}

kernels::LayerNormTensor tensor_of(const TensorGeometry& geometry, const void* data) {
  return {const_cast<void*>(data), any_type(geometry.type)};  // NOLINT: kernels know which they write
}

kernels::LayerNormParams params_of(const Problem& p, const Device& device, const Args& args) {
  kernels::LayerNormParams params;
  params.backward = p.backward();
  params.rms = p.mode == Mode::rms;
  params.epsilon = p.epsilon;
  params.x = tensor_of(p.x, args.x);
  params.out = tensor_of(p.out, args.out);
  params.mean = tensor_of(p.mean, params.backward ? args.saved_mean : args.mean);
  params.inverse = tensor_of(p.inverse, params.backward ? args.saved_inverse : args.inverse);
  params.scale = tensor_of(p.scale, args.scale);
  params.bias = tensor_of(p.bias, args.bias);
  params.dy = tensor_of(p.dy, args.dy);
  params.dscale = tensor_of(p.dscale, args.dscale);
  params.dbias = tensor_of(p.dbias, args.dbias);
  const std::array<const TensorGeometry*, kernels::kLnSlots> slots = {
      &p.mean, &p.inverse, &p.scale, params.backward ? &p.dy : &p.bias, &p.out, &p.x};
  params.within = nest_of(p, p.axes, slots);
  params.between = nest_of(p, ~p.axes, slots);
  if (params.backward) {
    const std::array<const TensorGeometry*, kernels::kLnSlots> sums = {&p.mean,  &p.inverse, &p.dscale,
                                                                       &p.dbias, &p.dy,      &p.x};
    params.params = nest_of(p, p.by, sums);
    params.summed = nest_of(p, ~p.by, sums);
  }
  if (p.around.is_there()) {
    kernels::LayerNormAround& around = params.around;
    around.residual = args.residual;
    around.sum = args.sum;
    around.activation = p.around.activation;
    around.function = p.around.function;
    around.drops_nan = p.around.drops_nan;
    around.factor = static_cast<const float*>(args.factor);
    around.number = static_cast<float>(args.number);
    around.amax = static_cast<float*>(args.amax);
  }
  params.multiprocessors = device.multiprocessors;
  params.has_clusters = device.has_clusters();
  params.partials = static_cast<float*>(args.workspace);
  return params;
}

// Data that a call would bring, so that what depends on them can be asked beforehand: aligned, and there where the
// problem has a tensor.
Args some_args(const Problem& p) {
  static char kData = 0;
  void* const any = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&kData) & ~std::uintptr_t{15});  // NOLINT
  const auto at = [any](const TensorGeometry& tensor) { return tensor.rank > 0 ? any : nullptr; };
  Args args;
  args.x = args.out = any;
  args.dy = at(p.dy);
  args.scale = at(p.scale);
  args.bias = at(p.bias);
  args.dscale = at(p.dscale);
  args.dbias = at(p.dbias);
  args.saved_mean = args.mean = at(p.mean);
  args.saved_inverse = args.inverse = at(p.inverse);
  args.residual = p.around.residual ? any : nullptr;
  args.sum = p.around.sum ? any : nullptr;
  args.factor = p.around.factor ? any : nullptr;
  args.amax = p.around.amax ? any : nullptr;
  return args;
}

bool rows_fit(const kernels::LayerNormParams& params) {
  if (params.around.is_there()) return kernels::layer_norm_resident_rows_fit(params);
  return params.backward ? kernels::layer_norm_rows_backward_fit(params) : kernels::layer_norm_rows_fit(params);
}

}  // namespace

std::size_t rows_workspace_cuda(const Problem& problem, const Device& device) {
  if (!problem.backward()) return 0;
  const kernels::LayerNormParams params = params_of(problem, device, some_args(problem));
  return rows_fit(params) ? kernels::layer_norm_partial_bytes(params) : 0;
}

Support supports_rows_cuda(const Problem& problem, const Device& device) {
  return rows_fit(params_of(problem, device, some_args(problem)))
             ? Support::yes()
             : Support::no("the elements of a set are not contiguous, or the parameters not those of columns");
}

Status rows_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::LayerNormParams params = params_of(problem, site.device, args);
  if (problem.around.is_there()) {
    GPUDNN_REQUIRE(rows_fit(params), GPUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                   "a data pointer is no multiple of 16, which the tensors' BYTE_ALIGNMENT promised");
  }
  if (kernels::layer_norm_held_sets_fit(params)) {
    kernels::launch_layer_norm_held_sets(params, site.stream);
    return cuda::launch_status("layer_norm_held_sets");
  }
  if (kernels::layer_norm_row_tiles_fit(params)) {
    kernels::launch_layer_norm_row_tiles(params, site.stream);
    return cuda::launch_status("layer_norm_row_tiles");
  }
  if (kernels::layer_norm_ring_rows_fit(params)) {
    kernels::launch_layer_norm_ring_rows(params, site.stream);
    return cuda::launch_status("layer_norm_ring_rows");
  }
  if (kernels::layer_norm_rows_of_sum_fit(params)) {
    kernels::launch_layer_norm_rows_of_sum(params, site.stream);
    return cuda::launch_status("layer_norm_rows_of_sum");
  }
  if (kernels::layer_norm_row_groups_fit(params)) {
    kernels::launch_layer_norm_row_groups(params, site.stream);
    return cuda::launch_status("layer_norm_row_groups");
  }
  if (kernels::layer_norm_resident_rows_fit(params)) {
    kernels::launch_layer_norm_resident_rows(params, site.stream);
    return cuda::launch_status("layer_norm_resident_rows");
  }
  if (!rows_fit(params)) return strided_cuda(site, problem, args);
  if (!params.backward) {
    kernels::launch_layer_norm_rows(params, site.stream);
    return cuda::launch_status("layer_norm_rows");
  }
  const std::size_t bytes = kernels::layer_norm_partial_bytes(params);
  if (bytes > 0 && (args.workspace == nullptr || args.workspace_bytes < bytes))
    return strided_cuda(site, problem, args);
  kernels::launch_layer_norm_rows_backward(params, site.stream);
  return cuda::launch_status("layer_norm_rows_backward");
}

std::size_t channels_last_workspace_cuda(const Problem& problem, const Device& device) {
  return kernels::layer_norm_channels_last_bytes(params_of(problem, device, some_args(problem)));
}

constexpr const char* kAround = "something stands around it";

Support supports_channels_last_cuda(const Problem& problem, const Device& device) {
  if (problem.around.is_there()) return Support::no(kAround);
  return kernels::layer_norm_channels_last_fit(params_of(problem, device, some_args(problem)))
             ? Support::yes()
             : Support::no("x is not samples of pixels, each with its channels in whole packs");
}

Status channels_last_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::LayerNormParams params = params_of(problem, site.device, args);
  if (!kernels::launch_layer_norm_channels_last(params, args.workspace_bytes, site.stream))
    return strided_cuda(site, problem, args);
  return cuda::launch_status("layer_norm_channels_last");
}

std::size_t planes_workspace_cuda(const Problem& problem, const Device& device) {
  return kernels::layer_norm_planes_backward_bytes(params_of(problem, device, some_args(problem)));
}

Support supports_planes_cuda(const Problem& problem, const Device& device) {
  if (problem.around.is_there()) return Support::no(kAround);
  return kernels::layer_norm_planes_backward_fit(params_of(problem, device, some_args(problem)))
             ? Support::yes()
             : Support::no("the pass is not backward, or the elements of a set are not contiguous planes of channels");
}

Status planes_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::LayerNormParams params = params_of(problem, site.device, args);
  if (!kernels::layer_norm_planes_backward_fit(params) || args.workspace == nullptr ||
      args.workspace_bytes < kernels::layer_norm_planes_backward_bytes(params)) {
    return strided_cuda(site, problem, args);
  }
  kernels::launch_layer_norm_planes_backward(params, site.stream);
  return cuda::launch_status("layer_norm_planes_backward");
}

Support supports_strided_cuda(const Problem& problem, const Device&) {
  return problem.around.is_there() ? Support::no(kAround) : Support::yes();
}

Status strided_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_layer_norm_strided(params_of(problem, site.device, args), site.stream);
  return cuda::launch_status("layer_norm_strided");
}

}  // namespace gpudnn::layer_norm
