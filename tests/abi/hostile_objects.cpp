// Objects for hostile_arguments_test: good, bare and of another type.
// SPDX-License-Identifier: Apache-2.0
#include "hostile_objects.hpp"

#include <gtest/gtest.h>

#include "hostile_backend.hpp"

std::string take_error() {
  char text[1024] = "";
  gpudnnGetLastErrorString(text, sizeof text);
  return text;
}

namespace {

constexpr auto kFusedPattern = GPUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE;

// Running statistics of four channels, and the scale that follows from them.
int set_const_pack(gpudnnFusedOpsConstParamPack_t pack) {
  gpudnnTensorDescriptor_t desc = nullptr;
  EXPECT_EQ(gpudnnCreateTensorDescriptor(&desc), 0);
  EXPECT_EQ(gpudnnSetTensor4dDescriptor(desc, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 4, 1, 1), 0);
  int status = 0;
  for (const auto label : {GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, GPUDNN_PARAM_BN_EQSCALEBIAS_DESC}) {
    status |= gpudnnSetFusedOpsConstParamPackAttribute(pack, label, desc);
  }
  (void)gpudnnDestroyTensorDescriptor(desc);
  const auto promise = GPUDNN_PTR_ELEM_ALIGNED;
  for (const auto label : {GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER, GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER,
                           GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER}) {
    status |= gpudnnSetFusedOpsConstParamPackAttribute(pack, label, &promise);
  }
  return status;
}

int set_variant_pack(gpudnnFusedOpsVariantParamPack_t pack) {
  static void* memory = nullptr;  // until the program ends
  if (memory == nullptr) {
    gpudnnHandle_t handle = nullptr;
    EXPECT_EQ(gpudnnCreate(&handle), 0) << take_error();
    EXPECT_EQ(gpudnnMalloc(handle, &memory, 4096), 0) << take_error();
    (void)gpudnnDestroy(handle);
  }
  int status = 0;
  for (const auto label : {GPUDNN_PTR_BN_RUNNING_MEAN, GPUDNN_PTR_BN_RUNNING_VAR, GPUDNN_PTR_BN_EQSCALE}) {
    status |= gpudnnSetFusedOpsVariantParamPackAttribute(pack, label, memory);
  }
  return status;
}

int set_plan(gpudnnFusedOpsPlan_t plan) {
  gpudnnHandle_t handle = nullptr;
  gpudnnFusedOpsConstParamPack_t pack = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(gpudnnCreate(&handle), 0) << take_error();
  EXPECT_EQ(gpudnnCreateFusedOpsConstParamPack(&pack, kFusedPattern), 0) << take_error();
  EXPECT_EQ(set_const_pack(pack), 0);
  const int status = gpudnnMakeFusedOpsPlan(handle, plan, pack, &bytes);
  (void)gpudnnDestroyFusedOpsConstParamPack(pack);
  (void)gpudnnDestroy(handle);
  return status;
}

}  // namespace

bool is_object(Role role) {
  if (is_backend(role)) return true;
  switch (role) {
    case Role::handle:
    case Role::tensor:
    case Role::bias_tensor:
    case Role::filter:
    case Role::convolution:
    case Role::pooling:
    case Role::activation:
    case Role::op_tensor:
    case Role::dropout:
    case Role::spatial_transformer:
    case Role::ctc_loss:
    case Role::state_tensor:
    case Role::rnn:
    case Role::rnn_data:
    case Role::sequence_tensor:
    case Role::seq_data:
    case Role::attn:
    case Role::lrn:
    case Role::reduce_tensor:
    case Role::tensor_transform:
    case Role::fused_const_pack:
    case Role::fused_variant_pack:
    case Role::fused_plan:
    case Role::unknown_object:
      return true;
    default:
      return false;
  }
}

