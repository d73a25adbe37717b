/* libgpudnn: handle, status, data types, log and the graph (backend descriptor) interface.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Longer than most files: programs include one header for each part of the interface, and expect its names there.
 *
 * What holds for every function of the library
 *
 *   Status     Every function that can fail returns a gpudnnStatus_t and leaves a sentence about its refusal for
 *              gpudnnGetLastErrorString(). A comment names only the errors of its own; these are common to all:
 *                BAD_PARAM       a handle or descriptor is null, destroyed or of another type; a required pointer is
 *                                null; an enum value does not exist; descriptors that must agree do not
 *                NOT_SUPPORTED   the call makes sense, but this library has no way to do it
 *                ALLOC_FAILED, INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED   no memory, of the host or of the device
 *                EXECUTION_FAILED...   the CUDA runtime reported an error; the text carries its name
 *              After BAD_PARAM and NOT_SUPPORTED no output data has been written.
 *   Objects    gpudnnCreate...() makes an object and gpudnnDestroy...() ends it. A descriptor holds a copy of all that
 *              was set in it, may be changed at any time between calls, and belongs to no handle.
 *              Destroying null does nothing.
 *   Getters    A gpudnnGet...Descriptor function skips outputs whose pointer is null, and returns NOT_SUPPORTED for a
 *              value that does not fit into an int.
 *   Pointers   "Data" pointers (x, w, y, workspaces ...) point where the handle's backend computes: device memory on
 *              the CUDA backend, host memory on the host backend. All else (scalars, arrays of dimensions, results of
 *              queries) is host memory and is read or written before the call returns.
 *   Units      Dimensions and strides count elements; names with "size" and "SizeInBytes" count bytes.
 *   Order      Work is queued on the handle's stream and the call returns; on the host backend it is done on return.
 *   Threads    A handle may be used by many threads at once; a descriptor by many as long as none of them changes it.
 *   History    "Since" names the version of libgpudnn (not of the interface) that first had the function working. */
#ifndef GPUDNN_GRAPH_H_
#define GPUDNN_GRAPH_H_

#include <stddef.h>
#include <stdint.h>

#include "gpudnn/cuda_types.h"
#include "gpudnn/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle: a backend, a device, a stream and the plans of the calls made so far. */
struct gpudnnContext;
typedef struct gpudnnContext* gpudnnHandle_t;

/* ------------------------------------------------------------------------------------------------ status and errors */

/* The thousands of a code are its category, the rest says which error of the category it is. A program that only
 * wants the kind of the failure compares GPUDNN_STATUS_CATEGORY(status) with the category's own value. */
typedef enum {
  GPUDNN_STATUS_SUCCESS = 0,
  GPUDNN_STATUS_NOT_INITIALIZED = 1001,                /* the library could not start: no usable backend */
  GPUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH = 1002,    /* libgpudnn has no sublibraries and never returns this */
  GPUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH = 1003, /* a saved plan is of another version */
  GPUDNN_STATUS_DEPRECATED = 1004,
  GPUDNN_STATUS_LICENSE_ERROR = 1005,             /* never returned */
  GPUDNN_STATUS_RUNTIME_IN_PROGRESS = 1006,       /* gpudnnQueryRuntimeError: the stream still runs */
  GPUDNN_STATUS_RUNTIME_FP_OVERFLOW = 1007,       /* a kernel reported an overflow */
  GPUDNN_STATUS_SUBLIBRARY_LOADING_FAILED = 1008, /* never returned */

  /* The call makes no sense. */
  GPUDNN_STATUS_BAD_PARAM = 2000,
  GPUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002,
  GPUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER = 2003,
  GPUDNN_STATUS_BAD_PARAM_NOT_FINALIZED = 2004,
  GPUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND = 2005,
  GPUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 2006,
  GPUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH = 2007,
  GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH = 2008,
  GPUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES = 2009,
  GPUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE = 2010,
  GPUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH = 2011,
  GPUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE = 2012,

  /* The call makes sense, but there is no way to do it here. */
  GPUDNN_STATUS_NOT_SUPPORTED = 3000,
  GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN = 3001,
  GPUDNN_STATUS_NOT_SUPPORTED_SHAPE = 3002,
  GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE = 3003,
  GPUDNN_STATUS_NOT_SUPPORTED_LAYOUT = 3004,
  GPUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER = 3005,
  GPUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART = 3006,
  GPUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH = 3007,
  GPUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING = 3008,
  GPUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE = 3009,
  GPUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT = 3010,
  GPUDNN_STATUS_NOT_SUPPORTED_PADDING = 3011,
  GPUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM = 3012,
  GPUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API = 3013,
  GPUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE = 3014,

  /* Something that should have worked did not. */
  GPUDNN_STATUS_INTERNAL_ERROR = 4000,
  GPUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED = 4001,
  GPUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE = 4002,
  GPUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
  GPUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
  GPUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM = 4005,
  GPUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED = 4006,

  /* The device or a library under this one failed. */
  GPUDNN_STATUS_EXECUTION_FAILED = 5000,
  GPUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER = 5001,
  GPUDNN_STATUS_EXECUTION_FAILED_CUBLAS = 5002,
  GPUDNN_STATUS_EXECUTION_FAILED_CUDART = 5003,
  GPUDNN_STATUS_EXECUTION_FAILED_CURAND = 5004,

  /* Names of before version 9. */
  GPUDNN_STATUS_ALLOC_FAILED = GPUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
  GPUDNN_STATUS_INVALID_VALUE = 2001, /* a code of its own, of the BAD_PARAM category */
  GPUDNN_STATUS_ARCH_MISMATCH = GPUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
  GPUDNN_STATUS_MAPPING_ERROR = GPUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED,
  GPUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING = GPUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
  GPUDNN_STATUS_VERSION_MISMATCH = GPUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH,
} gpudnnStatus_t;

/* The code made of a category and a specific error, and the two parts of a code. */
#define GPUDNN_STATUS_FULL_ERROR_CODE(category, specific_err) ((gpudnnStatus_t)(0 + (category) + (specific_err)))
#define GPUDNN_STATUS_CATEGORY(full_error_code) ((full_error_code) / 1000 * 1000)
#define GPUDNN_STATUS_SPECIFIC_ERROR(full_error_code) ((full_error_code) % 1000)

/* The name of a status, such as "GPUDNN_STATUS_BAD_PARAM": a string that lives as long as the library. An unknown code
 * gives a string that says so. Never null. Since 0.1. */
GPUDNN_EXPORT const char* gpudnnGetErrorString(gpudnnStatus_t status);

/* Copies the text of the last refusal on the calling thread to `message` (at most `max_size` bytes with the final
 * zero; a longer text is cut), and forgets it: the next call gives an empty string. Nothing happens if `message` is
 * null or `max_size` is 0. Since 0.1. */
