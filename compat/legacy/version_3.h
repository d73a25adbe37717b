/* What cuDNN 2 and 3 had and 4 changed: a sum of tensors by a mode, gradients of a convolution without a choice of
 * algorithm, and N-D convolutions without a compute type.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_LEGACY_VERSION_3_H_
#define GPUDNN_LEGACY_VERSION_3_H_

#include "version_4.h"

#if defined(__GNUC__)
#pragma GCC system_header
#endif

/* Averages counted their padding. */
#define CUDNN_POOLING_AVERAGE CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING

/* What the bias is added along. Its descriptor's dimensions of 1 say the same, so that the mode is not needed. */
typedef enum {
  CUDNN_ADD_IMAGE = 0,
  CUDNN_ADD_SAME_HW = 0,
  CUDNN_ADD_FEATURE_MAP = 1,
  CUDNN_ADD_SAME_CHW = 1,
  CUDNN_ADD_SAME_C = 2,
  CUDNN_ADD_FULL_TENSOR = 3,
} cudnnAddMode_t;

static inline cudnnStatus_t cudnnAddTensor_v2(cudnnHandle_t handle, cudnnAddMode_t mode, const void* alpha,
                                              const cudnnTensorDescriptor_t biasDesc, const void* biasData,
                                              const void* beta, cudnnTensorDescriptor_t srcDestDesc,
                                              void* srcDestData) {
  if ((int)mode < 0 || (int)mode > 3) {
    return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM, "cudnnAddTensor: mode must be a value of cudnnAddMode_t");
  }
  return cudnnAddTensor(handle, alpha, biasDesc, biasData, beta, srcDestDesc, srcDestData);
}

/* Algorithm 0 of each gradient needs no workspace. */
static inline cudnnStatus_t cudnnConvolutionBackwardFilter_v2(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t srcDesc, const void* srcData,
    const cudnnTensorDescriptor_t diffDesc, const void* diffData, const cudnnConvolutionDescriptor_t convDesc,
    const void* beta, const cudnnFilterDescriptor_t gradDesc, void* gradData) {
  return cudnnConvolutionBackwardFilter(handle, alpha, srcDesc, srcData, diffDesc, diffData, convDesc,
                                        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, NULL, 0, beta, gradDesc, gradData);
}
static inline cudnnStatus_t cudnnConvolutionBackwardData_v2(
    cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t filterDesc, const void* filterData,
    const cudnnTensorDescriptor_t diffDesc, const void* diffData, const cudnnConvolutionDescriptor_t convDesc,
    const void* beta, const cudnnTensorDescriptor_t gradDesc, void* gradData) {
  return cudnnConvolutionBackwardData(handle, alpha, filterDesc, filterData, diffDesc, diffData, convDesc,
                                      CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, NULL, 0, beta, gradDesc, gradData);
}

#define cudnnAddTensor cudnnAddTensor_v2
#define cudnnConvolutionBackwardFilter cudnnConvolutionBackwardFilter_v2
#define cudnnConvolutionBackwardData cudnnConvolutionBackwardData_v2
#define cudnnSetConvolutionNdDescriptor cudnnSetConvolutionNdDescriptor_v2
#define cudnnGetConvolutionNdDescriptor cudnnGetConvolutionNdDescriptor_v2

#endif
