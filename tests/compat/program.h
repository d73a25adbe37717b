/* What the programs share that stand for binaries built with NVIDIA's headers and library.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_COMPAT_PROGRAM_H_
#define TESTS_COMPAT_PROGRAM_H_

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include <cudnn.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define REQUIRE(condition)                                                                \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      char text_[1024] = "";                                                              \
      cudnnGetLastErrorString(text_, sizeof text_);                                       \
      fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, text_); \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)
#define CHECK(call) REQUIRE((call) == CUDNN_STATUS_SUCCESS)

/* What is not built refuses with NOT_SUPPORTED and a text that says so; what is built succeeds. Nothing else will do.
 * Returns whether the call succeeded. */
static inline int served(const char* what, cudnnStatus_t status) {
  char text[1024] = "";
  if (status == CUDNN_STATUS_SUCCESS) return 1;
  cudnnGetLastErrorString(text, sizeof text);
  if (status != CUDNN_STATUS_NOT_SUPPORTED || strstr(text, "not built") == NULL) {
    fprintf(stderr, "%s: %s: %s\n", what, cudnnGetErrorString(status), text);
    exit(1);
  }
  printf("%s: %s\n", what, text);
  return 0;
}

/* The calls must be libgpudnn's: its name is behind every text that it leaves. */
static inline void require_libgpudnn(void) {
  Dl_info info;
  char text[1024] = "";
  REQUIRE(cudnnCreate(NULL) != CUDNN_STATUS_SUCCESS);
  cudnnGetLastErrorString(text, sizeof text);
  if (strstr(text, "gpudnnCreate") == NULL) {
    fprintf(stderr, "another library answered: %s\n", text);
    exit(1);
  }
  if (dladdr((void*)(size_t)&cudnnGetVersion, &info) != 0) printf("cudnnGetVersion is of %s\n", info.dli_fname);
  REQUIRE(cudnnGetVersion() == CUDNN_VERSION);
}

#endif
