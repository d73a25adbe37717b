// The network's layers, forward pass, backward pass and update.
// SPDX-License-Identifier: Apache-2.0
#include "resnet.hpp"

#include <algorithm>
#include <cmath>

#include "common/random.hpp"

namespace {

constexpr float kOne = 1, kZero = 0;
constexpr auto kNorm = GPUDNN_BATCHNORM_SPATIAL_PERSISTENT;
constexpr double kEpsilon = 1e-5, kRunningShare = 0.1;
constexpr float kMomentum = 0.9f, kWeightDecay = 5e-4f;

// Each begins at a multiple of 256 bytes.
size_t take(size_t* next, size_t count) {
  const size_t at = *next;
  *next += (count + 127) / 128 * 128;
  return at;
}

}  // namespace

// --- the layers -----------------------------------------------------------------------------------------------------

ResNet::ResNet(const gpudnn::Handle& handle, const ResNetSpec& spec, int batch)
    : handle_(handle), spec_(spec), batch_(batch), element_size_(spec.type == GPUDNN_DATA_HALF ? 2 : 4) {
  images_ = activation(3, spec.size);
  // Large images are halved twice at once; small ones, as of 32x32, keep their size.
  pools_ = spec.size >= 96;
  stem_.emplace(layer(images_, spec.width, pools_ ? 7 : 3, pools_ ? 2 : 1, GPUDNN_BATCHNORM_OPS_BN_ACTIVATION));
  const Activation* x = &stem_->out;
  if (pools_) {
    pool_.set(GPUDNN_POOLING_MAX, {3, 3}, {1, 1}, {2, 2});
    pooled_ = activation(spec.width, (x->size - 1) / 2 + 1);
    x = &pooled_;
  }
  blocks_.reserve(8);
  for (int stage = 0; stage < 4; ++stage) {
    for (int i = 0; i < 2; ++i) {
      const int channels = spec.width << stage, stride = stage > 0 && i == 0 ? 2 : 1;
      Layer first = layer(*x, channels, 3, stride, GPUDNN_BATCHNORM_OPS_BN_ACTIVATION);
      Layer second = layer(first.out, channels, 3, 1, GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION);
      Block& b = blocks_.emplace_back(Block{std::move(first), std::move(second), std::nullopt});
      if (x->channels != channels) b.shortcut.emplace(layer(*x, channels, 1, stride, GPUDNN_BATCHNORM_OPS_BN));
      x = &b.second.out;
    }
  }
  mean_.set(GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, {x->size, x->size}, {0, 0}, {1, 1});
  mean_of_all_ = activation(x->channels, 1);
  logits_ = activation(spec.classes, 1);
  classifier_ = convolution(mean_of_all_, logits_, 1, 1);
  classifier_bias_.set(GPUDNN_DATA_FLOAT, {1, spec.classes, 1, 1}, GPUDNN_TENSOR_NHWC);
  classifier_bias_at_ = take(&vector_count_, static_cast<size_t>(spec.classes));

  const auto zeros = [&](size_t count) { return gpudnn::Buffer(handle, std::vector<float>(count)); };
  master_ = zeros(weight_count_), weight_velocity_ = zeros(weight_count_);
  weights_ = zeros(weight_count_), weight_gradients_ = zeros(weight_count_);
  vectors_ = zeros(vector_count_), vector_gradients_ = zeros(vector_count_), vector_velocity_ = zeros(vector_count_);
  statistics_ = zeros(statistic_count_);
  loss_scale_ = std::make_unique<LossScale>(handle, spec.type, static_cast<int>(weight_count_), 65536.0f);

  image_floats_.set(GPUDNN_DATA_FLOAT, {batch, 3, spec.size, spec.size}, GPUDNN_TENSOR_NHWC);
  image_values_ = gpudnn::Buffer(handle, image_floats_.bytes());
  logit_floats_.set(GPUDNN_DATA_FLOAT, {batch, spec.classes, 1, 1}, GPUDNN_TENSOR_NHWC);
  logit_values_ = gpudnn::Buffer(handle, logit_floats_.bytes());
  probabilities_ = gpudnn::Buffer(handle, logit_floats_.bytes());
  workspace_ = gpudnn::Buffer(handle, workspace_bytes_);
}

