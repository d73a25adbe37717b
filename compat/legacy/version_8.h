/* What cuDNN 8 had and 9 dropped: the checks of its parts, and the recurrent networks as they were up to version 7.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_LEGACY_VERSION_8_H_
#define GPUDNN_LEGACY_VERSION_8_H_

#include <stdlib.h>

#include "../cudnn_adv.h"
#include "../cudnn_cnn.h"
#include "refuse.h"

#if defined(__GNUC__)
#pragma GCC system_header
#endif

#define cudnnOpsInferVersionCheck cudnnOpsVersionCheck
#define cudnnOpsTrainVersionCheck cudnnOpsVersionCheck
#define cudnnCnnInferVersionCheck cudnnCnnVersionCheck
#define cudnnCnnTrainVersionCheck cudnnCnnVersionCheck
#define cudnnAdvInferVersionCheck cudnnAdvVersionCheck
#define cudnnAdvTrainVersionCheck cudnnAdvVersionCheck

typedef struct cudnnPersistentRNNPlan* cudnnPersistentRNNPlan_t;

/* ------------------------------------------------------------------------------------------------ recurrent networks
 *
 * Up to version 7 a network was told its data type and the width of its input by the descriptors of each call: one
 * tensor descriptor (batch, width, 1) a step, of batches that never grow. These calls tell the network so, and describe
 * the steps as packed sequences. */

/* Sets the network's description anew with what `change` alters. */
#define GPUDNN_LEGACY_CHANGE_RNN(rnnDesc, change)                                                                      \
  cudnnRNNAlgo_t algo;                                                                                                 \
  cudnnRNNMode_t cellMode;                                                                                             \
  cudnnRNNBiasMode_t biasMode;                                                                                         \
  cudnnDirectionMode_t dirMode;                                                                                        \
  cudnnRNNInputMode_t inputMode;                                                                                       \
  cudnnDataType_t dataType, mathPrec;                                                                                  \
  cudnnMathType_t mathType;                                                                                            \
  int32_t inputSize, hiddenSize, projSize, numLayers;                                                                  \
  cudnnDropoutDescriptor_t dropoutDesc;                                                                                \
  uint32_t auxFlags;                                                                                                   \
  cudnnStatus_t status =                                                                                               \
      cudnnGetRNNDescriptor_v8(rnnDesc, &algo, &cellMode, &biasMode, &dirMode, &inputMode, &dataType, &mathPrec,       \
                               &mathType, &inputSize, &hiddenSize, &projSize, &numLayers, &dropoutDesc, &auxFlags);    \
  if (status != CUDNN_STATUS_SUCCESS) return status;                                                                   \
  change;                                                                                                              \
  return cudnnSetRNNDescriptor_v8(rnnDesc, algo, cellMode, biasMode, dirMode, inputMode, dataType, mathPrec, mathType, \
                                  inputSize, hiddenSize, projSize, numLayers, dropoutDesc, auxFlags)

/* Reads one number of the description. */
#define GPUDNN_LEGACY_ASK_RNN(rnnDesc, flags, bias, math, proj) \
  cudnnGetRNNDescriptor_v8(rnnDesc, NULL, NULL, bias, NULL, NULL, NULL, NULL, math, NULL, NULL, proj, NULL, NULL, flags)

