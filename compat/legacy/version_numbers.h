/* The version numbers of the last release of each age before cuDNN 9. Included by cudnn_version.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_LEGACY_VERSION_NUMBERS_H_
#define GPUDNN_LEGACY_VERSION_NUMBERS_H_

#if GPUDNN_COMPAT_VERSION == 8
#define CUDNN_MAJOR 8
#define CUDNN_MINOR 9
#define CUDNN_PATCHLEVEL 7
#elif GPUDNN_COMPAT_VERSION == 7
#define CUDNN_MAJOR 7
#define CUDNN_MINOR 6
#define CUDNN_PATCHLEVEL 5
#elif GPUDNN_COMPAT_VERSION == 6
#define CUDNN_MAJOR 6
#define CUDNN_MINOR 0
#define CUDNN_PATCHLEVEL 21
#elif GPUDNN_COMPAT_VERSION == 5
#define CUDNN_MAJOR 5
#define CUDNN_MINOR 1
#define CUDNN_PATCHLEVEL 10
#elif GPUDNN_COMPAT_VERSION == 4
#define CUDNN_MAJOR 4
#define CUDNN_MINOR 0
#define CUDNN_PATCHLEVEL 7
#elif GPUDNN_COMPAT_VERSION == 3
#define CUDNN_MAJOR 3
#define CUDNN_MINOR 0
#define CUDNN_PATCHLEVEL 8
#elif GPUDNN_COMPAT_VERSION == 2
#define CUDNN_MAJOR 2
#define CUDNN_MINOR 0
#define CUDNN_PATCHLEVEL 0
#elif GPUDNN_COMPAT_VERSION != 1
#error "GPUDNN_COMPAT_VERSION must be a number from 1 to 9"
#endif

/* The first release had no version numbers. */
#if GPUDNN_COMPAT_VERSION >= 2
#define CUDNN_VERSION (CUDNN_MAJOR * 1000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)
#endif

#endif
