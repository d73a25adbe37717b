// Launchers of the fused operations' own kernels.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/fused_ops/fused_ops.hpp"
#include "ops/any_type.hpp"
#include "ops/fused_ops/cuda_engines.hpp"
#include "ops/loop_nest.hpp"

namespace gpudnn::fused_ops {
namespace {

// With bits the places are counted in row-major order; without, in the order of y's memory.
tile::HostNest places_of(const AffineProblem& problem) {
  const TensorGeometry& z = problem.z.rank != 0 ? problem.z : problem.y;
  std::array places = {without_channels(problem.x), without_channels(z), without_channels(problem.y)};
  if (problem.bits == Bits::none) return make_loop_nest(places);
  return merged_nest(places.data(), 3);
}

kernels::AffineActivation activation_of(gpudnnActivationMode_t mode) {
  switch (mode) {
    case GPUDNN_ACTIVATION_RELU:
      return kernels::AffineActivation::relu;
    case GPUDNN_ACTIVATION_CLIPPED_RELU:
      return kernels::AffineActivation::clipped_relu;
    default:
      return kernels::AffineActivation::none;
  }
}

kernels::ChannelData channel_data(const ChannelVector& vector, const void* data) {
  const bool in_packs = vector.stride == 1 && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  return {vector.present ? const_cast<void*>(data) : nullptr, any_type(vector.type), vector.stride, in_packs};
}

kernels::ChannelSumsParams sums_params(const SumsProblem& problem, const Device& device) {
  std::array places = {without_channels(problem.y)};
  kernels::ChannelSumsParams params;
  params.type = element_type(problem.y.type);
  params.channels = problem.y.dims[1];
  params.channel_stride = problem.y.strides[1];
  params.places = make_loop_nest(places);
  params.multiprocessors = device.multiprocessors;
  params.sum_stride = problem.sum.stride;
  params.squares_stride = problem.squares.stride;
  return params;
}

}  // namespace

bool takes_sums_cuda(const SumsProblem& problem, const Device& device, std::size_t* workspace) {
  const kernels::ChannelSumsParams params = sums_params(problem, device);
  if (params.places.count() == 0 || !kernels::takes_channel_sums(params)) return false;
  *workspace = kernels::channel_sums_workspace(params);
  return true;
}

Status sums_cuda(const LaunchSite& site, const SumsProblem& problem, const SumsArgs& args) {
  kernels::ChannelSumsParams params = sums_params(problem, site.device);
  params.y = args.y;
  params.sum = args.sum;
  params.squares = args.squares;
  params.workspace = args.workspace;
  kernels::launch_channel_sums(params, site.stream);
  return cuda::launch_status("channel_sums");
}

Support supports_channel_affine_cuda(const AffineProblem&, const Device&) { return Support::yes(); }

Status channel_affine_cuda(const LaunchSite& site, const AffineProblem& problem, const AffineArgs& args) {
  kernels::ChannelAffineParams params;
  params.type = element_type(problem.y.type);
  params.activation = activation_of(problem.mode);
  params.propagate_nan = problem.nan == GPUDNN_PROPAGATE_NAN;
  params.ceiling = problem.coef;
  params.x = args.x;
  params.z = problem.z.rank != 0 ? args.z : nullptr;
  params.y = args.y;
  for (int v = 0; v < kVectors; ++v) params.vectors[v] = channel_data(problem.vectors[v], args.vectors[v]);
  params.bits = problem.bits == Bits::none ? nullptr : static_cast<std::uint8_t*>(args.bits);
  params.gates = problem.bits == Bits::read;
  params.channels = problem.y.dims[1];
  params.channel_strides[0] = problem.x.strides[1];
  params.channel_strides[1] = problem.z.rank != 0 ? problem.z.strides[1] : problem.y.strides[1];
  params.channel_strides[2] = problem.y.strides[1];
  params.places = places_of(problem);
  params.multiprocessors = site.device.multiprocessors;
  kernels::launch_channel_affine(params, site.stream);
  return cuda::launch_status("channel_affine");
}

Support supports_finalize_cuda(const FinalizeProblem&, const Device&) { return Support::yes(); }

Status finalize_cuda(const LaunchSite& site, const FinalizeProblem& problem, const FinalizeArgs& args) {
  static_assert(static_cast<int>(kFinalizeVectors) == kernels::kFinalizeVectors);
  kernels::FinalizeParams params;
  params.training = problem.training;
  params.channels = problem.channels;
  params.count = static_cast<double>(args.count);
  params.factor = args.factor;
  params.epsilon = args.epsilon;
  for (int v = 0; v < kFinalizeVectors; ++v) params.vectors[v] = channel_data(problem.vectors[v], args.vectors[v]);
  kernels::launch_finalize_statistics(params, site.stream);
  return cuda::launch_status("finalize_statistics");
}

}  // namespace gpudnn::fused_ops
