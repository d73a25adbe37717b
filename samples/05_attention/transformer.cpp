// The transformer's stages. All of them see a batch as rows, one for each character: {1, batch * length, columns}; only
// the attention sees batch, heads, length and size of a head, in the same memory by other strides.
// SPDX-License-Identifier: Apache-2.0
#include "transformer.hpp"

#include <cmath>

#include "common/random.hpp"

using gpudnn::Tensor;

namespace {

float* floats(const gpudnn::Buffer& buffer, size_t offset = 0) { return static_cast<float*>(buffer.get()) + offset; }

}  // namespace

// --- what the network has -------------------------------------------------------------------------------------------

Transformer::Transformer(const gpudnn::Handle& handle, const TransformerSpec& spec, int batch)
    : handle_(handle), spec_(spec), batch_(batch), rows_(batch * spec.length) {
  // A character goes in as two ones: one for what it is, one for its place. One matrix makes a vector of both.
  embedding_ = parameter(spec.symbols + spec.length, spec.width, 0.02f);
  embedded_ = activation(spec.width);
  const float deviation = 1 / std::sqrt(static_cast<float>(spec.width));
  for (int i = 0; i < spec.blocks; ++i) {
    Block& b = blocks_.emplace_back();
    // What is added up over the blocks begins small.
    const float added = deviation / std::sqrt(2.0f * static_cast<float>(spec.blocks));
    b.norm1 = norm();
    b.to_qkv = linear(spec.width, 3 * spec.width, deviation);
    b.qkv = activation(3 * spec.width);
    b.heads = activation(spec.width);
    b.statistics = gpudnn::Buffer(handle, sizeof(float) * static_cast<size_t>(rows_ * spec.heads));
    b.from_heads = linear(spec.width, spec.width, added);
    b.middle = activation(spec.width);
    b.norm2 = norm();
    b.widen = linear(spec.width, 4 * spec.width, deviation);
    b.wide = activation(4 * spec.width);
    b.active = activation(4 * spec.width);
    b.narrow = linear(4 * spec.width, spec.width, added / 2);
    b.out = activation(spec.width);
  }
  last_norm_ = norm();
  to_logits_ = linear(spec.width, spec.symbols, deviation);
  logits_ = gpudnn::Buffer(handle, sizeof(float) * static_cast<size_t>(rows_ * spec.symbols));
  logit_gradient_ = gpudnn::Buffer(handle, logits_.bytes());
  one_hot_ = gpudnn::Buffer(handle, sizeof(float) * static_cast<size_t>(rows_ * embedding_.rows));
  parameters_ = gpudnn::Buffer(handle, std::vector<float>(size_));
  gradients_ = gpudnn::Buffer(handle, std::vector<float>(size_));
  adam_ = std::make_unique<Adam>(handle, size_);

  // The stages refer to the memory above, which stays where it is.
  build_ends();
}

Transformer::Parameter Transformer::parameter(int rows, int columns, float deviation, float start) {
  const Parameter made{rows, columns, deviation, start, size_};
  size_ +=
      (static_cast<size_t>(rows) * static_cast<size_t>(columns) + 63) / 64 * 64;  // each at a multiple of 256 bytes
  return all_.emplace_back(made);
}
Transformer::Linear Transformer::linear(int from, int to, float deviation) {
  return {parameter(from, to, deviation), parameter(1, to, 0)};
}
Transformer::Norm Transformer::norm() {
  const size_t bytes = sizeof(float) * static_cast<size_t>(rows_);
  return {parameter(1, spec_.width, 0, 1), parameter(1, spec_.width, 0), gpudnn::Buffer(handle_, bytes),
          gpudnn::Buffer(handle_, bytes), activation(spec_.width)};
}
Transformer::Activation Transformer::activation(int columns) {
  const size_t bytes = sizeof(float) * static_cast<size_t>(rows_) * static_cast<size_t>(columns);
  return {columns, gpudnn::Buffer(handle_, bytes), gpudnn::Buffer(handle_, bytes)};
}

void Transformer::randomize(uint64_t seed) {
  Random random(seed);
  std::vector<float> values(size_);
  for (const Parameter& p : all_) {
    for (size_t i = 0; i < static_cast<size_t>(p.rows * p.columns); ++i) {
      // Uniform, with that standard deviation.
      const double bound = std::sqrt(3.0) * static_cast<double>(p.deviation);
      values[p.offset + i] = p.start + static_cast<float>(uniform(random, -bound, bound));
    }
  }
  set_parameters(values);
}

