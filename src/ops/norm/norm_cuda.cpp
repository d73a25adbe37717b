// Launchers of the normalization kernels.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/norm/norm.hpp"
#include "ops/loop_nest.hpp"
#include "ops/norm/cuda_engines.hpp"
#include "ops/norm/shape.hpp"
#include "ops/norm/walk.hpp"

namespace gpudnn::norm {
namespace {

using kernels::NormParams;
using kernels::NormStage;

constexpr const char* kTooLarge =
    "a set, or the tensor across sets, has more than 2^31 units of 8 elements; normalize it in parts";

kernels::NormActivation activation_of(const Problem& problem) {
  if (problem.ops == GPUDNN_BATCHNORM_OPS_BN || problem.mode == GPUDNN_ACTIVATION_IDENTITY) {
    return kernels::NormActivation::none;
  }
  return problem.mode == GPUDNN_ACTIVATION_RELU ? kernels::NormActivation::relu : kernels::NormActivation::clipped_relu;
}

bool aligned(const void* pointer, int bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

// The walk for these pointers: an access narrower than the widest where one of them asks for it.
kernels::NormWalk walk_for(const Problem& problem, const Args& args) {
  kernels::NormWalk walk = make_walk(problem);
  const int size = data_type_bits(problem.x.type) / 8;
  const void* const side = problem.pass == Pass::backward ? args.dy : args.z;
  while (walk.access > size && !(aligned(args.x, walk.access) && aligned(args.out, walk.access) &&
                                 aligned(side, walk.access) && aligned(args.dz, walk.access))) {
    walk.access = walk.access > 4 && size < 4 ? 4 : size;
  }
  return walk;
}

NormParams common_params(const Problem& problem, const Args& args, const kernels::NormWalk& walk) {
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
  params.running_mean = args.running_mean;
  params.running_variance = args.running_variance;
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

// Where partials and results lie: in the workspace, or in the output until it is written. The results must outlive the
// first writes to the output, so without a workspace they are what the caller keeps anyway.
struct Scratch {
  void* partials = nullptr;
  void* results = nullptr;
};

std::size_t scalar_bytes(const Problem& problem) { return problem.x.type == GPUDNN_DATA_DOUBLE ? 8 : 4; }
std::size_t results_bytes(const Problem& problem, const kernels::NormWalk& walk) {
  const std::size_t values = problem.pass == Pass::backward ? 4 : 2;
  return values * static_cast<std::size_t>(walk.sets()) * scalar_bytes(problem);
}
std::size_t partials_bytes(const Problem& problem, const kernels::NormWalk& walk, const Shape& shape) {
  return 3 * static_cast<std::size_t>(shape.parts) * static_cast<std::size_t>(walk.sets()) * scalar_bytes(problem);
}

Scratch scratch_for(const Problem& problem, const Args& args, const kernels::NormWalk& walk, const Shape& shape) {
  const std::size_t partials = partials_bytes(problem, walk, shape);
  const std::size_t results = results_bytes(problem, walk);
  if (args.scratch == nullptr || args.scratch_bytes < partials + results ||
      !aligned(args.scratch, static_cast<int>(scalar_bytes(problem)))) {
    return {};
  }
  return {static_cast<char*>(args.scratch) + results, args.scratch};
}

bool split_is_faster(const Device& device, const Problem& problem, const kernels::NormWalk& walk) {
  if (walk.sets() >= tile::kMostIterations) return false;
  return split_shape(device, problem, walk).seconds < cluster_shape(device, problem, walk).seconds;
}

}  // namespace

std::size_t cuda_reserve_bytes(const Problem& problem) { return has_mask(problem) ? mask_bytes(problem) : 0; }

std::size_t split_workspace_bytes(const Device& device, const Problem& problem) {
  if (problem.pass == Pass::infer || element_count(problem.x) == 0 || !walk_fits(problem)) return 0;
  std::size_t most = 0;
  // Backward may or may not be given statistics, which the query cannot know.
  for (const bool saved : {true, false}) {
    Problem variant = problem;
    variant.saved = saved;
    const kernels::NormWalk walk = make_walk(variant);
    if (!split_is_faster(device, variant, walk)) continue;
    most = std::max(most,
                    partials_bytes(variant, walk, split_shape(device, variant, walk)) + results_bytes(variant, walk));
  }
  return most;
}

bool has_scratch(const Device& device, const Problem& problem, const Args& args) {
  if (problem.pass == Pass::infer || args.scratch == nullptr || !walk_fits(problem)) return false;
  const kernels::NormWalk walk = walk_for(problem, args);
  return scratch_for(problem, args, walk, split_shape(device, problem, walk)).results != nullptr;
}

Support supports_apply_cuda(const Problem& problem, const Device&) {
  if (problem.pass != Pass::infer) return Support::no("training has statistics to gather first");
  return walk_fits(problem) ? Support::yes() : Support::no(kTooLarge);
}

Status apply_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::NormWalk walk = walk_for(problem, args);
  NormParams params = common_params(problem, args, walk);
  take(split_shape(site.device, problem, walk), &params);
  params.stage = NormStage::apply;
  launch(params, site.stream);
  return cuda::launch_status("norm_apply");
}

Support supports_split_cuda(const Problem& problem, const Device& device) {
  if (problem.pass == Pass::infer) return Support::no("inference needs one pass");
  if (!problem.scratch) return Support::no("the call brings no workspace for partial sums");
  if (!walk_fits(problem)) return Support::no(kTooLarge);
  return split_is_faster(device, problem, make_walk(problem)) ? Support::yes()
                                                              : Support::no("one launch is expected to be faster");
}

Status split_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::NormWalk walk = walk_for(problem, args);
  const Shape shape = split_shape(site.device, problem, walk);
  NormParams params = common_params(problem, args, walk);
  take(shape, &params);
  const Scratch scratch = scratch_for(problem, args, walk, shape);
  params.partials = scratch.partials;
  params.results = scratch.results;
  params.stage = NormStage::partial;
  if (problem.pass == Pass::backward && !problem.saved) {
    NormParams statistics = params;  // as forward gathers them
    statistics.backward = false;
    statistics.side = nullptr;
    launch(statistics, site.stream);
    kernels::launch_norm_finish(statistics, site.stream);
  }
  launch(params, site.stream);
  kernels::launch_norm_finish(params, site.stream);
  params.stage = NormStage::apply;
  launch(params, site.stream);
  return cuda::launch_status("norm_split");
}

Support supports_cluster_cuda(const Problem& problem, const Device&) {
  return walk_fits(problem) ? Support::yes() : Support::no(kTooLarge);
}

Status cluster_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::NormWalk walk = walk_for(problem, args);
  NormParams params = common_params(problem, args, walk);
  take(cluster_shape(site.device, problem, walk), &params);
  launch(params, site.stream);
  return cuda::launch_status("norm_cluster");
}

}  // namespace gpudnn::norm
