// The convolution engine of the host backend that users wait for: blocked matrix products, no workspace, every problem.
// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.hpp"
#include "host/conv_gemm.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {
namespace {

Support supports(const Problem& problem, const Device&) {
  const char* const reason = integer_unsupported_reason(problem);
  return reason == nullptr ? Support::yes() : Support::no(reason);
}

void candidates(const Problem& problem, const Device&, std::vector<Candidate>* found) {
  // About 3 * 10^10 operations in a second on each core, where the reference does 10^9.
  found->push_back({{.tile_name = "blocked"}, flops(problem) / (3e10 * host_threads())});
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config&, const Device&) {
  return std::make_shared<const Problem>(problem);
}

Status launch(const LaunchSite&, const void* prepared, const Args& args) {
  host::conv_gemm(*static_cast<const Problem*>(prepared), args);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

extern const ConvEngine kHostGemm = {.name = "host_gemm",
                                     .backend = GPUDNN_BACKEND_HOST,
                                     .supports = &supports,
                                     .candidates = &candidates,
                                     .prepare = &prepare,
                                     .launch = &launch};

}  // namespace gpudnn::conv
