/* The first release of cuDNN: 4-D tensors alone, a convolution described by the tensors it is for, results that
 * overwrite or accumulate and no other scale.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_LEGACY_VERSION_1_H_
#define GPUDNN_LEGACY_VERSION_1_H_

#include <stdlib.h>

#include "version_3.h"

#if defined(__GNUC__)
#pragma GCC system_header
#endif

/* ------------------------------------------------------------------------------------------------------ 4-D tensors */

#define cudnnTensor4dDescriptor_t cudnnTensorDescriptor_t
#define cudnnCreateTensor4dDescriptor cudnnCreateTensorDescriptor
#define cudnnDestroyTensor4dDescriptor cudnnDestroyTensorDescriptor
#define cudnnSetFilterDescriptor cudnnSetFilter4dDescriptor_v3
#define cudnnGetFilterDescriptor cudnnGetFilter4dDescriptor_v3
#define cudnnSetTensor4d cudnnSetTensor
#define cudnnScaleTensor4d cudnnScaleTensor

typedef enum {
  CUDNN_RESULT_ACCUMULATE = 0,
  CUDNN_RESULT_NO_ACCUMULATE = 1,
} cudnnAccumulateResult_t;

/* 0 or 1 in the type that scales data of `desc`: double for double, else float. Zeroed bytes are 0 in both. */
static inline const void* gpudnnLegacyScale(int value, const cudnnTensorDescriptor_t desc) {
  static const float f[2] = {0.0f, 1.0f};
  static const double d[2] = {0.0, 1.0};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int n, c, h, w, ns, cs, hs, ws;
  (void)cudnnGetTensor4dDescriptor(desc, &type, &n, &c, &h, &w, &ns, &cs, &hs, &ws);
  return type == CUDNN_DATA_DOUBLE ? (const void*)&d[value] : (const void*)&f[value];
}
static inline const void* gpudnnLegacyBeta(cudnnAccumulateResult_t accumulate, const cudnnTensorDescriptor_t desc) {
  return gpudnnLegacyScale(accumulate == CUDNN_RESULT_ACCUMULATE, desc);
}

static inline cudnnStatus_t cudnnTransformTensor4d(cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
                                                   const void* srcData, const cudnnTensorDescriptor_t destDesc,
                                                   void* destData) {
  return cudnnTransformTensor(handle, gpudnnLegacyScale(1, destDesc), srcDesc, srcData, gpudnnLegacyScale(0, destDesc),
                              destDesc, destData);
}
static inline cudnnStatus_t cudnnAddTensor4d(cudnnHandle_t handle, cudnnAddMode_t mode, const void* alpha,
                                             const cudnnTensorDescriptor_t biasDesc, const void* biasData,
                                             cudnnTensorDescriptor_t srcDestDesc, void* srcDestData) {
  return cudnnAddTensor_v2(handle, mode, alpha, biasDesc, biasData, gpudnnLegacyScale(1, srcDestDesc), srcDestDesc,
                           srcDestData);
}

/* ------------------------------------------------------------------------------------------------------ convolution */

typedef enum {
  CUDNN_CONVOLUTION_FWD = 0,
  CUDNN_CONVOLUTION_WEIGHT_GRAD = 1,
  CUDNN_CONVOLUTION_DATA_GRAD = 2,
} cudnnConvolutionPath_t;

/* Today's descriptor, and the dimensions of input and filter, which it does not hold. */
struct gpudnnLegacyConvolution {
  cudnnConvolutionDescriptor_t today;
  int input[4], filter[4], output[4];
};
typedef struct gpudnnLegacyConvolution* gpudnnLegacyConvolution_t;

static inline cudnnStatus_t gpudnnLegacyCreateConvolution(gpudnnLegacyConvolution_t* convDesc) {
  cudnnStatus_t status;
  gpudnnLegacyConvolution_t made;
  if (convDesc == NULL) {
    return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM, "cudnnCreateConvolutionDescriptor: convDesc is null");
  }
  made = (gpudnnLegacyConvolution_t)calloc(1, sizeof *made);
  if (made == NULL) {
    return gpudnnLegacyRefuse(CUDNN_STATUS_ALLOC_FAILED, "cudnnCreateConvolutionDescriptor: the host is out of memory");
  }
  status = cudnnCreateConvolutionDescriptor(&made->today);
  if (status != CUDNN_STATUS_SUCCESS) {
    free(made);
    return status;
  }
  *convDesc = made;
  return status;
}
static inline cudnnStatus_t gpudnnLegacyDestroyConvolution(gpudnnLegacyConvolution_t convDesc) {
  cudnnStatus_t status = cudnnDestroyConvolutionDescriptor(convDesc != NULL ? convDesc->today : NULL);
  free(convDesc);
  return status;
}
static inline cudnnStatus_t gpudnnLegacyNoConvolution(void) {
  return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM, "the convolution descriptor is null");
}

