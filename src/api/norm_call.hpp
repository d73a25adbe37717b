// What the entry points of batch normalization and of the normalization calls share: the arguments by name, and the way
// from them to a problem. A null descriptor or pointer stands for one that the entry point does not have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/norm/problem.hpp"

namespace gpudnn::norm {

struct CallMemory {
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  void* reserve = nullptr;
  std::size_t reserve_bytes = 0;
};

// What the entry point calls its arguments, for the refusals.
struct ForwardNames {
  const char* x = "x";
  const char* z = "z";
  const char* y = "y";
  const char* scale = "bnScale";
  const char* bias = "bnBias";
  const char* scaleBiasDesc = "bnScaleBiasMeanVarDesc";
  const char* meanVarDesc = "bnScaleBiasMeanVarDesc";
};
struct BackwardNames {
  const char* x = "x";
  const char* dy = "dy";
  const char* dz = "dz";
  const char* dx = "dx";
  const char* scale = "bnScale";
  const char* dScale = "dBnScaleResult";
  const char* dBias = "dBnBiasResult";
  const char* scaleBiasDesc = "dBnScaleBiasDesc";
  const char* meanVarDesc = "dBnScaleBiasDesc";
};
constexpr ForwardNames kBatchNormNames = {};
constexpr ForwardNames kBatchNormExNames = {"xData", "zData", "yData"};
constexpr ForwardNames kNormInferenceNames = {
    "x", "z", "y", "normScale", "normBias", "normScaleBiasDesc", "normMeanVarDesc"};
constexpr ForwardNames kNormNames = {"xData",          "zData", "yData", "normScale", "normBias", "normScaleBiasDesc",
                                     "normMeanVarDesc"};
constexpr BackwardNames kBatchNormBackwardNames = {};
constexpr BackwardNames kBatchNormBackwardExNames = {"xData",       "dyData",       "dzData",     "dxData",
                                                     "bnScaleData", "dBnScaleData", "dBnBiasData"};
constexpr BackwardNames kNormBackwardNames = {"xData",          "dyData",         "dzData",        "dxData",
                                              "normScaleData",  "dNormScaleData", "dNormBiasData", "dNormScaleBiasDesc",
                                              "normMeanVarDesc"};

// The members are named as the interface names most of them.
struct ForwardCall {
  const ForwardNames* names = &kBatchNormNames;
  Pass pass = Pass::train;
  bool per_activation = false;
  gpudnnBatchNormOps_t ops = GPUDNN_BATCHNORM_OPS_BN;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  gpudnnTensorDescriptor_t xDesc = nullptr;
  const void* x = nullptr;
  gpudnnTensorDescriptor_t zDesc = nullptr;
  const void* z = nullptr;
  gpudnnTensorDescriptor_t yDesc = nullptr;
  void* y = nullptr;
  gpudnnTensorDescriptor_t scaleBiasDesc = nullptr;
  gpudnnTensorDescriptor_t meanVarDesc = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  const void* estimatedMean = nullptr;
  const void* estimatedVariance = nullptr;
  double factor = 1;
  void* runningMean = nullptr;
  void* runningVariance = nullptr;
  double epsilon = 0;
  void* saveMean = nullptr;
  void* saveInvVariance = nullptr;
  gpudnnActivationDescriptor_t activationDesc = nullptr;
  CallMemory memory;

  void set(Pass its_pass, bool its_per_activation, gpudnnBatchNormOps_t its_ops) {
    pass = its_pass, per_activation = its_per_activation, ops = its_ops;
  }
};

struct BackwardCall {
  const BackwardNames* names = &kBatchNormBackwardNames;
  bool per_activation = false;
  gpudnnBatchNormOps_t ops = GPUDNN_BATCHNORM_OPS_BN;
  const void* alphaData = nullptr;
  const void* betaData = nullptr;
  const void* alphaParam = nullptr;
  const void* betaParam = nullptr;
  gpudnnTensorDescriptor_t xDesc = nullptr;
  const void* x = nullptr;
  gpudnnTensorDescriptor_t yDesc = nullptr;
  gpudnnTensorDescriptor_t dyDesc = nullptr;
  const void* dy = nullptr;
  gpudnnTensorDescriptor_t dzDesc = nullptr;
  void* dz = nullptr;
  gpudnnTensorDescriptor_t dxDesc = nullptr;
  void* dx = nullptr;
  gpudnnTensorDescriptor_t scaleBiasDesc = nullptr;
  gpudnnTensorDescriptor_t meanVarDesc = nullptr;
  const void* scale = nullptr;
  void* dScale = nullptr;
  void* dBias = nullptr;
  double epsilon = 0;
  const void* savedMean = nullptr;
  const void* savedInvVariance = nullptr;
  gpudnnActivationDescriptor_t activationDesc = nullptr;
  CallMemory memory;

  void set(bool its_per_activation, gpudnnBatchNormOps_t its_ops) {
    per_activation = its_per_activation, ops = its_ops;
  }
};

// A tensor that can be normalized: floating, of 2 dims or more.
[[nodiscard]] Status check_input(gpudnnTensorDescriptor_t xDesc);

[[nodiscard]] Status run_forward(gpudnnHandle_t handle, const ForwardCall& call);
[[nodiscard]] Status run_backward(gpudnnHandle_t handle, const BackwardCall& call);
[[nodiscard]] Status forward_workspace(gpudnnHandle_t handle, const ForwardCall& call, std::size_t* sizeInBytes);
[[nodiscard]] Status backward_workspace(gpudnnHandle_t handle, const BackwardCall& call, std::size_t* sizeInBytes);
[[nodiscard]] Status reserve_size(gpudnnHandle_t handle, const ForwardCall& call, std::size_t* sizeInBytes);

}  // namespace gpudnn::norm