GPUDNN_EXPORT void gpudnnGetLastErrorString(char* message, size_t max_size);

/* Opaque; pass a null pointer. */
typedef struct gpudnnRuntimeTag_t gpudnnRuntimeTag_t;

/* How gpudnnQueryRuntimeError looks for errors that kernels report. */
typedef enum {
  GPUDNN_ERRQUERY_RAWCODE = 0,     /* what has been reported so far */
  GPUDNN_ERRQUERY_NONBLOCKING = 1, /* RUNTIME_IN_PROGRESS while the stream still has work */
  GPUDNN_ERRQUERY_BLOCKING = 2,    /* waits for the stream first */
} gpudnnErrQueryMode_t;

/* Writes to `*rstatus` how the work on the handle's stream fares. No kernel of this library reports errors of its own,
 * so that is SUCCESS, RUNTIME_IN_PROGRESS or a failure of the device; a failure is returned as well. `tag` is null.
 * Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnQueryRuntimeError(gpudnnHandle_t handle, gpudnnStatus_t* rstatus,
                                                     gpudnnErrQueryMode_t mode, gpudnnRuntimeTag_t* tag);

/* ------------------------------------------------------------------------------------------------------- versions */

/* The version of the interface, GPUDNN_VERSION of the header that the library was built with:
 * 10000 * major + 100 * minor + patch. Since 0.1. */
GPUDNN_EXPORT size_t gpudnnGetVersion(void);

/* The newest compute capability that the library has machine code for, as 100 * major + 10 * minor: 900 is 9.0. 0 in a
 * library without the CUDA backend. Since 0.1. */
GPUDNN_EXPORT size_t gpudnnGetMaxDeviceVersion(void);

/* The version of the CUDA runtime inside the library as CUDA counts it, 1000 * major + 10 * minor; 0 in a library
 * without the CUDA backend. Since 0.1. */
GPUDNN_EXPORT size_t gpudnnGetCudartVersion(void);

/* Writes one component of the interface version to `*value`: MAJOR_VERSION, MINOR_VERSION or PATCH_LEVEL.
 * Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetProperty(libraryPropertyType type, int* value);

/* Succeeds if the library was built with this header's version. There is one library, so the four checks (graph, ops,
 * cnn, adv) cannot disagree; they exist for programs that call them. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGraphVersionCheck(void);

/* ----------------------------------------------------------------------------------------------- handle and stream */

/* Makes a handle on the CUDA device that is current on the calling thread, with the default stream. Where there is no
 * CUDA device, or the environment has GPUDNN_BACKEND=host, the handle does its work on the CPU. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreate(gpudnnHandle_t* handle);

/* Ends a handle and frees what it owns. Work that is queued on its stream still finishes. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroy(gpudnnHandle_t handle);

/* Sets the stream for the calls that follow; null is the default stream. The stream must belong to the handle's device.
 * The host backend keeps the value for gpudnnGetStream and does nothing with it. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetStream(gpudnnHandle_t handle, cudaStream_t streamId);

/* Writes the handle's stream to `*streamId`. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetStream(gpudnnHandle_t handle, cudaStream_t* streamId);

/* -------------------------------------------------------------------------------------- types shared by all headers */

/* Types of elements. The size is one element's, in bytes unless bits are named. */
typedef enum {
  GPUDNN_DATA_FLOAT = 0,  /* 4: IEEE 754 binary32 */
  GPUDNN_DATA_DOUBLE = 1, /* 8: IEEE 754 binary64 */
  GPUDNN_DATA_HALF = 2,   /* 2: IEEE 754 binary16 */
  GPUDNN_DATA_INT8 = 3,
  GPUDNN_DATA_INT32 = 4,
  GPUDNN_DATA_INT8x4 = 5, /* 4: a vector of 4 neighbouring channels */
  GPUDNN_DATA_UINT8 = 6,
  GPUDNN_DATA_UINT8x4 = 7,  /* 4: the same, unsigned */
  GPUDNN_DATA_INT8x32 = 8,  /* 32: a vector of 32 neighbouring channels */
  GPUDNN_DATA_BFLOAT16 = 9, /* 2: the upper half of a binary32 */
  GPUDNN_DATA_INT64 = 10,
  GPUDNN_DATA_BOOLEAN = 11,            /* 1 */
  GPUDNN_DATA_FP8_E4M3 = 12,           /* 1: 4 exponent bits, 3 mantissa bits, no infinity (Micikevicius et al. 2022) */
  GPUDNN_DATA_FP8_E5M2 = 13,           /* 1: 5 exponent bits, 2 mantissa bits (the same) */
  GPUDNN_DATA_FAST_FLOAT_FOR_FP8 = 14, /* a compute type only: float with cheaper sums for FP8 inputs */
  GPUDNN_DATA_FP8_E8M0 = 15,           /* 1: a power of two, used as a block's scale (OCP Microscaling 1.0) */
  GPUDNN_DATA_FP4_E2M1 = 16,           /* 4 bits (the same) */
  GPUDNN_DATA_INT4 = 17,               /* 4 bits */
  GPUDNN_DATA_UINT4 = 18,              /* 4 bits */
  GPUDNN_DATA_UINT32 = 19,
  GPUDNN_DATA_COMPLEX_FP32 = 20, /* 8: real part, imaginary part */
  GPUDNN_DATA_COMPLEX_FP64 = 21, /* 16: the same */
} gpudnnDataType_t;

/* Which arithmetic an operation may use. */
typedef enum {
  GPUDNN_DEFAULT_MATH = 0,                    /* what is fastest without rounding an input to a narrower type */
  GPUDNN_TENSOR_OP_MATH = 1,                  /* tensor cores wanted */
  GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2, /* and float inputs may be rounded to a narrower type for them */
  GPUDNN_FMA_MATH = 3,                        /* no tensor cores */
} gpudnnMathType_t;

/* Whether minimum, maximum and ReLU pass a NaN on (PROPAGATE) or may prefer a number to it. */
typedef enum {
  GPUDNN_NOT_PROPAGATE_NAN = 0,
  GPUDNN_PROPAGATE_NAN = 1,
} gpudnnNanPropagation_t;

/* What CTC writes to the gradients of a sequence whose labels cannot be aligned with its steps. */
typedef enum {
  GPUDNN_CTC_ZERO_OOB_GRADIENTS = 0, /* zeros */
  GPUDNN_CTC_SKIP_OOB_GRADIENTS = 1, /* nothing */
} gpudnnCTCGradMode_t;

/* The order of the dimensions in memory, outermost first. Dimensions are always given in the order N, C, spatial. */
typedef enum {
  GPUDNN_TENSOR_NCHW = 0,
  GPUDNN_TENSOR_NHWC = 1,
  GPUDNN_TENSOR_NCHW_VECT_C = 2, /* NCHW of vectors: the vector types INT8x4, UINT8x4 and INT8x32 only */
} gpudnnTensorFormat_t;

