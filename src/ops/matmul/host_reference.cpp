// The plain host reference as an engine: it takes everything.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/host_reference.hpp"

#include "core/parallel.hpp"
#include "host/matmul.hpp"

namespace gpudnn::matmul {

Support host_reference_supports(const Problem&, const Device&) { return Support::yes(); }

void host_reference_candidates(const Problem& problem, const Device&, std::vector<Candidate>* candidates) {
  // About 10^9 operations in a second on each core.
  candidates->push_back({"", flops(problem) / (1e9 * host_threads())});
}

std::size_t host_reference_workspace(const Problem&, const Config&, const Device&) { return 0; }

std::shared_ptr<const void> host_reference_prepare(const Problem& problem, const Config&, const Device&) {
  return std::make_shared<const Problem>(problem);
}

Status host_reference_launch(const LaunchSite&, const void* prepared, const Args& args) {
  host::matmul(*static_cast<const Problem*>(prepared), args);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::matmul
