// The engines of local response and divisive normalization, best first.
// SPDX-License-Identifier: Apache-2.0
#include "core/verify.hpp"
#include "host/lrn.hpp"
#include "ops/lrn/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/lrn/cuda_engines.hpp"
#endif

namespace gpudnn::lrn {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"rows", GPUDNN_BACKEND_CUDA, supports_rows_cuda, rows_cuda},
    {"columns", GPUDNN_BACKEND_CUDA, supports_columns_cuda, columns_cuda},
    {"ring", GPUDNN_BACKEND_CUDA, supports_ring_cuda, ring_cuda},
    {"spatial", GPUDNN_BACKEND_CUDA, supports_spatial_cuda, spatial_cuda},
#endif
    host_reference<host::lrn, Problem, Args>(),
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  check->read("x", args.x, &problem.x);
  check->read("means", args.means, &problem.x);
  const verify::Bound bound = verify::whole(problem.x.type);
  if (!problem.backward) return check->write("y", args.out, &problem.y, args.beta != 0, bound);
  check->read("dy", args.dy, &problem.dy);
  check->write("dx", args.out, &problem.dx, args.beta != 0, bound);
  check->write("dMeans", args.means_gradient, &problem.dx, args.beta != 0, bound);
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.x) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::lrn
