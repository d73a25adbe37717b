/* What cuDNN 8 had and 9 dropped: the checks of its parts, and the recurrent networks as they were up to version 7.
 * The recurrent ones refuse with NOT_SUPPORTED and a text.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_LEGACY_VERSION_8_H_
#define GPUDNN_LEGACY_VERSION_8_H_

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

#define GPUDNN_LEGACY_NO_RNN(name, parameters)                                   \
  static inline cudnnStatus_t name parameters {                                  \
    return gpudnnLegacyRefuse(CUDNN_STATUS_NOT_SUPPORTED, #name                  \
                              ": recurrent networks as cuDNN had them up to "    \
                              "version 7 are not built in libgpudnn; the calls " \
                              "that end in _v8 replace them");                   \
  }

GPUDNN_LEGACY_NO_RNN(cudnnSetRNNDescriptor_v6,
                     (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, const int hiddenSize, const int numLayers,
                      cudnnDropoutDescriptor_t dropoutDesc, cudnnRNNInputMode_t inputMode,
                      cudnnDirectionMode_t direction, cudnnRNNMode_t cellMode, cudnnRNNAlgo_t algo,
                      cudnnDataType_t mathPrec))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNDescriptor_v6,
                     (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, int* hiddenSize, int* numLayers,
                      cudnnDropoutDescriptor_t* dropoutDesc, cudnnRNNInputMode_t* inputMode,
                      cudnnDirectionMode_t* direction, cudnnRNNMode_t* cellMode, cudnnRNNAlgo_t* algo,
                      cudnnDataType_t* mathPrec))
GPUDNN_LEGACY_NO_RNN(cudnnSetRNNMatrixMathType, (cudnnRNNDescriptor_t rnnDesc, cudnnMathType_t mType))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNMatrixMathType, (cudnnRNNDescriptor_t rnnDesc, cudnnMathType_t* mType))
GPUDNN_LEGACY_NO_RNN(cudnnSetRNNBiasMode, (cudnnRNNDescriptor_t rnnDesc, cudnnRNNBiasMode_t biasMode))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNBiasMode, (cudnnRNNDescriptor_t rnnDesc, cudnnRNNBiasMode_t* biasMode))
GPUDNN_LEGACY_NO_RNN(cudnnSetRNNPaddingMode, (cudnnRNNDescriptor_t rnnDesc, unsigned paddingMode))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNPaddingMode, (cudnnRNNDescriptor_t rnnDesc, unsigned* paddingMode))
GPUDNN_LEGACY_NO_RNN(cudnnSetRNNProjectionLayers,
                     (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, const int recProjSize, const int outProjSize))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNProjectionLayers,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, int* recProjSize, int* outProjSize))
GPUDNN_LEGACY_NO_RNN(cudnnRNNSetClip, (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, cudnnRNNClipMode_t clipMode,
                                       cudnnNanPropagation_t clipNanOpt, double lclip, double rclip))
GPUDNN_LEGACY_NO_RNN(cudnnRNNGetClip, (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, cudnnRNNClipMode_t* clipMode,
                                       cudnnNanPropagation_t* clipNanOpt, double* lclip, double* rclip))
GPUDNN_LEGACY_NO_RNN(cudnnCreatePersistentRNNPlan, (cudnnRNNDescriptor_t rnnDesc, const int minibatch,
                                                    const cudnnDataType_t dataType, cudnnPersistentRNNPlan_t* plan))
GPUDNN_LEGACY_NO_RNN(cudnnDestroyPersistentRNNPlan, (cudnnPersistentRNNPlan_t plan))
GPUDNN_LEGACY_NO_RNN(cudnnSetPersistentRNNPlan, (cudnnRNNDescriptor_t rnnDesc, cudnnPersistentRNNPlan_t plan))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNWorkspaceSize,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
                      const cudnnTensorDescriptor_t* xDesc, size_t* sizeInBytes))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNTrainingReserveSize,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
                      const cudnnTensorDescriptor_t* xDesc, size_t* sizeInBytes))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNParamsSize,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const cudnnTensorDescriptor_t xDesc,
                      size_t* sizeInBytes, cudnnDataType_t dataType))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNLinLayerMatrixParams,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int pseudoLayer,
                      const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc, const void* w,
                      const int linLayerID, cudnnFilterDescriptor_t linLayerMatDesc, void** linLayerMat))
GPUDNN_LEGACY_NO_RNN(cudnnGetRNNLinLayerBiasParams,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int pseudoLayer,
                      const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc, const void* w,
                      const int linLayerID, cudnnFilterDescriptor_t linLayerBiasDesc, void** linLayerBias))
GPUDNN_LEGACY_NO_RNN(cudnnRNNForwardInference,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
                      const cudnnTensorDescriptor_t* xDesc, const void* x, const cudnnTensorDescriptor_t hxDesc,
                      const void* hx, const cudnnTensorDescriptor_t cxDesc, const void* cx,
                      const cudnnFilterDescriptor_t wDesc, const void* w, const cudnnTensorDescriptor_t* yDesc, void* y,
                      const cudnnTensorDescriptor_t hyDesc, void* hy, const cudnnTensorDescriptor_t cyDesc, void* cy,
                      void* workSpace, size_t workSpaceSizeInBytes))
GPUDNN_LEGACY_NO_RNN(cudnnRNNForwardTraining,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
                      const cudnnTensorDescriptor_t* xDesc, const void* x, const cudnnTensorDescriptor_t hxDesc,
                      const void* hx, const cudnnTensorDescriptor_t cxDesc, const void* cx,
                      const cudnnFilterDescriptor_t wDesc, const void* w, const cudnnTensorDescriptor_t* yDesc, void* y,
                      const cudnnTensorDescriptor_t hyDesc, void* hy, const cudnnTensorDescriptor_t cyDesc, void* cy,
                      void* workSpace, size_t workSpaceSizeInBytes, void* reserveSpace, size_t reserveSpaceSizeInBytes))
GPUDNN_LEGACY_NO_RNN(cudnnRNNBackwardData,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
                      const cudnnTensorDescriptor_t* yDesc, const void* y, const cudnnTensorDescriptor_t* dyDesc,
                      const void* dy, const cudnnTensorDescriptor_t dhyDesc, const void* dhy,
                      const cudnnTensorDescriptor_t dcyDesc, const void* dcy, const cudnnFilterDescriptor_t wDesc,
                      const void* w, const cudnnTensorDescriptor_t hxDesc, const void* hx,
                      const cudnnTensorDescriptor_t cxDesc, const void* cx, const cudnnTensorDescriptor_t* dxDesc,
                      void* dx, const cudnnTensorDescriptor_t dhxDesc, void* dhx, const cudnnTensorDescriptor_t dcxDesc,
                      void* dcx, void* workSpace, size_t workSpaceSizeInBytes, void* reserveSpace,
                      size_t reserveSpaceSizeInBytes))
GPUDNN_LEGACY_NO_RNN(cudnnRNNBackwardWeights,
                     (cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
                      const cudnnTensorDescriptor_t* xDesc, const void* x, const cudnnTensorDescriptor_t hxDesc,
                      const void* hx, const cudnnTensorDescriptor_t* yDesc, const void* y, const void* workSpace,
                      size_t workSpaceSizeInBytes, const cudnnFilterDescriptor_t dwDesc, void* dw,
                      const void* reserveSpace, size_t reserveSpaceSizeInBytes))

#endif
