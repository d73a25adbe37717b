// The steps of shared batch normalization: six graphs, of which each is one pass over memory.
// SPDX-License-Identifier: Apache-2.0
#include "common/batch_norm.hpp"

#include <vector>

using gpudnn::Tensor;

namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;  // the weight of a batch in the running statistics

}  // namespace

BatchNorm::BatchNorm(const gpudnn::Handle& handle, gpudnnDataType_t type, const std::array<int, 4>& dims,
                     Exchange& exchange)
    : handle_(handle),
      type_(type),
      dims_(dims),
      exchange_(exchange),
      elements_(static_cast<double>(exchange.count()) * dims[0] * dims[2] * dims[3]) {
  const size_t vector = vector_floats(dims[1]);
  std::vector<float> start(2 * vector, 0.0f);
  for (gpudnn::Buffer* pair : {&statistics_, &image_sums_, &gradient_sums_}) *pair = gpudnn::Buffer(handle, start);
  std::fill(start.begin() + static_cast<std::ptrdiff_t>(vector), start.end(), 1.0f);  // the first variance
  running_ = gpudnn::Buffer(handle, start);
  describe_measure();
  describe_update();
  describe_normalize();
  describe_infer();
  describe_sums();
  describe_gradient();
  for (Step* step : {&measure_, &update_, &normalize_, &infer_, &sums_, &gradient_}) build(*step);
}

Tensor BatchNorm::image(Step& step) const {
  return step.graph.tensor({{dims_[0], dims_[1], dims_[2], dims_[3]}}, type_);
}
Tensor BatchNorm::parameter(Step& step) const { return step.graph.tensor({{1, dims_[1], 1, 1}}, type_); }
Tensor BatchNorm::statistic(Step& step) const { return step.graph.tensor({{1, dims_[1], 1, 1}}, GPUDNN_DATA_FLOAT); }
void BatchNorm::build(Step& step) {
  step.graph.build(handle_);
  step.workspace = gpudnn::Buffer(handle_, step.graph.workspace_size());
}

// The sums of x - r and of its square, where r is the running mean, the same on all processes: near the mean, so that
// the variance is no small difference of large numbers.
void BatchNorm::describe_measure() {
  gpudnn::Graph& g = measure_.graph;
  measure_.x = image(measure_);
  measure_.running_mean = statistic(measure_);
  const Tensor distance = g.sub(measure_.x, measure_.running_mean);
  measure_.first = g.reduce_sum(distance, {0, 2, 3});
  measure_.second = g.reduce_sum(g.mul(distance, distance), {0, 2, 3});
}

// Mean and 1 / deviation from the sums, and the next running pair. Vectors of numbers for each channel.
void BatchNorm::describe_update() {
  Step& s = update_;
  gpudnn::Graph& g = s.graph;
  s.first = statistic(s), s.second = statistic(s);
  s.running_mean = statistic(s), s.running_variance = statistic(s);
  const Tensor shift = g.mul(s.first, 1 / elements_);
  const Tensor variance = g.max(g.sub(g.mul(s.second, 1 / elements_), g.mul(shift, shift)), 0.0);
  s.mean = g.add(s.running_mean, shift).set_output();
  s.inverse = g.rsqrt(g.add(variance, kEpsilon)).set_output();
  s.next_mean = g.add(s.running_mean, g.mul(shift, kMomentum));
  const Tensor unbiased = g.mul(variance, elements_ / (elements_ - 1));
  s.next_variance = g.add(g.mul(s.running_variance, 1 - kMomentum), g.mul(unbiased, kMomentum));
}

void BatchNorm::describe_normalize() {
  Step& s = normalize_;
  gpudnn::Graph& g = s.graph;
  s.x = image(s), s.mean = statistic(s), s.inverse = statistic(s), s.scale = parameter(s), s.bias = parameter(s);
  const Tensor normalized = g.mul(g.sub(s.x, s.mean), s.inverse);
  s.y = g.relu(g.add(g.mul(normalized, s.scale), s.bias)).set_output().set_type(type_);
}

void BatchNorm::describe_infer() {
  Step& s = infer_;
  gpudnn::Graph& g = s.graph;
  s.x = image(s), s.running_mean = statistic(s), s.running_variance = statistic(s);
  s.scale = parameter(s), s.bias = parameter(s);
  const Tensor normalized = g.mul(g.sub(s.x, s.running_mean), g.rsqrt(g.add(s.running_variance, kEpsilon)));
  s.y = g.relu(g.add(g.mul(normalized, s.scale), s.bias)).set_output().set_type(type_);
}

