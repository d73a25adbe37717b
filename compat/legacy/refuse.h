/* How an old name that libgpudnn cannot serve says so.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_LEGACY_REFUSE_H_
#define GPUDNN_LEGACY_REFUSE_H_

#include "../cudnn_graph.h"

#if defined(__GNUC__)
/* The program's warnings are about its own code: much here takes arguments that it cannot use. */
#pragma GCC system_header
/* Weak: a program that links libcudnn.so.9 alone finds it at run time. */
static int gpudnnLegacyReport(int status, const char* message) __attribute__((weakref("gpudnnReportError")));
#endif

/* Returns `status`, with a text for cudnnGetLastErrorString and a line in the log. */
static inline cudnnStatus_t gpudnnLegacyRefuse(cudnnStatus_t status, const char* message) {
#if defined(__GNUC__)
  if (gpudnnLegacyReport) (void)gpudnnLegacyReport((int)status, message);
#endif
  return status;
}

#endif
