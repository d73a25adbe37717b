// The convolution engine of the host backend: one config, no workspace, every problem.
// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.hpp"
#include "host/convolution.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {
namespace {

Support supports(const Problem&, const Device&) { return Support::yes(); }

void candidates(const Problem& problem, const Device&, std::vector<Candidate>* found) {
  // About 10^9 operations in a second on each core.
  found->push_back({{.tile_name = "reference"}, flops(problem) / (1e9 * host_threads())});
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config&, const Device&) {
  return std::make_shared<const Problem>(problem);
}

Status launch(const LaunchSite&, const void* prepared, const Args& args) {
  host::convolution(*static_cast<const Problem*>(prepared), args);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

extern const ConvEngine kHostDirect = {.name = "host_direct",
                                       .backend = GPUDNN_BACKEND_HOST,
                                       .supports = &supports,
                                       .candidates = &candidates,
                                       .prepare = &prepare,
                                       .launch = &launch};

}  // namespace gpudnn::conv
