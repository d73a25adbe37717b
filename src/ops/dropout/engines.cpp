// The dropout engines, best first.
// SPDX-License-Identifier: Apache-2.0
#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/dropout.hpp"
#include "ops/dropout/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/dropout/cuda_engines.hpp"
#endif

namespace gpudnn::dropout {
namespace {

constexpr Engine<Problem, Args> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"philox", GPUDNN_BACKEND_CUDA, supports_all<Problem>, philox_cuda},
#endif
    host_reference<host::dropout, Problem, Args>(),
};

void describe(Problem& problem, Args& args, verify::Check* check) {
  const double u = numerics::unit_roundoff(numerics::compute_type(problem.in.type));
  const TensorGeometry mask = verify::vector_of(GPUDNN_DATA_UINT8, static_cast<std::int64_t>(reserve_size(problem.in)));
  check->read("the input", args.in, &problem.in);
  if (problem.backward) {
    check->read_as_is("the reserve space", args.reserve, mask);
  } else {
    // All of the states' bytes count, so that the next call draws the same.
    const TensorGeometry states = verify::vector_of(GPUDNN_DATA_UINT8, sizeof(States));
    check->write_as_is("the states", args.states, states, true, verify::exact());
    check->write_as_is("the reserve space", args.reserve, mask, true, verify::exact());
  }
  check->write("the output", args.out, &problem.out, false,
               verify::by_value([=](double value) { return 2 * u * value; }));
}

}  // namespace

std::span<const Engine<Problem, Args>> engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.out) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(engines(), handle, problem, args, describe);
}

Status start_states(gpudnnHandle_t handle, void* states, std::uint64_t seed) {
  auto* const typed = static_cast<States*>(states);
#ifdef GPUDNN_WITH_CUDA
  const LaunchSite site = launch_site(handle);
  if (site.device.backend == GPUDNN_BACKEND_CUDA) {
    const cuda::DeviceScope scope(site.device);
    return start_states_cuda(site, typed, seed);
  }
#else
  (void)handle;
#endif
  *typed = {seed, 0, 0, 0};
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::dropout
