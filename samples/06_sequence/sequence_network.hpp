// A recurrent network on batches of sequences, trained by Adam: LSTM layers, and a linear layer on the output of every
// step that gives a score (logit) to each class. What the scores mean, and the loss, is the caller's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <gpudnn/gpudnn.hpp>
#include <vector>

#include "common/adam.hpp"

struct SequenceSpec {
  int inputs;   // numbers a step
  int hidden;   // units of an LSTM layer, in each direction
  int layers;   // of LSTM
  int classes;  // scores a step
  bool both_directions = false;

  int directions() const { return both_directions ? 2 : 1; }
};

class SequenceNetwork {
 public:
  // For `batch` sequences of up to `steps` steps at a time.
  SequenceNetwork(const gpudnn::Handle& handle, const SequenceSpec& spec, int steps, int batch);

  void randomize(uint64_t seed);
  std::vector<float> parameters() const { return parameters_.download<float>(); }
  void set_parameters(const std::vector<float>& values) { parameters_.upload(values); }

  // From now on sequences begin anew; else each one goes on where the last call of forward() left it.
  void forget() { goes_on_ = false; }

  // Takes steps x batch x inputs numbers, and each sequence's length: what lies behind it is not looked at.
  void forward(const std::vector<float>& inputs, const std::vector<int>& lengths);

  // After forward(): steps x batch x classes; behind a sequence's end they mean nothing. The gradient of the loss by
  // them is the caller's to fill in, with zeros behind the ends; learn() then makes one step of training.
  const gpudnn::Buffer& logits() const { return logits_; }
  const gpudnn::Buffer& logit_gradient() const { return logit_gradient_; }
  void learn(double rate);

 private:
  void build_readout();
  void* readout(const gpudnn::Buffer& buffer) const { return static_cast<char*>(buffer.get()) + weight_bytes_; }
  void* readout_bias(const gpudnn::Buffer& buffer) const { return static_cast<char*>(readout(buffer)) + matrix_bytes_; }

  const gpudnn::Handle& handle_;
  SequenceSpec spec_;
  int steps_, batch_;
  int width_;  // of the LSTM's output
  gpudnn::RnnDescriptor lstm_;
  gpudnn::RnnDataDescriptor input_layout_, output_layout_;
  gpudnn::TensorDescriptor state_layout_;
  // The LSTM's weights as the library lays them out, then the linear layer's matrix and bias, each at a multiple of 256
  // bytes.
  size_t weight_bytes_ = 0, matrix_bytes_ = 0;
  gpudnn::Buffer parameters_, gradients_;
  gpudnn::Buffer inputs_, outputs_, output_gradient_, input_gradient_, logits_, logit_gradient_;
  // Of the states at the beginning and the end of the last call.
  gpudnn::Buffer hidden_before_, hidden_after_, cell_before_, cell_after_;
  bool goes_on_ = false, went_on_ = false;
  gpudnn::Buffer workspace_, reserve_;
  // The linear layer: y w + b, and its gradients.
  struct Readout {
    gpudnn::Graph graph;
    gpudnn::Tensor y, w, b, logits;
    gpudnn::Buffer workspace;
  } readout_;
  struct ReadoutBackward {
    gpudnn::Graph graph;
    gpudnn::Tensor dlogits, y_transposed, w_transposed, dy, dw, db;
    gpudnn::Buffer workspace;
  } readout_backward_;
  std::unique_ptr<Adam> adam_;
};