typedef enum {
  GPUDNN_REDUCE_TENSOR_ADD = 0,
  GPUDNN_REDUCE_TENSOR_MUL = 1,
  GPUDNN_REDUCE_TENSOR_MIN = 2,
  GPUDNN_REDUCE_TENSOR_MAX = 3,
  GPUDNN_REDUCE_TENSOR_AMAX = 4,         /* maximum of absolute values */
  GPUDNN_REDUCE_TENSOR_AVG = 5,          /* arithmetic mean */
  GPUDNN_REDUCE_TENSOR_NORM1 = 6,        /* sum of absolute values */
  GPUDNN_REDUCE_TENSOR_NORM2 = 7,        /* square root of the sum of squares */
  GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS = 8, /* product of the elements that are not zero */
} gpudnnReduceTensorOp_t;

/* Activation functions f(x); `coef` and `beta` are set in the activation descriptor (ops.h). */
typedef enum {
  GPUDNN_ACTIVATION_SIGMOID = 0, /* 1 / (1 + exp(-x)) */
  GPUDNN_ACTIVATION_RELU = 1,    /* max(0, x) */
  GPUDNN_ACTIVATION_TANH = 2,
  GPUDNN_ACTIVATION_CLIPPED_RELU = 3, /* min(coef, max(0, x)) */
  GPUDNN_ACTIVATION_ELU = 4,          /* x for x >= 0, else coef * (exp(x) - 1) (Clevert et al. 2015) */
  GPUDNN_ACTIVATION_IDENTITY = 5,     /* x */
  GPUDNN_ACTIVATION_SWISH = 6,        /* x / (1 + exp(-beta * x)) (Ramachandran et al. 2017) */
} gpudnnActivationMode_t;

/* Whether a filter is mirrored (CONVOLUTION) or applied as it lies in memory (CROSS_CORRELATION). */
typedef enum { GPUDNN_CONVOLUTION = 0, GPUDNN_CROSS_CORRELATION = 1 } gpudnnConvolutionMode_t;

/* Whether an INT8x32 filter is rearranged by the call (DEFAULT) or was rearranged before it (NO_REORDER). */
typedef enum {
  GPUDNN_DEFAULT_REORDER = 0,
  GPUDNN_NO_REORDER = 1,
} gpudnnReorderType_t;

/* The most dimensions that a tensor, filter or convolution can have. */
#define GPUDNN_DIM_MAX 8

/* ------------------------------------------------------------------------------------------------- message callback */

/* How grave a message is. Fatal messages are always delivered; the masks choose the others. */
typedef enum {
  GPUDNN_SEV_FATAL = 0,
  GPUDNN_SEV_ERROR = 1,
  GPUDNN_SEV_WARNING = 2,
  GPUDNN_SEV_INFO = 3,
} gpudnnSeverity_t;
#define GPUDNN_SEV_ERROR_EN (1U << GPUDNN_SEV_ERROR)
#define GPUDNN_SEV_WARNING_EN (1U << GPUDNN_SEV_WARNING)
#define GPUDNN_SEV_INFO_EN (1U << GPUDNN_SEV_INFO)

/* Where and when a message arose. */
typedef struct gpudnnDebugStruct {
  unsigned gpudnn_version;     /* gpudnnGetVersion() */
  gpudnnStatus_t gpudnnStatus; /* the status that the call is about to return */
  unsigned time_sec;           /* seconds since 1970-01-01 UTC */
  unsigned time_usec;          /* and microseconds */
  unsigned time_delta;         /* seconds since the first message */
  gpudnnHandle_t handle;       /* null if the call has none */
  cudaStream_t stream;         /* the handle's */
  unsigned long long pid;      /* process */
  unsigned long long tid;      /* thread */
  int cudaDeviceId;            /* -1 on the host backend */
  int reserved[15];            /* zero */
} gpudnnDebug_t;

/* Takes a message: `udata` is what gpudnnSetCallback was given; `dbg` and `msg` live during the call alone. It runs on
 * the thread whose call gave rise to the message, and may call the library. */
typedef void (*gpudnnCallback_t)(gpudnnSeverity_t sev, void* udata, const gpudnnDebug_t* dbg, const char* msg);

/* Sends messages of the severities in `mask` (GPUDNN_SEV_..._EN joined by |) to `fptr`, for the whole process. A null
 * `fptr` goes back to the library's own log. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetCallback(unsigned mask, void* udata, gpudnnCallback_t fptr);

/* Reads what gpudnnSetCallback has set. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetCallback(unsigned* mask, void** udata, gpudnnCallback_t* fptr);

/* --------------------------------------------------------------------- the graph interface: modes of its operations
 *
 * In the graph interface a program describes a computation as a graph of operations on tensors, asks for engines that
 * can run the whole graph, and executes a plan. Every object is a gpudnnBackendDescriptor_t with attributes: create it,
 * set attributes, finalize it, and from then on only read it. In short:
 *
 *   tensor descriptors -> operation descriptors -> OPERATIONGRAPH -> ENGINEHEUR or ENGINE -> ENGINECFG
 *     -> EXECUTION_PLAN, which runs with a VARIANT_PACK: pointers, matched to tensors by unique id, and a workspace
 *
 * docs/graph.md says which graphs run where, and what each status means. */

typedef void* gpudnnBackendDescriptor_t;

/* A resampling stride as a fraction. */
typedef struct gpudnnFractionStruct {
  int64_t numerator;   /* at most 2^31 */
  int64_t denominator; /* positive, at most 2^31 */
} gpudnnFraction_t;

/* Pointwise operations on x (and b, t); alpha1 and alpha2 scale x and b first. Broadcasting follows from dimensions
 * of 1. */
