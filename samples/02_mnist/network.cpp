// The network's forward pass, backward pass and update, each a short sequence of API calls.
// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <algorithm>
#include <cmath>

#include "common/random.hpp"

namespace {

constexpr float kOne = 1.0f;
constexpr float kZero = 0.0f;

// Parameters start at multiples of 256 bytes, as they would if each had an allocation of its own.
constexpr size_t aligned(size_t floats) { return (floats + 63) / 64 * 64; }

void describe(gpudnnTensorDescriptor_t descriptor, gpudnnDataType_t type, int n, int c, int h, int w) {
  gpudnn::check(gpudnnSetTensor4dDescriptor(descriptor, GPUDNN_TENSOR_NCHW, type, n, c, h, w));
}

void prepare(gpudnnHandle_t handle, Activation& activation, gpudnnDataType_t type, int n, int c, int h, int w) {
  describe(activation.descriptor, type, n, c, h, w);
  size_t bytes = 0;
  gpudnn::check(gpudnnGetTensorSizeInBytes(activation.descriptor, &bytes));
  activation.value = gpudnn::Buffer(handle, bytes);
  activation.gradient = gpudnn::Buffer(handle, bytes);
}

}  // namespace

Network::Network(const gpudnn::Handle& handle, int batch, Precision precision, Exchange* exchange)
    : handle_(handle),
      exchange_(exchange),
      batch_(batch),
      type_(precision.type),
      element_size_(type_ == GPUDNN_DATA_HALF ? 2 : 4) {
  gpudnn::check(gpudnnSetPooling2dDescriptor(pooling_, GPUDNN_POOLING_MAX, GPUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
  gpudnn::check(gpudnnSetActivationDescriptor(relu_, GPUDNN_ACTIVATION_RELU, GPUDNN_PROPAGATE_NAN, 0.0));
  prepare(handle, input_, precision.type, batch, 1, kImageSize, kImageSize);

  size_t offset = 0;
  layers_.reserve(kLeNet.size());
  for (const LayerSpec& spec : kLeNet) {
    Layer& layer = layers_.emplace_back();
    layer.spec = spec;
    const Activation& input = input_of(layers_.size() - 1);
    gpudnn::check(gpudnnSetFilter4dDescriptor(layer.filter, precision.type, GPUDNN_TENSOR_NCHW, spec.filters,
                                              spec.channels, spec.kernel, spec.kernel));
    describe(layer.bias, precision.type, 1, spec.filters, 1, 1);
    gpudnn::check(gpudnnSetConvolution2dDescriptor(layer.convolution, 0, 0, 1, 1, 1, 1, GPUDNN_CROSS_CORRELATION,
                                                   GPUDNN_DATA_FLOAT));
    gpudnn::check(gpudnnSetConvolutionMathType(layer.convolution, precision.math));

    int n, c, h, w;
    gpudnn::check(
        gpudnnGetConvolution2dForwardOutputDim(layer.convolution, input.descriptor, layer.filter, &n, &c, &h, &w));
    prepare(handle, layer.convolved, precision.type, n, c, h, w);
    if (exchange != nullptr && spec.pool) {
      layer.norm = std::make_unique<BatchNorm>(handle, precision.type, std::array{n, c, h, w}, *exchange);
      prepare(handle, layer.normalized, precision.type, n, c, h, w);
    }
    if (spec.pool) {
      gpudnn::check(gpudnnGetPooling2dForwardOutputDim(pooling_, layer.convolved.descriptor, &n, &c, &h, &w));
      prepare(handle, layer.pooled, precision.type, n, c, h, w);
    }
    layer.algorithms =
        first_algorithms(handle, input.descriptor, layer.filter, layer.convolution, layer.convolved.descriptor);
    workspace_bytes_ = std::max(workspace_bytes_, layer.algorithms.workspace_bytes);

    layer.filter_offset = offset;
    layer.scale_offset = layer.filter_offset + aligned(filter_count(spec));
    layer.bias_offset = layer.scale_offset + (layer.norm != nullptr ? BatchNorm::vector_floats(spec.filters) : 0);
    offset = layer.bias_offset + aligned(static_cast<size_t>(spec.filters));
  }

  describe(flat_floats_, GPUDNN_DATA_FLOAT, 1, 1, 1, static_cast<int>(offset));
  describe(flat_, precision.type, 1, 1, 1, static_cast<int>(offset));
  for (gpudnn::Buffer* buffer : {&parameters_, &velocity_}) {
    *buffer = gpudnn::Buffer(handle, offset * sizeof(float));
    gpudnn::check(gpudnnSetTensor(handle, flat_floats_, buffer->get(), &kZero));
  }
  for (gpudnn::Buffer* buffer : {&weights_, &gradients_}) {
    *buffer = gpudnn::Buffer(handle, offset * element_size_);
    gpudnn::check(gpudnnSetTensor(handle, flat_, buffer->get(), &kZero));
  }
  for (const Layer& layer : layers_) {
    if (layer.norm == nullptr) continue;
    const std::vector<float> ones(static_cast<size_t>(layer.spec.filters), 1.0f);
    gpudnn::check(gpudnnMemcpy(handle, parameter(layer.scale_offset), ones.data(), ones.size() * sizeof(float),
                               GPUDNN_MEMCPY_HOST_TO_DEVICE));
  }
  loss_scale_ =
      std::make_unique<LossScale>(handle, precision.type, static_cast<int>(offset), precision.first_loss_scale);
  workspace_ = gpudnn::Buffer(handle, workspace_bytes_);
  describe(image_floats_, GPUDNN_DATA_FLOAT, batch, 1, kImageSize, kImageSize);
  describe(logit_floats_, GPUDNN_DATA_FLOAT, batch, kClasses, 1, 1);
  staging_.resize(static_cast<size_t>(batch) * kImagePixels);
  images_ = gpudnn::Buffer(handle, staging_.size() * sizeof(float));
  host_probabilities_.resize(static_cast<size_t>(batch) * kClasses);
  probabilities_ = gpudnn::Buffer(handle, host_probabilities_.size() * sizeof(float));
  logit_gradient_ = gpudnn::Buffer(handle, host_probabilities_.size() * sizeof(float));
}

// The layers' weights from the parameters, rounded to the layers' type.
void Network::refresh_weights() {
  gpudnn::check(gpudnnTransformTensor(handle_, &kOne, flat_floats_, parameters_.get(), &kZero, flat_, weights_.get()));
}

void Network::randomize(uint64_t seed) {
  Random random(seed);
  std::vector<float> values;
  values.reserve(parameter_count());
  for (const LayerSpec& spec : kLeNet) {
    // Uniform with variance 1/fan-in. The double of it, usual for deep ReLU networks, learned more slowly here.
    const double bound = std::sqrt(3.0 / (spec.channels * spec.kernel * spec.kernel));
    for (size_t i = 0; i < filter_count(spec); ++i) {
      values.push_back(static_cast<float>(uniform(random, -bound, bound)));
    }
    values.insert(values.end(), static_cast<size_t>(spec.filters), 0.0f);
  }
  set_parameters(values);
}

std::vector<float> Network::parameters() const {
  std::vector<float> values(parameter_count());
  float* next = values.data();
  for (const Layer& layer : layers_) {
    const size_t filters = filter_count(layer.spec), biases = static_cast<size_t>(layer.spec.filters);
    gpudnn::check(gpudnnMemcpy(handle_, next, parameter(layer.filter_offset), filters * sizeof(float),
                               GPUDNN_MEMCPY_DEVICE_TO_HOST));
    gpudnn::check(gpudnnMemcpy(handle_, next + filters, parameter(layer.bias_offset), biases * sizeof(float),
                               GPUDNN_MEMCPY_DEVICE_TO_HOST));
    next += filters + biases;
  }
  return values;
}

void Network::set_parameters(std::span<const float> values) {
  if (values.size() != parameter_count()) throw std::runtime_error("set_parameters: wrong number of values");
  const float* next = values.data();
  for (const Layer& layer : layers_) {
    const size_t filters = filter_count(layer.spec), biases = static_cast<size_t>(layer.spec.filters);
    gpudnn::check(gpudnnMemcpy(handle_, parameter(layer.filter_offset), next, filters * sizeof(float),
                               GPUDNN_MEMCPY_HOST_TO_DEVICE));
    gpudnn::check(gpudnnMemcpy(handle_, parameter(layer.bias_offset), next + filters, biases * sizeof(float),
                               GPUDNN_MEMCPY_HOST_TO_DEVICE));
    next += filters + biases;
  }
  refresh_weights();
}

std::span<const float> Network::forward(std::span<const uint8_t> pixels) {
  if (pixels.size() != staging_.size()) throw std::runtime_error("forward: wrong number of pixels");
  // Handwritten digits are about 0.13 bright on average with a deviation of 0.31; this centres and scales them.
  std::transform(pixels.begin(), pixels.end(), staging_.begin(),
                 [](uint8_t pixel) { return (static_cast<float>(pixel) / 255.0f - 0.13f) / 0.31f; });
  gpudnn::check(gpudnnMemcpy(handle_, images_.get(), staging_.data(), staging_.size() * sizeof(float),
                             GPUDNN_MEMCPY_HOST_TO_DEVICE));
  gpudnn::check(gpudnnTransformTensor(handle_, &kOne, image_floats_, images_.get(), &kZero, input_.descriptor,
                                      input_.value.get()));

  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const Activation& x = input_of(i);
    const Activation& y = layer.convolved;
    gpudnn::check(gpudnnConvolutionForward(handle_, &kOne, x.descriptor, x.value.get(), layer.filter,
                                           weight(layer.filter_offset), layer.convolution, layer.algorithms.forward,
                                           workspace_.get(), workspace_bytes_, &kZero, y.descriptor, y.value.get()));
    if (layer.norm != nullptr) {
      layer.norm->forward(training_, y.value.get(), weight(layer.scale_offset), weight(layer.bias_offset),
                          layer.normalized.value.get());
    } else {
      gpudnn::check(
          gpudnnAddTensor(handle_, &kOne, layer.bias, weight(layer.bias_offset), &kOne, y.descriptor, y.value.get()));
      if (layer.spec.relu) {
        gpudnn::check(gpudnnActivationForward(handle_, relu_, &kOne, y.descriptor, y.value.get(), &kZero, y.descriptor,
                                              y.value.get()));
      }
    }
    if (layer.spec.pool) {
      const Activation& activated = layer.activated();
      gpudnn::check(gpudnnPoolingForward(handle_, pooling_, &kOne, activated.descriptor, activated.value.get(), &kZero,
                                         layer.pooled.descriptor, layer.pooled.value.get()));
    }
  }

  const Activation& logits = layers_.back().output();
  gpudnn::check(gpudnnTransformTensor(handle_, &kOne, logits.descriptor, logits.value.get(), &kZero, logit_floats_,
                                      probabilities_.get()));
  gpudnn::check(gpudnnSoftmaxForward(handle_, GPUDNN_SOFTMAX_ACCURATE, GPUDNN_SOFTMAX_MODE_INSTANCE, &kOne,
                                     logit_floats_, probabilities_.get(), &kZero, logit_floats_, probabilities_.get()));
  gpudnn::check(gpudnnMemcpy(handle_, host_probabilities_.data(), probabilities_.get(),
                             host_probabilities_.size() * sizeof(float), GPUDNN_MEMCPY_DEVICE_TO_HOST));
  return host_probabilities_;
}

void Network::backward(std::span<const uint8_t> labels) {
  // The gradient of mean cross-entropy after softmax by the logits is (probability - [is it the label]) / batch. The
  // one-hot labels are uploaded where the gradient is wanted, and one combine with the probabilities turns them into
  // it.
  const Activation& logits = layers_.back().output();
  std::vector<float> one_hot(host_probabilities_.size(), 0.0f);
  for (size_t i = 0; i < labels.size(); ++i) one_hot[i * kClasses + labels[i]] = 1.0f;
  gpudnn::check(gpudnnMemcpy(handle_, logit_gradient_.get(), one_hot.data(), one_hot.size() * sizeof(float),
                             GPUDNN_MEMCPY_HOST_TO_DEVICE));
  const float plus = loss_scale_->value() / static_cast<float>(batch_), minus = -plus;
  gpudnn::check(gpudnnAddTensor(handle_, &plus, logit_floats_, probabilities_.get(), &minus, logit_floats_,
                                logit_gradient_.get()));
  gpudnn::check(gpudnnTransformTensor(handle_, &kOne, logit_floats_, logit_gradient_.get(), &kZero, logits.descriptor,
                                      logits.gradient.get()));

  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    const Activation& x = input_of(i);
    const Activation& y = layer.convolved;
    if (layer.spec.pool) {
      const Activation& pooled = layer.pooled;
      const Activation& activated = layer.activated();
      gpudnn::check(gpudnnPoolingBackward(
          handle_, pooling_, &kOne, pooled.descriptor, pooled.value.get(), pooled.descriptor, pooled.gradient.get(),
          activated.descriptor, activated.value.get(), &kZero, activated.descriptor, activated.gradient.get()));
    }
    if (layer.norm != nullptr) {
      const Activation& normalized = layer.normalized;
      layer.norm->backward(y.value.get(), normalized.value.get(), normalized.gradient.get(), weight(layer.scale_offset),
                           y.gradient.get());
      // These sums are those of all processes already; learn() adds the gradients of all up.
      const gpudnn::Buffer& sums = layer.norm->parameter_gradients();
      const int floats = static_cast<int>(sums.bytes() / sizeof(float));
      const gpudnn::TensorDescriptor from(GPUDNN_DATA_FLOAT, {1, 1, 1, floats}), to(type_, {1, 1, 1, floats});
      const float share = 1.0f / static_cast<float>(exchange_->count());
      gpudnn::check(
          gpudnnTransformTensor(handle_, &share, from, sums.get(), &kZero, to, weight_gradient(layer.scale_offset)));
    } else {
      if (layer.spec.relu) {
        // In place, and with the output standing in for the input: they are positive at the same places.
        gpudnn::check(gpudnnActivationBackward(handle_, relu_, &kOne, y.descriptor, y.value.get(), y.descriptor,
                                               y.gradient.get(), y.descriptor, y.value.get(), &kZero, y.descriptor,
                                               y.gradient.get()));
      }
      gpudnn::check(gpudnnConvolutionBackwardBias(handle_, &kOne, y.descriptor, y.gradient.get(), &kZero, layer.bias,
                                                  weight_gradient(layer.bias_offset)));
    }
    gpudnn::check(gpudnnConvolutionBackwardFilter(handle_, &kOne, x.descriptor, x.value.get(), y.descriptor,
                                                  y.gradient.get(), layer.convolution, layer.algorithms.backward_filter,
                                                  workspace_.get(), workspace_bytes_, &kZero, layer.filter,
                                                  weight_gradient(layer.filter_offset)));
    if (i == 0) continue;  // nobody needs the gradient by the images
    gpudnn::check(gpudnnConvolutionBackwardData(
        handle_, &kOne, layer.filter, weight(layer.filter_offset), y.descriptor, y.gradient.get(), layer.convolution,
        layer.algorithms.backward_data, workspace_.get(), workspace_bytes_, &kZero, x.descriptor, x.gradient.get()));
  }
}

void Network::learn(std::span<const uint8_t> labels, float learning_rate, float momentum) {
  if (labels.size() != static_cast<size_t>(batch_)) throw std::runtime_error("learn: wrong number of labels");
  const float scale = loss_scale_->value();
  backward(labels);
  const int processes = exchange_ != nullptr ? exchange_->count() : 1;
  if (processes > 1) exchange_->sum(gradients_.get(), gradients_.bytes() / element_size_, type_);
  if (!loss_scale_->accepts(gradients_)) return;
  // velocity = momentum * velocity - learning_rate * gradient; parameters = parameters + velocity. The gradient is the
  // mean of those of all processes.
  const float step = -learning_rate / (scale * static_cast<float>(processes));
  gpudnn::check(
      gpudnnTransformTensor(handle_, &step, flat_, gradients_.get(), &momentum, flat_floats_, velocity_.get()));
  gpudnn::check(gpudnnAddTensor(handle_, &kOne, flat_floats_, velocity_.get(), &kOne, flat_floats_, parameters_.get()));
  refresh_weights();
}
