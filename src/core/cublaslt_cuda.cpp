// Loading cuBLASLt.
// SPDX-License-Identifier: Apache-2.0
#include "core/cublaslt_cuda.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "core/environment.hpp"
#include "core/relaxed_capture_cuda.hpp"

namespace gpudnn::cuda::cublaslt {
namespace {

struct Loaded {
  Library library;
  const char* why = nullptr;
};

template <class Function>
bool find(void* object, const char* name, Function* function) noexcept {
  *function = reinterpret_cast<Function>(dlsym(object, name));
  return *function != nullptr;
}

bool find_all(void* object, Library* l) noexcept {
  return find(object, "cublasLtCreate", &l->create) && find(object, "cublasLtMatmulDescCreate", &l->desc_create) &&
         find(object, "cublasLtMatmulDescDestroy", &l->desc_destroy) &&
         find(object, "cublasLtMatmulDescSetAttribute", &l->desc_set) &&
         find(object, "cublasLtMatrixLayoutCreate", &l->layout_create) &&
         find(object, "cublasLtMatrixLayoutDestroy", &l->layout_destroy) &&
         find(object, "cublasLtMatrixLayoutSetAttribute", &l->layout_set) &&
         find(object, "cublasLtMatmulPreferenceCreate", &l->preference_create) &&
         find(object, "cublasLtMatmulPreferenceDestroy", &l->preference_destroy) &&
         find(object, "cublasLtMatmulPreferenceSetAttribute", &l->preference_set) &&
         find(object, "cublasLtMatmulAlgoGetHeuristic", &l->heuristic) && find(object, "cublasLtMatmul", &l->matmul);
}

Loaded load() noexcept {
  Loaded loaded;
  if (!environment_cublas()) {
    loaded.why = "GPUDNN_CUBLAS=0 turns cuBLASLt off";
    return loaded;
  }
  loaded.why = "cuBLASLt is not installed";
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    // Never closed: its kernels stay loaded in the contexts.
    void* const object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr) continue;
    loaded.why = find_all(object, &loaded.library) ? nullptr : "cuBLASLt lacks a function";
    break;
  }
  return loaded;
}

}  // namespace

const Library* library(const char** why) noexcept {
  static const Loaded loaded = load();
  if (why != nullptr) *why = loaded.why;
  return loaded.why == nullptr ? &loaded.library : nullptr;
}

Handle handle_of(int device) noexcept {
  static std::mutex mutex;
  static auto* const handles = new std::map<int, Handle>;
  const std::lock_guard lock(mutex);
  Handle& handle = (*handles)[device];
  if (handle == nullptr) {
    const RelaxedCapture relaxed;  // it allocates
    const Library* const loaded = library(nullptr);
    if (loaded == nullptr || loaded->create(&handle) != 0) handle = nullptr;
    (void)cudaGetLastError();
  }
  return handle;
}

}  // namespace gpudnn::cuda::cublaslt