// --- the pieces of a stage ------------------------------------------------------------------------------------------

Tensor Transformer::value_of(Stage& stage, const Activation& a) const {
  return stage.in(floats(a.value), {1, rows_, a.columns});
}
Tensor Transformer::gradient_of(Stage& stage, const Activation& a) const {
  return stage.in(floats(a.gradient), {1, rows_, a.columns});
}
Tensor Transformer::value_of(Stage& stage, const Parameter& p) const {
  return stage.in(floats(parameters_, p.offset), {1, p.rows, p.columns});
}
void Transformer::put(Stage& stage, Tensor tensor, const Activation& a) const { stage.out(tensor, floats(a.value)); }
void Transformer::put_gradient(Stage& stage, Tensor tensor, const Activation& a) const {
  stage.out(tensor, floats(a.gradient));
}
void Transformer::put_gradient(Stage& stage, Tensor tensor, const Parameter& p) const {
  stage.out(tensor, floats(gradients_, p.offset));
}

// y = x w + b
Tensor Transformer::apply(Stage& stage, const Linear& l, Tensor x) const {
  return stage.graph.add(stage.graph.matmul(x, value_of(stage, l.weights)), value_of(stage, l.bias));
}
// dw = x^T dy, db = sum of dy; returns dx = dy w^T.
Tensor Transformer::apply_backward(Stage& stage, const Linear& l, Tensor dy, const Activation& x) const {
  gpudnn::Graph& g = stage.graph;
  put_gradient(stage, g.matmul(g.transpose(value_of(stage, x)), dy), l.weights);
  put_gradient(stage, g.reduce_sum(dy, {1}), l.bias);
  return g.matmul(dy, g.transpose(value_of(stage, l.weights)));
}

// The normalized rows are an output too: the gradient of what reads them needs them.
Tensor Transformer::apply(Stage& stage, const Norm& n, Tensor x) const {
  gpudnn::NormOptions options;
  options.statistics = true;
  const gpudnn::NormResult made = stage.graph.layer_norm(x, value_of(stage, n.scale), value_of(stage, n.bias), options);
  stage.out(made.mean, floats(n.mean));
  stage.out(made.inv_variance, floats(n.inv_variance));
  put(stage, made.y, n.out);
  return made.y;
}
Tensor Transformer::apply_backward(Stage& stage, const Norm& n, Tensor dy, Tensor x) const {
  const Tensor mean = stage.in(floats(n.mean), {1, rows_, 1});
  const Tensor inv_variance = stage.in(floats(n.inv_variance), {1, rows_, 1});
  const gpudnn::NormGradients made =
      stage.graph.norm_backward(GPUDNN_LAYER_NORM, dy, x, value_of(stage, n.scale), mean, inv_variance);
  put_gradient(stage, made.dscale, n.scale);
  put_gradient(stage, made.dbias, n.bias);
  return made.dx;
}

// q, k or v as the attention sees it: a third of each row of qkv, with the heads side by side in it.
Tensor Transformer::part_of_qkv(Stage& stage, const Block& b, int which) const {
  const int64_t width = spec_.width, size = spec_.width / spec_.heads;
  return stage.in(floats(b.qkv.value, static_cast<size_t>(which * width)), {batch_, spec_.heads, spec_.length, size},
                  {spec_.length * 3 * width, size, 3 * width, 1});
}

// --- the stages -----------------------------------------------------------------------------------------------------

