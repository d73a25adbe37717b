// The convolution engines of the host backend: one config each, no workspace.
// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.hpp"
#include "host/conv_gemm.hpp"
#include "host/convolution.hpp"
#include "ops/conv/supports.hpp"

namespace gpudnn::conv {
namespace {

// Blocked matrix products do about 3 * 10^10 operations in a second on each core, the reference 10^9.
void gemm_candidates(const Problem& problem, const Device&, std::vector<Candidate>* found) {
  found->push_back({{.tile_name = "blocked"}, flops(problem) / (3e10 * host_threads())});
}
void direct_candidates(const Problem& problem, const Device&, std::vector<Candidate>* found) {
  found->push_back({{.tile_name = "reference"}, flops(problem) / (1e9 * host_threads())});
}

const char* takes_all(const Problem&) { return nullptr; }

std::shared_ptr<const void> prepare(const Problem& problem, const Config&, const Device&) {
  return std::make_shared<const Problem>(problem);
}

template <auto kFunction>
Status launch(const LaunchSite&, const void* prepared, const Args& args) {
  kFunction(*static_cast<const Problem*>(prepared), args);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

// What users wait for.
extern const ConvEngine kHostGemm = {.name = "host_gemm",
                                     .backend = GPUDNN_BACKEND_HOST,
                                     .supports = &float_supports<&takes_all>,
                                     .candidates = &gemm_candidates,
                                     .prepare = &prepare,
                                     .launch = &launch<&host::conv_gemm>};

// Everything.
extern const ConvEngine kHostDirect = {.name = "host_direct",
                                       .backend = GPUDNN_BACKEND_HOST,
                                       .supports = &supports_all<Problem>,
                                       .candidates = &direct_candidates,
                                       .prepare = &prepare,
                                       .launch = &launch<&host::convolution>};

}  // namespace gpudnn::conv