// Of g = dy where y is positive, and of g * (x - mean) / deviation: the gradients by bias and scale.
void BatchNorm::describe_sums() {
  Step& s = sums_;
  gpudnn::Graph& g = s.graph;
  s.x = image(s), s.y = image(s), s.dy = image(s), s.mean = statistic(s), s.inverse = statistic(s);
  const Tensor gradient = g.relu_backward(s.dy, s.y);
  s.first = g.reduce_sum(g.mul(gradient, g.mul(g.sub(s.x, s.mean), s.inverse)), {0, 2, 3});
  s.second = g.reduce_sum(gradient, {0, 2, 3});
}

// dx = scale / deviation * (g - mean(g) - normalized * mean(g * normalized)), with the means over all processes.
void BatchNorm::describe_gradient() {
  Step& s = gradient_;
  gpudnn::Graph& g = s.graph;
  s.x = image(s), s.y = image(s), s.dy = image(s), s.scale = parameter(s);
  s.mean = statistic(s), s.inverse = statistic(s), s.first = statistic(s), s.second = statistic(s);
  const Tensor gradient = g.relu_backward(s.dy, s.y);
  const Tensor normalized = g.mul(g.sub(s.x, s.mean), s.inverse);
  const Tensor along = g.mul(normalized, g.mul(s.first, 1 / elements_));
  const Tensor rest = g.sub(g.sub(gradient, g.mul(s.second, 1 / elements_)), along);
  s.dx = g.mul(rest, g.mul(s.scale, s.inverse)).set_output().set_type(type_);
}

void BatchNorm::forward(bool training, const void* x, const void* scale, const void* bias, void* y) {
  const size_t pair = 2 * vector_floats(dims_[1]);
  if (!training) {
    infer_.graph.execute(handle_,
                         {{infer_.x, x},
                          {infer_.running_mean, running_},
                          {infer_.running_variance, second(running_)},
                          {infer_.scale, scale},
                          {infer_.bias, bias},
                          {infer_.y, y}},
                         infer_.workspace);
    return;
  }
  measure_.graph.execute(handle_,
                         {{measure_.x, x},
                          {measure_.running_mean, running_},
                          {measure_.first, image_sums_},
                          {measure_.second, second(image_sums_)}},
                         measure_.workspace);
  exchange_.sum(image_sums_.get(), pair, GPUDNN_DATA_FLOAT);
  update_.graph.execute(handle_,
                        {{update_.first, image_sums_},
                         {update_.second, second(image_sums_)},
                         {update_.running_mean, running_},
                         {update_.running_variance, second(running_)},
                         {update_.mean, statistics_},
                         {update_.inverse, second(statistics_)},
                         {update_.next_mean, running_},
                         {update_.next_variance, second(running_)}},
                        update_.workspace);
  normalize_.graph.execute(handle_,
                           {{normalize_.x, x},
                            {normalize_.mean, statistics_},
                            {normalize_.inverse, second(statistics_)},
                            {normalize_.scale, scale},
                            {normalize_.bias, bias},
                            {normalize_.y, y}},
                           normalize_.workspace);
}

void BatchNorm::backward(const void* x, const void* y, const void* dy, const void* scale, void* dx) {
  sums_.graph.execute(handle_,
                      {{sums_.x, x},
                       {sums_.y, y},
                       {sums_.dy, dy},
                       {sums_.mean, statistics_},
                       {sums_.inverse, second(statistics_)},
                       {sums_.first, gradient_sums_},
                       {sums_.second, second(gradient_sums_)}},
                      sums_.workspace);
  exchange_.sum(gradient_sums_.get(), 2 * vector_floats(dims_[1]), GPUDNN_DATA_FLOAT);
  gradient_.graph.execute(handle_,
                          {{gradient_.x, x},
                           {gradient_.y, y},
                           {gradient_.dy, dy},
                           {gradient_.scale, scale},
                           {gradient_.mean, statistics_},
                           {gradient_.inverse, second(statistics_)},
                           {gradient_.first, gradient_sums_},
                           {gradient_.second, second(gradient_sums_)},
                           {gradient_.dx, dx}},
                          gradient_.workspace);
}