typedef enum {
  /* y = f(x, b) or y = f(x) */
  GPUDNN_POINTWISE_ADD = 0,
  GPUDNN_POINTWISE_ADD_SQUARE = 5, /* x + b * b */
  GPUDNN_POINTWISE_DIV = 6,
  GPUDNN_POINTWISE_MAX = 3,
  GPUDNN_POINTWISE_MIN = 2,
  GPUDNN_POINTWISE_MOD = 7, /* remainder with the sign of x */
  GPUDNN_POINTWISE_MUL = 1,
  GPUDNN_POINTWISE_POW = 8, /* x to the power of b */
  GPUDNN_POINTWISE_SUB = 9,
  GPUDNN_POINTWISE_ABS = 10,
  GPUDNN_POINTWISE_CEIL = 11,
  GPUDNN_POINTWISE_COS = 12,
  GPUDNN_POINTWISE_EXP = 13,
  GPUDNN_POINTWISE_FLOOR = 14,
  GPUDNN_POINTWISE_LOG = 15,
  GPUDNN_POINTWISE_NEG = 16,
  GPUDNN_POINTWISE_RSQRT = 17, /* 1 / sqrt(x) */
  GPUDNN_POINTWISE_SIN = 18,
  GPUDNN_POINTWISE_SQRT = 4,
  GPUDNN_POINTWISE_TAN = 19,
  GPUDNN_POINTWISE_ERF = 20, /* error function */
  GPUDNN_POINTWISE_IDENTITY = 21,
  GPUDNN_POINTWISE_RECIPROCAL = 22,
  GPUDNN_POINTWISE_ATAN2 = 23,

  /* activations; clips, slope, alpha and beta are attributes of the pointwise descriptor */
  GPUDNN_POINTWISE_RELU_FWD = 100,
  GPUDNN_POINTWISE_TANH_FWD = 101,
  GPUDNN_POINTWISE_SIGMOID_FWD = 102,
  GPUDNN_POINTWISE_ELU_FWD = 103,
  GPUDNN_POINTWISE_GELU_FWD = 104,     /* x * Phi(x), Phi the normal distribution (Hendrycks & Gimpel 2016) */
  GPUDNN_POINTWISE_SOFTPLUS_FWD = 105, /* log(1 + exp(beta * x)) / beta */
  GPUDNN_POINTWISE_SWISH_FWD = 106,
  GPUDNN_POINTWISE_GELU_APPROX_TANH_FWD = 107, /* the same paper's approximation by tanh */

  /* dx = dy * f'(x) */
  GPUDNN_POINTWISE_RELU_BWD = 200,
  GPUDNN_POINTWISE_TANH_BWD = 201,
  GPUDNN_POINTWISE_SIGMOID_BWD = 202,
  GPUDNN_POINTWISE_ELU_BWD = 203,
  GPUDNN_POINTWISE_GELU_BWD = 204,
  GPUDNN_POINTWISE_SOFTPLUS_BWD = 205,
  GPUDNN_POINTWISE_SWISH_BWD = 206,
  GPUDNN_POINTWISE_GELU_APPROX_TANH_BWD = 207,

  /* comparisons of x with b and logic; 1 is true */
  GPUDNN_POINTWISE_CMP_EQ = 300,
  GPUDNN_POINTWISE_CMP_NEQ = 301,
  GPUDNN_POINTWISE_CMP_GT = 302,
  GPUDNN_POINTWISE_CMP_GE = 303,
  GPUDNN_POINTWISE_CMP_LT = 304,
  GPUDNN_POINTWISE_CMP_LE = 305,
  GPUDNN_POINTWISE_LOGICAL_AND = 400,
  GPUDNN_POINTWISE_LOGICAL_OR = 401,
  GPUDNN_POINTWISE_LOGICAL_NOT = 402,
  GPUDNN_POINTWISE_GEN_INDEX = 501,     /* each element's index along the AXIS attribute */
  GPUDNN_POINTWISE_BINARY_SELECT = 601, /* t ? x : b */
} gpudnnPointwiseMode_t;

typedef enum {
  GPUDNN_RESAMPLE_NEAREST = 0,
  GPUDNN_RESAMPLE_BILINEAR = 1,
  GPUDNN_RESAMPLE_AVGPOOL = 2, /* same value as INCLUDE_PADDING */
  GPUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING = 2,
  GPUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING = 4,
  GPUDNN_RESAMPLE_MAXPOOL = 3,
} gpudnnResampleMode_t;

/* Setting a flag in device memory to a value, or waiting until it has it. */
typedef enum {
  GPUDNN_SIGNAL_SET = 0,
  GPUDNN_SIGNAL_WAIT = 1,
} gpudnnSignalMode_t;

/* Per-channel sum and sum of squares, the first half of a batch normalization. */
typedef enum {
  GPUDNN_GENSTATS_SUM_SQSUM = 0,
} gpudnnGenStatsMode_t;

/* Whether batch statistics also move the running ones (TRAINING). */
typedef enum {
  GPUDNN_BN_FINALIZE_STATISTICS_TRAINING = 0,
  GPUDNN_BN_FINALIZE_STATISTICS_INFERENCE = 1,
} gpudnnBnFinalizeStatsMode_t;

typedef enum {
  GPUDNN_RNG_DISTRIBUTION_BERNOULLI = 0,
  GPUDNN_RNG_DISTRIBUTION_UNIFORM = 1,
  GPUDNN_RNG_DISTRIBUTION_NORMAL = 2,
} gpudnnRngDistribution_t;

/* Mixture-of-experts matrix product: tokens taken in order, gathered on the way in, or scattered on the way out. */
typedef enum {
  GPUDNN_MOE_GROUPED_MATMUL_MODE_NONE = 0,
  GPUDNN_MOE_GROUPED_MATMUL_MODE_GATHER = 1,
  GPUDNN_MOE_GROUPED_MATMUL_MODE_SCATTER = 2,
} gpudnnMoeGroupedMatmulMode_t;

typedef enum {
  GPUDNN_ZERO_PAD = 0,
  GPUDNN_NEG_INF_PAD = 1,
  GPUDNN_EDGE_VAL_PAD = 2, /* the nearest value inside */
} gpudnnPaddingMode_t;

/* Which dimensions share statistics. */
typedef enum {
  GPUDNN_LAYER_NORM = 0,     /* per sample, over all other dimensions (Ba et al. 2016) */
  GPUDNN_INSTANCE_NORM = 1,  /* per sample and channel (Ulyanov et al. 2016) */
  GPUDNN_BATCH_NORM = 2,     /* per channel (Ioffe & Szegedy 2015) */
  GPUDNN_GROUP_NORM = 3,     /* per sample and group of channels (Wu & He 2018) */
  GPUDNN_RMS_NORM = 4,       /* layer norm without the mean (Zhang & Sennrich 2019) */
  GPUDNN_ADA_LAYER_NORM = 5, /* layer norm whose scale and bias vary by sample (Peebles & Xie 2022) */
} gpudnnBackendNormMode_t;

typedef enum {
  GPUDNN_NORM_FWD_INFERENCE = 0,
  GPUDNN_NORM_FWD_TRAINING = 1,
} gpudnnBackendNormFwdPhase_t;

/* How a tensor's elements are permuted beyond its strides, for engines that read them so. */
typedef enum {
  GPUDNN_TENSOR_REORDERING_NONE = 0,
  GPUDNN_TENSOR_REORDERING_INT8x32 = 1,
  GPUDNN_TENSOR_REORDERING_F16x16 = 2,
  GPUDNN_TENSOR_REORDERING_F8_128x4 = 3, /* block scales in 128 by 4 tiles */
} gpudnnBackendTensorReordering_t;

