// The normalization engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "core/verify.hpp"
#include "host/norm.hpp"
#include "ops/norm/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/norm/cuda_engines.hpp"
#include "ops/norm/plan.hpp"
#endif

namespace gpudnn::norm {
namespace {

Support supports_all(const Problem&, const Device&) { return Support::yes(); }

Status launch_host(const LaunchSite&, const Problem& problem, const Args& args) {
  host::norm(problem, args);
  return GPUDNN_STATUS_SUCCESS;
}

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"apply", GPUDNN_BACKEND_CUDA, supports_apply_cuda, apply_cuda},
    {"segments", GPUDNN_BACKEND_CUDA, supports_segments_cuda, segments_cuda},
    {"split", GPUDNN_BACKEND_CUDA, supports_split_cuda, split_cuda},
    {"cluster", GPUDNN_BACKEND_CUDA, supports_cluster_cuda, cluster_cuda},
#endif
    {"host_reference", GPUDNN_BACKEND_HOST, supports_all, launch_host},
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  if (problem.peers > 1) return check->give_up("other GPUs take part");
  const DataType type = problem.x.type;
  check->read("x", args.x, &problem.x);
  check->read("z", args.z, &problem.z);
  check->read("dy", args.dy, &problem.dy);
  check->read("scale", args.scale, &problem.params);
  check->read("bias", args.bias, &problem.params);
  check->read("the mean", args.given_mean, &problem.stats);
  check->read("the deviation", args.given_deviation, &problem.stats);
  check->read("the old running mean", args.old_mean, &problem.stats);
  check->read("the old running variance", args.old_variance, &problem.stats);
  const bool is_backward = problem.pass == Pass::backward;
  check->write(is_backward ? "dx" : "y", args.out, is_backward ? &problem.dx : &problem.y, args.beta != 0,
               verify::whole(type));
  check->write("dz", args.dz, &problem.dz, false, verify::whole(type));
  const auto write = [&](const char* name, void*& pointer, TensorGeometry* geometry, bool is_read) {
    check->write(name, pointer, geometry, is_read, verify::whole(geometry->type));
  };
  write("dscale", args.dscale, &problem.params, args.beta_param != 0);
  write("dbias", args.dbias, &problem.params, args.beta_param != 0);
  write("the running mean", args.running_mean, &problem.stats, args.old_mean == nullptr);
  write("the running variance", args.running_variance, &problem.stats, args.old_variance == nullptr);
  write("the saved mean", args.saved_mean, &problem.stats, false);
  write("the saved inverse", args.saved_inverse, &problem.stats, false);
  if (!has_mask(problem)) return;
  const std::size_t bytes = host::norm_reserve_bytes(problem);
  const TensorGeometry mask = verify::vector_of(GPUDNN_DATA_UINT8, static_cast<std::int64_t>(bytes));
  if (!check->is_on_host()) {
    // The bits lie in another order there.
    if (is_backward) return check->give_up("the reserve space of a CUDA device is not the reference's");
    check->scratch(args.mask, bytes);
  } else if (is_backward) {
    check->read_as_is("the reserve space", args.mask, mask);
  } else {
    check->write_as_is("the reserve space", args.mask, mask, false, verify::exact());
  }
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

std::size_t workspace_bytes(gpudnnHandle_t handle, const Problem& problem) {
#ifdef GPUDNN_WITH_CUDA
  if (handle->device->backend == GPUDNN_BACKEND_CUDA) return cuda_workspace_bytes(handle, problem);
#endif
  (void)handle, (void)problem;
  return 0;
}

std::size_t workspace_bytes(const Device& device, const Problem& problem) {
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA) return cuda_workspace_bytes(device, problem);
#endif
  (void)device, (void)problem;
  return 0;
}

std::size_t reserve_bytes(const Device& device, const Problem& problem) {
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA) return cuda_reserve_bytes(problem);
#endif
  (void)device;
  return host::norm_reserve_bytes(problem);
}

Status run(gpudnnHandle_t handle, Problem problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.x) == 0) return GPUDNN_STATUS_SUCCESS;
#ifdef GPUDNN_WITH_CUDA
  std::shared_ptr<const LaunchPlan> plan;
  if (handle->device->backend == GPUDNN_BACKEND_CUDA) {
    note_pointers(args, &problem);
    plan = find_plan(handle, problem);
    problem.plan = plan.get();
  }
#endif
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::norm
