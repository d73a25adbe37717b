// The recurrent network's forward pass, backward pass and update.
// SPDX-License-Identifier: Apache-2.0
#include "sequence_network.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/random.hpp"

SequenceNetwork::SequenceNetwork(const gpudnn::Handle& handle, const SequenceSpec& spec, int steps, int batch)
    : handle_(handle), spec_(spec), steps_(steps), batch_(batch), width_(spec.hidden * spec.directions()) {
  gpudnn::check(gpudnnSetRNNDescriptor_v8(lstm_, GPUDNN_RNN_ALGO_STANDARD, GPUDNN_LSTM, GPUDNN_RNN_DOUBLE_BIAS,
                                          spec.both_directions ? GPUDNN_BIDIRECTIONAL : GPUDNN_UNIDIRECTIONAL,
                                          GPUDNN_LINEAR_INPUT, GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT,
                                          GPUDNN_DEFAULT_MATH, spec.inputs, spec.hidden, spec.hidden, spec.layers,
                                          nullptr, GPUDNN_RNN_PADDED_IO_ENABLED));
  gpudnn::check(gpudnnGetRNNWeightSpaceSize(handle, lstm_, &weight_bytes_));
  weight_bytes_ = (weight_bytes_ + 255) / 256 * 256;
  const size_t classes = static_cast<size_t>(spec.classes);
  matrix_bytes_ = (static_cast<size_t>(width_) * classes * sizeof(float) + 255) / 256 * 256;
  const size_t count = (weight_bytes_ + matrix_bytes_) / sizeof(float) + classes;
  parameters_ = gpudnn::Buffer(handle, std::vector<float>(count));
  gradients_ = gpudnn::Buffer(handle, std::vector<float>(count));
  adam_ = std::make_unique<Adam>(handle, count);

  const auto floats = [&](int a, int b, int c) { return gpudnn::Buffer(handle, sizeof(float) * a * b * c); };
  inputs_ = floats(steps, batch, spec.inputs);
  input_gradient_ = floats(steps, batch, spec.inputs);
  outputs_ = floats(steps, batch, width_);
  output_gradient_ = floats(steps, batch, width_);
  logits_ = floats(steps, batch, spec.classes);
  logit_gradient_ = floats(steps, batch, spec.classes);
  const int states = spec.layers * spec.directions();
  state_layout_.set(GPUDNN_DATA_FLOAT, {states, batch, spec.hidden});
  for (gpudnn::Buffer* state : {&hidden_before_, &hidden_after_, &cell_before_, &cell_after_}) {
    *state = floats(states, batch, spec.hidden);
  }

  const std::vector<int> longest(static_cast<size_t>(batch), steps);
  gpudnn::check(gpudnnSetRNNDataDescriptor(input_layout_, GPUDNN_DATA_FLOAT, GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                           steps, batch, spec.inputs, longest.data(), nullptr));
  size_t workspace_bytes = 0, reserve_bytes = 0;
  gpudnn::check(gpudnnGetRNNTempSpaceSizes(handle, lstm_, GPUDNN_FWD_MODE_TRAINING, input_layout_, &workspace_bytes,
                                           &reserve_bytes));
  workspace_ = gpudnn::Buffer(handle, workspace_bytes);
  reserve_ = gpudnn::Buffer(handle, reserve_bytes);
  build_readout();
}

void SequenceNetwork::build_readout() {
  const int64_t rows = int64_t{steps_} * batch_, width = width_, classes = spec_.classes;
  Readout& f = readout_;
  f.y = f.graph.tensor({{1, rows, width}});
  f.w = f.graph.tensor({{1, width, classes}});
  f.b = f.graph.tensor({{1, 1, classes}});
  f.logits = f.graph.add(f.graph.matmul(f.y, f.w), f.b);
  f.graph.build(handle_);
  f.workspace = gpudnn::Buffer(handle_, f.graph.workspace_size());

  ReadoutBackward& g = readout_backward_;
  g.dlogits = g.graph.tensor({{1, rows, classes}});
  g.y_transposed = g.graph.tensor({{1, width, rows}, false, {rows * width, 1, width}});
  g.w_transposed = g.graph.tensor({{1, classes, width}, false, {width * classes, 1, classes}});
  g.dy = g.graph.matmul(g.dlogits, g.w_transposed);
  g.dw = g.graph.matmul(g.y_transposed, g.dlogits);
  g.db = g.graph.reduce_sum(g.dlogits, {1});
  g.graph.build(handle_);
  g.workspace = gpudnn::Buffer(handle_, g.graph.workspace_size());
}