/* ------------------------------------------------------------------------- the graph interface: attributes and types
 *
 * Descriptor kinds and their attributes; an attribute's prefix names the kind that has it. "..DESC" and single letters
 * such as W, X, Y take a tensor descriptor; UIDS are the program's own int64 names of tensors. */

typedef enum {
  /* pointwise */
  GPUDNN_ATTR_POINTWISE_MODE = 0,
  GPUDNN_ATTR_POINTWISE_MATH_PREC = 1, /* compute type */
  GPUDNN_ATTR_POINTWISE_NAN_PROPAGATION = 2,
  GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP = 3,
  GPUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP = 4,
  GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE = 5,
  GPUDNN_ATTR_POINTWISE_ELU_ALPHA = 6,
  GPUDNN_ATTR_POINTWISE_SOFTPLUS_BETA = 7,
  GPUDNN_ATTR_POINTWISE_SWISH_BETA = 8,
  GPUDNN_ATTR_POINTWISE_AXIS = 9,

  /* convolution geometry */
  GPUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
  GPUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,
  GPUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
  GPUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
  GPUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
  GPUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
  GPUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,

  /* heuristic query: a graph in, engine configurations out, best first */
  GPUDNN_ATTR_ENGINEHEUR_MODE = 200,
  GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
  GPUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
  GPUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET = 203, /* plan for so many multiprocessors */
  GPUDNN_ATTR_ENGINEHEUR_DEVICEPROP = 204,

  /* an engine with its knobs chosen */
  GPUDNN_ATTR_ENGINECFG_ENGINE = 300,
  GPUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO = 301,
  GPUDNN_ATTR_ENGINECFG_KNOB_CHOICES = 302,
  GPUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE = 303,     /* bytes */
  GPUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED = 304, /* bytes */

  /* execution plan */
  GPUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
  GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
  GPUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402, /* bytes */
  GPUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS = 403,
  GPUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS = 404,
  GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION = 405,
  GPUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE = 406,
  GPUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP = 407,

  /* intermediate tensors of an engine */
  GPUDNN_ATTR_INTERMEDIATE_INFO_UNIQUE_ID = 500,
  GPUDNN_ATTR_INTERMEDIATE_INFO_SIZE = 501,
  GPUDNN_ATTR_INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS = 502,
  GPUDNN_ATTR_INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES = 503,

  /* one knob and its value */
  GPUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE = 600,
  GPUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE = 601,

  /* convolution operations */
  GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA = 707,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC = 708,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 709,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 710,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 711,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA = 713,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC = 714,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 715,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 716,
  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 717,

  /* pointwise operation */
  GPUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
  GPUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
  GPUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
  GPUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
  GPUDNN_ATTR_OPERATION_POINTWISE_ALPHA1 = 754,
  GPUDNN_ATTR_OPERATION_POINTWISE_ALPHA2 = 755,
  GPUDNN_ATTR_OPERATION_POINTWISE_DXDESC = 756,
  GPUDNN_ATTR_OPERATION_POINTWISE_DYDESC = 757,
  GPUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,

  /* statistics and batch normalization in parts */
  GPUDNN_ATTR_OPERATION_GENSTATS_MODE = 770,
  GPUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC = 771,
  GPUDNN_ATTR_OPERATION_GENSTATS_XDESC = 772,
  GPUDNN_ATTR_OPERATION_GENSTATS_SUMDESC = 773,
  GPUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC = 774,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE = 780,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC = 781,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC = 782,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC = 783,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC = 784,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC = 785,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC = 786,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC = 787,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC = 788,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC = 789,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC = 790,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC = 791,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC = 792,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC = 793,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC = 794,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC = 795,
  GPUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC = 796, /* spelled as in the interface */

  /* operation graph */
  GPUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
  GPUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
  GPUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT = 802, /* number of engines that exist for it */
  GPUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED = 803,
  GPUDNN_ATTR_OPERATIONGRAPH_IS_SAME_TOPOLOGY = 804,

  /* tensor */
  GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
  GPUDNN_ATTR_TENSOR_DATA_TYPE = 901,
  GPUDNN_ATTR_TENSOR_DIMENSIONS = 902,
  GPUDNN_ATTR_TENSOR_STRIDES = 903,
  GPUDNN_ATTR_TENSOR_VECTOR_COUNT = 904,
  GPUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION = 905,
  GPUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
  GPUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,  /* lives only between two operations, has no memory */
  GPUDNN_ATTR_TENSOR_IS_BY_VALUE = 908, /* the variant pack's pointer is to a host scalar */
  GPUDNN_ATTR_TENSOR_REORDERING_MODE = 909,
  GPUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC = 913, /* offsets of sequences of unequal length */

  /* variant pack: the pointers of one execution */
  GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
  GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
  GPUDNN_ATTR_VARIANT_PACK_INTERMEDIATES = 1002,
  GPUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
  GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS = 1010,
  GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES = 1011,
  GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES = 1012,

  /* layouts and knobs that an engine offers */
  GPUDNN_ATTR_LAYOUT_INFO_TENSOR_UID = 1100,
  GPUDNN_ATTR_LAYOUT_INFO_TYPES = 1101,
  GPUDNN_ATTR_KNOB_INFO_TYPE = 1200,
  GPUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE = 1201,
  GPUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE = 1202,
  GPUDNN_ATTR_KNOB_INFO_STRIDE = 1203,

  /* engine */
  GPUDNN_ATTR_ENGINE_OPERATION_GRAPH = 1300,
  GPUDNN_ATTR_ENGINE_GLOBAL_INDEX = 1301, /* from 0 to ENGINE_GLOBAL_COUNT - 1 */
  GPUDNN_ATTR_ENGINE_KNOB_INFO = 1302,
  GPUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,
  GPUDNN_ATTR_ENGINE_LAYOUT_INFO = 1304,
  GPUDNN_ATTR_ENGINE_BEHAVIOR_NOTE = 1305,
  GPUDNN_ATTR_ENGINE_SM_COUNT_TARGET = 1306,
  GPUDNN_ATTR_ENGINE_DEVICEPROP = 1307,
  GPUDNN_ATTR_ENGINE_DISABLE_CLUSTER_COOPERATIVE = 1308,

  /* matrix product C = A * B */
  GPUDNN_ATTR_MATMUL_COMP_TYPE = 1500,
  GPUDNN_ATTR_MATMUL_PADDING_VALUE = 1503,
  GPUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,
  GPUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521,
  GPUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522,
  GPUDNN_ATTR_OPERATION_MATMUL_DESC = 1523,
  GPUDNN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT = 1524,
  GPUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC = 1525,
  GPUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC = 1526,
  GPUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC = 1527,

  /* reduction */
  GPUDNN_ATTR_REDUCTION_OPERATOR = 1600,
  GPUDNN_ATTR_REDUCTION_COMP_TYPE = 1601,
  GPUDNN_ATTR_REDUCTION_IS_DETERMINISTIC = 1602,
  GPUDNN_ATTR_OPERATION_REDUCTION_XDESC = 1610,
  GPUDNN_ATTR_OPERATION_REDUCTION_YDESC = 1611,
  GPUDNN_ATTR_OPERATION_REDUCTION_DESC = 1612,

  /* batch normalization, gradient of its parameters */
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC = 1620,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC = 1621,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC = 1622,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC = 1623,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC = 1624,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC = 1625,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC = 1626,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC = 1627,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC = 1628,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC = 1629,
  GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS = 1630,

  /* pooling and interpolation */
  GPUDNN_ATTR_RESAMPLE_MODE = 1700,
  GPUDNN_ATTR_RESAMPLE_COMP_TYPE = 1701,
  GPUDNN_ATTR_RESAMPLE_SPATIAL_DIMS = 1702,
  GPUDNN_ATTR_RESAMPLE_POST_PADDINGS = 1703,
  GPUDNN_ATTR_RESAMPLE_PRE_PADDINGS = 1704,
  GPUDNN_ATTR_RESAMPLE_STRIDES = 1705,
  GPUDNN_ATTR_RESAMPLE_WINDOW_DIMS = 1706,
  GPUDNN_ATTR_RESAMPLE_NAN_PROPAGATION = 1707,
  GPUDNN_ATTR_RESAMPLE_PADDING_MODE = 1708,
  GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC = 1710,
  GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC = 1711,
  GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC = 1712,
  GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA = 1713,
  GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA = 1714,
  GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC = 1716,
  GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC = 1720,
  GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC = 1721,
  GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC = 1722,
  GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA = 1723,
  GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA = 1724,
  GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC = 1725,
  GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC = 1726,
  GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC = 1727,

  /* concatenation */
  GPUDNN_ATTR_OPERATION_CONCAT_AXIS = 1800,
  GPUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS = 1801,
  GPUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX = 1802,
  GPUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC = 1803,

  /* signal */
  GPUDNN_ATTR_OPERATION_SIGNAL_MODE = 1900,
  GPUDNN_ATTR_OPERATION_SIGNAL_FLAGDESC = 1901,
  GPUDNN_ATTR_OPERATION_SIGNAL_VALUE = 1902,
  GPUDNN_ATTR_OPERATION_SIGNAL_XDESC = 1903,
  GPUDNN_ATTR_OPERATION_SIGNAL_YDESC = 1904,

  /* keys or values from a paged cache (Kwon et al. 2023) */
  GPUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC = 1950,
  GPUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC = 1951,
  GPUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC = 1952,
  GPUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC = 1953,

  /* normalization, forward */
  GPUDNN_ATTR_OPERATION_NORM_FWD_MODE = 2000,
  GPUDNN_ATTR_OPERATION_NORM_FWD_PHASE = 2001,
  GPUDNN_ATTR_OPERATION_NORM_FWD_XDESC = 2002,
  GPUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC = 2003,
  GPUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC = 2004,
  GPUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC = 2005,
  GPUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC = 2006,
  GPUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC = 2007,
  GPUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC = 2008,
  GPUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC = 2009,
  GPUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC = 2010,
  GPUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC = 2011,
  GPUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC = 2012,
  GPUDNN_ATTR_OPERATION_NORM_FWD_YDESC = 2013,
  GPUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS = 2014,

  /* normalization, backward */
  GPUDNN_ATTR_OPERATION_NORM_BWD_MODE = 2100,
  GPUDNN_ATTR_OPERATION_NORM_BWD_XDESC = 2101,
  GPUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC = 2102,
  GPUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC = 2103,
  GPUDNN_ATTR_OPERATION_NORM_BWD_DYDESC = 2104,
  GPUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC = 2105,
  GPUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC = 2106,
  GPUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC = 2107,
  GPUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC = 2108,
  GPUDNN_ATTR_OPERATION_NORM_BWD_DXDESC = 2109,
  GPUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS = 2110,

  /* reshape and band matrices */
  GPUDNN_ATTR_OPERATION_RESHAPE_XDESC = 2200,
  GPUDNN_ATTR_OPERATION_RESHAPE_YDESC = 2201,
  GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_XDESC = 2250,
  GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_YDESC = 2251,
  GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_LOWER_BANDWIDTH = 2252,
  GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_UPPER_BANDWIDTH = 2253,
  GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_AXIS = 2254,
  GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_PAD_VALUE = 2255,
  GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_KV_TOKEN_OFFSET_DESC = 2256,
  GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_SPECULATIVE_MASK_DESC = 2257,
  GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_XDESC = 2270,
  GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_YDESC = 2271,
  GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_LOWER_BANDWIDTH = 2272,
  GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_UPPER_BANDWIDTH = 2273,
  GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_AXIS = 2274,
  GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_PAD_VALUE = 2275,
  GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MAX_TOKEN_VALUE = 2276,

  /* random numbers */
  GPUDNN_ATTR_RNG_DISTRIBUTION = 2300,
  GPUDNN_ATTR_RNG_NORMAL_DIST_MEAN = 2301,
  GPUDNN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION = 2302,
  GPUDNN_ATTR_RNG_UNIFORM_DIST_MAXIMUM = 2303,
  GPUDNN_ATTR_RNG_UNIFORM_DIST_MINIMUM = 2304,
  GPUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY = 2305,
  GPUDNN_ATTR_OPERATION_RNG_YDESC = 2310,
  GPUDNN_ATTR_OPERATION_RNG_SEED = 2311,
  GPUDNN_ATTR_OPERATION_RNG_DESC = 2312,
  GPUDNN_ATTR_OPERATION_RNG_OFFSET_DESC = 2313,

  /* cache of compiled kernels */
  GPUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH = 2400,
  GPUDNN_ATTR_KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED = 2401,
  GPUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION = 2402,

  /* block-scaled types */
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_XDESC = 2500,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC = 2501,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC = 2502,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_MATH_PREC = 2503,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE = 2504,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC = 2600,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC = 2601,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC = 2602,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC = 2603,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE = 2604,
  GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE = 2605,

  /* a device's properties, to plan for it elsewhere */
  GPUDNN_ATTR_DEVICEPROP_DEVICE_ID = 2700,
  GPUDNN_ATTR_DEVICEPROP_HANDLE = 2701,
  GPUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION = 2702,

  /* scaled dot-product attention, forward (Vaswani et al. 2017) */
  GPUDNN_ATTR_OPERATION_SDPA_FWD_QDESC = 2800,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_KDESC = 2801,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_VDESC = 2802,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_ODESC = 2803,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC = 2804,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC = 2805,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC = 2806,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC = 2807,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC = 2808,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC = 2809,
  GPUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC = 2810,

  /* and backward */
  GPUDNN_ATTR_OPERATION_SDPA_BWD_QDESC = 2851,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_KDESC = 2852,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_VDESC = 2853,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_ODESC = 2854,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC = 2855,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC = 2856,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_QDESC = 2857,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_KVDESC = 2858,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC = 2859,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC = 2860,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC = 2861,
  GPUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC = 2862,

  /* mixture-of-experts matrix product */
  GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MODE = 2900,
  GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MATH_PREC = 2901,
  GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC = 2902,
  GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC = 2903,
  GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC = 2904,
  GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC = 2905,
  GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC = 2906,
  GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC = 2907,
  GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOP_K = 2908,
} gpudnnBackendAttributeName_t;

