/* What cuDNN 7 had and 8 dropped: the choice of one algorithm by a preference and a limit of memory, and the spellings
 * with _v3 to _v6 that bridged earlier releases.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_LEGACY_VERSION_7_H_
#define GPUDNN_LEGACY_VERSION_7_H_

#include "version_8.h"

#if defined(__GNUC__)
#pragma GCC system_header
#endif

/* ------------------------------------------------------------------------------------- the choice of an algorithm */

typedef enum {
  CUDNN_CONVOLUTION_FWD_NO_WORKSPACE = 0,
  CUDNN_CONVOLUTION_FWD_PREFER_FASTEST = 1,
  CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT = 2,
} cudnnConvolutionFwdPreference_t;

typedef enum {
  CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE = 0,
  CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST = 1,
  CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT = 2,
} cudnnConvolutionBwdDataPreference_t;

typedef enum {
  CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE = 0,
  CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST = 1,
  CUDNN_CONVOLUTION_BWD_FILTER_SPECIFY_WORKSPACE_LIMIT = 2,
} cudnnConvolutionBwdFilterPreference_t;

/* The three take the first usable row of today's list, best first, whose workspace the preference allows. The
 * preferences' values are the same in all three: none, any, up to the limit. */
#define GPUDNN_LEGACY_TAKE_ALGORITHM(name, query, count, perf_type)                                            \
  do {                                                                                                         \
    perf_type gpudnn_rows[count];                                                                              \
    int gpudnn_found = 0, gpudnn_i;                                                                            \
    cudnnStatus_t gpudnn_status;                                                                               \
    const size_t gpudnn_limit = preference == 0 ? 0 : memoryLimitInBytes;                                      \
    if ((int)preference < 0 || (int)preference > 2) {                                                          \
      return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM, #name ": the preference must be a value from 0 to 2"); \
    }                                                                                                          \
    if (algo == NULL) return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM, #name ": algo is null");               \
    gpudnn_status = query(count, &gpudnn_found, gpudnn_rows);                                                  \
    if (gpudnn_status != CUDNN_STATUS_SUCCESS) return gpudnn_status;                                           \
    for (gpudnn_i = 0; gpudnn_i < gpudnn_found; ++gpudnn_i) {                                                  \
      if (gpudnn_rows[gpudnn_i].status != CUDNN_STATUS_SUCCESS) continue;                                      \
      if (preference != 1 && gpudnn_rows[gpudnn_i].memory > gpudnn_limit) continue;                            \
      *algo = gpudnn_rows[gpudnn_i].algo;                                                                      \
      return CUDNN_STATUS_SUCCESS;                                                                             \
    }                                                                                                          \
    return gpudnnLegacyRefuse(CUDNN_STATUS_NOT_SUPPORTED, #name ": no algorithm keeps to the memory limit");   \
  } while (0)

static inline cudnnStatus_t cudnnGetConvolutionForwardAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
    cudnnConvolutionFwdPreference_t preference, size_t memoryLimitInBytes, cudnnConvolutionFwdAlgo_t* algo) {
#define GPUDNN_LEGACY_QUERY(count, found, rows) \
  cudnnGetConvolutionForwardAlgorithm_v7(handle, xDesc, wDesc, convDesc, yDesc, count, found, rows)
  GPUDNN_LEGACY_TAKE_ALGORITHM(cudnnGetConvolutionForwardAlgorithm, GPUDNN_LEGACY_QUERY,
                               CUDNN_CONVOLUTION_FWD_ALGO_COUNT, cudnnConvolutionFwdAlgoPerf_t);
#undef GPUDNN_LEGACY_QUERY
}

static inline cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
    cudnnConvolutionBwdDataPreference_t preference, size_t memoryLimitInBytes, cudnnConvolutionBwdDataAlgo_t* algo) {
#define GPUDNN_LEGACY_QUERY(count, found, rows) \
  cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, wDesc, dyDesc, convDesc, dxDesc, count, found, rows)
  GPUDNN_LEGACY_TAKE_ALGORITHM(cudnnGetConvolutionBackwardDataAlgorithm, GPUDNN_LEGACY_QUERY,
                               CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, cudnnConvolutionBwdDataAlgoPerf_t);
#undef GPUDNN_LEGACY_QUERY
}

