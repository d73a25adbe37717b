// The loss of telling one of several classes by scores: the mean over places of -log softmax(scores)[class that came].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <gpudnn/gpudnn.hpp>
#include <vector>

// A row of `classes` numbers for each place: 1 at the given class, else 0.
inline std::vector<float> one_hot(const std::vector<int>& came, int classes) {
  std::vector<float> values(came.size() * static_cast<size_t>(classes));
  for (size_t i = 0; i < came.size(); ++i) values[i * static_cast<size_t>(classes) + static_cast<size_t>(came[i])] = 1;
  return values;
}

class CrossEntropy {
 public:
  CrossEntropy(const gpudnn::Handle& handle, int places, int classes)
      : handle_(handle),
        classes_(classes),
        layout_(GPUDNN_DATA_FLOAT, {places, classes, 1, 1}),
        probabilities_(handle, layout_.bytes()) {}

  // The loss, and its gradient by the scores: (probability - [did it come]) / places. One combination of tensors makes
  // it of the probabilities and of the ones, which are put where the gradient is wanted.
  double operator()(const gpudnn::Buffer& scores, const std::vector<int>& came, const gpudnn::Buffer& gradient) const {
    const float one = 1, zero = 0;
    gpudnn::check(gpudnnSoftmaxForward(handle_, GPUDNN_SOFTMAX_ACCURATE, GPUDNN_SOFTMAX_MODE_CHANNEL, &one, layout_,
                                       scores.get(), &zero, layout_, probabilities_.get()));
    const std::vector<float> ones = one_hot(came, classes_);
    gpudnn::check(
        gpudnnMemcpy(handle_, gradient.get(), ones.data(), ones.size() * sizeof(float), GPUDNN_MEMCPY_HOST_TO_DEVICE));
    const float plus = 1 / static_cast<float>(came.size()), minus = -plus;
    gpudnn::check(gpudnnAddTensor(handle_, &plus, layout_, probabilities_.get(), &minus, layout_, gradient.get()));
    const std::vector<float> probabilities = probabilities_.download<float>();
    double sum = 0;
    for (size_t i = 0; i < came.size(); ++i) {
      const size_t at = i * static_cast<size_t>(classes_) + static_cast<size_t>(came[i]);
      sum -= std::log(std::max(probabilities[at], 1e-30f));
    }
    return sum / static_cast<double>(came.size());
  }

 private:
  const gpudnn::Handle& handle_;
  int classes_;
  gpudnn::TensorDescriptor layout_;
  gpudnn::Buffer probabilities_;
};
