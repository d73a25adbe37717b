// Recurrent networks, by the calls of the classic interface.
//
// Inputs, in order: x, weights, hx, cx (LSTM); of gradients also dy, and room for y and dx. Gradients need what forward
// left in y and in the reserve space, and that of the weights what the gradient of the data left there: both run once,
// untimed, before. The reserve space lies behind the workspace. The gradient of the data overwrites what it takes, so
// that only its first run means anything; all runs do the same work, and outputs of gradients are not compared.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "descriptors.hpp"
#include "ops/rnn/problem.hpp"
#include "problem_run.hpp"
#include "task_parts.hpp"

namespace gpudnn::bench {
namespace {

constexpr std::size_t kAlignment = 256;

bool is_backward(const rnn::Problem& p) { return p.pass == rnn::Pass::dgrad || p.pass == rnn::Pass::wgrad; }

TensorGeometry packed(DataType type, std::initializer_list<std::int64_t> dims) {
  return packed_tensor(type, GPUDNN_TENSOR_NCHW, static_cast<int>(dims.size()), dims.begin());
}
// All vectors of a sequence tensor.
TensorGeometry rows_of(const rnn::Problem& p, std::int64_t width) {
  const rnn::Sequences& s = p.sequences;
  const bool packs = s.layout == GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
  const std::int64_t rows = packs ? std::accumulate(s.lengths.begin(), s.lengths.end(), std::int64_t{0}) : s.capacity();
  return packed(p.net.type, {rows, width});
}
TensorGeometry states_of(const rnn::Problem& p, std::int64_t width) {
  return packed(p.net.type, {p.net.pseudo_layers(), p.sequences.batch, width});
}

class RnnRun : public Run {
 public:
  RnnRun(const Library& library, gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : api_(library.api),
        handle_(handle),
        problem_(std::get<rnn::Problem>(task.problem)),
        pointers_(pointers),
        descriptors_(library.api) {
    const bool lstm = problem_.net.cell == GPUDNN_LSTM;
    std::size_t next = 0;
    x_ = pointers.inputs.at(next++);
    weights_ = pointers.inputs.at(next++);
    hx_ = pointers.inputs.at(next++);
    if (lstm) cx_ = pointers.inputs.at(next++);
    y_ = pointers.output;
    dx_ = pointers.output;
    if (is_backward(problem_)) {
      dy_ = pointers.inputs.at(next++);
      y_ = pointers.inputs.at(next++);
      if (problem_.pass == rnn::Pass::wgrad) dx_ = pointers.inputs.at(next++);
    }
    rnn_ = descriptors_.rnn();
    x_desc_ = data(problem_.net.input);
    y_desc_ = data(static_cast<int>(problem_.net.output_width()));
    h_desc_ = descriptors_.tensor(states_of(problem_, problem_.net.projected));
    c_desc_ = descriptors_.tensor(states_of(problem_, problem_.net.hidden));
    if (descriptors_.status() == GPUDNN_STATUS_SUCCESS) descriptors_.note(set(GPUDNN_RNN_ALGO_STANDARD));
    if (descriptors_.status() == GPUDNN_STATUS_SUCCESS) {
      descriptors_.note(api_.GetRNNWeightSpaceSize(handle_, rnn_, &weight_bytes_));
    }
  }

  [[nodiscard]] gpudnnStatus_t status() const { return descriptors_.status(); }
  [[nodiscard]] bool has_choice() const noexcept override { return true; }
  gpudnnStatus_t query(std::size_t, Choice* choice) override { return choose(GPUDNN_RNN_ALGO_STANDARD, choice); }
  gpudnnStatus_t find(void*, std::size_t, Choice* choice) override {
    return choose(GPUDNN_RNN_ALGO_PERSIST_STATIC, choice);
  }
  gpudnnStatus_t bind(const Choice& choice, void* workspace, Call* call) override {
    workspace_ = workspace;
    const auto algo = static_cast<gpudnnRNNAlgo_t>(choice.number);
    if (const gpudnnStatus_t status = prepare(algo); status != GPUDNN_STATUS_SUCCESS) return status;
    *call = [this, algo] {
      if (set_ != algo) {
        if (const gpudnnStatus_t status = prepare(algo); status != GPUDNN_STATUS_SUCCESS) return status;
      }
      return timed();
    };
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  gpudnnRNNDataDescriptor_t data(int width) {
    const auto descriptor = descriptors_.rnn_data();
    if (descriptor == nullptr) return nullptr;
    const rnn::Sequences& s = problem_.sequences;
    descriptors_.note(api_.SetRNNDataDescriptor(descriptor, problem_.net.type, s.layout, s.steps, s.batch, width,
                                                s.lengths.data(), nullptr));
    return descriptor;
  }
  gpudnnStatus_t set(gpudnnRNNAlgo_t algo) {
    const rnn::Network& n = problem_.net;
    const DataType compute = n.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
    set_ = algo;
    return api_.SetRNNDescriptor_v8(rnn_, algo, n.cell, n.bias,
                                    n.bidirectional ? GPUDNN_BIDIRECTIONAL : GPUDNN_UNIDIRECTIONAL,
                                    n.skip ? GPUDNN_SKIP_INPUT : GPUDNN_LINEAR_INPUT, n.type, compute, n.math, n.input,
                                    n.hidden, n.projected, n.layers, nullptr, GPUDNN_RNN_PADDED_IO_ENABLED);
  }
  gpudnnStatus_t choose(gpudnnRNNAlgo_t algo, Choice* choice) {
    *choice = {};
    choice->algorithm = algo == GPUDNN_RNN_ALGO_STANDARD ? "standard" : "persist_static";
    choice->number = static_cast<int>(algo);
    if (const gpudnnStatus_t status = set(algo); status != GPUDNN_STATUS_SUCCESS) return status;
    const auto mode = problem_.pass == rnn::Pass::infer ? GPUDNN_FWD_MODE_INFERENCE : GPUDNN_FWD_MODE_TRAINING;
    const gpudnnStatus_t status =
        api_.GetRNNTempSpaceSizes(handle_, rnn_, mode, x_desc_, &work_bytes_, &reserve_bytes_);
    if (mode == GPUDNN_FWD_MODE_INFERENCE) reserve_bytes_ = 0;
    work_bytes_ = (work_bytes_ + kAlignment - 1) / kAlignment * kAlignment;
    choice->workspace = work_bytes_ + reserve_bytes_;
    return status;
  }
  [[nodiscard]] void* reserve() const {
    return reserve_bytes_ == 0 ? nullptr : static_cast<char*>(workspace_) + work_bytes_;
  }
  gpudnnStatus_t prepare(gpudnnRNNAlgo_t algo) {
    Choice sizes;
    gpudnnStatus_t status = choose(algo, &sizes);
    if (status == GPUDNN_STATUS_SUCCESS && is_backward(problem_)) status = forward(GPUDNN_FWD_MODE_TRAINING);
    if (status == GPUDNN_STATUS_SUCCESS && problem_.pass == rnn::Pass::wgrad) status = data_gradient();
    return status;
  }
  gpudnnStatus_t timed() {
    switch (problem_.pass) {
      case rnn::Pass::infer:
        return forward(GPUDNN_FWD_MODE_INFERENCE);
      case rnn::Pass::train:
        return forward(GPUDNN_FWD_MODE_TRAINING);
      case rnn::Pass::dgrad:
        return data_gradient();
      case rnn::Pass::wgrad:
        return api_.RNNBackwardWeights_v8(handle_, rnn_, GPUDNN_WGRAD_MODE_ADD, nullptr, x_desc_, x_, h_desc_, hx_,
                                          y_desc_, y_, weight_bytes_, pointers_.output, work_bytes_, workspace_,
                                          reserve_bytes_, reserve());
    }
    return GPUDNN_STATUS_BAD_PARAM;
  }
  gpudnnStatus_t forward(gpudnnForwardMode_t mode) {
    return api_.RNNForward(handle_, rnn_, mode, nullptr, x_desc_, x_, y_desc_, y_, h_desc_, hx_, nullptr, c_desc_, cx_,
                           nullptr, weight_bytes_, weights_, work_bytes_, workspace_, reserve_bytes_, reserve());
  }
  gpudnnStatus_t data_gradient() {
    return api_.RNNBackwardData_v8(handle_, rnn_, nullptr, y_desc_, y_, dy_, x_desc_, dx_, h_desc_, hx_, nullptr,
                                   nullptr, c_desc_, cx_, nullptr, nullptr, weight_bytes_, weights_, work_bytes_,
                                   workspace_, reserve_bytes_, reserve());
  }

  const Api& api_;
  gpudnnHandle_t handle_;
  rnn::Problem problem_;
  Pointers pointers_;
  Descriptors descriptors_;
  gpudnnRNNDescriptor_t rnn_ = nullptr;
  gpudnnRNNDataDescriptor_t x_desc_ = nullptr, y_desc_ = nullptr;
  gpudnnTensorDescriptor_t h_desc_ = nullptr, c_desc_ = nullptr;
  void *x_ = nullptr, *weights_ = nullptr, *hx_ = nullptr, *cx_ = nullptr, *dy_ = nullptr, *y_ = nullptr,
       *dx_ = nullptr, *workspace_ = nullptr;
  std::size_t weight_bytes_ = 0, work_bytes_ = 0, reserve_bytes_ = 0;
  gpudnnRNNAlgo_t set_ = GPUDNN_RNN_ALGO_STANDARD;
};

// Multiply-adds times two of the products: with W and R of all steps, and the projection.
double flops_of(const rnn::Problem& p) {
  const rnn::Network& n = p.net;
  double per_row = 0;
  for (int layer = 0; layer < n.layers; ++layer) {
    const double width = n.has_input_matrix(layer) ? static_cast<double>(n.input_width(layer)) : 0;
    per_row += n.directions() * (n.gates() * static_cast<double>(n.hidden) * (width + n.projected) +
                                 (n.projects() ? static_cast<double>(n.projected) * n.hidden : 0));
  }
  return 2 * per_row * static_cast<double>(rows_of(p, 1).dims[0]);
}

}  // namespace

bool fill_in_rnn(Task* task, const ScalarOptions& scalars, std::string* why) {
  constexpr const char* kPasses[] = {"infer", "train", "dgrad", "wgrad"};
  constexpr const char* kCells[] = {"relu", "tanh", "lstm", "gru"};
  const auto& p = std::get<rnn::Problem>(task->problem);
  if (p.net.drops() || p.net.clips)
    return *why = "the bench runs recurrent networks without dropout and clipping", false;
  const TensorGeometry x = rows_of(p, p.net.input);
  const TensorGeometry y = rows_of(p, p.net.output_width());
  const TensorGeometry weights = packed(p.net.type, {rnn::weight_count(p.net)});
  task->inputs = {{x}, {weights, Fill::small}, {states_of(p, p.net.projected), Fill::small}};
  if (p.net.cell == GPUDNN_LSTM) task->inputs.push_back({states_of(p, p.net.hidden), Fill::small});
  if (is_backward(p)) {
    task->inputs.push_back({y, Fill::small});
    task->inputs.push_back({y, Fill::small});
    task->output_is_random = true;
  }
  task->output = p.pass == rnn::Pass::dgrad ? x : p.pass == rnn::Pass::wgrad ? weights : y;
  if (p.pass == rnn::Pass::wgrad) {
    task->output_is_read = true;
    task->inputs.push_back({x, Fill::small});
  }
  task->flops = flops_of(p);
  task->arithmetic = arithmetic_of(p.net.type);
  if (p.net.type == GPUDNN_DATA_FLOAT &&
      (p.net.math == GPUDNN_TENSOR_OP_MATH || p.net.math == GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION)) {
    task->arithmetic = Arithmetic::tf32;
  }
  task->group = std::string("rnn ") + kPasses[static_cast<int>(p.pass)] + ' ' + kCells[p.net.cell] + ' ' +
                arithmetic_name(task->arithmetic);
  ScalarOptions own = scalars;
  own.beta.reset();
  finish(task, own, 1, 0);
  return true;
}

std::unique_ptr<Run> make_rnn_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                  const Pointers& pointers, gpudnnStatus_t* status) {
  auto run = std::make_unique<RnnRun>(library, handle, task, pointers);
  *status = run->status();
  if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
  return run;
}

}  // namespace gpudnn::bench