static inline cudnnStatus_t cudnnSetRNNDescriptor_v6(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                                     const int hiddenSize, const int numLayers,
                                                     cudnnDropoutDescriptor_t dropoutDesc,
                                                     cudnnRNNInputMode_t inputMode, cudnnDirectionMode_t direction,
                                                     cudnnRNNMode_t cellMode, cudnnRNNAlgo_t algo,
                                                     cudnnDataType_t mathPrec) {
  (void)handle;
  return cudnnSetRNNDescriptor_v8(rnnDesc, algo, cellMode, CUDNN_RNN_DOUBLE_BIAS, direction, inputMode, mathPrec,
                                  mathPrec, CUDNN_DEFAULT_MATH, hiddenSize, hiddenSize, hiddenSize, numLayers,
                                  dropoutDesc, 0);
}
static inline cudnnStatus_t cudnnGetRNNDescriptor_v6(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                                     int* hiddenSize, int* numLayers,
                                                     cudnnDropoutDescriptor_t* dropoutDesc,
                                                     cudnnRNNInputMode_t* inputMode, cudnnDirectionMode_t* direction,
                                                     cudnnRNNMode_t* cellMode, cudnnRNNAlgo_t* algo,
                                                     cudnnDataType_t* mathPrec) {
  (void)handle;
  return cudnnGetRNNDescriptor_v8(rnnDesc, algo, cellMode, NULL, direction, inputMode, NULL, mathPrec, NULL, NULL,
                                  hiddenSize, NULL, numLayers, dropoutDesc, NULL);
}
static inline cudnnStatus_t cudnnSetRNNMatrixMathType(cudnnRNNDescriptor_t rnnDesc, cudnnMathType_t mType) {
  GPUDNN_LEGACY_CHANGE_RNN(rnnDesc, mathType = mType);
}
static inline cudnnStatus_t cudnnGetRNNMatrixMathType(cudnnRNNDescriptor_t rnnDesc, cudnnMathType_t* mType) {
  return GPUDNN_LEGACY_ASK_RNN(rnnDesc, NULL, NULL, mType, NULL);
}
static inline cudnnStatus_t cudnnSetRNNBiasMode(cudnnRNNDescriptor_t rnnDesc, cudnnRNNBiasMode_t mode) {
  GPUDNN_LEGACY_CHANGE_RNN(rnnDesc, biasMode = mode);
}
static inline cudnnStatus_t cudnnGetRNNBiasMode(cudnnRNNDescriptor_t rnnDesc, cudnnRNNBiasMode_t* mode) {
  return GPUDNN_LEGACY_ASK_RNN(rnnDesc, NULL, mode, NULL, NULL);
}
static inline cudnnStatus_t cudnnSetRNNPaddingMode(cudnnRNNDescriptor_t rnnDesc, unsigned paddingMode) {
  GPUDNN_LEGACY_CHANGE_RNN(rnnDesc, auxFlags = paddingMode);
}
static inline cudnnStatus_t cudnnGetRNNPaddingMode(cudnnRNNDescriptor_t rnnDesc, unsigned* paddingMode) {
  uint32_t flags = 0;
  const cudnnStatus_t status = GPUDNN_LEGACY_ASK_RNN(rnnDesc, &flags, NULL, NULL, NULL);
  if (status == CUDNN_STATUS_SUCCESS && paddingMode) *paddingMode = flags;
  return status;
}
/* The projection of the output, apart from that of the state, never existed: outProjSize is 0. */
static inline cudnnStatus_t cudnnSetRNNProjectionLayers(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                                        const int recProjSize, const int outProjSize) {
  (void)handle;
  if (outProjSize != 0) {
    return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM, "cudnnSetRNNProjectionLayers: outProjSize must be 0");
  }
  { GPUDNN_LEGACY_CHANGE_RNN(rnnDesc, projSize = recProjSize); }
}
static inline cudnnStatus_t cudnnGetRNNProjectionLayers(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                        int* recProjSize, int* outProjSize) {
  (void)handle;
  if (outProjSize) *outProjSize = 0;
  return GPUDNN_LEGACY_ASK_RNN(rnnDesc, NULL, NULL, NULL, recProjSize);
}
static inline cudnnStatus_t cudnnRNNSetClip(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                            cudnnRNNClipMode_t clipMode, cudnnNanPropagation_t clipNanOpt, double lclip,
                                            double rclip) {
  (void)handle;
  return cudnnRNNSetClip_v8(rnnDesc, clipMode, clipNanOpt, lclip, rclip);
}
static inline cudnnStatus_t cudnnRNNGetClip(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                            cudnnRNNClipMode_t* clipMode, cudnnNanPropagation_t* clipNanOpt,
                                            double* lclip, double* rclip) {
  (void)handle;
  return cudnnRNNGetClip_v8(rnnDesc, clipMode, clipNanOpt, lclip, rclip);
}