static inline cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t dwDesc,
    cudnnConvolutionBwdFilterPreference_t preference, size_t memoryLimitInBytes,
    cudnnConvolutionBwdFilterAlgo_t* algo) {
#define GPUDNN_LEGACY_QUERY(count, found, rows) \
  cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, xDesc, dyDesc, convDesc, dwDesc, count, found, rows)
  GPUDNN_LEGACY_TAKE_ALGORITHM(cudnnGetConvolutionBackwardFilterAlgorithm, GPUDNN_LEGACY_QUERY,
                               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, cudnnConvolutionBwdFilterAlgoPerf_t);
#undef GPUDNN_LEGACY_QUERY
}

/* ------------------------------------------------------------------------- the spellings that bridged two releases */

/* The form that a call has today was spelled with a suffix in the release that brought it. Constant pointers and not
 * macros: an older age gives the names without a suffix another meaning. */
#define GPUDNN_LEGACY_TODAY(old_name, name) static __typeof__(&name) const old_name = &name
GPUDNN_LEGACY_TODAY(cudnnAddTensor_v3, cudnnAddTensor);
GPUDNN_LEGACY_TODAY(cudnnConvolutionBackwardBias_v3, cudnnConvolutionBackwardBias);
GPUDNN_LEGACY_TODAY(cudnnConvolutionBackwardFilter_v3, cudnnConvolutionBackwardFilter);
GPUDNN_LEGACY_TODAY(cudnnConvolutionBackwardData_v3, cudnnConvolutionBackwardData);
GPUDNN_LEGACY_TODAY(cudnnSetFilter4dDescriptor_v4, cudnnSetFilter4dDescriptor);
GPUDNN_LEGACY_TODAY(cudnnGetFilter4dDescriptor_v4, cudnnGetFilter4dDescriptor);
GPUDNN_LEGACY_TODAY(cudnnSetFilterNdDescriptor_v4, cudnnSetFilterNdDescriptor);
GPUDNN_LEGACY_TODAY(cudnnGetFilterNdDescriptor_v4, cudnnGetFilterNdDescriptor);
GPUDNN_LEGACY_TODAY(cudnnSetPooling2dDescriptor_v4, cudnnSetPooling2dDescriptor);
GPUDNN_LEGACY_TODAY(cudnnGetPooling2dDescriptor_v4, cudnnGetPooling2dDescriptor);
GPUDNN_LEGACY_TODAY(cudnnSetPoolingNdDescriptor_v4, cudnnSetPoolingNdDescriptor);
GPUDNN_LEGACY_TODAY(cudnnGetPoolingNdDescriptor_v4, cudnnGetPoolingNdDescriptor);
GPUDNN_LEGACY_TODAY(cudnnActivationForward_v4, cudnnActivationForward);
GPUDNN_LEGACY_TODAY(cudnnActivationBackward_v4, cudnnActivationBackward);
GPUDNN_LEGACY_TODAY(cudnnSetConvolution2dDescriptor_v5, cudnnSetConvolution2dDescriptor);
GPUDNN_LEGACY_TODAY(cudnnGetConvolution2dDescriptor_v5, cudnnGetConvolution2dDescriptor);
GPUDNN_LEGACY_TODAY(cudnnSetConvolutionNdDescriptor_v3, cudnnSetConvolutionNdDescriptor);
GPUDNN_LEGACY_TODAY(cudnnGetConvolutionNdDescriptor_v3, cudnnGetConvolutionNdDescriptor);

/* The formatless filters of version 2 to 4: NCHW. */
static inline cudnnStatus_t cudnnSetFilter4dDescriptor_v3(cudnnFilterDescriptor_t filterDesc, cudnnDataType_t dataType,
                                                          int k, int c, int h, int w) {
  return cudnnSetFilter4dDescriptor(filterDesc, dataType, CUDNN_TENSOR_NCHW, k, c, h, w);
}
static inline cudnnStatus_t cudnnGetFilter4dDescriptor_v3(const cudnnFilterDescriptor_t filterDesc,
                                                          cudnnDataType_t* dataType, int* k, int* c, int* h, int* w) {
  cudnnTensorFormat_t format;
  return cudnnGetFilter4dDescriptor(filterDesc, dataType, &format, k, c, h, w);
}
static inline cudnnStatus_t cudnnSetFilterNdDescriptor_v3(cudnnFilterDescriptor_t filterDesc, cudnnDataType_t dataType,
                                                          int nbDims, const int filterDimA[]) {
  return cudnnSetFilterNdDescriptor(filterDesc, dataType, CUDNN_TENSOR_NCHW, nbDims, filterDimA);
}
static inline cudnnStatus_t cudnnGetFilterNdDescriptor_v3(const cudnnFilterDescriptor_t filterDesc, int nbDimsRequested,
                                                          cudnnDataType_t* dataType, int* nbDims, int filterDimA[]) {
  cudnnTensorFormat_t format;
  return cudnnGetFilterNdDescriptor(filterDesc, nbDimsRequested, dataType, &format, nbDims, filterDimA);
}

