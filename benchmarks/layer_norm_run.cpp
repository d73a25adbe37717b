// Layer normalizations, by the engines that are linked into this program: the classic interface has no call for them.
//
// Inputs, in order: x, dy (backward), scale, bias (forward), mean and inverse (backward), residual, factor, those that
// the problem has. More outputs: mean and inverse (training), dscale and dbias (backward), the sum, amax.
// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_norm/problem.hpp"
#include "problem_run.hpp"
#include "task_parts.hpp"

namespace gpudnn::bench {
namespace {

// Of what stands around a norm; rank 0: it is not there.
struct AroundTensors {
  TensorGeometry residual, factor, sum, amax;
  explicit AroundTensors(const layer_norm::Problem& p) {
    TensorGeometry number;
    number.type = GPUDNN_DATA_FLOAT;
    number.rank = 1;
    number.dims[0] = number.strides[0] = 1;
    if (p.around.residual) residual = p.x;
    if (p.around.factor) factor = number;
    if (p.around.sum) sum = p.x;
    if (p.around.amax) amax = number;
  }
};

class LayerNormRun : public Run {
 public:
  LayerNormRun(gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : handle_(handle), problem_(std::get<layer_norm::Problem>(task.problem)) {
    std::size_t next = 0;
    const auto in = [&](const TensorGeometry& tensor) -> const void* {
      return tensor.rank == 0 ? nullptr : pointers.inputs.at(next++);
    };
    std::size_t more = 0;
    const auto out = [&](const TensorGeometry& tensor) -> void* {
      return tensor.rank == 0 ? nullptr : pointers.more_outputs.at(more++);
    };
    args_.x = in(problem_.x);
    args_.dy = in(problem_.dy);
    args_.scale = in(problem_.scale);
    args_.bias = in(problem_.bias);
    if (problem_.backward()) {
      args_.saved_mean = in(problem_.mean);
      args_.saved_inverse = in(problem_.inverse);
      args_.dscale = out(problem_.dscale);
      args_.dbias = out(problem_.dbias);
    } else {
      args_.mean = out(problem_.mean);
      args_.inverse = out(problem_.inverse);
    }
    const AroundTensors around(problem_);
    args_.residual = in(around.residual);
    args_.factor = in(around.factor);
    args_.sum = out(around.sum);
    args_.amax = out(around.amax);
    args_.out = pointers.output;
  }

  gpudnnStatus_t query(std::size_t workspace_limit, Choice* choice) override {
    *choice = {};
    choice->workspace = std::min(workspace_limit, layer_norm::workspace_bytes(*handle_->device, problem_));
    return GPUDNN_STATUS_SUCCESS;
  }
  gpudnnStatus_t find(void*, std::size_t bytes, Choice* choice) override { return query(bytes, choice); }
  gpudnnStatus_t bind(const Choice& choice, void* workspace, Call* call) override {
    args_.workspace = workspace;
    args_.workspace_bytes = choice.workspace;
    *call = [this] { return layer_norm::run(handle_, problem_, args_); };
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  gpudnnHandle_t handle_;
  layer_norm::Problem problem_;
  layer_norm::Args args_;
};

}  // namespace

bool fill_in_layer_norm(Task* task, const ScalarOptions& scalars) {
  constexpr const char* kPasses[] = {"infer", "train", "bwd"};
  const auto& p = std::get<layer_norm::Problem>(task->problem);
  const auto add = [&](const TensorGeometry& tensor, Fill fill) {
    if (tensor.rank > 0) task->inputs.push_back({tensor, fill});
  };
  add(p.x, Fill::normal);
  add(p.dy, Fill::normal);
  add(p.scale, Fill::normal);
  add(p.bias, Fill::normal);
  if (p.backward()) {
    add(p.mean, Fill::normal);
    add(p.inverse, Fill::positive);
  }
  const AroundTensors around(p);
  add(around.residual, Fill::normal);
  add(around.factor, Fill::positive);
  const auto more = [&](const TensorGeometry& tensor) {
    if (tensor.rank > 0) task->more_outputs.push_back({tensor, false, Fill::normal});
  };
  if (p.backward()) {
    more(p.dscale);
    more(p.dbias);
  } else {
    more(p.mean);
    more(p.inverse);
  }
  more(around.sum);
  more(around.amax);
  task->output = p.out;
  task->arithmetic = arithmetic_of(p.x.type);
  task->group = std::string("layer_norm ") + kPasses[static_cast<int>(p.pass)] + ' ' + data_type_name(p.x.type);
  ScalarOptions own = scalars;
  own.beta.reset();
  finish(task, own, 1, 0);
  return true;
}

std::unique_ptr<Run> make_layer_norm_run(gpudnnHandle_t handle, const Task& task, const Pointers& pointers,
                                         gpudnnStatus_t* status) {
  *status = layer_norm::validate(std::get<layer_norm::Problem>(task.problem));
  if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
  return std::make_unique<LayerNormRun>(handle, task, pointers);
}

}  // namespace gpudnn::bench