/* Plans held what was compiled for a batch size; nothing is compiled here. */
static inline cudnnStatus_t cudnnCreatePersistentRNNPlan(cudnnRNNDescriptor_t rnnDesc, const int minibatch,
                                                         const cudnnDataType_t dataType,
                                                         cudnnPersistentRNNPlan_t* plan) {
  (void)minibatch, (void)dataType;
  if (!rnnDesc || !plan) {
    return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM, "cudnnCreatePersistentRNNPlan: an argument is null");
  }
  *plan = (cudnnPersistentRNNPlan_t)rnnDesc;
  return CUDNN_STATUS_SUCCESS;
}
static inline cudnnStatus_t cudnnDestroyPersistentRNNPlan(cudnnPersistentRNNPlan_t plan) {
  (void)plan;
  return CUDNN_STATUS_SUCCESS;
}
static inline cudnnStatus_t cudnnSetPersistentRNNPlan(cudnnRNNDescriptor_t rnnDesc, cudnnPersistentRNNPlan_t plan) {
  (void)rnnDesc, (void)plan;
  return CUDNN_STATUS_SUCCESS;
}

/* Gives the network the type and the width of a step's descriptor. */
static inline cudnnStatus_t gpudnnLegacyFitRNN(cudnnRNNDescriptor_t rnnDesc, cudnnTensorDescriptor_t step) {
  cudnnDataType_t type;
  int rank = 0, dims[3] = {0, 0, 0}, strides[3];
  const cudnnStatus_t asked = cudnnGetTensorNdDescriptor(step, 3, &type, &rank, dims, strides);
  if (asked != CUDNN_STATUS_SUCCESS) return asked;
  { GPUDNN_LEGACY_CHANGE_RNN(rnnDesc, (dataType = type, inputSize = dims[1])); }
}
/* Describes the steps as packed sequences, in a new descriptor. */
static inline cudnnStatus_t gpudnnLegacyMakeRNNData(const int seqLength, const cudnnTensorDescriptor_t* steps,
                                                    cudnnRNNDataDescriptor_t* data) {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int rank = 0, dims[3] = {0, 0, 0}, strides[3], *lengths = NULL, batch = 0, width = 0, t, n;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  *data = NULL;
  if (seqLength <= 0 || !steps) {
    return gpudnnLegacyRefuse(CUDNN_STATUS_BAD_PARAM, "seqLength must be positive, with as many descriptors of steps");
  }
  for (t = 0; t < seqLength && status == CUDNN_STATUS_SUCCESS; ++t) {
    status = cudnnGetTensorNdDescriptor(steps[t], 3, &type, &rank, dims, strides);
    if (status == CUDNN_STATUS_SUCCESS && t == 0) {
      batch = dims[0];
      width = dims[1];
      lengths = (int*)calloc((size_t)(batch > 0 ? batch : 1), sizeof(int));
      if (!lengths) return CUDNN_STATUS_ALLOC_FAILED;
    }
    for (n = 0; lengths && n < dims[0] && n < batch; ++n) ++lengths[n];
  }
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnCreateRNNDataDescriptor(data);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = cudnnSetRNNDataDescriptor(*data, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, seqLength, batch, width,
                                       lengths, NULL);
  }
  free(lengths);
  return status;
}
static inline cudnnStatus_t gpudnnLegacyRNNSizes(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                 cudnnForwardMode_t mode, const int seqLength,
                                                 const cudnnTensorDescriptor_t* xDesc, size_t* work, size_t* reserve) {
  cudnnRNNDataDescriptor_t x = NULL;
  cudnnStatus_t status = gpudnnLegacyMakeRNNData(seqLength, xDesc, &x);
  if (status == CUDNN_STATUS_SUCCESS) status = gpudnnLegacyFitRNN(rnnDesc, xDesc[0]);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnGetRNNTempSpaceSizes(handle, rnnDesc, mode, x, work, reserve);
  (void)cudnnDestroyRNNDataDescriptor(x);
  return status;
}
/* One size serves inference and training: the calls do not say what they are for. */
static inline cudnnStatus_t cudnnGetRNNWorkspaceSize(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                     const int seqLength, const cudnnTensorDescriptor_t* xDesc,
                                                     size_t* sizeInBytes) {
  size_t inference = 0;
  cudnnStatus_t status =
      gpudnnLegacyRNNSizes(handle, rnnDesc, CUDNN_FWD_MODE_INFERENCE, seqLength, xDesc, &inference, NULL);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = gpudnnLegacyRNNSizes(handle, rnnDesc, CUDNN_FWD_MODE_TRAINING, seqLength, xDesc, sizeInBytes, NULL);
  }
  if (status == CUDNN_STATUS_SUCCESS && *sizeInBytes < inference) *sizeInBytes = inference;
  return status;
}
static inline cudnnStatus_t cudnnGetRNNTrainingReserveSize(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                           const int seqLength, const cudnnTensorDescriptor_t* xDesc,
                                                           size_t* sizeInBytes) {
  return gpudnnLegacyRNNSizes(handle, rnnDesc, CUDNN_FWD_MODE_TRAINING, seqLength, xDesc, NULL, sizeInBytes);
}
static inline cudnnStatus_t cudnnGetRNNParamsSize(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                  const cudnnTensorDescriptor_t xDesc, size_t* sizeInBytes,
                                                  cudnnDataType_t dataType) {
  const cudnnStatus_t status = gpudnnLegacyFitRNN(rnnDesc, xDesc);
  (void)dataType;
  return status == CUDNN_STATUS_SUCCESS ? cudnnGetRNNWeightSpaceSize(handle, rnnDesc, sizeInBytes) : status;
}