/* The type of an attribute's elements. */
typedef enum {
  GPUDNN_TYPE_HANDLE = 0,
  GPUDNN_TYPE_DATA_TYPE = 1,
  GPUDNN_TYPE_BOOLEAN = 2,
  GPUDNN_TYPE_INT64 = 3,
  GPUDNN_TYPE_FLOAT = 4,
  GPUDNN_TYPE_DOUBLE = 5,
  GPUDNN_TYPE_VOID_PTR = 6,
  GPUDNN_TYPE_CONVOLUTION_MODE = 7,
  GPUDNN_TYPE_HEUR_MODE = 8,
  GPUDNN_TYPE_KNOB_TYPE = 9,
  GPUDNN_TYPE_NAN_PROPOGATION = 10, /* spelled as in the interface */
  GPUDNN_TYPE_NUMERICAL_NOTE = 11,
  GPUDNN_TYPE_LAYOUT_TYPE = 12,
  GPUDNN_TYPE_ATTRIB_NAME = 13,
  GPUDNN_TYPE_POINTWISE_MODE = 14,
  GPUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
  GPUDNN_TYPE_GENSTATS_MODE = 16,
  GPUDNN_TYPE_BN_FINALIZE_STATS_MODE = 17,
  GPUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18,
  GPUDNN_TYPE_BEHAVIOR_NOTE = 19,
  GPUDNN_TYPE_TENSOR_REORDERING_MODE = 20,
  GPUDNN_TYPE_RESAMPLE_MODE = 21,
  GPUDNN_TYPE_PADDING_MODE = 22,
  GPUDNN_TYPE_INT32 = 23,
  GPUDNN_TYPE_CHAR = 24,
  GPUDNN_TYPE_SIGNAL_MODE = 25,
  GPUDNN_TYPE_FRACTION = 26,
  GPUDNN_TYPE_NORM_MODE = 27,
  GPUDNN_TYPE_NORM_FWD_PHASE = 28,
  GPUDNN_TYPE_RNG_DISTRIBUTION = 29,
  GPUDNN_TYPE_MOE_GROUPED_MATMUL_MODE = 30,
} gpudnnBackendAttributeType_t;

