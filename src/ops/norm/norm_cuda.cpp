// Launchers of the normalization kernels.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/norm/norm.hpp"
#include "ops/loop_nest.hpp"
#include "ops/norm/cuda_engines.hpp"
#include "ops/norm/plan.hpp"
#include "ops/norm/walk.hpp"

namespace gpudnn::norm {
namespace {

using kernels::NormParams;
using kernels::NormStage;

constexpr const char* kShared = "statistics are shared between GPUs";
constexpr const char* kTooLarge =
    "a set, or the tensor across sets, has more than 2^31 units of 8 elements; normalize it in parts";

kernels::NormActivation activation_of(const Problem& problem) {
  if (problem.ops == GPUDNN_BATCHNORM_OPS_BN || problem.mode == GPUDNN_ACTIVATION_IDENTITY) {
    return kernels::NormActivation::none;
  }
  return problem.mode == GPUDNN_ACTIVATION_RELU ? kernels::NormActivation::relu : kernels::NormActivation::clipped_relu;
}

NormParams common_params(const Problem& problem, const Args& args) {
  const kernels::NormWalk& walk = problem.plan->walk;
  const bool backward = problem.pass == Pass::backward;
  NormParams params;
  params.type = element_type(problem.x.type);
  params.backward = backward;
  params.activation = activation_of(problem);
  params.propagate_nan = problem.nan == GPUDNN_PROPAGATE_NAN;
  params.ceiling = problem.coef;
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.alpha_param = args.alpha_param;
  params.beta_param = args.beta_param;
  params.factor = args.factor;
  params.epsilon = problem.epsilon;
  params.count = static_cast<double>(element_count(problem.x)) / static_cast<double>(walk.sets());
  params.x = args.x;
  params.side = backward ? args.dy : args.z;
  params.out = args.out;
  params.dz = args.dz;
  params.mask = has_mask(problem) ? static_cast<unsigned char*>(args.mask) : nullptr;
  params.scale = args.scale;
  params.bias = args.bias;
  params.given_mean = args.given_mean;
  params.given_deviation = args.given_deviation;
  params.inverse_given = problem.inverse_given;
  params.running_mean = args.running_mean;
  params.running_variance = args.running_variance;
  params.old_mean = args.old_mean != nullptr ? args.old_mean : args.running_mean;
  params.old_variance = args.old_variance != nullptr ? args.old_variance : args.running_variance;
  params.saved_mean = args.saved_mean;
  params.saved_inverse = args.saved_inverse;
  params.dscale = args.dscale;
  params.dbias = args.dbias;
  params.walk = walk;
  return params;
}

void take(const Shape& shape, NormParams* params) {
  params->parts = shape.parts;
  params->threads = shape.threads;
  params->lanes = shape.lanes;
  params->cached = shape.cached;
}

void launch(const NormParams& params, cudaStream_t stream) {
  if (params.walk.columns != 0) {
    kernels::launch_norm_columns(params, stream);
  } else {
    kernels::launch_norm_rows(params, stream);
  }
}

// That the fastest engine takes.
std::size_t scratch_of(const LaunchPlan& plan, const Problem& problem) {
  const bool may_split = plan.split_is_faster || problem.peers > 1;
  return std::max(plan.segments.scratch, may_split ? plan.split_results_bytes + plan.split_partials_bytes : 0);
}

// The buffers, and which of them is this GPU's own: the first one in its memory.
Status find_peers(const Device& device, const Problem& problem, const Args& args, kernels::NormPeers* peers) {
  peers->count = problem.peers;
  peers->own = -1;
  for (int i = 0; i < problem.peers; ++i) {
    peers->buffers[i] = args.peers[i];
    cudaPointerAttributes attributes{};
    const cudaError_t error = cudaPointerGetAttributes(&attributes, args.peers[i]);
    GPUDNN_REQUIRE(error == cudaSuccess, GPUDNN_STATUS_BAD_PARAM, "buffer %d of shared statistics, at %p: %s", i,
                   args.peers[i], cudaGetErrorString(error));
    if (peers->own < 0 && attributes.type == cudaMemoryTypeDevice && attributes.device == device.ordinal)
      peers->own = i;
  }
  GPUDNN_REQUIRE(peers->own >= 0, GPUDNN_STATUS_BAD_PARAM,
                 "none of the %d buffers of shared statistics lies in the memory of GPU %d, which executes",
                 peers->count, device.ordinal);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

std::size_t cuda_reserve_bytes(const Problem& problem) { return has_mask(problem) ? mask_bytes(problem) : 0; }

std::size_t cuda_workspace_bytes(gpudnnHandle_t handle, const Problem& problem) {
  if (problem.pass == Pass::infer || element_count(problem.x) == 0) return 0;
  std::size_t most = 0;
  // Backward may or may not be given statistics, and pointers may or may not be aligned, which the query cannot know.
  for (const bool saved : {true, false}) {
    Problem variant = problem;
    variant.saved = saved;
    const auto plan = find_plan(handle, variant);
    if (!plan->walk_fits) return 0;
    most = std::max(most, scratch_of(*plan, problem));
  }
  return most;
}

std::size_t cuda_workspace_bytes(const Device& device, const Problem& problem) {
  if (problem.pass == Pass::infer || element_count(problem.x) == 0) return 0;
  const LaunchPlan plan = make_plan(device, problem);
  return plan.walk_fits ? scratch_of(plan, problem) : 0;
}

void note_pointers(const Args& args, Problem* problem) {
  constexpr std::uintptr_t kMaximum = 16;
  const auto bits = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  const std::uintptr_t all = bits(args.x) | bits(args.out) | bits(args.dy) | bits(args.z) | bits(args.dz) | kMaximum;
  problem->alignment = static_cast<int>(all & (~all + 1));  // its lowest bit
  const bool usable = args.scratch != nullptr && bits(args.scratch) % 8 == 0;
  problem->scratch = usable ? args.scratch_bytes : 0;
}

Support supports_apply_cuda(const Problem& problem, const Device&) {
  if (problem.pass != Pass::infer) return Support::no("training has statistics to gather first");
  return problem.plan->walk_fits ? Support::yes() : Support::no(kTooLarge);
}

Status apply_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  NormParams params = common_params(problem, args);
  if (problem.plan->infers_in_packs) {
    kernels::launch_norm_infer(params, problem.plan->infer, site.stream);
    return cuda::launch_status("norm_infer");
  }
  take(problem.plan->split, &params);
  params.stage = NormStage::apply;
  launch(params, site.stream);
  return cuda::launch_status("norm_apply");
}

Support supports_segments_cuda(const Problem& problem, const Device&) {
  if (!problem.plan->walk_fits) return Support::no(kTooLarge);
  if (problem.peers > 1) return Support::no(kShared);
  const char* const reason = problem.plan->segments.reason_against;
  return reason != nullptr ? Support::no(reason) : Support::yes();
}

Status segments_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const SegmentPlan& plan = problem.plan->segments;
  NormParams params = common_params(problem, args);
  params.parts = plan.parts;
  params.threads = plan.threads;
  params.partials = args.scratch;
  if (kernels::launch_norm_segments(params, plan.segments, site.stream)) return cuda::launch_status("norm_segments");
  // A process may have been given fewer multiprocessors than the device has: then in more launches.
  return supports_split_cuda(problem, site.device) ? split_cuda(site, problem, args)
                                                   : cluster_cuda(site, problem, args);
}

Support supports_split_cuda(const Problem& problem, const Device&) {
  if (problem.pass == Pass::infer) return Support::no("inference needs one pass");
  const LaunchPlan& plan = *problem.plan;
  if (!plan.walk_fits) return Support::no(kTooLarge);
  if (problem.scratch < plan.split_results_bytes + plan.split_partials_bytes) {
    return Support::no("the call brings no workspace for partial sums");
  }
  return plan.split_is_faster || problem.peers > 1 ? Support::yes()
                                                   : Support::no("one launch is expected to be faster");
}

Status split_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  NormParams params = common_params(problem, args);
  take(problem.plan->split, &params);
  params.results = args.scratch;
  params.partials = static_cast<char*>(args.scratch) + problem.plan->split_results_bytes;
  params.stage = NormStage::partial;
  kernels::NormPeers peers;
  if (problem.peers > 1) {
    GPUDNN_TRY(find_peers(site.device, problem, args, &peers));
    params.count *= problem.peers;
    params.alpha_param /= problem.peers;
  }
  if (problem.pass == Pass::backward && !problem.saved) {
    NormParams statistics = params;  // as forward gathers them
    statistics.backward = false;
    statistics.side = nullptr;
    launch(statistics, site.stream);
    kernels::launch_norm_finish(statistics, site.stream);
  }
  launch(params, site.stream);
  if (problem.peers > 1) {
    kernels::launch_norm_finish_with_peers(params, peers, site.stream);
  } else {
    kernels::launch_norm_finish(params, site.stream);
  }
  params.stage = NormStage::apply;
  launch(params, site.stream);
  return cuda::launch_status("norm_split");
}

Support supports_cluster_cuda(const Problem& problem, const Device&) {
  if (problem.peers > 1) return Support::no(kShared);
  return problem.plan->walk_fits ? Support::yes() : Support::no(kTooLarge);
}

Status cluster_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  NormParams params = common_params(problem, args);
  take(problem.plan->cluster, &params);
  launch(params, site.stream);
  return cuda::launch_status("norm_cluster");
}

}  // namespace gpudnn::norm