ResNet::Activation ResNet::activation(int channels, int size) const {
  Activation a{channels, size, {spec_.type, {batch_, channels, size, size}, GPUDNN_TENSOR_NHWC}, {}, {}};
  a.value = gpudnn::Buffer(handle_, a.layout.bytes());
  a.gradient = gpudnn::Buffer(handle_, a.layout.bytes());
  return a;
}

ResNet::Convolution ResNet::convolution(const Activation& x, const Activation& y, int kernel, int stride) {
  gpudnn::ConvolutionOptions options;
  options.padding = {kernel / 2, kernel / 2};
  options.stride = {stride, stride};
  options.math = spec_.math;
  Convolution c{{spec_.type, {y.channels, x.channels, kernel, kernel}, GPUDNN_TENSOR_NHWC},
                gpudnn::ConvolutionDescriptor(2, options),
                {},
                0,
                0,
                0};
  c.fan_in = static_cast<size_t>(x.channels * kernel * kernel);
  c.count = c.fan_in * static_cast<size_t>(y.channels);
  c.offset = take(&weight_count_, c.count);
  c.algorithms = first_algorithms(handle_, x.layout, c.filter, c.convolution, y.layout);
  workspace_bytes_ = std::max(workspace_bytes_, c.algorithms.workspace_bytes);
  return c;
}

ResNet::Layer ResNet::layer(const Activation& x, int channels, int kernel, int stride, gpudnnBatchNormOps_t ops) {
  const int size = (x.size + 2 * (kernel / 2) - kernel) / stride + 1;
  Activation convolved = activation(channels, size);
  Convolution c = convolution(x, convolved, kernel, stride);
  Layer l{ops, std::move(c), std::move(convolved), activation(channels, size), {}, 0, 0, 0, 0, {}, {}, {}};
  const auto count = static_cast<size_t>(channels);
  l.scale = take(&vector_count_, count), l.bias = take(&vector_count_, count);
  l.mean = take(&statistic_count_, count), l.variance = take(&statistic_count_, count);
  l.saved_mean = gpudnn::Buffer(handle_, count * sizeof(float));
  l.saved_inv_variance = gpudnn::Buffer(handle_, count * sizeof(float));
  const gpudnn::TensorDescriptor& t = l.out.layout;
  gpudnn::check(gpudnnDeriveBNTensorDescriptor(l.vector, t, kNorm));
  size_t bytes = 0;
  gpudnn::check(gpudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle_, kNorm, ops, relu_, t, &bytes));
  l.reserve = gpudnn::Buffer(handle_, bytes);
  gpudnn::check(
      gpudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle_, kNorm, ops, t, t, t, l.vector, relu_, &bytes));
  workspace_bytes_ = std::max(workspace_bytes_, bytes);
  gpudnn::check(
      gpudnnGetBatchNormalizationBackwardExWorkspaceSize(handle_, kNorm, ops, t, t, t, t, t, l.vector, relu_, &bytes));
  workspace_bytes_ = std::max(workspace_bytes_, bytes);
  return l;
}

