/* libgpudnn: what it adds to the cuDNN interface, for programs that run on any backend.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_EXT_H_
#define GPUDNN_EXT_H_

#include "gpudnn/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a handle does its work. */
typedef enum {
  GPUDNN_BACKEND_HOST = 0, /* the CPU; every data pointer is a host pointer */
  GPUDNN_BACKEND_CUDA = 1, /* a CUDA device; every data pointer is a device pointer of it */
} gpudnnBackend_t;

/* Direction of gpudnnMemcpy. On the host backend all four are the same copy. */
typedef enum {
  GPUDNN_MEMCPY_HOST_TO_HOST = 0,
  GPUDNN_MEMCPY_HOST_TO_DEVICE = 1,
  GPUDNN_MEMCPY_DEVICE_TO_HOST = 2,
  GPUDNN_MEMCPY_DEVICE_TO_DEVICE = 3,
} gpudnnMemcpyKind_t;

/* The version of libgpudnn itself (GPUDNN_LIBRARY_VERSION), as against the interface version of gpudnnGetVersion().
 * Since 0.1. */
GPUDNN_EXPORT size_t gpudnnGetLibraryVersion(void);

/* The backend of `handle`. BAD_PARAM if a pointer is null or the handle is not live. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetBackend(gpudnnHandle_t handle, gpudnnBackend_t* backend);

/* Allocates `sizeInBytes` bytes where the handle's backend computes: device memory, or host memory aligned to 256
 * bytes. Zero bytes give a null pointer. The contents are undefined. Out of memory is an allocation status whose text
 * names the bytes needed and the bytes free. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnMalloc(gpudnnHandle_t handle, void** ptr, size_t sizeInBytes);

/* Frees what gpudnnMalloc gave on a handle of the same backend; null is allowed. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnFree(gpudnnHandle_t handle, void* ptr);

/* Copies `sizeInBytes` bytes on the handle's stream, after the work queued there, and returns when the copy is done
 * (so it cannot be captured). Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnMemcpy(gpudnnHandle_t handle, void* dst, const void* src, size_t sizeInBytes,
                                          gpudnnMemcpyKind_t kind);

/* Tells of an error on behalf of a layer above the library, such as the one that gives it cuDNN's names: `message`
 * becomes the thread's text for gpudnnGetLastErrorString(), and a line of the log carries it with `status`. BAD_PARAM
 * if `message` is null or `status` is SUCCESS or no status at all. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnReportError(gpudnnStatus_t status, const char* message);

/* For such a layer's own names of statuses: gives `name`, and after it the sentence about the calling thread's last
 * call ("NAME: sentence") if that call failed with `status` and its text has not been taken yet: not once the thread
 * has made a call that succeeded. So whoever prints names alone tells why. The string is `name` itself, or stays as it
 * is for as long as the process lives (after 1024 different ones, only names are given). Null gives null. Since 0.1. */
GPUDNN_EXPORT const char* gpudnnDescribeError(gpudnnStatus_t status, const char* name);

#ifdef __cplusplus
}
#endif

#endif