/* Kinds of descriptors. */
typedef enum {
  GPUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
  GPUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
  GPUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
  GPUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
  GPUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
  GPUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
  GPUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR = 6,
  GPUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR = 7,
  GPUDNN_BACKEND_KNOB_INFO_DESCRIPTOR = 8,
  GPUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR = 9,
  GPUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
  GPUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
  GPUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12,
  GPUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
  GPUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR = 14,
  GPUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
  GPUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
  GPUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
  GPUDNN_BACKEND_MATMUL_DESCRIPTOR = 18,
  GPUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19,
  GPUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR = 20,
  GPUDNN_BACKEND_REDUCTION_DESCRIPTOR = 21,
  GPUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 22,
  GPUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR = 23,
  GPUDNN_BACKEND_RESAMPLE_DESCRIPTOR = 24,
  GPUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR = 25,
  GPUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR = 26,
  GPUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR = 27,
  GPUDNN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR = 28,
  GPUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR = 29,
  GPUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR = 30,
  GPUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR = 31,
  GPUDNN_BACKEND_RNG_DESCRIPTOR = 32,
  GPUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR = 33,
  GPUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR = 34,
  GPUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR = 35,
  GPUDNN_BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR = 36,
  GPUDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR = 37,
  GPUDNN_BACKEND_DEVICEPROP_DESCRIPTOR = 38,
  GPUDNN_BACKEND_OPERATION_EXPAND_BAND_MATRIX_DESCRIPTOR = 39,
  GPUDNN_BACKEND_OPERATION_CONTRACT_BAND_MATRIX_DESCRIPTOR = 40,
  GPUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR = 41,
  GPUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR = 42,
  GPUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR = 43,
} gpudnnBackendDescriptorType_t;

/* What an engine does to the numbers. */
typedef enum {
  GPUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
  GPUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,         /* rounds inputs to a narrower type */
  GPUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2, /* sums in a type narrower than the compute type */
  GPUDNN_NUMERICAL_NOTE_FFT = 3,
  GPUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4, /* two runs may differ in the last bits */
  GPUDNN_NUMERICAL_NOTE_WINOGRAD = 5,
  GPUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 = 6,
  GPUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 = 7,
  GPUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 = 8,
  GPUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP = 9,
  GPUDNN_NUMERICAL_NOTE_TYPE_COUNT = 10, /* not a note */
} gpudnnBackendNumericalNote_t;

/* What else a program must know of an engine. */
typedef enum {
  GPUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION = 0, /* compiles a kernel when the plan is made */
  GPUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER = 1,
  GPUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER = 2,
  GPUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API = 3,
  GPUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY = 4,
  GPUDNN_BEHAVIOR_NOTE_TYPE_COUNT = 5, /* not a note */
} gpudnnBackendBehaviorNote_t;