// middle = x + heads(attention(norm(x)));  out = middle + narrow(gelu(widen(norm(middle))))
void Transformer::build_block(const Block& b, const Activation& x) {
  const int64_t width = spec_.width, size = spec_.width / spec_.heads;
  const gpudnn::Extents by_heads = {batch_, spec_.heads, spec_.length, size};
  const gpudnn::Extents packed = {spec_.length * width, size, width, 1};
  gpudnn::AttentionOptions options;
  options.causal = true;
  options.statistics = true;
  {
    Stage& s = forward_stage();
    put(s, apply(s, b.to_qkv, apply(s, b.norm1, value_of(s, x))), b.qkv);
  }
  {
    Stage& s = forward_stage();
    gpudnn::AttentionResult made =
        s.graph.attention(part_of_qkv(s, b, 0), part_of_qkv(s, b, 1), part_of_qkv(s, b, 2), options);
    put(s, made.o.set_strides(packed), b.heads);
    s.out(made.statistics, floats(b.statistics));
  }
  {
    Stage& s = forward_stage();
    const Tensor middle = s.graph.add(value_of(s, x), apply(s, b.from_heads, value_of(s, b.heads)));
    put(s, middle, b.middle);
    const Tensor wide = apply(s, b.widen, apply(s, b.norm2, middle));
    put(s, wide, b.wide);
    const Tensor active = s.graph.gelu(wide);
    put(s, active, b.active);
    put(s, s.graph.add(middle, apply(s, b.narrow, active)), b.out);
  }

  // Backward, to be run from the last to the first.
  {
    Stage& s = backward_stage();
    const Tensor dhidden = apply_backward(s, b.to_qkv, gradient_of(s, b.qkv), b.norm1.out);
    const Tensor dx = apply_backward(s, b.norm1, dhidden, value_of(s, x));
    put_gradient(s, s.graph.add(gradient_of(s, b.middle), dx), x);
  }
  {
    Stage& s = backward_stage();
    gpudnn::AttentionGradients made = s.graph.attention_backward(
        part_of_qkv(s, b, 0), part_of_qkv(s, b, 1), part_of_qkv(s, b, 2), s.in(floats(b.heads.value), by_heads, packed),
        s.in(floats(b.heads.gradient), by_heads, packed),
        s.in(floats(b.statistics), {batch_, spec_.heads, spec_.length, 1}), options);
    int which = 0;
    for (Tensor* t : {&made.dq, &made.dk, &made.dv}) {
      t->set_strides({spec_.length * 3 * width, size, 3 * width, 1});
      s.out(*t, floats(b.qkv.gradient, static_cast<size_t>(which++ * width)));
    }
  }
  {
    Stage& s = backward_stage();
    const Tensor dout = gradient_of(s, b.out);
    const Tensor dwide = s.graph.gelu_backward(apply_backward(s, b.narrow, dout, b.active), value_of(s, b.wide));
    const Tensor dhidden = apply_backward(s, b.widen, dwide, b.norm2.out);
    const Tensor dmiddle = s.graph.add(dout, apply_backward(s, b.norm2, dhidden, value_of(s, b.middle)));
    put_gradient(s, dmiddle, b.middle);
    put_gradient(s, apply_backward(s, b.from_heads, dmiddle, b.heads), b.heads);
  }
}

// Characters to vectors, the blocks, and vectors to scores.
void Transformer::build_ends() {
  {
    Stage& s = forward_stage();
    const Tensor ones = s.in(floats(one_hot_), {1, rows_, embedding_.rows});
    put(s, s.graph.matmul(ones, value_of(s, embedding_)), embedded_);
  }
  {
    Stage& s = backward_stage();
    const Tensor ones = s.in(floats(one_hot_), {1, rows_, embedding_.rows});
    put_gradient(s, s.graph.matmul(s.graph.transpose(ones), gradient_of(s, embedded_)), embedding_);
  }
  const Activation* x = &embedded_;
  for (const Block& b : blocks_) {
    build_block(b, *x);
    x = &b.out;
  }
  {
    Stage& s = forward_stage();
    s.out(apply(s, to_logits_, apply(s, last_norm_, value_of(s, *x))), floats(logits_));
  }
  {
    Stage& s = backward_stage();
    const Tensor dlogits = s.in(floats(logit_gradient_), {1, rows_, spec_.symbols});
    const Tensor dhidden = apply_backward(s, to_logits_, dlogits, last_norm_.out);
    put_gradient(s, apply_backward(s, last_norm_, dhidden, value_of(s, *x)), *x);
  }
  for (const auto& stage : forward_) stage->build();
  for (const auto& stage : backward_) stage->build();
}

// --- a step of training ---------------------------------------------------------------------------------------------

void Transformer::forward(const std::vector<int>& symbols) {
  std::vector<float> ones(one_hot_.bytes() / sizeof(float));
  for (size_t row = 0; row < symbols.size(); ++row) {
    float* const at = ones.data() + row * static_cast<size_t>(embedding_.rows);
    at[symbols[row]] = 1;
    at[spec_.symbols + static_cast<int>(row) % spec_.length] = 1;
  }
  one_hot_.upload(ones);
  for (const auto& stage : forward_) stage->run();
}

void Transformer::learn(double rate) {
  for (auto stage = backward_.rbegin(); stage != backward_.rend(); ++stage) (*stage)->run();
  adam_->step(parameters_, gradients_, rate);
}