/* The place of a matrix or of a bias, as a filter descriptor (1, rows, columns) and an address. */
static inline cudnnStatus_t gpudnnLegacyRNNWeight(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                  const int pseudoLayer, const cudnnTensorDescriptor_t xDesc,
                                                  const void* w, const int linLayerID, cudnnFilterDescriptor_t desc,
                                                  void** address, int bias) {
  cudnnTensorDescriptor_t matrix = NULL, vector = NULL;
  cudnnDataType_t type;
  size_t size = 0;
  void *matrixAt = NULL, *vectorAt = NULL;
  int rank = 0, dims[3], strides[3];
  cudnnStatus_t status = gpudnnLegacyFitRNN(rnnDesc, xDesc);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnGetRNNWeightSpaceSize(handle, rnnDesc, &size);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnCreateTensorDescriptor(&matrix);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnCreateTensorDescriptor(&vector);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = cudnnGetRNNWeightParams(handle, rnnDesc, pseudoLayer, size, w, linLayerID, matrix, &matrixAt, vector,
                                     &vectorAt);
  }
  if (status == CUDNN_STATUS_SUCCESS) {
    if (address) *address = bias ? vectorAt : matrixAt;
    status = cudnnGetTensorNdDescriptor(bias ? vector : matrix, 3, &type, &rank, dims, strides);
  }
  if (status == CUDNN_STATUS_SUCCESS && rank == 3) {
    status = cudnnSetFilterNdDescriptor(desc, type, CUDNN_TENSOR_NCHW, 3, dims);
  }
  (void)cudnnDestroyTensorDescriptor(matrix);
  (void)cudnnDestroyTensorDescriptor(vector);
  return status;
}
static inline cudnnStatus_t cudnnGetRNNLinLayerMatrixParams(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                            const int pseudoLayer, const cudnnTensorDescriptor_t xDesc,
                                                            const cudnnFilterDescriptor_t wDesc, const void* w,
                                                            const int linLayerID,
                                                            cudnnFilterDescriptor_t linLayerMatDesc,
                                                            void** linLayerMat) {
  (void)wDesc;
  return gpudnnLegacyRNNWeight(handle, rnnDesc, pseudoLayer, xDesc, w, linLayerID, linLayerMatDesc, linLayerMat, 0);
}
static inline cudnnStatus_t cudnnGetRNNLinLayerBiasParams(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                          const int pseudoLayer, const cudnnTensorDescriptor_t xDesc,
                                                          const cudnnFilterDescriptor_t wDesc, const void* w,
                                                          const int linLayerID,
                                                          cudnnFilterDescriptor_t linLayerBiasDesc,
                                                          void** linLayerBias) {
  (void)wDesc;
  return gpudnnLegacyRNNWeight(handle, rnnDesc, pseudoLayer, xDesc, w, linLayerID, linLayerBiasDesc, linLayerBias, 1);
}

