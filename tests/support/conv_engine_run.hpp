// A convolution engine in one of its configs, run by its own entry points on guarded memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/conv/engine.hpp"
#include "support/naive.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {

// What a case's engines read, in place once for all of them.
class Inputs {
 public:
  Inputs(const Backend& backend, const ConvCase& c, const Values& values, Placement where = Placement::aligned) {
    const conv::Problem& p = c.problem;
    TensorGeometry bias;
    bias.type = p.float_vectors != 0 ? GPUDNN_DATA_FLOAT : p.y.type;
    bias.rank = 1;
    bias.dims[0] = p.w.dims[0];
    bias.strides[0] = p.bias_stride;
    const auto place = [&](const TensorGeometry& geometry, const std::vector<double>& elements) -> const void* {
      if (elements.empty()) return nullptr;
      tensors_.push_back(std::make_unique<DeviceTensor>(backend, geometry, &elements, where));
      return tensors_.back()->data();
    };
    args_.alpha = c.alpha;
    args_.beta = c.beta;
    args_.alpha2 = c.alpha2;
    args_.activation_coef = c.coef;
    args_.relu_slope = c.slope;
    output_ = std::make_shared<TensorBytes>(output_of(p), values.out.empty() ? nullptr : &values.out);
    args_.x = place(p.x, values.x);
    args_.w = place(p.w, values.w);
    args_.y = place(p.y, values.y);
    args_.z = place(p.z, values.z);
    args_.bias = place(bias, values.bias);
    bias.strides[0] = p.scale_stride;
    args_.scale = place(bias, values.scale);
  }

  // The output before a launch.
  [[nodiscard]] const std::shared_ptr<const TensorBytes>& output() const { return output_; }
  // All but the output.
  [[nodiscard]] const conv::Args& args() const { return args_; }
  // What was written that must not be; empty if nothing.
  [[nodiscard]] std::string damage() const {
    std::string found;
    for (const auto& tensor : tensors_) {
      if (found.empty()) found = tensor->damage_anywhere();
    }
    return found;
  }

 private:
  std::vector<std::unique_ptr<DeviceTensor>> tensors_;
  std::shared_ptr<const TensorBytes> output_;
  conv::Args args_;
};

// One engine in one configuration: its own entry points, without the API and the plan cache.
class EngineRun {
 public:
  EngineRun(const Backend& backend, const conv::ConvEngine& engine, const conv::Candidate& candidate, const ConvCase& c,
            const Inputs& inputs, Placement place = Placement::aligned, bool with_sums = false)
      : backend_(backend),
        engine_(engine),
        inputs_(inputs),
        workspace_(backend, candidate.workspace + (with_sums ? sums_workspace(candidate, c) : 0), 0,
                   place == Placement::ends_mapping, 256),
        out_(backend, inputs.output(), place),
        prepared_(engine.prepare(c.problem, candidate.config, *backend.handle()->device)),
        args_(inputs.args()) {
    args_.out = out_.data();
    if (!with_sums) return;
    TensorGeometry channels;
    channels.type = GPUDNN_DATA_FLOAT;
    channels.rank = 1;
    channels.dims[0] = c.problem.y.dims[1];
    channels.strides[0] = 1;
    for (auto* tensor : {&sum_, &squares_}) *tensor = std::make_unique<DeviceTensor>(backend, channels, nullptr);
    args_.sum = static_cast<float*>(sum_->data());
    args_.squares = static_cast<float*>(squares_->data());
  }

  // Of the sums by channel; 0 where the config has none.
  [[nodiscard]] static std::size_t sums_workspace(const conv::Candidate& candidate, const ConvCase& c) {
    return conv::sums_workspace(c.problem, candidate.config, *Backend::at_hand().handle()->device);
  }
  [[nodiscard]] std::vector<double> sums() const { return sum_->values(); }
  [[nodiscard]] std::vector<double> squares() const { return squares_->values(); }

  // With the output's values, or without where its bytes are wanted alone.
  Outcome launch(bool with_values = true) {
    Outcome outcome;
    outcome.status =
        engine_.launch(launch_site(backend_.handle(), workspace_.data(), workspace_.bytes()), prepared_.get(), args_);
    if (outcome.status != GPUDNN_STATUS_SUCCESS) outcome.text = take_error_text();
    if (with_values) outcome.values = out_.values();
    return outcome;
  }

  [[nodiscard]] std::vector<unsigned char> output_bytes() const { return out_.image(); }
  [[nodiscard]] std::vector<double> values_of(const std::vector<unsigned char>& bytes) const {
    return out_.values_of(bytes);
  }

  // What was written that must not be; empty if nothing.
  [[nodiscard]] std::string damage() const {
    std::string found = out_.damage_outside_elements();
    if (found.empty()) found = inputs_.damage();
    for (const auto* tensor : {sum_.get(), squares_.get()}) {
      if (found.empty() && tensor != nullptr) found = tensor->damage_outside_elements();
    }
    if (found.empty() && !(found = workspace_.damage()).empty()) found = "workspace: " + found;
    return found;
  }

 private:
  const Backend& backend_;
  const conv::ConvEngine& engine_;
  const Inputs& inputs_;
  GuardedBuffer workspace_;
  DeviceTensor out_;
  std::unique_ptr<DeviceTensor> sum_, squares_;
  std::shared_ptr<const void> prepared_;
  conv::Args args_;
};

}  // namespace gpudnn::test