void* create(Role role) {
  if (is_backend(role)) return create_backend(role);
  void* object = nullptr;
  switch (role) {
    case Role::handle:
      EXPECT_EQ(gpudnnCreate(reinterpret_cast<gpudnnHandle_t*>(&object)), 0);
      break;
    case Role::filter:
      EXPECT_EQ(gpudnnCreateFilterDescriptor(reinterpret_cast<gpudnnFilterDescriptor_t*>(&object)), 0);
      break;
    case Role::convolution:
      EXPECT_EQ(gpudnnCreateConvolutionDescriptor(reinterpret_cast<gpudnnConvolutionDescriptor_t*>(&object)), 0);
      break;
    case Role::pooling:
      EXPECT_EQ(gpudnnCreatePoolingDescriptor(reinterpret_cast<gpudnnPoolingDescriptor_t*>(&object)), 0);
      break;
    case Role::activation:
      EXPECT_EQ(gpudnnCreateActivationDescriptor(reinterpret_cast<gpudnnActivationDescriptor_t*>(&object)), 0);
      break;
    case Role::op_tensor:
      EXPECT_EQ(gpudnnCreateOpTensorDescriptor(reinterpret_cast<gpudnnOpTensorDescriptor_t*>(&object)), 0);
      break;
    case Role::dropout:
      EXPECT_EQ(gpudnnCreateDropoutDescriptor(reinterpret_cast<gpudnnDropoutDescriptor_t*>(&object)), 0);
      break;
    case Role::spatial_transformer:
      EXPECT_EQ(
          gpudnnCreateSpatialTransformerDescriptor(reinterpret_cast<gpudnnSpatialTransformerDescriptor_t*>(&object)),
          0);
      break;
    case Role::ctc_loss:
      EXPECT_EQ(gpudnnCreateCTCLossDescriptor(reinterpret_cast<gpudnnCTCLossDescriptor_t*>(&object)), 0);
      break;
    case Role::rnn:
      EXPECT_EQ(gpudnnCreateRNNDescriptor(reinterpret_cast<gpudnnRNNDescriptor_t*>(&object)), 0);
      break;
    case Role::rnn_data:
      EXPECT_EQ(gpudnnCreateRNNDataDescriptor(reinterpret_cast<gpudnnRNNDataDescriptor_t*>(&object)), 0);
      break;
    case Role::seq_data:
      EXPECT_EQ(gpudnnCreateSeqDataDescriptor(reinterpret_cast<gpudnnSeqDataDescriptor_t*>(&object)), 0);
      break;
    case Role::attn:
      EXPECT_EQ(gpudnnCreateAttnDescriptor(reinterpret_cast<gpudnnAttnDescriptor_t*>(&object)), 0);
      break;
    case Role::lrn:
      EXPECT_EQ(gpudnnCreateLRNDescriptor(reinterpret_cast<gpudnnLRNDescriptor_t*>(&object)), 0);
      break;
    case Role::reduce_tensor:
      EXPECT_EQ(gpudnnCreateReduceTensorDescriptor(reinterpret_cast<gpudnnReduceTensorDescriptor_t*>(&object)), 0);
      break;
    case Role::tensor_transform:
      EXPECT_EQ(gpudnnCreateTensorTransformDescriptor(reinterpret_cast<gpudnnTensorTransformDescriptor_t*>(&object)),
                0);
      break;
    case Role::fused_const_pack:
      EXPECT_EQ(
          gpudnnCreateFusedOpsConstParamPack(reinterpret_cast<gpudnnFusedOpsConstParamPack_t*>(&object), kFusedPattern),
          0);
      break;
    case Role::fused_variant_pack:
      EXPECT_EQ(gpudnnCreateFusedOpsVariantParamPack(reinterpret_cast<gpudnnFusedOpsVariantParamPack_t*>(&object),
                                                     kFusedPattern),
                0);
      break;
    case Role::fused_plan:
      EXPECT_EQ(gpudnnCreateFusedOpsPlan(reinterpret_cast<gpudnnFusedOpsPlan_t*>(&object), kFusedPattern), 0);
      break;
    default:
      EXPECT_EQ(gpudnnCreateTensorDescriptor(reinterpret_cast<gpudnnTensorDescriptor_t*>(&object)), 0);
      break;
  }
  return object;
}