/* Pooling of version 2 to 4, which let no NaN through its maximum. */
static inline cudnnStatus_t cudnnSetPooling2dDescriptor_v3(cudnnPoolingDescriptor_t poolingDesc,
                                                           cudnnPoolingMode_t mode, int windowHeight, int windowWidth,
                                                           int verticalPadding, int horizontalPadding,
                                                           int verticalStride, int horizontalStride) {
  return cudnnSetPooling2dDescriptor(poolingDesc, mode, CUDNN_NOT_PROPAGATE_NAN, windowHeight, windowWidth,
                                     verticalPadding, horizontalPadding, verticalStride, horizontalStride);
}
static inline cudnnStatus_t cudnnGetPooling2dDescriptor_v3(const cudnnPoolingDescriptor_t poolingDesc,
                                                           cudnnPoolingMode_t* mode, int* windowHeight,
                                                           int* windowWidth, int* verticalPadding,
                                                           int* horizontalPadding, int* verticalStride,
                                                           int* horizontalStride) {
  cudnnNanPropagation_t nan;
  return cudnnGetPooling2dDescriptor(poolingDesc, mode, &nan, windowHeight, windowWidth, verticalPadding,
                                     horizontalPadding, verticalStride, horizontalStride);
}
static inline cudnnStatus_t cudnnSetPoolingNdDescriptor_v3(cudnnPoolingDescriptor_t poolingDesc,
                                                           const cudnnPoolingMode_t mode, int nbDims,
                                                           const int windowDimA[], const int paddingA[],
                                                           const int strideA[]) {
  return cudnnSetPoolingNdDescriptor(poolingDesc, mode, CUDNN_NOT_PROPAGATE_NAN, nbDims, windowDimA, paddingA, strideA);
}
static inline cudnnStatus_t cudnnGetPoolingNdDescriptor_v3(const cudnnPoolingDescriptor_t poolingDesc,
                                                           const int nbDimsRequested, cudnnPoolingMode_t* mode,
                                                           int* nbDims, int windowDimA[], int paddingA[],
                                                           int strideA[]) {
  cudnnNanPropagation_t nan;
  return cudnnGetPoolingNdDescriptor(poolingDesc, nbDimsRequested, mode, &nan, nbDims, windowDimA, paddingA, strideA);
}

/* Activations of version 2 to 4, by a mode and without a descriptor. */
static inline cudnnStatus_t gpudnnLegacyActivation(cudnnActivationMode_t mode,
                                                   cudnnActivationDescriptor_t* activation) {
  cudnnStatus_t status = cudnnCreateActivationDescriptor(activation);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnSetActivationDescriptor(*activation, mode, CUDNN_NOT_PROPAGATE_NAN, 0.0);
  if (status != CUDNN_STATUS_SUCCESS) (void)cudnnDestroyActivationDescriptor(*activation);
  return status;
}
static inline cudnnStatus_t cudnnActivationForward_v3(cudnnHandle_t handle, cudnnActivationMode_t mode,
                                                      const void* alpha, const cudnnTensorDescriptor_t srcDesc,
                                                      const void* srcData, const void* beta,
                                                      const cudnnTensorDescriptor_t destDesc, void* destData) {
  cudnnActivationDescriptor_t activation;
  cudnnStatus_t status = gpudnnLegacyActivation(mode, &activation);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnActivationForward(handle, activation, alpha, srcDesc, srcData, beta, destDesc, destData);
  (void)cudnnDestroyActivationDescriptor(activation);
  return status;
}
static inline cudnnStatus_t cudnnActivationBackward_v3(cudnnHandle_t handle, cudnnActivationMode_t mode,
                                                       const void* alpha, const cudnnTensorDescriptor_t srcDesc,
                                                       const void* srcData, const cudnnTensorDescriptor_t srcDiffDesc,
                                                       const void* srcDiffData, const cudnnTensorDescriptor_t destDesc,
                                                       const void* destData, const void* beta,
                                                       const cudnnTensorDescriptor_t destDiffDesc, void* destDiffData) {
  cudnnActivationDescriptor_t activation;
  cudnnStatus_t status = gpudnnLegacyActivation(mode, &activation);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnActivationBackward(handle, activation, alpha, srcDesc, srcData, srcDiffDesc, srcDiffData, destDesc,
                                   destData, beta, destDiffDesc, destDiffData);
  (void)cudnnDestroyActivationDescriptor(activation);
  return status;
}

