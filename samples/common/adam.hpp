// Adam (Kingma & Ba 2015) on a flat buffer of parameters, as one graph of pointwise operations: one pass over memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <gpudnn/gpudnn.hpp>
#include <vector>

class Adam {
 public:
  // Of `count` floats.
  Adam(const gpudnn::Handle& handle, size_t count)
      : handle_(handle),
        moment_(handle, std::vector<float>(count)),
        square_(handle, std::vector<float>(count)),
        rate_(handle, sizeof(float)) {
    const auto vector = [&] { return graph_.tensor({{1, 1, static_cast<int64_t>(count)}}); };
    const auto towards = [&](gpudnn::Tensor from, gpudnn::Tensor to, double share) {
      return graph_.add(from, graph_.mul(graph_.sub(to, from), share)).set_output();
    };
    parameters_ = vector(), gradients_ = vector(), old_moment_ = vector(), old_square_ = vector();
    rate_tensor_ = graph_.tensor({{1, 1, 1}});
    new_moment_ = towards(old_moment_, gradients_, 1 - kDecay);
    new_square_ = towards(old_square_, graph_.mul(gradients_, gradients_), 1 - kSquareDecay);
    const gpudnn::Tensor step = graph_.div(new_moment_, graph_.add(graph_.sqrt(new_square_), 1e-8));
    result_ = graph_.sub(parameters_, graph_.mul(step, rate_tensor_));
    graph_.build(handle);
    workspace_ = gpudnn::Buffer(handle, graph_.workspace_size());
  }

  // One step against the gradients. Each result takes the place of what it was made of, element by element.
  void step(const gpudnn::Buffer& parameters, const gpudnn::Buffer& gradients, double rate) {
    ++steps_;
    // The averages begin at 0; this makes up for it.
    rate *= std::sqrt(1 - std::pow(kSquareDecay, steps_)) / (1 - std::pow(kDecay, steps_));
    rate_.upload(std::vector<float>{static_cast<float>(rate)});
    graph_.execute(handle_,
                   {{parameters_, parameters},
                    {gradients_, gradients},
                    {old_moment_, moment_},
                    {old_square_, square_},
                    {rate_tensor_, rate_},
                    {new_moment_, moment_},
                    {new_square_, square_},
                    {result_, parameters}},
                   workspace_);
  }

 private:
  static constexpr double kDecay = 0.9, kSquareDecay = 0.99;
  const gpudnn::Handle& handle_;
  gpudnn::Graph graph_;
  gpudnn::Tensor parameters_, gradients_, old_moment_, old_square_, rate_tensor_, new_moment_, new_square_, result_;
  gpudnn::Buffer moment_, square_, rate_, workspace_;
  int steps_ = 0;
};