void set(Role role, void* object) {
  const auto type = GPUDNN_DATA_FLOAT;
  int status = 0;
  switch (role) {
    case Role::tensor:
      status = gpudnnSetTensorNdDescriptor(static_cast<gpudnnTensorDescriptor_t>(object), type, 4, kDims, kStrides);
      break;
    case Role::bias_tensor:
      status = gpudnnSetTensor4dDescriptor(static_cast<gpudnnTensorDescriptor_t>(object), GPUDNN_TENSOR_NCHW, type, 1,
                                           4, 1, 1);
      break;
    case Role::filter:
      status = gpudnnSetFilterNdDescriptor(static_cast<gpudnnFilterDescriptor_t>(object), type, GPUDNN_TENSOR_NCHW, 4,
                                           kFilterDims);
      break;
    case Role::convolution:
      status = gpudnnSetConvolution2dDescriptor(static_cast<gpudnnConvolutionDescriptor_t>(object), 1, 1, 1, 1, 1, 1,
                                                GPUDNN_CROSS_CORRELATION, type);
      break;
    case Role::pooling:
      status = gpudnnSetPooling2dDescriptor(static_cast<gpudnnPoolingDescriptor_t>(object), GPUDNN_POOLING_MAX,
                                            GPUDNN_NOT_PROPAGATE_NAN, 3, 3, 1, 1, 1, 1);
      break;
    case Role::activation:
      status = gpudnnSetActivationDescriptor(static_cast<gpudnnActivationDescriptor_t>(object), GPUDNN_ACTIVATION_RELU,
                                             GPUDNN_NOT_PROPAGATE_NAN, 0);
      break;
    case Role::op_tensor:
      status = gpudnnSetOpTensorDescriptor(static_cast<gpudnnOpTensorDescriptor_t>(object), GPUDNN_OP_TENSOR_ADD, type,
                                           GPUDNN_NOT_PROPAGATE_NAN);
      break;
    case Role::dropout: {
      gpudnnHandle_t handle = nullptr;
      EXPECT_EQ(gpudnnCreate(&handle), 0) << take_error();
      status = gpudnnSetDropoutDescriptor(static_cast<gpudnnDropoutDescriptor_t>(object), handle, 0, nullptr, 0, 1);
      (void)gpudnnDestroy(handle);
      break;
    }
    case Role::spatial_transformer:
      status = gpudnnSetSpatialTransformerNdDescriptor(static_cast<gpudnnSpatialTransformerDescriptor_t>(object),
                                                       GPUDNN_SAMPLER_BILINEAR, type, 4, kDims);
      break;
    case Role::ctc_loss:
      status = gpudnnSetCTCLossDescriptor_v9(static_cast<gpudnnCTCLossDescriptor_t>(object), type,
                                             GPUDNN_LOSS_NORMALIZATION_SOFTMAX, GPUDNN_CTC_ZERO_OOB_GRADIENTS, 4);
      break;
    case Role::sequence_tensor:
      status = gpudnnSetTensorNdDescriptor(static_cast<gpudnnTensorDescriptor_t>(object), type, 3, kSequenceDims,
                                           kSequenceStrides);
      break;
    case Role::state_tensor:
      status = gpudnnSetTensorNdDescriptor(static_cast<gpudnnTensorDescriptor_t>(object), type, 3, kStateDims,
                                           kStateStrides);
      break;
    case Role::rnn:
      status = gpudnnSetRNNDescriptor_v8(static_cast<gpudnnRNNDescriptor_t>(object), GPUDNN_RNN_ALGO_STANDARD,
                                         GPUDNN_LSTM, GPUDNN_RNN_DOUBLE_BIAS, GPUDNN_UNIDIRECTIONAL,
                                         GPUDNN_LINEAR_INPUT, type, type, GPUDNN_DEFAULT_MATH, 4, 4, 4, 1, nullptr, 0);
      break;
    case Role::rnn_data: {
      const int lengths[] = {3, 2};
      status = gpudnnSetRNNDataDescriptor(static_cast<gpudnnRNNDataDescriptor_t>(object), type,
                                          GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 3, 2, 4, lengths, nullptr);
      break;
    }
    case Role::seq_data: {
      constexpr gpudnnSeqDataAxis_t kAxes[] = {GPUDNN_SEQDATA_TIME_DIM, GPUDNN_SEQDATA_BATCH_DIM,
                                               GPUDNN_SEQDATA_BEAM_DIM, GPUDNN_SEQDATA_VECT_DIM};
      constexpr int kLengths[] = {2, 1};
      status = gpudnnSetSeqDataDescriptor(static_cast<gpudnnSeqDataDescriptor_t>(object), type, 4, kSeqDims, kAxes, 2,
                                          kLengths, nullptr);
      break;
    }
    case Role::attn:
      status =
          gpudnnSetAttnDescriptor(static_cast<gpudnnAttnDescriptor_t>(object), GPUDNN_ATTN_ENABLE_PROJ_BIASES, 2, 1,
                                  type, type, GPUDNN_DEFAULT_MATH, nullptr, nullptr, 4, 4, 4, 2, 2, 2, 4, 2, 2, 2, 1);
      break;
    case Role::reduce_tensor:
      status = gpudnnSetReduceTensorDescriptor(static_cast<gpudnnReduceTensorDescriptor_t>(object),
                                               GPUDNN_REDUCE_TENSOR_ADD, type, GPUDNN_NOT_PROPAGATE_NAN,
                                               GPUDNN_REDUCE_TENSOR_NO_INDICES, GPUDNN_32BIT_INDICES);
      break;
    case Role::tensor_transform:
      status = gpudnnSetTensorTransformDescriptor(static_cast<gpudnnTensorTransformDescriptor_t>(object), 4,
                                                  GPUDNN_TENSOR_NCHW, nullptr, nullptr, nullptr, GPUDNN_TRANSFORM_FOLD);
      break;
    case Role::fused_const_pack:
      status = set_const_pack(static_cast<gpudnnFusedOpsConstParamPack_t>(object));
      break;
    case Role::fused_variant_pack:
      status = set_variant_pack(static_cast<gpudnnFusedOpsVariantParamPack_t>(object));
      break;
    case Role::fused_plan:
      status = set_plan(static_cast<gpudnnFusedOpsPlan_t>(object));
      break;
    default:
      if (is_backend(role)) status = set_backend(role, object);
      break;
  }
  EXPECT_EQ(status, 0) << take_error();
}

