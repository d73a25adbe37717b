// Ranges by NVTX, which is headers alone: a profiler names a library of its own in the environment, and without one the
// domain below is null.
// SPDX-License-Identifier: Apache-2.0
#include <nvtx3/nvToolsExt.h>

#include "core/trace.hpp"

namespace gpudnn::trace {
namespace {

nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("libgpudnn");
  return handle;
}

}  // namespace

bool attached() noexcept { return domain() != nullptr; }

void begin(const char* text) noexcept {
  nvtxEventAttributes_t range = {};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = text;
  (void)nvtxDomainRangePushEx(domain(), &range);
}

void end() noexcept { (void)nvtxDomainRangePop(domain()); }

}  // namespace gpudnn::trace
