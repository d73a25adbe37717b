// The convolution engine of the host backend that users wait for: blocked matrix products, no workspace, every problem.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/host_gemm.hpp"

#include "core/parallel.hpp"
#include "host/conv_gemm.hpp"

namespace gpudnn::conv {

Support host_gemm_supports(const Problem& problem, const Device&) {
  return is_floating(problem.x.type) ? Support::yes()
                                     : Support::no("the host computes float, double, half and bfloat16");
}

void host_gemm_candidates(const Problem& problem, const Device&, std::vector<Candidate>* found) {
  // About 3 * 10^10 operations in a second on each core, where the reference does 10^9.
  found->push_back({Config{}, flops(problem) / (3e10 * host_threads())});
}

std::size_t host_gemm_workspace(const Problem&, const Config&) { return 0; }

std::shared_ptr<const void> host_gemm_prepare(const Problem& problem, const Config&, const Device&) {
  return std::make_shared<const Problem>(problem);
}

Status host_gemm_launch(const LaunchSite&, const void* prepared, const Args& args) {
  host::conv_gemm(*static_cast<const Problem*>(prepared), args);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::conv