void SequenceNetwork::randomize(uint64_t seed) {
  Random random(seed);
  std::vector<float> values(parameters_.bytes() / sizeof(float));
  const double bound = 1 / std::sqrt(spec_.hidden);
  for (float& value : values) value = static_cast<float>(uniform(random, -bound, bound));
  set_parameters(values);

  // A forget gate that begins open lets the network remember before it has learned to.
  const std::vector<float> open(static_cast<size_t>(spec_.hidden), 1.0f);
  gpudnn::TensorDescriptor matrix_layout, bias_layout;
  for (int layer = 0; layer < spec_.layers * spec_.directions(); ++layer) {
    constexpr int kForgetGate = 1;
    void *matrix = nullptr, *bias = nullptr;
    gpudnn::check(gpudnnGetRNNWeightParams(handle_, lstm_, layer, weight_bytes_, parameters_.get(), kForgetGate,
                                           matrix_layout, &matrix, bias_layout, &bias));
    gpudnn::check(gpudnnMemcpy(handle_, bias, open.data(), open.size() * sizeof(float), GPUDNN_MEMCPY_HOST_TO_DEVICE));
  }
}

void SequenceNetwork::forward(const std::vector<float>& inputs, const std::vector<int>& lengths) {
  inputs_.upload(inputs);
  float padding = 0;
  gpudnn::check(gpudnnSetRNNDataDescriptor(input_layout_, GPUDNN_DATA_FLOAT, GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                           steps_, batch_, spec_.inputs, lengths.data(), nullptr));
  gpudnn::check(gpudnnSetRNNDataDescriptor(output_layout_, GPUDNN_DATA_FLOAT, GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                           steps_, batch_, width_, lengths.data(), &padding));
  std::swap(hidden_before_, hidden_after_);
  std::swap(cell_before_, cell_after_);
  went_on_ = std::exchange(goes_on_, true);
  gpudnn::check(
      gpudnnRNNForward(handle_, lstm_, GPUDNN_FWD_MODE_TRAINING, nullptr, input_layout_, inputs_.get(), output_layout_,
                       outputs_.get(), state_layout_, went_on_ ? hidden_before_.get() : nullptr, hidden_after_.get(),
                       state_layout_, went_on_ ? cell_before_.get() : nullptr, cell_after_.get(), weight_bytes_,
                       parameters_.get(), workspace_.bytes(), workspace_.get(), reserve_.bytes(), reserve_.get()));
  const Readout& f = readout_;
  f.graph.execute(handle_,
                  {{f.y, outputs_}, {f.w, readout(parameters_)}, {f.b, readout_bias(parameters_)}, {f.logits, logits_}},
                  f.workspace);
}

void SequenceNetwork::learn(double rate) {
  const ReadoutBackward& g = readout_backward_;
  g.graph.execute(handle_,
                  {{g.dlogits, logit_gradient_},
                   {g.y_transposed, outputs_},
                   {g.w_transposed, readout(parameters_)},
                   {g.dy, output_gradient_},
                   {g.dw, readout(gradients_)},
                   {g.db, readout_bias(gradients_)}},
                  g.workspace);
  const void* hidden = went_on_ ? hidden_before_.get() : nullptr;
  const void* cell = went_on_ ? cell_before_.get() : nullptr;
  gpudnn::check(gpudnnRNNBackwardData_v8(
      handle_, lstm_, nullptr, output_layout_, outputs_.get(), output_gradient_.get(), input_layout_,
      input_gradient_.get(), state_layout_, hidden, nullptr, nullptr, state_layout_, cell, nullptr, nullptr,
      weight_bytes_, parameters_.get(), workspace_.bytes(), workspace_.get(), reserve_.bytes(), reserve_.get()));
  // The gradients of the weights are added to what is there.
  const gpudnn::TensorDescriptor flat(GPUDNN_DATA_FLOAT, {1, 1, 1, static_cast<int>(weight_bytes_ / sizeof(float))});
  const float zero = 0;
  gpudnn::check(gpudnnSetTensor(handle_, flat, gradients_.get(), &zero));
  gpudnn::check(gpudnnRNNBackwardWeights_v8(handle_, lstm_, GPUDNN_WGRAD_MODE_ADD, nullptr, input_layout_,
                                            inputs_.get(), state_layout_, hidden, output_layout_, outputs_.get(),
                                            weight_bytes_, gradients_.get(), workspace_.bytes(), workspace_.get(),
                                            reserve_.bytes(), reserve_.get()));
  adam_->step(parameters_, gradients_, rate);
}
