/* Memory of the programs that stand for others' programs: plain memory on the host backend, unified memory on a GPU.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_COMPAT_MEMORY_H_
#define TESTS_COMPAT_MEMORY_H_

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory that both the program and the library's backend can use: unified memory through the driver where the handle is
 * to work on a GPU, else the heap. The tests set GPUDNN_BACKEND. */
static inline void* both_memory(size_t bytes) {
  const char* backend = getenv("GPUDNN_BACKEND");
  void* driver =
      backend != NULL && strcmp(backend, "cuda") == 0 ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) : NULL;
  if (driver != NULL) {
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain)(void**, int) = (int (*)(void**, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void*) = (int (*)(void*))dlsym(driver, "cuCtxSetCurrent");
    int (*allocate)(unsigned long long*, size_t, unsigned) =
        (int (*)(unsigned long long*, size_t, unsigned))dlsym(driver, "cuMemAllocManaged");
    void* context = NULL;
    unsigned long long address = 0;
    if (init != NULL && retain != NULL && set != NULL && allocate != NULL && init(0) == 0 && retain(&context, 0) == 0 &&
        set(context) == 0 && allocate(&address, bytes > 0 ? bytes : 1, 1) == 0) {
      memset((void*)(size_t)address, 0, bytes);
      return (void*)(size_t)address;
    }
    fprintf(stderr, "GPUDNN_BACKEND=cuda, but the driver gives no unified memory\n");
    exit(1);
  }
  return calloc(bytes > 0 ? bytes : 1, 1);
}
static inline void both_free(void* memory) {
  const char* backend = getenv("GPUDNN_BACKEND");
  if (backend == NULL || strcmp(backend, "cuda") != 0) free(memory); /* unified memory goes with the process */
}
/* The library's work is done and its results can be read. */
static inline void wait_for_device(void) {
  const char* backend = getenv("GPUDNN_BACKEND");
  void* driver =
      backend != NULL && strcmp(backend, "cuda") == 0 ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) : NULL;
  int (*wait)(void) = driver != NULL ? (int (*)(void))dlsym(driver, "cuCtxSynchronize") : NULL;
  if (wait != NULL && wait() != 0) {
    fprintf(stderr, "the device reports an error\n");
    exit(1);
  }
}

#endif
