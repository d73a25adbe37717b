// The spatial transformer's engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "core/verify.hpp"
#include "host/spatial_transformer.hpp"
#include "ops/spatial_transformer/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/spatial_transformer/cuda_engines.hpp"
#endif

namespace gpudnn::spatial_transformer {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"gather", GPUDNN_BACKEND_CUDA, supports_all<Problem>, gather_cuda},
#endif
    host_reference<host::spatial_transformer, Problem, Args>(),
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  const TensorGeometry grid = grid_geometry(problem);
  const TensorGeometry theta = theta_geometry(problem);
  const verify::Bound bound = verify::whole(problem.y.type);
  switch (problem.operation) {
    case Operation::grid_forward:
      check->read("theta", args.theta, theta);
      check->write("the grid", args.out, grid, false, bound);
      break;
    case Operation::grid_backward:
      check->read("dgrid", args.grid, grid);
      check->write("dtheta", args.out, theta, false, bound);
      break;
    default:
      check->read("x", args.x, &problem.x);
      check->read("the grid", args.grid, grid);
      check->read("dy", args.dy, problem.y);
      if (problem.operation == Operation::sample_forward) {
        check->write("y", args.out, problem.y, args.beta != 0, bound);
      } else {
        check->write("dx", args.out, &problem.dx, args.beta != 0, bound);
        check->write("dgrid", args.dgrid, grid, args.grid_beta != 0, bound);
      }
  }
  problem.y.type = GPUDNN_DATA_DOUBLE;
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.y) == 0 && problem.operation != Operation::sample_backward) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::spatial_transformer