/* Convolution of version 2 to 5: no compute type, which was float, and a factor that scaled the input up. Only a factor
 * of 1 was ever served; in version 6 its place was taken by the dilation. */
static inline cudnnStatus_t gpudnnLegacyUpscale(void) {
  return gpudnnLegacyRefuse(CUDNN_STATUS_NOT_SUPPORTED, "a convolution's upscale factors must be 1");
}
static inline cudnnStatus_t cudnnSetConvolution2dDescriptor_v4(cudnnConvolutionDescriptor_t convDesc, int pad_h,
                                                               int pad_w, int u, int v, int upscalex, int upscaley,
                                                               cudnnConvolutionMode_t mode) {
  if (upscalex != 1 || upscaley != 1) return gpudnnLegacyUpscale();
  return cudnnSetConvolution2dDescriptor(convDesc, pad_h, pad_w, u, v, 1, 1, mode, CUDNN_DATA_FLOAT);
}
static inline cudnnStatus_t cudnnGetConvolution2dDescriptor_v4(const cudnnConvolutionDescriptor_t convDesc, int* pad_h,
                                                               int* pad_w, int* u, int* v, int* upscalex, int* upscaley,
                                                               cudnnConvolutionMode_t* mode) {
  cudnnDataType_t type;
  return cudnnGetConvolution2dDescriptor(convDesc, pad_h, pad_w, u, v, upscalex, upscaley, mode, &type);
}
static inline cudnnStatus_t cudnnSetConvolutionNdDescriptor_v2(cudnnConvolutionDescriptor_t convDesc, int arrayLength,
                                                               const int padA[], const int filterStrideA[],
                                                               const int upscaleA[], cudnnConvolutionMode_t mode) {
  int i;
  for (i = 0; upscaleA != NULL && i < arrayLength; ++i) {
    if (upscaleA[i] != 1) return gpudnnLegacyUpscale();
  }
  return cudnnSetConvolutionNdDescriptor(convDesc, arrayLength, padA, filterStrideA, upscaleA, mode, CUDNN_DATA_FLOAT);
}
static inline cudnnStatus_t cudnnGetConvolutionNdDescriptor_v2(const cudnnConvolutionDescriptor_t convDesc,
                                                               int arrayLengthRequested, int* arrayLength, int padA[],
                                                               int strideA[], int upscaleA[],
                                                               cudnnConvolutionMode_t* mode) {
  cudnnDataType_t type;
  return cudnnGetConvolutionNdDescriptor(convDesc, arrayLengthRequested, arrayLength, padA, strideA, upscaleA, mode,
                                         &type);
}

/* ------------------------------------------------------------------------------------------------ recurrent networks
 */

static inline cudnnStatus_t cudnnSetRNNDescriptor_v5(cudnnRNNDescriptor_t rnnDesc, int hiddenSize, int numLayers,
                                                     cudnnDropoutDescriptor_t dropoutDesc,
                                                     cudnnRNNInputMode_t inputMode, cudnnDirectionMode_t direction,
                                                     cudnnRNNMode_t mode, cudnnDataType_t dataType) {
  return cudnnSetRNNDescriptor_v6(NULL, rnnDesc, hiddenSize, numLayers, dropoutDesc, inputMode, direction, mode,
                                  CUDNN_RNN_ALGO_STANDARD, dataType);
}
/* Its arguments differed from release to release: eight as in version 5, or ten as in 6 and 7, with handle and algo. */
#define GPUDNN_LEGACY_RNN_FORM(a, b, c, d, e, f, g, h, i, j, form, ...) form
#define cudnnSetRNNDescriptor(...)                                                                                    \
  GPUDNN_LEGACY_RNN_FORM(__VA_ARGS__, cudnnSetRNNDescriptor_v6, gpudnnLegacyRNNForm9, cudnnSetRNNDescriptor_v5, 0, 0, \
                         0, 0, 0, 0, 0, 0)                                                                            \
  (__VA_ARGS__)

/* ---------------------------------------------------------------------------------------------------- version numbers
 */

/* A program of that time compares the library's version with its header's. cudnnGetProperty tells the library's own. */
static inline size_t gpudnnLegacyGetVersion(void) {
#ifdef CUDNN_VERSION
  return CUDNN_VERSION;
#else
  return 1000;
#endif
}
#define cudnnGetVersion gpudnnLegacyGetVersion

#endif