static inline cudnnStatus_t cudnnSetConvolutionDescriptorEx(gpudnnLegacyConvolution_t convDesc, int n, int c, int h,
                                                            int w, int k, int r, int s, int pad_h, int pad_w, int u,
                                                            int v, int upscalex, int upscaley,
                                                            cudnnConvolutionMode_t mode) {
  const int input[4] = {n, c, h, w}, filter[4] = {k, c, r, s};
  cudnnStatus_t status;
  int i;
  if (convDesc == NULL) return gpudnnLegacyNoConvolution();
  status = cudnnSetConvolution2dDescriptor_v4(convDesc->today, pad_h, pad_w, u, v, upscalex, upscaley, mode);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  for (i = 0; i < 4; ++i) {
    convDesc->input[i] = input[i];
    convDesc->filter[i] = filter[i];
  }
  convDesc->output[0] = n;
  convDesc->output[1] = k;
  convDesc->output[2] = (h + 2 * pad_h - r) / u + 1;
  convDesc->output[3] = (w + 2 * pad_w - s) / v + 1;
  return status;
}
static inline cudnnStatus_t cudnnSetConvolutionDescriptor(gpudnnLegacyConvolution_t convDesc,
                                                          cudnnTensorDescriptor_t inputTensorDesc,
                                                          cudnnFilterDescriptor_t filterDesc, int pad_h, int pad_w,
                                                          int u, int v, int upscalex, int upscaley,
                                                          cudnnConvolutionMode_t mode) {
  cudnnDataType_t type;
  int n, c, h, w, ns, cs, hs, ws, k, fc, r, s;
  cudnnStatus_t status = cudnnGetTensor4dDescriptor(inputTensorDesc, &type, &n, &c, &h, &w, &ns, &cs, &hs, &ws);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnGetFilter4dDescriptor_v3(filterDesc, &type, &k, &fc, &r, &s);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (fc != c) {
    return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM,
                              "cudnnSetConvolutionDescriptor: input and filter differ in their input channels");
  }
  status = cudnnSetConvolutionDescriptorEx(convDesc, n, c, h, w, k, r, s, pad_h, pad_w, u, v, upscalex, upscaley, mode);
  /* Sums of doubles are formed in double. */
  if (status == CUDNN_STATUS_SUCCESS && type == CUDNN_DATA_DOUBLE) {
    status = cudnnSetConvolution2dDescriptor_v5(convDesc->today, pad_h, pad_w, u, v, 1, 1, mode, CUDNN_DATA_DOUBLE);
  }
  return status;
}
static inline cudnnStatus_t cudnnGetOutputTensor4dDim(const gpudnnLegacyConvolution_t convDesc,
                                                      cudnnConvolutionPath_t path, int* n, int* c, int* h, int* w) {
  const int* dims;
  if (convDesc == NULL) return gpudnnLegacyNoConvolution();
  if ((int)path < 0 || (int)path > 2 || n == NULL || c == NULL || h == NULL || w == NULL) {
    return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM,
                              "cudnnGetOutputTensor4dDim: path must be a value of cudnnConvolutionPath_t, and no "
                              "pointer null");
  }
  dims = path == CUDNN_CONVOLUTION_FWD           ? convDesc->output
         : path == CUDNN_CONVOLUTION_WEIGHT_GRAD ? convDesc->filter
                                                 : convDesc->input;
  *n = dims[0];
  *c = dims[1];
  *h = dims[2];
  *w = dims[3];
  return CUDNN_STATUS_SUCCESS;
}

