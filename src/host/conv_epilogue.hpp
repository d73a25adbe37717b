// A forward convolution's epilogue on the host: f(alpha * scale * sum + alpha2 * z + bias).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host/element.hpp"
#include "ops/conv/epilogue_args.hpp"

namespace gpudnn::host {

template <class T>
class ConvEpilogue {
 public:
  ConvEpilogue(const conv::Problem& problem, const conv::Args& args)
      : alpha_(args.alpha),
        alpha2_(problem.has_z != 0 ? args.alpha2 : 0),
        scale_(problem.has_scale != 0 ? args.scale : nullptr),
        bias_(problem.has_bias != 0 ? args.bias : nullptr),
        scale_stride_(problem.scale_stride),
        bias_stride_(problem.bias_stride),
        float_vectors_(problem.float_vectors != 0) {
    conv::set_activation_mode(problem, &activation_);
    conv::set_activation_numbers(args, &activation_);
  }

  [[nodiscard]] bool adds() const { return alpha2_ != 0; }
  // Nothing but alpha.
  [[nodiscard]] bool is_plain() const {
    return !adds() && scale_ == nullptr && bias_ == nullptr && activation_.mode == kernels::gemm::Activation::identity;
  }

  // *z is read where it adds.
  [[nodiscard]] double operator()(double sum, const T* z, std::int64_t channel) const {
    double value = alpha_ * sum;
    if (scale_ != nullptr) value *= at(scale_, channel * scale_stride_);
    if (adds()) value += alpha2_ * to_double(*z);
    if (bias_ != nullptr) value += at(bias_, channel * bias_stride_);
    return kernels::gemm::activate(activation_, value);
  }

 private:
  [[nodiscard]] double at(const void* vector, std::int64_t offset) const {
    return float_vectors_ ? static_cast<double>(static_cast<const float*>(vector)[offset])
                          : to_double(static_cast<const T*>(vector)[offset]);
  }

  double alpha_, alpha2_;
  const void* scale_;
  const void* bias_;
  std::int64_t scale_stride_, bias_stride_;
  bool float_vectors_;
  kernels::gemm::ActivationArgs<double> activation_;
};

}  // namespace gpudnn::host
