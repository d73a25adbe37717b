// The CUDA engines' plans of a normalization, and where a handle keeps them.
// SPDX-License-Identifier: Apache-2.0
#include "ops/norm/plan.hpp"

#include "core/device.hpp"
#include "core/handle.hpp"
#include "ops/norm/walk.hpp"

namespace gpudnn::norm {
namespace {

// Everything that a plan depends on but the device, which is the handle's.
struct PlanKey {
  std::int32_t tag = 0x6e6f726d;  // of this operation
  std::int32_t pass;
  std::int32_t per_activation;
  std::int32_t adds;
  std::int32_t masked;
  std::int32_t saved;
  std::int64_t alignment;
  std::uint64_t scratch;
  TensorGeometry x, out, side, dz, params, stats;

  explicit PlanKey(const Problem& problem)
      : pass(static_cast<std::int32_t>(problem.pass)),
        per_activation(problem.per_activation ? 1 : 0),
        adds(problem.ops == GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION ? 1 : 0),
        masked(has_mask(problem) ? 1 : 0),
        saved(problem.saved ? 1 : 0),
        alignment(problem.alignment),
        scratch(problem.scratch),
        x(problem.x),
        out(problem.pass == Pass::backward ? problem.dx : problem.y),
        params(problem.params),
        stats(problem.stats) {
    if (problem.pass == Pass::backward) {
      side = problem.dy;
      if (adds != 0) dz = problem.dz;
    } else if (adds != 0) {
      side = problem.z;
    }
  }
};

// An access narrower than the widest where the pointers ask for it.
void narrow_access(const Problem& problem, kernels::NormWalk* walk) {
  const int size = data_type_bits(problem.x.type) / 8;
  while (walk->access > size && walk->access > problem.alignment)
    walk->access = walk->access > 4 && size < 4 ? 4 : size;
}

}  // namespace

LaunchPlan make_plan(const Device& device, const Problem& problem) {
  const cuda::DeviceScope scope(device);  // which is asked how many blocks it takes
  LaunchPlan plan;
  plan.walk_fits = walk_fits(problem);
  if (!plan.walk_fits) return plan;
  plan.walk = make_walk(problem);
  narrow_access(problem, &plan.walk);
  plan.infers_in_packs = describe_infer(problem, plan.walk, &plan.infer);
  plan.segments = plan_segments(device, problem, plan.walk);
  plan.split = split_shape(device, problem, plan.walk);
  plan.cluster = cluster_shape(device, problem, plan.walk);
  const std::int64_t sets = plan.walk.sets();
  plan.split_is_faster = sets < tile::kMaxIterations && plan.split.seconds < plan.cluster.seconds;
  const std::size_t values = problem.pass == Pass::backward ? 4 : 2;
  const std::size_t scalar = problem.x.type == GPUDNN_DATA_DOUBLE ? 8 : 4;
  plan.split_results_bytes = values * static_cast<std::size_t>(sets) * scalar;
  plan.split_partials_bytes = 3 * static_cast<std::size_t>(plan.split.parts) * static_cast<std::size_t>(sets) * scalar;
  return plan;
}

std::shared_ptr<const LaunchPlan> find_plan(gpudnnHandle_t handle, const Problem& problem) {
  const PlanKey key(problem);
  auto plan = handle->plans.find<LaunchPlan>(key);
  if (plan == nullptr) {
    plan = handle->plans.keep(key, std::make_shared<const LaunchPlan>(make_plan(*handle->device, problem)));
  }
  return plan;
}

}  // namespace gpudnn::norm
