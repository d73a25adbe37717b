// Dynamic loss scaling (Micikevicius et al. 2018) for training with gradients in half precision, whose smallest numbers
// are 6e-8 and whose largest is 65504: the loss, and with it every gradient, is multiplied by a factor that the update
// divides out again. Where a gradient overflows, the step is skipped and the factor halved; after 200 steps without an
// overflow it is doubled. So it stays near the largest that fits, and small gradients do not vanish.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <gpudnn/gpudnn.hpp>
#include <vector>

class LossScale {
 public:
  // For gradients that lie in one buffer. Gradients in float need no scale: it stays 1.
  LossScale(const gpudnn::Handle& handle, gpudnnDataType_t type, int count, float first)
      : handle_(handle),
        dynamic_(type != GPUDNN_DATA_FLOAT),
        value_(dynamic_ ? first : 1),
        layout_(type, {1, 1, 1, count}),
        largest_(handle, sizeof(float)) {
    gpudnn::check(gpudnnSetReduceTensorDescriptor(largest_of_, GPUDNN_REDUCE_TENSOR_AMAX, GPUDNN_DATA_FLOAT,
                                                  GPUDNN_PROPAGATE_NAN, GPUDNN_REDUCE_TENSOR_NO_INDICES,
                                                  GPUDNN_32BIT_INDICES));
    size_t bytes = 0;
    gpudnn::check(gpudnnGetReductionWorkspaceSize(handle, largest_of_, layout_, one_float_, &bytes));
    workspace_ = gpudnn::Buffer(handle, bytes);
  }

  float value() const { return value_; }
  // With the steps since its last change, to go on from an earlier training.
  struct State {
    float value;
    int steps;
  };
  State state() const { return {value_, steps_since_change_}; }
  void set_state(const State& state) {
    if (dynamic_) value_ = state.value, steps_since_change_ = state.steps;
  }
  int skipped() const { return skipped_; }

  // Whether a step may be made by these gradients, which are those of the loss times value(). Sets the next value.
  bool accepts(const gpudnn::Buffer& gradients) {
    if (!dynamic_) return true;
    const float one = 1, zero = 0;
    gpudnn::check(gpudnnReduceTensor(handle_, largest_of_, nullptr, 0, workspace_.get(), workspace_.bytes(), &one,
                                     layout_, gradients.get(), &zero, one_float_, largest_.get()));
    if (std::isfinite(largest_.download<float>()[0])) {
      if (++steps_since_change_ == kStepsToDouble) set_state({std::min(2 * value_, 0x1p30f), 0});
      return true;
    }
    ++skipped_;
    set_state({std::max(value_ / 2, 1.0f), 0});
    return false;
  }

 private:
  static constexpr int kStepsToDouble = 200;

  const gpudnn::Handle& handle_;
  bool dynamic_;
  float value_;
  int steps_since_change_ = 0, skipped_ = 0;
  gpudnn::TensorDescriptor layout_;
  gpudnn::TensorDescriptor one_float_ = gpudnn::TensorDescriptor(GPUDNN_DATA_FLOAT, {1, 1, 1, 1});
  gpudnn::ReduceTensorDescriptor largest_of_;
  gpudnn::Buffer largest_, workspace_;
};