static inline cudnnStatus_t gpudnnLegacyConvolutionForward(cudnnHandle_t handle, cudnnTensorDescriptor_t srcDesc,
                                                           const void* srcData, cudnnFilterDescriptor_t filterDesc,
                                                           const void* filterData, gpudnnLegacyConvolution_t convDesc,
                                                           cudnnTensorDescriptor_t destDesc, void* destData,
                                                           cudnnAccumulateResult_t accumulate) {
  if (convDesc == NULL) return gpudnnLegacyNoConvolution();
  return cudnnConvolutionForward(handle, gpudnnLegacyScale(1, destDesc), srcDesc, srcData, filterDesc, filterData,
                                 convDesc->today, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0,
                                 gpudnnLegacyBeta(accumulate, destDesc), destDesc, destData);
}
static inline cudnnStatus_t gpudnnLegacyConvolutionBackwardBias(cudnnHandle_t handle, cudnnTensorDescriptor_t srcDesc,
                                                                const void* srcData, cudnnTensorDescriptor_t destDesc,
                                                                void* destData, cudnnAccumulateResult_t accumulate) {
  return cudnnConvolutionBackwardBias(handle, gpudnnLegacyScale(1, destDesc), srcDesc, srcData,
                                      gpudnnLegacyBeta(accumulate, destDesc), destDesc, destData);
}
static inline cudnnStatus_t gpudnnLegacyConvolutionBackwardFilter(cudnnHandle_t handle, cudnnTensorDescriptor_t srcDesc,
                                                                  const void* srcData, cudnnTensorDescriptor_t diffDesc,
                                                                  const void* diffData,
                                                                  gpudnnLegacyConvolution_t convDesc,
                                                                  cudnnFilterDescriptor_t gradDesc, void* gradData,
                                                                  cudnnAccumulateResult_t accumulate) {
  if (convDesc == NULL) return gpudnnLegacyNoConvolution();
  return cudnnConvolutionBackwardFilter_v2(handle, gpudnnLegacyScale(1, srcDesc), srcDesc, srcData, diffDesc, diffData,
                                           convDesc->today, gpudnnLegacyBeta(accumulate, srcDesc), gradDesc, gradData);
}
static inline cudnnStatus_t gpudnnLegacyConvolutionBackwardData(
    cudnnHandle_t handle, cudnnFilterDescriptor_t filterDesc, const void* filterData, cudnnTensorDescriptor_t diffDesc,
    const void* diffData, gpudnnLegacyConvolution_t convDesc, cudnnTensorDescriptor_t gradDesc, void* gradData,
    cudnnAccumulateResult_t accumulate) {
  if (convDesc == NULL) return gpudnnLegacyNoConvolution();
  return cudnnConvolutionBackwardData_v2(handle, gpudnnLegacyScale(1, gradDesc), filterDesc, filterData, diffDesc,
                                         diffData, convDesc->today, gpudnnLegacyBeta(accumulate, gradDesc), gradDesc,
                                         gradData);
}

/* ------------------------------------------------------------------------------------ pooling, activation, softmax */

