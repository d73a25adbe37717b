// ResNet-18 (He et al. 2016) with its training, through the C interface: data with channels last, in float or half;
// parameters, statistics and the update in float.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <gpudnn/gpudnn.hpp>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/convolution_algorithms.hpp"
#include "common/loss_scale.hpp"

struct ResNetSpec {
  int size;     // height and width of the images
  int width;    // channels of the first stage; 64 is ResNet-18, the stages have 1, 2, 4 and 8 times as many
  int classes;  // what it tells apart
  gpudnnDataType_t type = GPUDNN_DATA_FLOAT;  // of images, activations, weights and their gradients: float or half
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
};

class ResNet {
 public:
  // Works on `batch` images at a time.
  ResNet(const gpudnn::Handle& handle, const ResNetSpec& spec, int batch);

  void randomize(uint64_t seed);

  // All that training goes on from: parameters, their velocities, running statistics; and the loss scale apart.
  std::vector<float> state() const;
  void set_state(std::span<const float> values);
  LossScale& loss_scale() { return *loss_scale_; }

  // Takes batch x size x size x 3 bytes and gives batch x classes probabilities. In training, normalization is by the
  // batch's statistics; otherwise by the running ones.
  std::vector<float> forward(const std::vector<uint8_t>& pixels, bool training);

  // After forward() in training: one step of gradient descent with momentum on the mean cross-entropy against `labels`.
  void learn(const std::vector<int>& labels, double rate);

 private:
  // A tensor between layers, with the gradient of the loss by it.
  struct Activation {
    int channels = 0, size = 0;
    gpudnn::TensorDescriptor layout;
    gpudnn::Buffer value, gradient;
  };
  struct Convolution {
    gpudnn::FilterDescriptor filter;
    gpudnn::ConvolutionDescriptor convolution;
    ConvolutionAlgorithms algorithms;
    size_t offset, count, fan_in;  // its place among the weights
  };
  // out = relu(norm(convolution(x)) + addend), with or without relu, with or without addend
  struct Layer {
    gpudnnBatchNormOps_t ops;
    Convolution convolution;
    Activation convolved, out;
    gpudnn::TensorDescriptor vector;     // of the normalization's parameters and statistics
    size_t scale, bias, mean, variance;  // their places
    gpudnn::Buffer saved_mean, saved_inv_variance, reserve;
  };
  // relu(second(first(x)) + x), or + shortcut(x) where the extents change
  struct Block {
    Layer first, second;
    std::optional<Layer> shortcut;
  };

  Activation activation(int channels, int size) const;
  Convolution convolution(const Activation& x, const Activation& y, int kernel, int stride);
  Layer layer(const Activation& x, int channels, int kernel, int stride, gpudnnBatchNormOps_t ops);

  void forward(Layer& l, const Activation& x, const Activation* addend, bool training);
  // From out.gradient to the gradients of the parameters, of the addend, and of x, to which it is added if `adds`.
  void backward(Layer& l, const Activation& x, const Activation* addend, bool adds);
  void convolve_backward(const Convolution& c, const Activation& x, const Activation& y, float beta, bool to_input);
  void update(float minus_rate, float scale);

  void* weight(const gpudnn::Buffer& buffer, size_t offset) const {
    return static_cast<char*>(buffer.get()) + offset * element_size_;
  }
  static float* number(const gpudnn::Buffer& buffer, size_t offset) {
    return static_cast<float*>(buffer.get()) + offset;
  }
  // Buffers of floats that are one long tensor.
  gpudnn::TensorDescriptor flat(gpudnnDataType_t type, size_t count) const {
    return {type, {1, 1, 1, static_cast<int>(count)}};
  }

  const gpudnn::Handle& handle_;
  ResNetSpec spec_;
  int batch_;
  size_t element_size_;
  gpudnn::ActivationDescriptor relu_ = gpudnn::ActivationDescriptor(GPUDNN_ACTIVATION_RELU);
  gpudnn::PoolingDescriptor pool_, mean_;
  Activation images_, pooled_, mean_of_all_, logits_;
  std::optional<Layer> stem_;
  bool pools_ = false;  // after the stem, for large images
  std::vector<Block> blocks_;
  Convolution classifier_;
  gpudnn::TensorDescriptor classifier_bias_;
  // Weights of convolutions: in float, as they are learned, and rounded to the type that they compute in.
  size_t weight_count_ = 0;
  gpudnn::Buffer master_, weights_, weight_gradients_, weight_velocity_;
  // Scales and biases, in float; and running statistics.
  size_t vector_count_ = 0, statistic_count_ = 0, classifier_bias_at_ = 0;
  gpudnn::Buffer vectors_, vector_gradients_, vector_velocity_, statistics_;
  std::unique_ptr<LossScale> loss_scale_;
  // The ends of the network, in float.
  gpudnn::TensorDescriptor image_floats_, logit_floats_;
  gpudnn::Buffer image_values_, logit_values_, probabilities_;
  gpudnn::Buffer workspace_;
  size_t workspace_bytes_ = 0;
};
