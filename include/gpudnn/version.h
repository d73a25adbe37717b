/* libgpudnn: version numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_VERSION_H_
#define GPUDNN_VERSION_H_

/* The version of the cuDNN interface that this library implements; gpudnnGetVersion() returns GPUDNN_VERSION. */
#define GPUDNN_MAJOR 9
#define GPUDNN_MINOR 19
#define GPUDNN_PATCHLEVEL 0
#define GPUDNN_VERSION (GPUDNN_MAJOR * 10000 + GPUDNN_MINOR * 100 + GPUDNN_PATCHLEVEL)

/* The version of libgpudnn itself; gpudnnGetLibraryVersion() returns GPUDNN_LIBRARY_VERSION. */
#define GPUDNN_LIBRARY_MAJOR 0
#define GPUDNN_LIBRARY_MINOR 2
#define GPUDNN_LIBRARY_PATCH 0
#define GPUDNN_LIBRARY_VERSION (GPUDNN_LIBRARY_MAJOR * 10000 + GPUDNN_LIBRARY_MINOR * 100 + GPUDNN_LIBRARY_PATCH)

#endif
