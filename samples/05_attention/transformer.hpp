// A small transformer language model (the decoder of Vaswani et al. 2017, with layer normalization first), computed by
// graphs of gpudnn.hpp: each stage of the network is one graph forward and one backward, made once, run every step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <gpudnn/gpudnn.hpp>
#include <memory>
#include <vector>

#include "common/adam.hpp"

struct TransformerSpec {
  int symbols;  // different characters
  int length;   // characters that it sees at once
  int width;    // numbers that stand for a character between the blocks
  int heads;
  int blocks;
};

// A graph, and the memory that each of its inputs and outputs has for good.
class Stage {
 public:
  explicit Stage(const gpudnn::Handle& handle) : handle_(handle) {}
  gpudnn::Graph graph;

  gpudnn::Tensor in(const float* data, const gpudnn::Extents& dims, const gpudnn::Extents& strides = {}) {
    const gpudnn::Tensor tensor = graph.tensor({dims, false, strides});
    bindings_.emplace_back(tensor, data);
    return tensor;
  }
  void out(gpudnn::Tensor tensor, float* data) {
    tensor.set_output();
    bindings_.emplace_back(tensor, data);
  }
  void build() {
    graph.build(handle_);
    workspace_ = gpudnn::Buffer(handle_, graph.workspace_size());
  }
  void run() const { graph.execute(handle_, bindings_, workspace_); }

 private:
  const gpudnn::Handle& handle_;
  std::vector<gpudnn::Binding> bindings_;
  gpudnn::Buffer workspace_;
};

class Transformer {
 public:
  // Works on `batch` pieces of spec.length characters at a time.
  Transformer(const gpudnn::Handle& handle, const TransformerSpec& spec, int batch);

  void randomize(uint64_t seed);
  std::vector<float> parameters() const { return parameters_.download<float>(); }
  void set_parameters(const std::vector<float>& values) { parameters_.upload(values); }
  size_t parameter_count() const { return parameters_.bytes() / sizeof(float); }

  // batch x length characters; logits() has a row of scores for what follows each of them.
  void forward(const std::vector<int>& symbols);
  const gpudnn::Buffer& logits() const { return logits_; }

  // The gradient of the loss by the scores is the caller's to fill in; learn() then makes one step of training.
  const gpudnn::Buffer& logit_gradient() const { return logit_gradient_; }
  void learn(double rate);

 private:
  // A matrix or vector of parameters with its gradient, both in the flat buffers.
  struct Parameter {
    int rows, columns;
    float deviation;  // of its random first values; 0: `start` for all of them
    float start;
    size_t offset;
  };
  // A tensor between stages, rows x columns, with the gradient of the loss by it.
  struct Activation {
    int columns;
    gpudnn::Buffer value, gradient;
  };
  struct Norm {
    Parameter scale, bias;
    gpudnn::Buffer mean, inv_variance;
    Activation out;
  };
  struct Linear {
    Parameter weights, bias;
  };
  struct Block {
    Norm norm1, norm2;
    Linear to_qkv, from_heads, widen, narrow;
    Activation qkv, heads, middle, wide, active, out;  // `middle` is after the attention, `out` after the block
    gpudnn::Buffer statistics;
  };

  Parameter parameter(int rows, int columns, float deviation, float start = 0);
  Linear linear(int from, int to, float deviation);
  Norm norm();
  Activation activation(int columns);

  // The pieces that the stages are built of, forward and backward.
  gpudnn::Tensor value_of(Stage& stage, const Activation& a) const;
  gpudnn::Tensor gradient_of(Stage& stage, const Activation& a) const;
  gpudnn::Tensor value_of(Stage& stage, const Parameter& p) const;
  void put(Stage& stage, gpudnn::Tensor tensor, const Activation& a) const;
  void put_gradient(Stage& stage, gpudnn::Tensor tensor, const Activation& a) const;
  void put_gradient(Stage& stage, gpudnn::Tensor tensor, const Parameter& p) const;
  gpudnn::Tensor apply(Stage& stage, const Linear& l, gpudnn::Tensor x) const;
  gpudnn::Tensor apply_backward(Stage& stage, const Linear& l, gpudnn::Tensor dy, const Activation& x) const;
  gpudnn::Tensor apply(Stage& stage, const Norm& n, gpudnn::Tensor x) const;
  gpudnn::Tensor apply_backward(Stage& stage, const Norm& n, gpudnn::Tensor dy, gpudnn::Tensor x) const;
  gpudnn::Tensor part_of_qkv(Stage& stage, const Block& b, int which) const;

  void build_block(const Block& b, const Activation& x);
  void build_ends();
  Stage& forward_stage() { return *forward_.emplace_back(std::make_unique<Stage>(handle_)); }
  Stage& backward_stage() { return *backward_.emplace_back(std::make_unique<Stage>(handle_)); }

  const gpudnn::Handle& handle_;
  TransformerSpec spec_;
  int batch_, rows_;
  std::vector<Parameter> all_;
  size_t size_ = 0;  // of all parameters, in floats
  gpudnn::Buffer parameters_, gradients_;
  gpudnn::Buffer one_hot_;
  Parameter embedding_;
  Activation embedded_;
  std::vector<Block> blocks_;
  Norm last_norm_;
  Linear to_logits_;
  gpudnn::Buffer logits_, logit_gradient_;
  std::vector<std::unique_ptr<Stage>> forward_, backward_;  // the latter from the first layer to the last, too
  std::unique_ptr<Adam> adam_;
};
