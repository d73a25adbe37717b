// A profiler in the place of a real one: NVTX loads it by NVTX_INJECTION64_PATH, and it prints each range of the
// library.
// SPDX-License-Identifier: Apache-2.0
#include <nvtx3/nvToolsExt.h>

#include <cstdio>

namespace {

int depth = 0;

nvtxDomainHandle_t create(const char* name) {
  std::printf("domain %s\n", name);
  static int anything;
  return reinterpret_cast<nvtxDomainHandle_t>(&anything);
}

int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  std::printf("begin %d %s\n", depth, range->message.ascii);
  return depth++;
}

int pop(nvtxDomainHandle_t) {
  std::printf("end %d\n", --depth);
  return depth;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
