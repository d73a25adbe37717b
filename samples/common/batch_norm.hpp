// Batch normalization, then ReLU, by the statistics of the images of all processes that train one network: each sums up
// its own images, the sums are exchanged, and each normalizes its own. Backward it is the same with two sums of
// gradients. A single process exchanges nothing, and has batch normalization as it always is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <gpudnn/gpudnn.hpp>

#include "common/exchange.hpp"

class BatchNorm {
 public:
  // Of images {n, c, h, w}, packed in that order, in `type`, as are scale and bias; n on each process.
  BatchNorm(const gpudnn::Handle& handle, gpudnnDataType_t type, const std::array<int, 4>& dims, Exchange& exchange);

  // y = relu((x - mean) / sqrt(variance + epsilon) * scale + bias). In training by the batch's mean and variance, else
  // by what they were on average.
  void forward(bool training, const void* x, const void* scale, const void* bias, void* y);
  // After forward in training: dx.
  void backward(const void* x, const void* y, const void* dy, const void* scale, void* dx);

  // After backward, the sums over all processes: the gradient by the scale, and `vector_floats(c)` further on that by
  // the bias. Float.
  const gpudnn::Buffer& parameter_gradients() const { return gradient_sums_; }
  // Room for a number of each channel, at a multiple of 256 bytes.
  static constexpr size_t vector_floats(int channels) { return (static_cast<size_t>(channels) + 63) / 64 * 64; }

 private:
  // A graph, its memory for what lies between operations, and the tensors of it that calls bring.
  struct Step {
    gpudnn::Graph graph;
    gpudnn::Buffer workspace;
    gpudnn::Tensor x, y, dy, dx, scale, bias;
    gpudnn::Tensor mean, inverse, running_mean, running_variance, next_mean, next_variance;
    gpudnn::Tensor first, second;  // of the two sums
  };
  gpudnn::Tensor image(Step& step) const;
  gpudnn::Tensor parameter(Step& step) const;
  gpudnn::Tensor statistic(Step& step) const;
  void build(Step& step);
  void describe_measure();
  void describe_update();
  void describe_normalize();
  void describe_infer();
  void describe_sums();
  void describe_gradient();
  float* second(const gpudnn::Buffer& pair) const { return static_cast<float*>(pair.get()) + vector_floats(dims_[1]); }

  const gpudnn::Handle& handle_;
  gpudnnDataType_t type_;
  std::array<int, 4> dims_;
  Exchange& exchange_;
  double elements_;  // of a channel, on all processes
  Step measure_, update_, normalize_, infer_, sums_, gradient_;
  // Pairs of vectors: mean and variance, or the reciprocal deviation; and sums.
  gpudnn::Buffer running_, statistics_, image_sums_, gradient_sums_;
};
