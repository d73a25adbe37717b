// The convolution engine of the host backend: one config, no workspace, every problem.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/host_direct.hpp"

#include "core/parallel.hpp"
#include "host/convolution.hpp"

namespace gpudnn::conv {

Support host_direct_supports(const Problem& problem, const Device&) {
  return is_floating(problem.x.type) ? Support::yes()
                                     : Support::no("the host computes float, double, half and bfloat16");
}

void host_direct_candidates(const Problem& problem, const Device&, std::vector<Candidate>* found) {
  // About 10^9 operations in a second on each core; there is no other host engine to be ranked against.
  found->push_back({Config{}, flops(problem) / (1e9 * host_threads())});
}

std::size_t host_direct_workspace(const Problem&, const Config&) { return 0; }

std::shared_ptr<const void> host_direct_prepare(const Problem& problem, const Config&, const Device&) {
  return std::make_shared<const Problem>(problem);
}

Status host_direct_launch(const LaunchSite&, const void* prepared, const Args& args) {
  host::convolution(*static_cast<const Problem*>(prepared), args);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::conv
