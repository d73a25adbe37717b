// Launcher of the dropout kernels.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "kernels/dropout/dropout.hpp"
#include "ops/dropout/cuda_engines.hpp"
#include "ops/loop_nest.hpp"

namespace gpudnn::dropout {

Status philox_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::DropoutParams params;
  params.type = element_type(problem.in.type);
  params.backward = problem.backward;
  params.threshold = threshold_of(problem.probability);
  params.scale = scale_of(problem.probability);
  params.in = args.in;
  params.out = args.out;
  params.reserve = static_cast<unsigned char*>(args.reserve);
  params.states = static_cast<States*>(args.states);
  params.order = mask_order(problem.out);
  params.nest = make_loop_nest(std::array{problem.in, problem.out});
  params.multiprocessors = site.device.multiprocessors;
  kernels::launch_dropout(params, site.stream);
  return cuda::launch_status("dropout");
}

Status start_states_cuda(const LaunchSite& site, States* states, std::uint64_t seed) {
  kernels::launch_dropout_states(states, seed, site.stream);
  return cuda::launch_status("dropout_states");
}

}  // namespace gpudnn::dropout