void ResNet::randomize(uint64_t seed) {
  Random random(seed);
  std::vector<float> weights(weight_count_), vectors(vector_count_), statistics(statistic_count_);
  const auto fill = [&](const Convolution& c, double variance) {
    const double bound = std::sqrt(3 * variance / static_cast<double>(c.fan_in));
    for (size_t i = 0; i < c.count; ++i) weights[c.offset + i] = static_cast<float>(uniform(random, -bound, bound));
  };
  const auto prepare = [&](const Layer& l, float scale) {
    fill(l.convolution, 2);
    std::fill_n(vectors.begin() + static_cast<std::ptrdiff_t>(l.scale), l.out.channels, scale);
    std::fill_n(statistics.begin() + static_cast<std::ptrdiff_t>(l.variance), l.out.channels, 1.0f);
  };
  prepare(*stem_, 1);
  for (const Block& b : blocks_) {
    prepare(b.first, 1);
    prepare(b.second, 0);  // a block begins as its shortcut alone
    if (b.shortcut) prepare(*b.shortcut, 1);
  }
  fill(classifier_, 1);
  std::vector<float> no_velocity(weight_count_ + vector_count_);
  std::vector<float> all;
  for (const std::vector<float>* part : {&weights, &vectors, &statistics, &no_velocity}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  set_state(all);
}

std::vector<float> ResNet::state() const {
  std::vector<float> all;
  for (const gpudnn::Buffer* part : {&master_, &vectors_, &statistics_, &weight_velocity_, &vector_velocity_}) {
    const std::vector<float> values = part->download<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void ResNet::set_state(std::span<const float> values) {
  if (values.size() != 2 * (weight_count_ + vector_count_) + statistic_count_) {
    throw std::runtime_error("set_state: the numbers are those of another network");
  }
  for (gpudnn::Buffer* part : {&master_, &vectors_, &statistics_, &weight_velocity_, &vector_velocity_}) {
    const size_t count = part->bytes() / sizeof(float);
    part->upload(std::vector<float>(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count)));
    values = values.subspan(count);
  }
  gpudnn::check(gpudnnTransformTensor(handle_, &kOne, flat(GPUDNN_DATA_FLOAT, weight_count_), master_.get(), &kZero,
                                      flat(spec_.type, weight_count_), weights_.get()));
}

// --- forward --------------------------------------------------------------------------------------------------------

void ResNet::forward(Layer& l, const Activation& x, const Activation* addend, bool training) {
  const Convolution& c = l.convolution;
  const gpudnn::TensorDescriptor& t = l.out.layout;
  gpudnn::check(gpudnnConvolutionForward(handle_, &kOne, x.layout, x.value.get(), c.filter, weight(weights_, c.offset),
                                         c.convolution, c.algorithms.forward, workspace_.get(), workspace_bytes_,
                                         &kZero, t, l.convolved.value.get()));
  const void* z = addend == nullptr ? nullptr : addend->value.get();
  float* mean = number(statistics_, l.mean);
  float* variance = number(statistics_, l.variance);
  if (training) {
    gpudnn::check(gpudnnBatchNormalizationForwardTrainingEx(
        handle_, kNorm, l.ops, &kOne, &kZero, t, l.convolved.value.get(), t, z, t, l.out.value.get(), l.vector,
        number(vectors_, l.scale), number(vectors_, l.bias), kRunningShare, mean, variance, kEpsilon,
        l.saved_mean.get(), l.saved_inv_variance.get(), relu_, workspace_.get(), workspace_bytes_, l.reserve.get(),
        l.reserve.bytes()));
    return;
  }
  gpudnn::check(gpudnnBatchNormalizationForwardInference(handle_, kNorm, &kOne, &kZero, t, l.convolved.value.get(), t,
                                                         l.out.value.get(), l.vector, number(vectors_, l.scale),
                                                         number(vectors_, l.bias), mean, variance, kEpsilon));
  if (z != nullptr) gpudnn::check(gpudnnAddTensor(handle_, &kOne, t, z, &kOne, t, l.out.value.get()));
  if (l.ops != GPUDNN_BATCHNORM_OPS_BN) {
    gpudnn::check(gpudnnActivationForward(handle_, relu_, &kOne, t, l.out.value.get(), &kZero, t, l.out.value.get()));
  }
}

std::vector<float> ResNet::forward(const std::vector<uint8_t>& pixels, bool training) {
  std::vector<float> values(pixels.size());
  std::transform(pixels.begin(), pixels.end(), values.begin(),
                 [](uint8_t pixel) { return (static_cast<float>(pixel) - 127.5f) / 64; });
  image_values_.upload(values);
  gpudnn::check(gpudnnTransformTensor(handle_, &kOne, image_floats_, image_values_.get(), &kZero, images_.layout,
                                      images_.value.get()));
  forward(*stem_, images_, nullptr, training);
  const Activation* x = &stem_->out;
  if (pools_) {
    gpudnn::check(gpudnnPoolingForward(handle_, pool_, &kOne, x->layout, x->value.get(), &kZero, pooled_.layout,
                                       pooled_.value.get()));
    x = &pooled_;
  }
  for (Block& b : blocks_) {
    forward(b.first, *x, nullptr, training);
    if (b.shortcut) forward(*b.shortcut, *x, nullptr, training);
    forward(b.second, b.first.out, b.shortcut ? &b.shortcut->out : x, training);
    x = &b.second.out;
  }
  gpudnn::check(gpudnnPoolingForward(handle_, mean_, &kOne, x->layout, x->value.get(), &kZero, mean_of_all_.layout,
                                     mean_of_all_.value.get()));
  const Convolution& c = classifier_;
  gpudnn::check(gpudnnConvolutionForward(handle_, &kOne, mean_of_all_.layout, mean_of_all_.value.get(), c.filter,
                                         weight(weights_, c.offset), c.convolution, c.algorithms.forward,
                                         workspace_.get(), workspace_bytes_, &kZero, logits_.layout,
                                         logits_.value.get()));
  gpudnn::check(gpudnnTransformTensor(handle_, &kOne, logits_.layout, logits_.value.get(), &kZero, logit_floats_,
                                      logit_values_.get()));
  gpudnn::check(gpudnnAddTensor(handle_, &kOne, classifier_bias_, number(vectors_, classifier_bias_at_), &kOne,
                                logit_floats_, logit_values_.get()));
  gpudnn::check(gpudnnSoftmaxForward(handle_, GPUDNN_SOFTMAX_ACCURATE, GPUDNN_SOFTMAX_MODE_CHANNEL, &kOne,
                                     logit_floats_, logit_values_.get(), &kZero, logit_floats_, probabilities_.get()));
  return probabilities_.download<float>();
}

// --- backward -------------------------------------------------------------------------------------------------------

void ResNet::convolve_backward(const Convolution& c, const Activation& x, const Activation& y, float beta,
                               bool to_input) {
  gpudnn::check(gpudnnConvolutionBackwardFilter(
      handle_, &kOne, x.layout, x.value.get(), y.layout, y.gradient.get(), c.convolution, c.algorithms.backward_filter,
      workspace_.get(), workspace_bytes_, &kZero, c.filter, weight(weight_gradients_, c.offset)));
  if (!to_input) return;
  gpudnn::check(gpudnnConvolutionBackwardData(handle_, &kOne, c.filter, weight(weights_, c.offset), y.layout,
                                              y.gradient.get(), c.convolution, c.algorithms.backward_data,
                                              workspace_.get(), workspace_bytes_, &beta, x.layout, x.gradient.get()));
}

void ResNet::backward(Layer& l, const Activation& x, const Activation* addend, bool adds) {
  const gpudnn::TensorDescriptor& t = l.out.layout;
  gpudnn::check(gpudnnBatchNormalizationBackwardEx(
      handle_, kNorm, l.ops, &kOne, &kZero, &kOne, &kZero, t, l.convolved.value.get(), t, l.out.value.get(), t,
      l.out.gradient.get(), t, addend == nullptr ? nullptr : addend->gradient.get(), t, l.convolved.gradient.get(),
      l.vector, number(vectors_, l.scale), number(vectors_, l.bias), number(vector_gradients_, l.scale),
      number(vector_gradients_, l.bias), kEpsilon, l.saved_mean.get(), l.saved_inv_variance.get(), relu_,
      workspace_.get(), workspace_bytes_, l.reserve.get(), l.reserve.bytes()));
  convolve_backward(l.convolution, x, l.convolved, adds ? 1.0f : 0.0f, &x != &images_);
}

void ResNet::learn(const std::vector<int>& labels, double rate) {
  // The gradient of the mean cross-entropy by the logits is (probability - [is it the label]) / batch; and all that
  // follows from it is kept times the loss scale.
  const float scale = loss_scale_->value();
  std::vector<float> ones(probabilities_.bytes() / sizeof(float));
  for (size_t i = 0; i < labels.size(); ++i)
    ones[i * static_cast<size_t>(spec_.classes) + static_cast<size_t>(labels[i])] = 1;
  logit_values_.upload(ones);
  const float plus = scale / static_cast<float>(batch_), minus = -plus;
  gpudnn::check(
      gpudnnAddTensor(handle_, &plus, logit_floats_, probabilities_.get(), &minus, logit_floats_, logit_values_.get()));
  gpudnn::check(gpudnnConvolutionBackwardBias(handle_, &kOne, logit_floats_, logit_values_.get(), &kZero,
                                              classifier_bias_, number(vector_gradients_, classifier_bias_at_)));
  gpudnn::check(gpudnnTransformTensor(handle_, &kOne, logit_floats_, logit_values_.get(), &kZero, logits_.layout,
                                      logits_.gradient.get()));
  convolve_backward(classifier_, mean_of_all_, logits_, 0, true);
  const Activation& last = blocks_.back().second.out;
  gpudnn::check(gpudnnPoolingBackward(handle_, mean_, &kOne, mean_of_all_.layout, mean_of_all_.value.get(),
                                      mean_of_all_.layout, mean_of_all_.gradient.get(), last.layout, last.value.get(),
                                      &kZero, last.layout, last.gradient.get()));
  for (size_t i = blocks_.size(); i-- > 0;) {
    Block& b = blocks_[i];
    const Activation& x = i > 0 ? blocks_[i - 1].second.out : pools_ ? pooled_ : stem_->out;
    // The addend's gradient comes first: that of x itself, or through the shortcut. The other path's is added to it.
    backward(b.second, b.first.out, b.shortcut ? &b.shortcut->out : &x, false);
    if (b.shortcut) backward(*b.shortcut, x, nullptr, false);
    backward(b.first, x, nullptr, true);
  }
  if (pools_) {
    const Activation& x = stem_->out;
    gpudnn::check(gpudnnPoolingBackward(handle_, pool_, &kOne, pooled_.layout, pooled_.value.get(), pooled_.layout,
                                        pooled_.gradient.get(), x.layout, x.value.get(), &kZero, x.layout,
                                        x.gradient.get()));
  }
  backward(*stem_, images_, nullptr, false);
  if (loss_scale_->accepts(weight_gradients_)) update(static_cast<float>(-rate), scale);
}

// velocity = momentum * velocity - rate * (gradient / scale + decay * parameter);  parameter = parameter + velocity.
// Only weights decay.
void ResNet::update(float minus_rate, float scale) {
  const float step = minus_rate / scale, decay = minus_rate * kWeightDecay;
  const gpudnn::TensorDescriptor floats = flat(GPUDNN_DATA_FLOAT, weight_count_),
                                 typed = flat(spec_.type, weight_count_),
                                 vectors = flat(GPUDNN_DATA_FLOAT, vector_count_);
  gpudnn::check(gpudnnTransformTensor(handle_, &step, typed, weight_gradients_.get(), &kMomentum, floats,
                                      weight_velocity_.get()));
  gpudnn::check(gpudnnAddTensor(handle_, &decay, floats, master_.get(), &kOne, floats, weight_velocity_.get()));
  gpudnn::check(gpudnnAddTensor(handle_, &kOne, floats, weight_velocity_.get(), &kOne, floats, master_.get()));
  gpudnn::check(gpudnnTransformTensor(handle_, &kOne, floats, master_.get(), &kZero, typed, weights_.get()));
  gpudnn::check(gpudnnTransformTensor(handle_, &step, vectors, vector_gradients_.get(), &kMomentum, vectors,
                                      vector_velocity_.get()));
  gpudnn::check(gpudnnAddTensor(handle_, &kOne, vectors, vector_velocity_.get(), &kOne, vectors, vectors_.get()));
}
