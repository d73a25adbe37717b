// A LeNet-5-style digit classifier that computes through the gpudnn C API alone.
// SPDX-License-Identifier: Apache-2.0
//
//   1x28x28 -> conv 6@5x5, ReLU, pool -> conv 16@5x5, ReLU, pool -> conv 120@4x4, ReLU -> 84, ReLU -> 10 -> softmax
//
// Every stage is the same block: convolution + bias (+ ReLU) (+ 2x2 max pooling). The 4x4 convolution covers its whole
// 4x4 input and the 1x1 ones follow on a 1x1 image, so these three are the fully connected layers.
//
// Several processes can train one network, each on images of its own (07_data_parallel): then the two layers that pool
// have batch normalization in place of the bias, by the statistics of the images of all.
#pragma once

#include <array>
#include <cstdint>
#include <gpudnn/gpudnn.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/batch_norm.hpp"
#include "common/convolution_algorithms.hpp"
#include "common/digits.hpp"
#include "common/loss_scale.hpp"

struct LayerSpec {
  int channels;  // of the input
  int filters;   // = channels of the output
  int kernel;    // height and width of a filter
  bool relu;
  bool pool;  // 2x2 maximum, stride 2
};

constexpr std::array<LayerSpec, 5> kLeNet = {{
    {1, 6, 5, true, true},
    {6, 16, 5, true, true},
    {16, 120, 4, true, false},
    {120, 84, 1, true, false},
    {84, kClasses, 1, false, false},
}};

constexpr size_t filter_count(const LayerSpec& spec) {
  return static_cast<size_t>(spec.filters) * spec.channels * spec.kernel * spec.kernel;
}

// The number of weights and biases of the whole network. Those of batch normalization are not counted.
constexpr size_t parameter_count() {
  size_t count = 0;
  for (const LayerSpec& spec : kLeNet) count += filter_count(spec) + static_cast<size_t>(spec.filters);
  return count;
}

// What the layers compute in. The parameters that are learned are floats in any case.
struct Precision {
  gpudnnDataType_t type = GPUDNN_DATA_FLOAT;  // of images, activations, filters and all gradients: float or half
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
  float first_loss_scale = 65536;  // of half gradients
};

// Of the option --math: default, tensor or half.
inline Precision precision_of(const std::string& math) {
  Precision precision;
  if (math != "default") precision.math = GPUDNN_TENSOR_OP_MATH;
  if (math == "half") precision.type = GPUDNN_DATA_HALF;
  return precision;
}

// A tensor between two layers, with the gradient of the loss by it.
struct Activation {
  gpudnn::TensorDescriptor descriptor;
  gpudnn::Buffer value;
  gpudnn::Buffer gradient;
};

struct Layer {
  LayerSpec spec;
  gpudnn::FilterDescriptor filter;
  gpudnn::TensorDescriptor bias;
  gpudnn::ConvolutionDescriptor convolution;
  ConvolutionAlgorithms algorithms;
  size_t filter_offset, scale_offset, bias_offset;  // in elements, into the network's parameter buffers
  std::unique_ptr<BatchNorm> norm;                  // or nothing; it has a scale, and its bias is the layer's
  Activation convolved;                             // after bias and ReLU, which work in place, unless there is a norm
  Activation normalized;                            // after norm and ReLU
  Activation pooled;                                // empty where the layer does not pool

  const Activation& activated() const { return norm != nullptr ? normalized : convolved; }
  const Activation& output() const { return spec.pool ? pooled : activated(); }
};

class Network {
 public:
  // Works on `batch` images at a time. With an `exchange`, which outlives it, it has batch normalization, and all
  // processes of the exchange train one network: they begin with the same parameters, and learn by all their images.
  Network(const gpudnn::Handle& handle, int batch, Precision precision, Exchange* exchange = nullptr);

  int batch() const { return batch_; }
  const LossScale& loss_scale() const { return *loss_scale_; }

  void randomize(uint64_t seed);

  // Whether forward() goes by the statistics of its batch; at first it does. Of batch normalization alone.
  void set_training(bool training) { training_ = training; }

  // Per layer the filters (k, c, r, s), then the biases; parameter_count() floats.
  std::vector<float> parameters() const;
  void set_parameters(std::span<const float> values);

  // Takes batch() images of 28x28 gray bytes (0 = background) and gives batch() x 10 probabilities. They are valid
  // until the next call.
  std::span<const float> forward(std::span<const uint8_t> pixels);

  // After forward(): one step of gradient descent with momentum on the mean cross-entropy against `labels`. Where half
  // gradients overflow the step is skipped, and the next one tries a smaller loss scale.
  void learn(std::span<const uint8_t> labels, float learning_rate, float momentum);

 private:
  const Activation& input_of(size_t layer) const { return layer == 0 ? input_ : layers_[layer - 1].output(); }
  // Element `offset` of the weights that the layers compute with, and of their gradients.
  void* weight(size_t offset) const { return static_cast<char*>(weights_.get()) + offset * element_size_; }
  void* weight_gradient(size_t offset) const { return static_cast<char*>(gradients_.get()) + offset * element_size_; }
  float* parameter(size_t offset) const { return static_cast<float*>(parameters_.get()) + offset; }
  void refresh_weights();
  void backward(std::span<const uint8_t> labels);

  const gpudnn::Handle& handle_;
  Exchange* exchange_;
  bool training_ = true;
  int batch_;
  gpudnnDataType_t type_;
  size_t element_size_;
  gpudnn::PoolingDescriptor pooling_;
  gpudnn::ActivationDescriptor relu_;
  Activation input_;
  std::vector<Layer> layers_;
  // All layers' parameters lie in one buffer each, so that the update is three calls for the whole network.
  gpudnn::TensorDescriptor flat_floats_, flat_;
  gpudnn::Buffer parameters_, velocity_;   // floats
  gpudnn::Buffer weights_, gradients_;     // the parameters rounded to the layers' type, and the gradients by them
  std::unique_ptr<LossScale> loss_scale_;  // all gradients are kept times this
  // The ends of the network, in float: images, logits, and the gradient by the logits.
  gpudnn::TensorDescriptor image_floats_, logit_floats_;
  gpudnn::Buffer images_, probabilities_, logit_gradient_;
  gpudnn::Buffer workspace_;
  size_t workspace_bytes_ = 0;
  std::vector<float> staging_, host_probabilities_;
};
