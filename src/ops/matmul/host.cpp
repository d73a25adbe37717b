// The host's engines of the matrix product: the blocked one, and the plain reference. Both take everything.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/host.hpp"

#include "core/parallel.hpp"
#include "host/matmul.hpp"

namespace gpudnn::matmul {

Support host_supports(const Problem&, const Device&) { return Support::yes(); }

void host_gemm_candidates(const Problem& problem, const Device&, std::vector<Candidate>* candidates) {
  // About 3 * 10^10 operations in a second on each core, and before them 4 ns for each element of a and b, which are
  // copied for the purpose: for one row of a that takes longer than the reference.
  const auto copied = static_cast<double>((rows(problem) + columns(problem)) * depth(problem) * batches(problem));
  candidates->push_back({"", (flops(problem) / 3e10 + 4e-9 * copied) / host_threads()});
}

void host_reference_candidates(const Problem& problem, const Device&, std::vector<Candidate>* candidates) {
  // About 10^9.
  candidates->push_back({"", flops(problem) / (1e9 * host_threads())});
}

std::size_t host_workspace(const Problem&, const Config&, const Device&) { return 0; }

std::shared_ptr<const void> host_prepare(const Problem& problem, const Config&, const Device&) {
  return std::make_shared<const Problem>(problem);
}

Status host_gemm_launch(const LaunchSite&, const void* prepared, const Args& args) {
  host::matmul_gemm(*static_cast<const Problem*>(prepared), args);
  return GPUDNN_STATUS_SUCCESS;
}

Status host_reference_launch(const LaunchSite&, const void* prepared, const Args& args) {
  host::matmul(*static_cast<const Problem*>(prepared), args);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::matmul
