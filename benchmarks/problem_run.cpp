// The operations without a choice of algorithm, on one library: pooling, activation, softmax, whole tensors, the
// gradient of the bias, dropout, the spatial transformer and the CTC loss.
// SPDX-License-Identifier: Apache-2.0
#include "problem_run.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/data_type.hpp"
#include "descriptors.hpp"

namespace gpudnn::bench {
namespace {

// Everything that a call refers to, kept with it.
struct Bound {
  Bound(const Library& library, gpudnnHandle_t its_handle, const Task& task, const Pointers& pointers)
      : api(library.api),
        handle(its_handle),
        alpha(task.alpha, task.output.type),
        beta(task.beta, task.output.type),
        in(pointers.inputs),
        out(pointers.output),
        descriptors(library.api) {}

  const Api& api;
  gpudnnHandle_t handle;
  Scalar alpha;
  Scalar beta;
  std::vector<void*> in;
  void* out;
  Descriptors descriptors;
  // Memory that the call needs besides its tensors, and what has to be done with it before the first call.
  std::size_t workspace_bytes = 0;
  void* workspace = nullptr;
  std::function<gpudnnStatus_t()> prepare;
};

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// Inputs of all backward operations are in the order y, dy, x.
Call make_call(Bound& b, const pooling::Problem& problem) {
  const auto pool = b.descriptors.pooling();
  const Ints window(problem.window, problem.spatial);
  const Ints pad(problem.pad, problem.spatial);
  const Ints stride(problem.stride, problem.spatial);
  if (pool != nullptr) {
    b.descriptors.note(b.api.SetPoolingNdDescriptor(pool, problem.mode, problem.nan, problem.spatial, window.values,
                                                    pad.values, stride.values));
  }
  const auto x = b.descriptors.tensor(problem.x);
  const auto y = b.descriptors.tensor(problem.y);
  if (!problem.backward) {
    return [=, &b] { return b.api.PoolingForward(b.handle, pool, b.alpha.get(), x, b.in[0], b.beta.get(), y, b.out); };
  }
  const auto dx = b.descriptors.tensor(problem.dx);
  const auto dy = b.descriptors.tensor(problem.dy);
  return [=, &b] {
    return b.api.PoolingBackward(b.handle, pool, b.alpha.get(), y, b.in[0], dy, b.in[1], x, b.in[2], b.beta.get(), dx,
                                 b.out);
  };
}

Call make_call(Bound& b, const activation::Problem& problem) {
  const auto activation = b.descriptors.activation(problem.mode, problem.nan, problem.coef);
  const auto x = b.descriptors.tensor(problem.x);
  const auto y = b.descriptors.tensor(problem.y);
  if (!problem.backward) {
    return [=, &b] {
      return b.api.ActivationForward(b.handle, activation, b.alpha.get(), x, b.in[0], b.beta.get(), y, b.out);
    };
  }
  const auto dx = b.descriptors.tensor(problem.dx);
  const auto dy = b.descriptors.tensor(problem.dy);
  return [=, &b] {
    return b.api.ActivationBackward(b.handle, activation, b.alpha.get(), y, b.in[0], dy, b.in[1], x, b.in[2],
                                    b.beta.get(), dx, b.out);
  };
}

Call make_call(Bound& b, const softmax::Problem& problem) {
  const auto algorithm = problem.algorithm;
  const auto mode = problem.mode;
  const auto y = b.descriptors.tensor(problem.y);
  if (!problem.backward) {
    const auto x = b.descriptors.tensor(problem.x);
    return [=, &b] {
      return b.api.SoftmaxForward(b.handle, algorithm, mode, b.alpha.get(), x, b.in[0], b.beta.get(), y, b.out);
    };
  }
  const auto dx = b.descriptors.tensor(problem.dx);
  const auto dy = b.descriptors.tensor(problem.dy);
  return [=, &b] {
    return b.api.SoftmaxBackward(b.handle, algorithm, mode, b.alpha.get(), y, b.in[0], dy, b.in[1], b.beta.get(), dx,
                                 b.out);
  };
}

// The value 3, which every type can hold, as SetTensor takes it: a double for double tensors, a float for the other
// floating ones, else an element; for a vector type, all of its lanes.
std::vector<std::byte> value_of(DataType type) {
  std::vector<std::byte> bytes(
      std::max<std::size_t>(static_cast<std::size_t>(data_type_bits(type) + 7) / 8, sizeof(float)));
  if (type == GPUDNN_DATA_DOUBLE) {
    const double value = 3;
    std::memcpy(bytes.data(), &value, sizeof value);
  } else if (is_floating(type)) {
    const float value = 3;
    std::memcpy(bytes.data(), &value, sizeof value);
  } else if (data_type_lanes(type) > 1) {
    std::memset(bytes.data(), 3, bytes.size());
  } else {
    bytes[0] = std::byte{3};  // little-endian integers
  }
  return bytes;
}

Call make_call(Bound& b, const tensor::Problem& problem) {
  const auto c = b.descriptors.tensor(problem.c);
  if (problem.operation == tensor::Operation::set) {
    return [=, &b, value = value_of(problem.c.type)] { return b.api.SetTensor(b.handle, c, b.out, value.data()); };
  }
  if (problem.operation == tensor::Operation::scale) {
    return [=, &b] { return b.api.ScaleTensor(b.handle, c, b.out, b.alpha.get()); };
  }
  const auto a = b.descriptors.tensor(problem.a);
  if (problem.operation == tensor::Operation::add) {
    return [=, &b] { return b.api.AddTensor(b.handle, b.alpha.get(), a, b.in[0], b.beta.get(), c, b.out); };
  }
  return [=, &b] { return b.api.TransformTensor(b.handle, b.alpha.get(), a, b.in[0], b.beta.get(), c, b.out); };
}

Call make_call(Bound& b, const bias_grad::Problem& problem) {
  const auto dy = b.descriptors.tensor(problem.dy);
  const auto db = b.descriptors.tensor(problem.db);
  return
      [=, &b] { return b.api.ConvolutionBackwardBias(b.handle, b.alpha.get(), dy, b.in[0], b.beta.get(), db, b.out); };
}

// Workspace: the states, then the reserve space. Backward reads the mask of a forward call made once before.
Call make_call(Bound& b, const dropout::Problem& problem) {
  const auto dropout = b.descriptors.dropout();
  const auto x = b.descriptors.tensor(problem.in);
  const auto y = b.descriptors.tensor(problem.out);
  std::size_t states = 0;
  std::size_t reserve = 0;
  if (b.descriptors.status() != GPUDNN_STATUS_SUCCESS) return {};
  b.descriptors.note(b.api.DropoutGetStatesSize(b.handle, &states));
  b.descriptors.note(b.api.DropoutGetReserveSpaceSize(x, &reserve));
  b.workspace_bytes = aligned(states) + reserve;
  const auto reserve_at = [=, &b] { return static_cast<char*>(b.workspace) + aligned(states); };
  const auto forward = [=, &b] {
    return b.api.DropoutForward(b.handle, dropout, x, b.in[0], y, b.out, reserve_at(), reserve);
  };
  b.prepare = [=, &b] {
    const auto status = b.api.SetDropoutDescriptor(dropout, b.handle, problem.probability, b.workspace, states, 1);
    return status != GPUDNN_STATUS_SUCCESS || !problem.backward ? status : forward();
  };
  if (!problem.backward) return forward;
  return [=, &b] { return b.api.DropoutBackward(b.handle, dropout, x, b.in[0], y, b.out, reserve_at(), reserve); };
}

// Inputs: theta or dgrid; x, grid; of backward x, grid, dy, and dgrid goes to the workspace.
Call make_call(Bound& b, const spatial_transformer::Problem& problem) {
  using spatial_transformer::Operation;
  const auto st = b.descriptors.spatial_transformer();
  const Ints dims(problem.y.dims, 4);
  if (st != nullptr) {
    b.descriptors.note(
        b.api.SetSpatialTransformerNdDescriptor(st, GPUDNN_SAMPLER_BILINEAR, problem.y.type, 4, dims.values));
  }
  if (problem.operation == Operation::grid_forward) {
    return [=, &b] { return b.api.SpatialTfGridGeneratorForward(b.handle, st, b.in[0], b.out); };
  }
  if (problem.operation == Operation::grid_backward) {
    return [=, &b] { return b.api.SpatialTfGridGeneratorBackward(b.handle, st, b.in[0], b.out); };
  }
  const auto x = b.descriptors.tensor(problem.x);
  const auto y = b.descriptors.tensor(problem.y);
  if (problem.operation == Operation::sample_forward) {
    return [=, &b] {
      return b.api.SpatialTfSamplerForward(b.handle, st, b.alpha.get(), x, b.in[0], b.in[1], b.beta.get(), y, b.out);
    };
  }
  const auto dx = b.descriptors.tensor(problem.dx);
  b.workspace_bytes = size_in_bytes(spatial_transformer::grid_geometry(problem));
  return [=, &b] {
    return b.api.SpatialTfSamplerBackward(b.handle, st, b.alpha.get(), x, b.in[0], b.beta.get(), dx, b.out,
                                          b.alpha.get(), y, b.in[2], b.in[1], b.beta.get(), b.workspace);
  };
}

// Inputs: x, labels, label lengths, input lengths; with host labels the last three are made here. Workspace: the costs,
// then the library's own.
Call make_call(Bound& b, const ctc::Problem& problem) {
  const auto ctc = b.descriptors.ctc_loss();
  const auto x = b.descriptors.tensor(problem.x);
  const auto g = problem.has_gradients ? b.descriptors.tensor(problem.gradients) : nullptr;
  const auto algo = GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC;
  if (b.descriptors.status() != GPUDNN_STATUS_SUCCESS) return {};
  b.descriptors.note(b.api.SetCTCLossDescriptor_v8(
      ctc, problem.x.type, problem.softmax ? GPUDNN_LOSS_NORMALIZATION_SOFTMAX : GPUDNN_LOSS_NORMALIZATION_NONE,
      problem.skip_impossible ? GPUDNN_PROPAGATE_NAN : GPUDNN_NOT_PROPAGATE_NAN, static_cast<int>(problem.max_labels)));
  const std::size_t costs = aligned(static_cast<std::size_t>(problem.x.dims[1]) * sizeof(double));
  std::size_t own = 0;
  const auto finish = [&b, costs](std::size_t bytes) { b.workspace_bytes = costs + bytes; };
  if (!problem.host_labels) {
    b.descriptors.note(b.api.GetCTCLossWorkspaceSize_v8(b.handle, algo, ctc, x, g, &own));
    finish(own);
    return [=, &b] {
      return b.api.CTCLoss_v8(b.handle, algo, ctc, x, b.in[0], static_cast<const int*>(b.in[1]),
                              static_cast<const int*>(b.in[2]), static_cast<const int*>(b.in[3]), b.workspace, g,
                              g != nullptr ? b.out : nullptr, own, static_cast<char*>(b.workspace) + costs);
    };
  }
  const CtcIntegers given = ctc_integers(problem);
  b.descriptors.note(b.api.GetCTCLossWorkspaceSize(b.handle, x, g, given.labels.data(), given.label_lengths.data(),
                                                   given.input_lengths.data(), algo, ctc, &own));
  finish(own);
  return [=, &b] {
    return b.api.CTCLoss(b.handle, x, b.in[0], given.labels.data(), given.label_lengths.data(),
                         given.input_lengths.data(), b.workspace, g, g != nullptr ? b.out : nullptr, algo, ctc,
                         static_cast<char*>(b.workspace) + costs, own);
  };
}

// Inputs of divisive normalization: x, the means, dy of backward, and the two scratch tensors last.
Call make_spatial_call(Bound& b, gpudnnLRNDescriptor_t norm, const lrn::Problem& problem) {
  const auto x = b.descriptors.tensor(problem.x);
  const auto out = b.descriptors.tensor(problem.backward ? problem.dx : problem.y);
  const auto mode = GPUDNN_DIVNORM_PRECOMPUTED_MEANS;
  const std::size_t scratch = problem.backward ? 3 : 2;
  void* const means = problem.has_means ? b.in[1] : nullptr;
  return [=, &b] {
    if (!problem.backward) {
      return b.api.DivisiveNormalizationForward(b.handle, norm, mode, b.alpha.get(), x, b.in[0], means, b.in[scratch],
                                                b.in[scratch + 1], b.beta.get(), out, b.out);
    }
    return b.api.DivisiveNormalizationBackward(b.handle, norm, mode, b.alpha.get(), x, b.in[0], means, b.in[2],
                                               b.in[scratch], b.in[scratch + 1], b.beta.get(), out, b.out, nullptr);
  };
}

Call make_call(Bound& b, const lrn::Problem& problem) {
  const auto norm = b.descriptors.lrn();
  if (norm != nullptr) {
    b.descriptors.note(
        b.api.SetLRNDescriptor(norm, static_cast<unsigned>(problem.n), problem.alpha, problem.beta, problem.k));
  }
  if (problem.spatial) return make_spatial_call(b, norm, problem);
  const auto mode = GPUDNN_LRN_CROSS_CHANNEL_DIM1;
  const auto x = b.descriptors.tensor(problem.x);
  const auto y = b.descriptors.tensor(problem.y);
  if (!problem.backward) {
    return [=, &b] {
      return b.api.LRNCrossChannelForward(b.handle, norm, mode, b.alpha.get(), x, b.in[0], b.beta.get(), y, b.out);
    };
  }
  const auto dx = b.descriptors.tensor(problem.dx);
  const auto dy = b.descriptors.tensor(problem.dy);
  return [=, &b] {
    return b.api.LRNCrossChannelBackward(b.handle, norm, mode, b.alpha.get(), y, b.in[0], dy, b.in[1], x, b.in[2],
                                         b.beta.get(), dx, b.out);
  };
}

Call make_call(Bound& b, const op_tensor::Problem& problem) {
  const auto op = b.descriptors.op_tensor();
  if (op != nullptr) b.descriptors.note(b.api.SetOpTensorDescriptor(op, problem.op, problem.compute, problem.nan));
  const bool binary = op_tensor::has_b(problem.op);
  const auto a = b.descriptors.tensor(problem.a);
  const auto second = binary ? b.descriptors.tensor(problem.b) : a;
  const auto c = b.descriptors.tensor(problem.c);
  const std::size_t at = binary ? 1 : 0;
  return [=, &b] {
    return b.api.OpTensor(b.handle, op, b.alpha.get(), a, b.in[0], b.alpha.get(), second, b.in[at], b.beta.get(), c,
                          b.out);
  };
}

class PlainRun : public Run {
 public:
  PlainRun(const Library& library, gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : bound_(library, handle, task, pointers) {
    std::visit(
        [this](const auto& problem) {
          if constexpr (requires { make_call(bound_, problem); }) call_ = make_call(bound_, problem);
        },
        task.problem);
  }
  PlainRun(const PlainRun&) = delete;
  PlainRun& operator=(const PlainRun&) = delete;

  [[nodiscard]] gpudnnStatus_t status() const { return bound_.descriptors.status(); }
  gpudnnStatus_t query(std::size_t, Choice* choice) override {
    *choice = {};
    choice->workspace = bound_.workspace_bytes;
    return GPUDNN_STATUS_SUCCESS;
  }
  gpudnnStatus_t find(void*, std::size_t, Choice* choice) override { return query(0, choice); }
  gpudnnStatus_t bind(const Choice&, void* workspace, Call* call) override {
    bound_.workspace = workspace;
    *call = call_;
    return bound_.prepare ? bound_.prepare() : GPUDNN_STATUS_SUCCESS;
  }

 private:
  Bound bound_;
  Call call_;
};

// A reduction, which has a workspace and wants it to be as large as the query says. Indices are not timed.
class ReduceRun : public Run {
 public:
  ReduceRun(const Library& library, gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : bound_(library, handle, task, pointers) {
    const auto& problem = std::get<reduce::Problem>(task.problem);
    reduction_ = bound_.descriptors.reduce_tensor();
    if (reduction_ != nullptr) {
      bound_.descriptors.note(bound_.api.SetReduceTensorDescriptor(
          reduction_, problem.op, problem.compute, problem.nan, GPUDNN_REDUCE_TENSOR_NO_INDICES, problem.index_type));
    }
    a_ = bound_.descriptors.tensor(problem.a);
    c_ = bound_.descriptors.tensor(problem.c);
  }
  ReduceRun(const ReduceRun&) = delete;
  ReduceRun& operator=(const ReduceRun&) = delete;

  [[nodiscard]] gpudnnStatus_t status() const { return bound_.descriptors.status(); }
  gpudnnStatus_t query(std::size_t, Choice* choice) override {
    *choice = {};
    return bound_.api.GetReductionWorkspaceSize(bound_.handle, reduction_, a_, c_, &choice->workspace);
  }
  gpudnnStatus_t find(void*, std::size_t bytes, Choice* choice) override { return query(bytes, choice); }
  gpudnnStatus_t bind(const Choice& choice, void* workspace, Call* call) override {
    const std::size_t bytes = choice.workspace;
    *call = [this, workspace, bytes] {
      return bound_.api.ReduceTensor(bound_.handle, reduction_, nullptr, 0, bytes > 0 ? workspace : nullptr, bytes,
                                     bound_.alpha.get(), a_, bound_.in[0], bound_.beta.get(), c_, bound_.out);
    };
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  Bound bound_;
  gpudnnReduceTensorDescriptor_t reduction_ = nullptr;
  gpudnnTensorDescriptor_t a_ = nullptr;
  gpudnnTensorDescriptor_t c_ = nullptr;
};

}  // namespace

std::unique_ptr<Run> make_run(const Library& library, gpudnnHandle_t handle, const Task& task, const Pointers& pointers,
                              gpudnnStatus_t* status) {
  if (std::holds_alternative<conv::Problem>(task.problem)) {
    return make_conv_run(library, handle, task, pointers, status);
  }
  if (std::holds_alternative<norm::Problem>(task.problem)) {
    return make_norm_run(library, handle, task, pointers, status);
  }
  if (std::holds_alternative<fused_ops::Stages>(task.problem)) {
    return make_fused_run(library, handle, task, pointers, status);
  }
  if (std::holds_alternative<transform::Problem>(task.problem) ||
      std::holds_alternative<transform::ColumnProblem>(task.problem) ||
      std::holds_alternative<ReorderProblem>(task.problem)) {
    return make_rearrange_run(library, handle, task, pointers, status);
  }
  if (std::holds_alternative<matmul::Problem>(task.problem)) {
    return make_matmul_run(library, handle, task, pointers, status);
  }
  if (std::holds_alternative<layer_norm::Problem>(task.problem)) {
    return make_layer_norm_run(handle, task, pointers, status);
  }
  if (std::holds_alternative<attention::Problem>(task.problem)) {
    return make_attention_run(handle, task, pointers, status);
  }
  if (std::holds_alternative<rnn::Problem>(task.problem)) {
    return make_rnn_run(library, handle, task, pointers, status);
  }
  if (std::holds_alternative<reduce::Problem>(task.problem)) {
    auto run = std::make_unique<ReduceRun>(library, handle, task, pointers);
    *status = run->status();
    if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
    return run;
  }
  auto run = std::make_unique<PlainRun>(library, handle, task, pointers);
  *status = run->status();
  if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
  return run;
}

}  // namespace gpudnn::bench
