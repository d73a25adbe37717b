// What every engine of an operation says of a problem on a device.
// SPDX-License-Identifier: Apache-2.0
#include "explain_lines.hpp"

#include "core/engine.hpp"
#include "ops/activation/problem.hpp"
#include "ops/attention/problem.hpp"
#include "ops/bias_grad/problem.hpp"
#include "ops/conv/select/heuristics.hpp"
#include "ops/conv/select/tuning_cache.hpp"
#include "ops/ctc/problem.hpp"
#include "ops/dropout/problem.hpp"
#include "ops/layer_norm/problem.hpp"
#include "ops/lrn/problem.hpp"
#include "ops/matmul/engine.hpp"
#include "ops/norm/problem.hpp"
#include "ops/op_tensor/problem.hpp"
#include "ops/pointwise/problem.hpp"
#include "ops/pooling/problem.hpp"
#include "ops/rnn/problem.hpp"
#include "ops/softmax/problem.hpp"
#include "ops/spatial_transformer/problem.hpp"
#include "ops/tensor/problem.hpp"
#include "tune_parts.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/norm/plan.hpp"
#endif

namespace gpudnn::bench {
namespace {

constexpr std::size_t kWorkspace = 0;  // its number on the stage

// Notes the engines of the device's backend that do not take the problem; `each` is called with the others.
template <class Engines, class Problem, class Each>
void sort_out(const Engines& engines, const Problem& problem, const Device& device, Explanation* e, const Each& each) {
  const EngineFilter filter(engines, device.backend);
  for (const auto& engine : engines) {
    if (engine.backend != device.backend) continue;
    const char* reason = filter.reason_against(engine.name);
    if (reason == nullptr) reason = engine.supports(problem, device).reason_against;
    if (reason != nullptr) {
      e->refusals.push_back({engine.name, reason});
    } else {
      each(engine);
    }
  }
}

Explanation lines_of(const conv::Problem& problem, const Device& device) {
  Explanation e;
  sort_out(conv::engines(), problem, device, &e, [](const auto&) {});
  std::vector<conv::Choice> choices = conv::rank(problem, device);
  conv::put_measured_first(conv::tuning_cache().find(problem, device), conv::Source::tuning_cache, &choices);
  for (const conv::Choice& choice : choices) {
    Line line{conv::choice_text(*choice.engine, choice.config),
              "",
              choice.seconds,
              choice.workspace,
              conv::source_name(choice.source),
              {},
              {}};
    line.bind = [choice, problem](Stage& stage) -> std::optional<Call> {
      std::size_t next = kWorkspace;
      void* const workspace = stage.memory(next++, choice.workspace);
      conv::Args args;
      args.x = stage.memory(next++, size_in_bytes(problem.x));
      args.w = stage.memory(next++, size_in_bytes(problem.w));
      args.y = stage.memory(next++, size_in_bytes(problem.y));
      args.out = stage.memory(next++, size_in_bytes(conv::output(problem)));
      const auto vector = 8 * static_cast<std::size_t>(problem.w.dims[0]);  // a value of each filter, of any type
      if (problem.has_z != 0) args.z = stage.memory(next++, size_in_bytes(problem.z));
      if (problem.has_bias != 0) args.bias = stage.memory(next++, vector);
      if (problem.has_scale != 0) args.scale = stage.memory(next++, vector);
      return [&stage, args, workspace, bytes = choice.workspace,
              plan = conv::prepare_plan(choice, problem, stage.device())] {
        return conv::launch_plan({stage.device(), stage.machine().stream(), workspace, bytes}, *plan, args);
      };
    };
    e.lines.push_back(std::move(line));
  }
  return e;
}

Explanation lines_of(const matmul::Problem& problem, const Device& device) {
  Explanation e;
  sort_out(matmul::engines(), problem, device, &e, [](const auto&) {});
  for (const matmul::Choice& choice : matmul::rank(problem, device)) {
    Line line{choice.engine->name,
              choice.config,
              choice.seconds,
              choice.engine->workspace(problem, choice.config, device),
              "model",
              {},
              {}};
    if (device.backend == GPUDNN_BACKEND_HOST) line.seconds.reset();  // its model says nothing
    line.bind = [choice, problem](Stage& stage) -> std::optional<Call> {
      std::shared_ptr<const matmul::Plan> plan;
      if (matmul::make_plan(choice, problem, stage.device(), &plan) != GPUDNN_STATUS_SUCCESS) return std::nullopt;
      std::size_t next = kWorkspace;
      void* const workspace = stage.memory(next++, plan->workspace);
      matmul::Args args;
      args.a = stage.memory(next++, size_in_bytes(problem.a));
      args.b = stage.memory(next++, size_in_bytes(problem.b));
      args.d = stage.memory(next++, size_in_bytes(problem.d));
      args.descale_a = args.descale_b = args.scale_d = static_cast<const float*>(stage.memory(next++, 16));
      args.amax = static_cast<float*>(stage.memory(next++, 16));
      if (problem.c.rank > 0) args.c = stage.memory(next++, size_in_bytes(problem.c));
      if (problem.bias.rank > 0) args.bias = stage.memory(next++, size_in_bytes(problem.bias));
      args.beta = problem.c.rank > 0 ? 1 : 0;
      return [&stage, args, workspace, plan] {
        return matmul::launch_plan({stage.device(), stage.machine().stream(), workspace, plan->workspace}, *plan, args);
      };
    };
    e.lines.push_back(std::move(line));
  }
  return e;
}

Explanation lines_of(const attention::Problem& problem, const Device& device) {
  Explanation e;
  sort_out(attention::engines(), problem, device, &e, [&](const attention::AttentionEngine& engine) {
    e.lines.push_back({engine.name, "", {}, engine.workspace(problem, device), "order", {}, {}});
  });
  return e;
}

// Of operations whose engines have no configs: the first that takes the problem runs.
template <class Engines, class Problem>
Explanation lines_by_order(const Engines& engines, const Problem& problem, const Device& device) {
  Explanation e;
  sort_out(engines, problem, device, &e, [&](const auto& engine) {
    e.lines.push_back({engine.name, "", {}, {}, "order", {}, {}});
  });
  return e;
}

// Normalization's engines look into a plan, which says what each is expected to take.
Explanation lines_of(norm::Problem problem, const Device& device) {
#ifdef GPUDNN_WITH_CUDA
  norm::LaunchPlan plan;
  if (device.backend == GPUDNN_BACKEND_CUDA) {
    plan = norm::make_plan(device, problem);
    problem.plan = &plan;
  }
  Explanation e = lines_by_order(norm::engines(), problem, device);
  for (Line& line : e.lines) {
    if (line.engine == "segments") line.seconds = plan.segments.seconds;
    if (line.engine == "split") line.seconds = plan.split.seconds;
    if (line.engine == "cluster") line.seconds = plan.cluster.seconds;
  }
  return e;
#else
  return lines_by_order(norm::engines(), problem, device);
#endif
}

// `make` turns the problem, once it is known to be legal, into lines.
template <class Problem, class Make>
std::optional<Explanation> explained(const std::optional<Problem>& problem, std::string* why, const Make& make) {
  if (!problem) return std::nullopt;
  if (validate(*problem) != GPUDNN_STATUS_SUCCESS) return *why = last_error_text(), std::nullopt;
  Explanation e = make(*problem);
  e.problem = to_text(*problem);
  return e;
}

}  // namespace

std::optional<Explanation> explain(std::string_view text, const Device& device, std::string* why) {
  const std::string_view word = text.substr(0, text.find_first_of(" \t"));
  const auto ranked = [&](const auto& problem) { return lines_of(problem, device); };
  const auto by_order = [&](const auto& engines) {
    return [&device, engines](const auto& problem) { return lines_by_order(engines, problem, device); };
  };
  if (word == "conv") return explained(conv::from_text(text, why), why, ranked);
  if (word == "matmul") return explained(matmul::from_text(text, why), why, ranked);
  if (word == "attention") return explained(attention::from_text(text, why), why, ranked);
  if (word == "bn") return explained(norm::from_text(text, why), why, ranked);
  if (word == "norm") {
    return explained(norm::from_text("bn" + std::string(text.substr(word.size())), why), why, ranked);
  }
  if (word == "layer_norm") return explained(layer_norm::from_text(text, why), why, by_order(layer_norm::engines()));
  if (word == "rnn") return explained(rnn::from_text(text, why), why, by_order(rnn::engines()));
  if (word == "pointwise") return explained(pointwise::from_text(text, why), why, by_order(pointwise::engines()));
  if (word == "pool") return explained(pooling::from_text(text, why), why, by_order(pooling::engines()));
  if (word == "act") return explained(activation::from_text(text, why), why, by_order(activation::engines()));
  if (word == "softmax") return explained(softmax::from_text(text, why), why, by_order(softmax::engines()));
  if (word == "tensor") return explained(tensor::from_text(text, why), why, by_order(tensor::engines()));
  if (word == "optensor") return explained(op_tensor::from_text(text, why), why, by_order(op_tensor::engines()));
  if (word == "biasgrad") return explained(bias_grad::from_text(text, why), why, by_order(bias_grad::engines()));
  if (word == "dropout") return explained(dropout::from_text(text, why), why, by_order(dropout::engines()));
  if (word == "lrn") return explained(lrn::from_text(text, why), why, by_order(lrn::engines()));
  if (word == "ctc") return explained(ctc::from_text(text, why), why, by_order(ctc::engines()));
  if (word == "stn") {
    return explained(spatial_transformer::from_text(text, why), why, by_order(spatial_transformer::engines()));
  }
  *why = "'" + std::string(word) +
         "' is none of the operations that have a choice of engines: conv, matmul, attention, bn, norm, layer_norm, "
         "rnn, pointwise, pool, act, softmax, tensor, optensor, biasgrad, dropout, lrn, ctc, stn";
  return std::nullopt;
}

void* Stage::memory(std::size_t number, std::size_t bytes) {
  while (buffers_.size() <= number) buffers_.emplace_back();
  return bytes == 0 ? nullptr : grown(machine_, &buffers_[number], bytes);
}

}  // namespace gpudnn::bench
