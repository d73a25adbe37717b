// Descriptors of one library, made from geometries.
// SPDX-License-Identifier: Apache-2.0
#include "descriptors.hpp"

namespace gpudnn::bench {

gpudnnTensorDescriptor_t Descriptors::tensor(const TensorGeometry& geometry) {
  const auto descriptor = make(api_.CreateTensorDescriptor, api_.DestroyTensorDescriptor);
  if (descriptor == nullptr) return nullptr;
  const Ints dims(geometry.dims, geometry.rank);
  const Ints strides(geometry.strides, geometry.rank);
  note(api_.SetTensorNdDescriptor(descriptor, geometry.type, geometry.rank, dims.values, strides.values));
  return descriptor;
}

gpudnnFilterDescriptor_t Descriptors::filter(const TensorGeometry& geometry, gpudnnTensorFormat_t format) {
  const auto descriptor = make(api_.CreateFilterDescriptor, api_.DestroyFilterDescriptor);
  if (descriptor == nullptr) return nullptr;
  const Ints dims(geometry.dims, geometry.rank);
  note(api_.SetFilterNdDescriptor(descriptor, geometry.type, format, geometry.rank, dims.values));
  return descriptor;
}

gpudnnConvolutionDescriptor_t Descriptors::convolution() {
  return make(api_.CreateConvolutionDescriptor, api_.DestroyConvolutionDescriptor);
}

gpudnnPoolingDescriptor_t Descriptors::pooling() {
  return make(api_.CreatePoolingDescriptor, api_.DestroyPoolingDescriptor);
}
gpudnnLRNDescriptor_t Descriptors::lrn() { return make(api_.CreateLRNDescriptor, api_.DestroyLRNDescriptor); }

gpudnnOpTensorDescriptor_t Descriptors::op_tensor() {
  return make(api_.CreateOpTensorDescriptor, api_.DestroyOpTensorDescriptor);
}

gpudnnReduceTensorDescriptor_t Descriptors::reduce_tensor() {
  return make(api_.CreateReduceTensorDescriptor, api_.DestroyReduceTensorDescriptor);
}

gpudnnActivationDescriptor_t Descriptors::activation(gpudnnActivationMode_t mode, gpudnnNanPropagation_t nan,
                                                     double coef) {
  const auto descriptor = make(api_.CreateActivationDescriptor, api_.DestroyActivationDescriptor);
  if (descriptor == nullptr) return nullptr;
  note(api_.SetActivationDescriptor(descriptor, mode, nan, coef));
  if (mode == GPUDNN_ACTIVATION_SWISH) note(api_.SetActivationDescriptorSwishBeta(descriptor, coef));
  return descriptor;
}

}  // namespace gpudnn::bench