void destroy(Role role, void* object) {
  if (is_backend(role)) {
    (void)gpudnnBackendDestroyDescriptor(object);
    return;
  }
  switch (role) {
    case Role::handle:
      (void)gpudnnDestroy(static_cast<gpudnnHandle_t>(object));
      break;
    case Role::filter:
      (void)gpudnnDestroyFilterDescriptor(static_cast<gpudnnFilterDescriptor_t>(object));
      break;
    case Role::convolution:
      (void)gpudnnDestroyConvolutionDescriptor(static_cast<gpudnnConvolutionDescriptor_t>(object));
      break;
    case Role::pooling:
      (void)gpudnnDestroyPoolingDescriptor(static_cast<gpudnnPoolingDescriptor_t>(object));
      break;
    case Role::activation:
      (void)gpudnnDestroyActivationDescriptor(static_cast<gpudnnActivationDescriptor_t>(object));
      break;
    case Role::op_tensor:
      (void)gpudnnDestroyOpTensorDescriptor(static_cast<gpudnnOpTensorDescriptor_t>(object));
      break;
    case Role::dropout:
      (void)gpudnnDestroyDropoutDescriptor(static_cast<gpudnnDropoutDescriptor_t>(object));
      break;
    case Role::spatial_transformer:
      (void)gpudnnDestroySpatialTransformerDescriptor(static_cast<gpudnnSpatialTransformerDescriptor_t>(object));
      break;
    case Role::ctc_loss:
      (void)gpudnnDestroyCTCLossDescriptor(static_cast<gpudnnCTCLossDescriptor_t>(object));
      break;
    case Role::rnn:
      (void)gpudnnDestroyRNNDescriptor(static_cast<gpudnnRNNDescriptor_t>(object));
      break;
    case Role::rnn_data:
      (void)gpudnnDestroyRNNDataDescriptor(static_cast<gpudnnRNNDataDescriptor_t>(object));
      break;
    case Role::seq_data:
      (void)gpudnnDestroySeqDataDescriptor(static_cast<gpudnnSeqDataDescriptor_t>(object));
      break;
    case Role::attn:
      (void)gpudnnDestroyAttnDescriptor(static_cast<gpudnnAttnDescriptor_t>(object));
      break;
    case Role::lrn:
      (void)gpudnnDestroyLRNDescriptor(static_cast<gpudnnLRNDescriptor_t>(object));
      break;
    case Role::reduce_tensor:
      (void)gpudnnDestroyReduceTensorDescriptor(static_cast<gpudnnReduceTensorDescriptor_t>(object));
      break;
    case Role::tensor_transform:
      (void)gpudnnDestroyTensorTransformDescriptor(static_cast<gpudnnTensorTransformDescriptor_t>(object));
      break;
    case Role::fused_const_pack:
      (void)gpudnnDestroyFusedOpsConstParamPack(static_cast<gpudnnFusedOpsConstParamPack_t>(object));
      break;
    case Role::fused_variant_pack:
      (void)gpudnnDestroyFusedOpsVariantParamPack(static_cast<gpudnnFusedOpsVariantParamPack_t>(object));
      break;
    case Role::fused_plan:
      (void)gpudnnDestroyFusedOpsPlan(static_cast<gpudnnFusedOpsPlan_t>(object));
      break;
    default:
      (void)gpudnnDestroyTensorDescriptor(static_cast<gpudnnTensorDescriptor_t>(object));
      break;
  }
}

Role another_type(Role role) { return role == Role::filter ? Role::pooling : Role::filter; }