/* Descriptors of a call's input and output, and the size of its weights. */
static inline cudnnStatus_t gpudnnLegacyBeginRNN(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                 const int seqLength, const cudnnTensorDescriptor_t* xDesc,
                                                 const cudnnTensorDescriptor_t* yDesc, cudnnRNNDataDescriptor_t* x,
                                                 cudnnRNNDataDescriptor_t* y, size_t* weights) {
  cudnnStatus_t status = gpudnnLegacyMakeRNNData(seqLength, xDesc, x);
  if (status == CUDNN_STATUS_SUCCESS) status = gpudnnLegacyMakeRNNData(seqLength, yDesc, y);
  if (status == CUDNN_STATUS_SUCCESS) status = gpudnnLegacyFitRNN(rnnDesc, xDesc[0]);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnGetRNNWeightSpaceSize(handle, rnnDesc, weights);
  return status;
}
static inline cudnnStatus_t gpudnnLegacyEndRNN(cudnnRNNDataDescriptor_t x, cudnnRNNDataDescriptor_t y,
                                               cudnnStatus_t status) {
  (void)cudnnDestroyRNNDataDescriptor(x);
  (void)cudnnDestroyRNNDataDescriptor(y);
  return status;
}
static inline cudnnStatus_t cudnnRNNForwardTraining(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength, const cudnnTensorDescriptor_t* xDesc,
    const void* x, const cudnnTensorDescriptor_t hxDesc, const void* hx, const cudnnTensorDescriptor_t cxDesc,
    const void* cx, const cudnnFilterDescriptor_t wDesc, const void* w, const cudnnTensorDescriptor_t* yDesc, void* y,
    const cudnnTensorDescriptor_t hyDesc, void* hy, const cudnnTensorDescriptor_t cyDesc, void* cy, void* workSpace,
    size_t workSpaceSizeInBytes, void* reserveSpace, size_t reserveSpaceSizeInBytes) {
  cudnnRNNDataDescriptor_t xData = NULL, yData = NULL;
  size_t weights = 0;
  cudnnStatus_t status = gpudnnLegacyBeginRNN(handle, rnnDesc, seqLength, xDesc, yDesc, &xData, &yData, &weights);
  (void)wDesc;
  if (status == CUDNN_STATUS_SUCCESS) {
    status = cudnnRNNForward(handle, rnnDesc, reserveSpace ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, NULL,
                             xData, x, yData, y, hx ? hxDesc : hyDesc, hx, hy, cx ? cxDesc : cyDesc, cx, cy, weights, w,
                             workSpaceSizeInBytes, workSpace, reserveSpaceSizeInBytes, reserveSpace);
  }
  return gpudnnLegacyEndRNN(xData, yData, status);
}
static inline cudnnStatus_t cudnnRNNForwardInference(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength, const cudnnTensorDescriptor_t* xDesc,
    const void* x, const cudnnTensorDescriptor_t hxDesc, const void* hx, const cudnnTensorDescriptor_t cxDesc,
    const void* cx, const cudnnFilterDescriptor_t wDesc, const void* w, const cudnnTensorDescriptor_t* yDesc, void* y,
    const cudnnTensorDescriptor_t hyDesc, void* hy, const cudnnTensorDescriptor_t cyDesc, void* cy, void* workSpace,
    size_t workSpaceSizeInBytes) {
  return cudnnRNNForwardTraining(handle, rnnDesc, seqLength, xDesc, x, hxDesc, hx, cxDesc, cx, wDesc, w, yDesc, y,
                                 hyDesc, hy, cyDesc, cy, workSpace, workSpaceSizeInBytes, NULL, 0);
}
static inline cudnnStatus_t cudnnRNNBackwardData(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength, const cudnnTensorDescriptor_t* yDesc,
    const void* y, const cudnnTensorDescriptor_t* dyDesc, const void* dy, const cudnnTensorDescriptor_t dhyDesc,
    const void* dhy, const cudnnTensorDescriptor_t dcyDesc, const void* dcy, const cudnnFilterDescriptor_t wDesc,
    const void* w, const cudnnTensorDescriptor_t hxDesc, const void* hx, const cudnnTensorDescriptor_t cxDesc,
    const void* cx, const cudnnTensorDescriptor_t* dxDesc, void* dx, const cudnnTensorDescriptor_t dhxDesc, void* dhx,
    const cudnnTensorDescriptor_t dcxDesc, void* dcx, void* workSpace, size_t workSpaceSizeInBytes, void* reserveSpace,
    size_t reserveSpaceSizeInBytes) {
  cudnnRNNDataDescriptor_t xData = NULL, yData = NULL;
  size_t weights = 0;
  cudnnStatus_t status = gpudnnLegacyBeginRNN(handle, rnnDesc, seqLength, dxDesc, yDesc, &xData, &yData, &weights);
  (void)dyDesc, (void)wDesc;
  if (status == CUDNN_STATUS_SUCCESS) {
    status = cudnnRNNBackwardData_v8(handle, rnnDesc, NULL, yData, y, dy, xData, dx,
                                     hx    ? hxDesc
                                     : dhy ? dhyDesc
                                           : dhxDesc,
                                     hx, dhy, dhx,
                                     cx    ? cxDesc
                                     : dcy ? dcyDesc
                                           : dcxDesc,
                                     cx, dcy, dcx, weights, w, workSpaceSizeInBytes, workSpace, reserveSpaceSizeInBytes,
                                     reserveSpace);
  }
  return gpudnnLegacyEndRNN(xData, yData, status);
}
static inline cudnnStatus_t cudnnRNNBackwardWeights(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                                    const int seqLength, const cudnnTensorDescriptor_t* xDesc,
                                                    const void* x, const cudnnTensorDescriptor_t hxDesc, const void* hx,
                                                    const cudnnTensorDescriptor_t* yDesc, const void* y,
                                                    const void* workSpace, size_t workSpaceSizeInBytes,
                                                    const cudnnFilterDescriptor_t dwDesc, void* dw,
                                                    const void* reserveSpace, size_t reserveSpaceSizeInBytes) {
  cudnnRNNDataDescriptor_t xData = NULL, yData = NULL;
  size_t weights = 0;
  cudnnStatus_t status = gpudnnLegacyBeginRNN(handle, rnnDesc, seqLength, xDesc, yDesc, &xData, &yData, &weights);
  (void)dwDesc;
  if (status == CUDNN_STATUS_SUCCESS) {
    status = cudnnRNNBackwardWeights_v8(handle, rnnDesc, CUDNN_WGRAD_MODE_ADD, NULL, xData, x, hxDesc, hx, yData, y,
                                        weights, dw, workSpaceSizeInBytes, (void*)workSpace, reserveSpaceSizeInBytes,
                                        (void*)reserveSpace);
  }
  return gpudnnLegacyEndRNN(xData, yData, status);
}

#endif
