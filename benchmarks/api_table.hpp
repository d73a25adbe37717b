// A library under test: its entry points, resolved by name from a shared object. The names are gpudnn* or cudnn*; the
// binary interface is one, so one table of prototypes serves both and two libraries can be held side by side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "gpudnn/gpudnn.h"

// What gpudnn-bench calls. X(Name) stands for gpudnnName or cudnnName.
// clang-format off
#define GPUDNN_BENCH_FUNCTIONS(X) \
  X(GetVersion) X(GetCudartVersion) X(GetErrorString) X(Create) X(Destroy) X(SetStream) X(CreateTensorDescriptor) \
  X(DestroyTensorDescriptor) X(SetTensorNdDescriptor) X(CreateFilterDescriptor) X(DestroyFilterDescriptor) \
  X(SetFilterNdDescriptor) X(CreateConvolutionDescriptor) X(DestroyConvolutionDescriptor) \
  X(SetConvolutionNdDescriptor) X(SetConvolutionMathType) X(SetConvolutionGroupCount) \
  X(GetConvolutionForwardAlgorithm_v7) X(GetConvolutionBackwardDataAlgorithm_v7) \
  X(GetConvolutionBackwardFilterAlgorithm_v7) X(GetConvolutionForwardWorkspaceSize) \
  X(GetConvolutionBackwardDataWorkspaceSize) X(GetConvolutionBackwardFilterWorkspaceSize) \
  X(FindConvolutionForwardAlgorithmEx) X(FindConvolutionBackwardDataAlgorithmEx) \
  X(FindConvolutionBackwardFilterAlgorithmEx) X(ConvolutionForward) X(ConvolutionBiasActivationForward) \
  X(ConvolutionBackwardData) X(ConvolutionBackwardFilter) X(ConvolutionBackwardBias) X(CreatePoolingDescriptor) \
  X(DestroyPoolingDescriptor) X(SetPoolingNdDescriptor) X(PoolingForward) X(PoolingBackward) \
  X(CreateActivationDescriptor) X(DestroyActivationDescriptor) X(SetActivationDescriptor) \
  X(SetActivationDescriptorSwishBeta) X(ActivationForward) X(ActivationBackward) X(SoftmaxForward) \
  X(SoftmaxBackward) X(AddTensor) X(TransformTensor) X(ScaleTensor) X(SetTensor) \
  X(BatchNormalizationForwardInference) X(BatchNormalizationForwardTrainingEx) X(BatchNormalizationBackwardEx) \
  X(GetBatchNormalizationForwardTrainingExWorkspaceSize) X(GetBatchNormalizationBackwardExWorkspaceSize) \
  X(GetBatchNormalizationTrainingExReserveSpaceSize) X(CreateDropoutDescriptor) X(DestroyDropoutDescriptor) \
  X(SetDropoutDescriptor) X(DropoutGetStatesSize) X(DropoutGetReserveSpaceSize) X(DropoutForward) X(DropoutBackward) \
  X(CreateSpatialTransformerDescriptor) X(DestroySpatialTransformerDescriptor) X(SetSpatialTransformerNdDescriptor) \
  X(SpatialTfGridGeneratorForward) X(SpatialTfGridGeneratorBackward) X(SpatialTfSamplerForward) \
  X(SpatialTfSamplerBackward) X(CreateCTCLossDescriptor) X(DestroyCTCLossDescriptor) X(SetCTCLossDescriptor_v8) \
  X(GetCTCLossWorkspaceSize) X(GetCTCLossWorkspaceSize_v8) X(CTCLoss) X(CTCLoss_v8) X(CreateLRNDescriptor) \
  X(DestroyLRNDescriptor) X(SetLRNDescriptor) X(LRNCrossChannelForward) X(LRNCrossChannelBackward) \
  X(DivisiveNormalizationForward) X(DivisiveNormalizationBackward) X(CreateOpTensorDescriptor) \
  X(DestroyOpTensorDescriptor) X(SetOpTensorDescriptor) X(OpTensor) X(CreateReduceTensorDescriptor) \
  X(DestroyReduceTensorDescriptor) X(SetReduceTensorDescriptor) X(GetReductionIndicesSize) \
  X(GetReductionWorkspaceSize) X(ReduceTensor) X(CreateTensorTransformDescriptor) X(DestroyTensorTransformDescriptor) \
  X(SetTensorTransformDescriptor) X(TransformTensorEx) X(Im2Col) X(ReorderFilterAndBias) \
  X(CreateFusedOpsConstParamPack) X(DestroyFusedOpsConstParamPack) X(SetFusedOpsConstParamPackAttribute) \
  X(CreateFusedOpsVariantParamPack) X(DestroyFusedOpsVariantParamPack) X(SetFusedOpsVariantParamPackAttribute) \
  X(CreateFusedOpsPlan) X(DestroyFusedOpsPlan) X(MakeFusedOpsPlan) X(FusedOpsExecute) \
  X(NormalizationForwardInference) X(GetNormalizationForwardTrainingWorkspaceSize) \
  X(GetNormalizationBackwardWorkspaceSize) X(GetNormalizationTrainingReserveSpaceSize) \
  X(NormalizationForwardTraining) X(NormalizationBackward) X(CreateRNNDescriptor) X(DestroyRNNDescriptor) \
  X(SetRNNDescriptor_v8) X(CreateRNNDataDescriptor) X(DestroyRNNDataDescriptor) X(SetRNNDataDescriptor) \
  X(GetRNNWeightSpaceSize) X(GetRNNWeightParams) X(GetTensorNdDescriptor) X(GetRNNTempSpaceSizes) X(RNNForward) \
  X(RNNBackwardData_v8) X(RNNBackwardWeights_v8) \
  X(BackendCreateDescriptor) X(BackendDestroyDescriptor) X(BackendSetAttribute) X(BackendGetAttribute) \
  X(BackendFinalize) X(BackendExecute)
// clang-format on

namespace gpudnn::bench {

struct Api {
#define GPUDNN_BENCH_MEMBER(name) decltype(&::gpudnn##name) name = nullptr;
  GPUDNN_BENCH_FUNCTIONS(GPUDNN_BENCH_MEMBER)
#undef GPUDNN_BENCH_MEMBER
  // Not in every library; null where missing.
  decltype(&::gpudnnGetLastErrorString) GetLastErrorString = nullptr;
  decltype(&::gpudnnSetCallback) SetCallback = nullptr;
  decltype(&::gpudnnGetBackend) GetBackend = nullptr;
  decltype(&::gpudnnGetLibraryVersion) GetLibraryVersion = nullptr;
};

struct Library {
  Api api;
  std::string path;
  std::string prefix;  // "gpudnn" or "cudnn"
  gpudnnHandle_t handle = nullptr;
  double open_seconds = 0;    // dlopen and the look-up of the names
  double create_seconds = 0;  // the first handle

  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();
};

// Loads the library and makes a handle on the current device; null, with *why, if that fails. It is never unloaded:
// CUDA keeps references into a library's kernels until the process ends.
[[nodiscard]] std::unique_ptr<Library> open_library(const std::string& path, std::string* why);

[[nodiscard]] gpudnnBackend_t backend(const Library& library);
// "gpudnn 0.2.0 (interface 9.19.0, CUDA runtime 13.0)".
[[nodiscard]] std::string version_text(const Library& library);
// The status by name and, where the library keeps one, the text of its last refusal; on one line.
[[nodiscard]] std::string failure_text(const Library& library, gpudnnStatus_t status);

}  // namespace gpudnn::bench
