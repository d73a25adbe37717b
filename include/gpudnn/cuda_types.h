/* libgpudnn: the few CUDA types that the interface mentions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where the CUDA toolkit's headers can be found they are the source; elsewhere (or with GPUDNN_NO_CUDA_HEADERS defined)
 * the same types are declared here, so a program needs no CUDA to compile against the library. */
#ifndef GPUDNN_CUDA_TYPES_H_
#define GPUDNN_CUDA_TYPES_H_

#if !defined(GPUDNN_NO_CUDA_HEADERS) && defined(__has_include)
#if __has_include(<driver_types.h>) && __has_include(<library_types.h>)
#define GPUDNN_HAS_CUDA_HEADERS 1
#endif
#endif

#ifdef GPUDNN_HAS_CUDA_HEADERS
#include <driver_types.h>
#include <library_types.h>
#else
typedef struct CUstream_st* cudaStream_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef enum libraryPropertyType_t { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL } libraryPropertyType;
#endif

/* Marks a function as part of the library's interface. */
#if defined(__GNUC__)
#define GPUDNN_EXPORT __attribute__((visibility("default")))
#else
#define GPUDNN_EXPORT
#endif

#endif