static inline cudnnStatus_t cudnnSetPoolingDescriptor(cudnnPoolingDescriptor_t poolingDesc, cudnnPoolingMode_t mode,
                                                      int windowHeight, int windowWidth, int verticalStride,
                                                      int horizontalStride) {
  return cudnnSetPooling2dDescriptor_v3(poolingDesc, mode, windowHeight, windowWidth, 0, 0, verticalStride,
                                        horizontalStride);
}
static inline cudnnStatus_t cudnnGetPoolingDescriptor(const cudnnPoolingDescriptor_t poolingDesc,
                                                      cudnnPoolingMode_t* mode, int* windowHeight, int* windowWidth,
                                                      int* verticalStride, int* horizontalStride) {
  int pad_h, pad_w;
  return cudnnGetPooling2dDescriptor_v3(poolingDesc, mode, windowHeight, windowWidth, &pad_h, &pad_w, verticalStride,
                                        horizontalStride);
}
static inline cudnnStatus_t gpudnnLegacyPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t poolingDesc,
                                                       cudnnTensorDescriptor_t srcDesc, const void* srcData,
                                                       cudnnTensorDescriptor_t destDesc, void* destData) {
  return cudnnPoolingForward(handle, poolingDesc, gpudnnLegacyScale(1, destDesc), srcDesc, srcData,
                             gpudnnLegacyScale(0, destDesc), destDesc, destData);
}
static inline cudnnStatus_t gpudnnLegacyPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t poolingDesc,
                                                        cudnnTensorDescriptor_t srcDesc, const void* srcData,
                                                        cudnnTensorDescriptor_t srcDiffDesc, const void* srcDiffData,
                                                        cudnnTensorDescriptor_t destDesc, const void* destData,
                                                        cudnnTensorDescriptor_t destDiffDesc, void* destDiffData) {
  return cudnnPoolingBackward(handle, poolingDesc, gpudnnLegacyScale(1, destDiffDesc), srcDesc, srcData, srcDiffDesc,
                              srcDiffData, destDesc, destData, gpudnnLegacyScale(0, destDiffDesc), destDiffDesc,
                              destDiffData);
}
static inline cudnnStatus_t gpudnnLegacyActivationForward(cudnnHandle_t handle, cudnnActivationMode_t mode,
                                                          cudnnTensorDescriptor_t srcDesc, const void* srcData,
                                                          cudnnTensorDescriptor_t destDesc, void* destData) {
  return cudnnActivationForward_v3(handle, mode, gpudnnLegacyScale(1, destDesc), srcDesc, srcData,
                                   gpudnnLegacyScale(0, destDesc), destDesc, destData);
}
static inline cudnnStatus_t gpudnnLegacyActivationBackward(cudnnHandle_t handle, cudnnActivationMode_t mode,
                                                           cudnnTensorDescriptor_t srcDesc, const void* srcData,
                                                           cudnnTensorDescriptor_t srcDiffDesc, const void* srcDiffData,
                                                           cudnnTensorDescriptor_t destDesc, const void* destData,
                                                           cudnnTensorDescriptor_t destDiffDesc, void* destDiffData) {
  return cudnnActivationBackward_v3(handle, mode, gpudnnLegacyScale(1, destDiffDesc), srcDesc, srcData, srcDiffDesc,
                                    srcDiffData, destDesc, destData, gpudnnLegacyScale(0, destDiffDesc), destDiffDesc,
                                    destDiffData);
}
static inline cudnnStatus_t gpudnnLegacySoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                                       cudnnSoftmaxMode_t mode, cudnnTensorDescriptor_t srcDesc,
                                                       const void* srcData, cudnnTensorDescriptor_t destDesc,
                                                       void* destData) {
  return cudnnSoftmaxForward(handle, algorithm, mode, gpudnnLegacyScale(1, destDesc), srcDesc, srcData,
                             gpudnnLegacyScale(0, destDesc), destDesc, destData);
}
static inline cudnnStatus_t gpudnnLegacySoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                                        cudnnSoftmaxMode_t mode, cudnnTensorDescriptor_t srcDesc,
                                                        const void* srcData, cudnnTensorDescriptor_t srcDiffDesc,
                                                        const void* srcDiffData, cudnnTensorDescriptor_t destDiffDesc,
                                                        void* destDiffData) {
  return cudnnSoftmaxBackward(handle, algorithm, mode, gpudnnLegacyScale(1, destDiffDesc), srcDesc, srcData,
                              srcDiffDesc, srcDiffData, gpudnnLegacyScale(0, destDiffDesc), destDiffDesc, destDiffData);
}

#define cudnnConvolutionDescriptor_t gpudnnLegacyConvolution_t
#define cudnnCreateConvolutionDescriptor gpudnnLegacyCreateConvolution
#define cudnnDestroyConvolutionDescriptor gpudnnLegacyDestroyConvolution
#define cudnnConvolutionForward gpudnnLegacyConvolutionForward
#define cudnnConvolutionBackwardBias gpudnnLegacyConvolutionBackwardBias
#undef cudnnConvolutionBackwardFilter
#define cudnnConvolutionBackwardFilter gpudnnLegacyConvolutionBackwardFilter
#undef cudnnConvolutionBackwardData
#define cudnnConvolutionBackwardData gpudnnLegacyConvolutionBackwardData
#define cudnnPoolingForward gpudnnLegacyPoolingForward
#define cudnnPoolingBackward gpudnnLegacyPoolingBackward
#undef cudnnActivationForward
#define cudnnActivationForward gpudnnLegacyActivationForward
#undef cudnnActivationBackward
#define cudnnActivationBackward gpudnnLegacyActivationBackward
#define cudnnSoftmaxForward gpudnnLegacySoftmaxForward
#define cudnnSoftmaxBackward gpudnnLegacySoftmaxBackward

#endif
