// The engines of layer normalization, best first.
// SPDX-License-Identifier: Apache-2.0
#include "core/verify.hpp"
#include "host/layer_norm.hpp"
#include "ops/layer_norm/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/layer_norm/cuda_engines.hpp"
#endif

namespace gpudnn::layer_norm {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"rows", GPUDNN_BACKEND_CUDA, supports_rows_cuda, rows_cuda},
    {"channels_last", GPUDNN_BACKEND_CUDA, supports_channels_last_cuda, channels_last_cuda},
    {"planes", GPUDNN_BACKEND_CUDA, supports_planes_cuda, planes_cuda},
    {"strided", GPUDNN_BACKEND_CUDA, supports_strided_cuda, strided_cuda},
#endif
    host_reference<host::layer_norm, Problem, Args>(),
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  check->read("x", args.x, &problem.x);
  check->read("dy", args.dy, &problem.dy);
  check->read("scale", args.scale, &problem.scale);
  check->read("bias", args.bias, &problem.bias);
  check->read("mean", args.saved_mean, &problem.mean);
  check->read("inverse", args.saved_inverse, &problem.inverse);
  if (problem.around.is_there()) return check->give_up("what stands around it is not followed");
  const auto write = [&](const char* name, void*& pointer, TensorGeometry* geometry) {
    check->write(name, pointer, geometry, false, verify::whole(geometry->type));
  };
  write(problem.backward() ? "dx" : "y", args.out, &problem.out);
  write("mean", args.mean, &problem.mean);
  write("inverse", args.inverse, &problem.inverse);
  write("dscale", args.dscale, &problem.dscale);
  write("dbias", args.dbias, &problem.dbias);
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

std::size_t workspace_bytes(const Device& device, const Problem& problem) {
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA) {
    if (supports_rows_cuda(problem, device)) return rows_workspace_cuda(problem, device);
    if (supports_channels_last_cuda(problem, device)) return channels_last_workspace_cuda(problem, device);
    if (supports_planes_cuda(problem, device)) return planes_workspace_cuda(problem, device);
    return 0;
  }
#endif
  (void)device, (void)problem;
  return 0;
}

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.x) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::layer_norm
