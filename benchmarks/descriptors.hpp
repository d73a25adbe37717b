// Descriptors of one library, made from geometries and ended together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "api_table.hpp"
#include "core/geometry.hpp"

namespace gpudnn::bench {

// The makers never fail loudly: the first refusal is kept in status(), and what follows is skipped.
class Descriptors {
 public:
  explicit Descriptors(const Api& api) : api_(api) {}
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors() {
    for (const auto& destroy : destroyers_) destroy();
  }

  [[nodiscard]] gpudnnStatus_t status() const noexcept { return status_; }
  void note(gpudnnStatus_t status) noexcept {
    if (status_ == GPUDNN_STATUS_SUCCESS) status_ = status;
  }

  [[nodiscard]] gpudnnTensorDescriptor_t tensor(const TensorGeometry& geometry);
  [[nodiscard]] gpudnnFilterDescriptor_t filter(const TensorGeometry& geometry, gpudnnTensorFormat_t format);
  [[nodiscard]] gpudnnConvolutionDescriptor_t convolution();
  [[nodiscard]] gpudnnPoolingDescriptor_t pooling();
  [[nodiscard]] gpudnnLRNDescriptor_t lrn();
  [[nodiscard]] gpudnnOpTensorDescriptor_t op_tensor();
  [[nodiscard]] gpudnnReduceTensorDescriptor_t reduce_tensor();
  [[nodiscard]] gpudnnActivationDescriptor_t activation(gpudnnActivationMode_t mode, gpudnnNanPropagation_t nan,
                                                        double coef);
  [[nodiscard]] gpudnnDropoutDescriptor_t dropout() {
    return make(api_.CreateDropoutDescriptor, api_.DestroyDropoutDescriptor);
  }
  [[nodiscard]] gpudnnSpatialTransformerDescriptor_t spatial_transformer() {
    return make(api_.CreateSpatialTransformerDescriptor, api_.DestroySpatialTransformerDescriptor);
  }
  [[nodiscard]] gpudnnRNNDescriptor_t rnn() { return make(api_.CreateRNNDescriptor, api_.DestroyRNNDescriptor); }
  [[nodiscard]] gpudnnRNNDataDescriptor_t rnn_data() {
    return make(api_.CreateRNNDataDescriptor, api_.DestroyRNNDataDescriptor);
  }
  [[nodiscard]] gpudnnCTCLossDescriptor_t ctc_loss() {
    return make(api_.CreateCTCLossDescriptor, api_.DestroyCTCLossDescriptor);
  }
  [[nodiscard]] gpudnnTensorTransformDescriptor_t transform() {
    return make(api_.CreateTensorTransformDescriptor, api_.DestroyTensorTransformDescriptor);
  }
  [[nodiscard]] gpudnnFusedOpsConstParamPack_t const_pack(gpudnnFusedOps_t ops) {
    return make_with(api_.CreateFusedOpsConstParamPack, api_.DestroyFusedOpsConstParamPack, ops);
  }
  [[nodiscard]] gpudnnFusedOpsVariantParamPack_t variant_pack(gpudnnFusedOps_t ops) {
    return make_with(api_.CreateFusedOpsVariantParamPack, api_.DestroyFusedOpsVariantParamPack, ops);
  }
  [[nodiscard]] gpudnnFusedOpsPlan_t fused_plan(gpudnnFusedOps_t ops) {
    return make_with(api_.CreateFusedOpsPlan, api_.DestroyFusedOpsPlan, ops);
  }

 private:
  template <class Object>
  Object make_with(gpudnnStatus_t (*create)(Object*, gpudnnFusedOps_t), gpudnnStatus_t (*destroy)(Object),
                   gpudnnFusedOps_t ops) {
    Object object = nullptr;
    if (status_ == GPUDNN_STATUS_SUCCESS) note(create(&object, ops));
    if (status_ != GPUDNN_STATUS_SUCCESS) return nullptr;
    destroyers_.emplace_back([=] { (void)destroy(object); });
    return object;
  }

  // Creates and remembers to destroy; null after a failure.
  template <class Descriptor>
  Descriptor make(gpudnnStatus_t (*create)(Descriptor*), gpudnnStatus_t (*destroy)(Descriptor)) {
    Descriptor descriptor = nullptr;
    if (status_ == GPUDNN_STATUS_SUCCESS) note(create(&descriptor));
    if (status_ != GPUDNN_STATUS_SUCCESS) return nullptr;
    destroyers_.emplace_back([=] { (void)destroy(descriptor); });
    return descriptor;
  }

  const Api& api_;
  gpudnnStatus_t status_ = GPUDNN_STATUS_SUCCESS;
  std::vector<std::function<void()>> destroyers_;
};

// The first `count` values, as the interface takes them.
struct Ints {
  int values[GPUDNN_DIM_MAX] = {};
  Ints(const std::int64_t* from, int count) {
    for (int i = 0; i < count; ++i) values[i] = static_cast<int>(from[i]);
  }
};

// alpha or beta as the interface reads it: a double for double tensors, else a float.
class Scalar {
 public:
  Scalar(double value, DataType type)
      : is_double_(type == GPUDNN_DATA_DOUBLE), d_(value), f_(static_cast<float>(value)) {}
  [[nodiscard]] const void* get() const noexcept {
    return is_double_ ? static_cast<const void*>(&d_) : static_cast<const void*>(&f_);
  }

 private:
  bool is_double_;
  double d_;
  float f_;
};

}  // namespace gpudnn::bench