/* Names of tunable numbers; which of them an engine has, and their ranges, its KNOB_INFO says. */
typedef enum {
  GPUDNN_KNOB_TYPE_SPLIT_K = 0,
  GPUDNN_KNOB_TYPE_SWIZZLE = 1,
  GPUDNN_KNOB_TYPE_TILE_SIZE = 2,
  GPUDNN_KNOB_TYPE_USE_TEX = 3,
  GPUDNN_KNOB_TYPE_EDGE = 4,
  GPUDNN_KNOB_TYPE_KBLOCK = 5,
  GPUDNN_KNOB_TYPE_LDGA = 6,
  GPUDNN_KNOB_TYPE_LDGB = 7,
  GPUDNN_KNOB_TYPE_CHUNK_K = 8,
  GPUDNN_KNOB_TYPE_SPLIT_H = 9,
  GPUDNN_KNOB_TYPE_WINO_TILE = 10,
  GPUDNN_KNOB_TYPE_MULTIPLY = 11,
  GPUDNN_KNOB_TYPE_SPLIT_K_BUF = 12,
  GPUDNN_KNOB_TYPE_TILEK = 13,
  GPUDNN_KNOB_TYPE_STAGES = 14,
  GPUDNN_KNOB_TYPE_REDUCTION_MODE = 15,
  GPUDNN_KNOB_TYPE_CTA_SPLIT_K_MODE = 16,
  GPUDNN_KNOB_TYPE_SPLIT_K_SLC = 17,
  GPUDNN_KNOB_TYPE_IDX_MODE = 18,
  GPUDNN_KNOB_TYPE_SLICED = 19,
  GPUDNN_KNOB_TYPE_SPLIT_RS = 20,
  GPUDNN_KNOB_TYPE_SINGLEBUFFER = 21,
  GPUDNN_KNOB_TYPE_LDGC = 22,
  GPUDNN_KNOB_TYPE_SPECFILT = 23,
  GPUDNN_KNOB_TYPE_KERNEL_CFG = 24,
  GPUDNN_KNOB_TYPE_WORKSPACE = 25,
  GPUDNN_KNOB_TYPE_TILE_CGA = 26,
  GPUDNN_KNOB_TYPE_TILE_CGA_M = 27,
  GPUDNN_KNOB_TYPE_TILE_CGA_N = 28,
  GPUDNN_KNOB_TYPE_BLOCK_SIZE = 29,
  GPUDNN_KNOB_TYPE_OCCUPANCY = 30,
  GPUDNN_KNOB_TYPE_ARRAY_SIZE_PER_THREAD = 31,
  GPUDNN_KNOB_TYPE_NUM_C_PER_BLOCK = 32,
  GPUDNN_KNOB_TYPE_SPLIT_COLS = 33,
  GPUDNN_KNOB_TYPE_TILE_ROWS = 34,
  GPUDNN_KNOB_TYPE_TILE_COLS = 35,
  GPUDNN_KNOB_TYPE_LOAD_SIZE = 36,
  GPUDNN_KNOB_TYPE_CTA_COUNT = 37,
  GPUDNN_KNOB_TYPE_STREAM_K = 38,
  GPUDNN_KNOB_TYPE_SPLIT_P_SLC = 39,
  GPUDNN_KNOB_TYPE_TILE_M = 40,
  GPUDNN_KNOB_TYPE_TILE_N = 41,
  GPUDNN_KNOB_TYPE_WARP_SPEC_CFG = 42,
  GPUDNN_KNOB_TYPE_SWAP_AB = 43,
  GPUDNN_KNOB_TYPE_COUNTS = 44, /* not a knob */
} gpudnnBackendKnobType_t;

typedef enum {
  GPUDNN_LAYOUT_TYPE_PREFERRED_NCHW = 0,
  GPUDNN_LAYOUT_TYPE_PREFERRED_NHWC = 1,
  GPUDNN_LAYOUT_TYPE_PREFERRED_PAD4CK = 2, /* channels padded to a multiple of 4 */
  GPUDNN_LAYOUT_TYPE_PREFERRED_PAD8CK = 3, /* channels padded to a multiple of 8 */
  GPUDNN_LAYOUT_TYPE_COUNT = 4,            /* not a layout */
} gpudnnBackendLayoutType_t;

/* How an ENGINEHEUR query ranks. */
typedef enum {
  GPUDNN_HEUR_MODE_INSTANT = 0,  /* old name of A */
  GPUDNN_HEUR_MODE_B = 1,        /* may take longer than A for a better ranking */
  GPUDNN_HEUR_MODE_FALLBACK = 2, /* engines that support much, fastest or not */
  GPUDNN_HEUR_MODE_A = 3,        /* cheap to ask */
  GPUDNN_HEUR_MODES_COUNT = 4,   /* not a mode */
} gpudnnBackendHeurMode_t;

/* ---------------------------------------------------------------------------------- the graph interface: functions */

/* Makes a descriptor of a kind. INTERMEDIATE_INFO cannot be made. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBackendCreateDescriptor(gpudnnBackendDescriptorType_t descriptorType,
                                                           gpudnnBackendDescriptor_t* descriptor);

/* Ends a descriptor; others that refer to it keep what they need. BAD_PARAM_NULL_POINTER for null. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBackendDestroyDescriptor(gpudnnBackendDescriptor_t descriptor);

/* Puts a descriptor back to its state after creation. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBackendInitialize(gpudnnBackendDescriptor_t descriptor);

/* Checks the attributes and freezes them. BAD_PARAM if they contradict each other or one is missing, NOT_SUPPORTED if
 * no engine can do what they say. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBackendFinalize(gpudnnBackendDescriptor_t descriptor);

/* Sets an attribute to `elementCount` elements of `attributeType` at `arrayOfElements` (copied). BAD_PARAM_..._TYPE,
 * _OUT_OF_BOUND or _NULL_POINTER say what is wrong; BAD_PARAM after finalize. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBackendSetAttribute(gpudnnBackendDescriptor_t descriptor,
                                                       gpudnnBackendAttributeName_t attributeName,
                                                       gpudnnBackendAttributeType_t attributeType, int64_t elementCount,
                                                       const void* arrayOfElements);

/* Reads an attribute of a finalized descriptor: writes the first `requestedElementCount` elements to `arrayOfElements`,
 * and how many that were to `*elementCount`, which may be null. If none are asked for, or `arrayOfElements` is null,
 * `*elementCount` tells how many there are. Elements that are descriptors must be created by the caller and are filled.
 * Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBackendGetAttribute(gpudnnBackendDescriptor_t const descriptor,
                                                       gpudnnBackendAttributeName_t attributeName,
                                                       gpudnnBackendAttributeType_t attributeType,
                                                       int64_t requestedElementCount, int64_t* elementCount,
                                                       void* arrayOfElements);

/* Queues a plan on the handle's stream with the pointers of a variant pack. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBackendExecute(gpudnnHandle_t handle, gpudnnBackendDescriptor_t executionPlan,
                                                  gpudnnBackendDescriptor_t variantPack);

/* Adds a plan's work to a CUDA graph; Update replaces the pointers in a graph that Populate has filled, or in a clone
 * of it. NOT_SUPPORTED on the host backend. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBackendPopulateCudaGraph(gpudnnHandle_t handle,
                                                            gpudnnBackendDescriptor_t executionPlan,
                                                            gpudnnBackendDescriptor_t variantPack, cudaGraph_t graph);
/* See gpudnnBackendPopulateCudaGraph. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBackendUpdateCudaGraph(gpudnnHandle_t handle,
                                                          gpudnnBackendDescriptor_t executionPlan,
                                                          gpudnnBackendDescriptor_t variantPack, cudaGraph_t graph);

#ifdef __cplusplus
}
#endif

#endif
