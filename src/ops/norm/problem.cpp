// The normalization problem: its checks and its text.
//   bn train spatial f16 nhwc n64c256h56w56 [act=relu] [add] [eps=0.001] [y:LAYOUT] [norunning] [unsaved]
//   bn infer activation f32 nchw n8c16h9w9
//   bn bwd spatial f32 nchw n8c16h9w9 [act=clipped_relu coef=6] [add] [dy:LAYOUT] [dx:LAYOUT] [dz:LAYOUT] [unsaved]
// SPDX-License-Identifier: Apache-2.0
#include "ops/norm/problem.hpp"

#include <charconv>
#include <cmath>

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::norm {
namespace {

constexpr const char* kPasses[] = {"train", "infer", "bwd"};
constexpr const char* kSets[] = {"spatial", "activation"};
constexpr const char* kModes[] = {"sigmoid", "relu", "tanh", "clipped_relu", "elu", "identity", "swish"};
constexpr double kUsualEpsilon = 1e-5;

Status validate_data(const TensorGeometry& x, const TensorGeometry& other, const char* name) {
  GPUDNN_TRY(require_floating(other, name));
  GPUDNN_TRY(require_same_type(x, "xDesc", other, name));
  return require_same_dims(x, "xDesc", other, name);
}

Status validate_parameters(const Problem& problem, const TensorGeometry& parameters, const char* name) {
  GPUDNN_TRY(require_described(parameters, name));
  const TensorGeometry expected = parameter_geometry(problem.x, problem.per_activation);
  GPUDNN_REQUIRE(parameters.type == expected.type, GPUDNN_STATUS_BAD_PARAM,
                 "%s has data type %s; parameters and statistics of %s data are %s", name,
                 data_type_name(parameters.type), data_type_name(problem.x.type), data_type_name(expected.type));
  GPUDNN_REQUIRE(same_dims(parameters, expected), GPUDNN_STATUS_BAD_PARAM,
                 "%s dims %s do not fit xDesc dims %s; they must be %s", name, shown_dims(parameters).c_str(),
                 shown_dims(problem.x).c_str(), shown_dims(expected).c_str());
  return require_no_overlap(parameters, name);
}

Status validate_activation(const Problem& problem) {
  GPUDNN_TRY(require_enum(problem.ops, GPUDNN_BATCHNORM_OPS_BN, GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, "ops",
                          "gpudnnBatchNormOps_t or gpudnnNormOps_t"));
  if (problem.ops == GPUDNN_BATCHNORM_OPS_BN) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_TRY(require_enum(problem.mode, GPUDNN_ACTIVATION_SIGMOID, GPUDNN_ACTIVATION_SWISH, "activationDesc mode",
                          "gpudnnActivationMode_t"));
  GPUDNN_REQUIRE(problem.mode == GPUDNN_ACTIVATION_RELU || problem.mode == GPUDNN_ACTIVATION_CLIPPED_RELU ||
                     problem.mode == GPUDNN_ACTIVATION_IDENTITY,
                 GPUDNN_STATUS_NOT_SUPPORTED,
                 "activationDesc mode is %s; a normalization takes relu, clipped_relu or identity with it: run others "
                 "with gpudnnActivationForward",
                 name_of(problem.mode, kModes).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

std::string number_text(double value) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  return {digits, end};
}

bool take_number(ProblemWords* words, const char* prefix, double* value, std::string* why) {
  const auto text = words->take(prefix);
  if (!text) return true;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error == std::errc{} && end == text->data() + text->size()) return true;
  *why = "'" + std::string(prefix) + std::string(*text) + "' is no number";
  return false;
}

bool take_activation(ProblemWords* words, Problem* problem, std::string* why) {
  if (words->take_word("add")) problem->ops = GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
  const auto text = words->take("act=");
  if (!text) {
    if (problem->ops == GPUDNN_BATCHNORM_OPS_BN) return true;
    return *why = "'add' goes with an activation: write 'act=identity' for none", false;
  }
  if (problem->ops == GPUDNN_BATCHNORM_OPS_BN) problem->ops = GPUDNN_BATCHNORM_OPS_BN_ACTIVATION;
  for (int i = 0; i < static_cast<int>(std::size(kModes)); ++i) {
    if (*text == kModes[i]) return problem->mode = static_cast<gpudnnActivationMode_t>(i), true;
  }
  return *why = "'act=" + std::string(*text) + "' is no activation", false;
}

bool take_layouts(ProblemWords* words, Problem* problem, std::string* why) {
  const auto implied = implied_format(problem->x);
  const auto take = [&](const char* name, TensorGeometry* tensor) {
    *tensor = problem->x;
    return take_layout(words, name, implied, tensor, why);
  };
  const bool adds = problem->ops == GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
  if (problem->pass == Pass::backward) {
    if (!take("dy", &problem->dy) || !take("dx", &problem->dx) || (adds && !take("dz", &problem->dz))) return false;
  } else if (!take("y", &problem->y) || (adds && !take("z", &problem->z))) {
    return false;
  }
  problem->params = problem->stats = parameter_geometry(problem->x, problem->per_activation);
  return take_layout(words, "params", GPUDNN_TENSOR_NCHW, &problem->params, why) &&
         take_layout(words, "stats", GPUDNN_TENSOR_NCHW, &problem->stats, why);
}

}  // namespace

TensorGeometry parameter_geometry(const TensorGeometry& x, bool per_activation) noexcept {
  TensorGeometry result = x;
  result.type = x.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  for (int i = 0; i < x.rank; ++i) {
    if (i == 0 || (!per_activation && i != 1)) result.dims[i] = 1;
  }
  set_packed_strides(&result, GPUDNN_TENSOR_NCHW);
  return result;
}

std::int64_t peer_buffer_floats(const Problem& problem) noexcept {
  return 4 * problem.peers * element_count(problem.stats);
}

bool has_mask(const Problem& problem) noexcept {
  return problem.masks && problem.pass != Pass::infer && problem.ops != GPUDNN_BATCHNORM_OPS_BN &&
         problem.mode != GPUDNN_ACTIVATION_IDENTITY;
}

Status validate(const Problem& problem) {
  GPUDNN_TRY(require_floating(problem.x, "xDesc"));
  GPUDNN_TRY(require_rank(problem.x, "xDesc", 2, kMaxRank));
  GPUDNN_TRY(validate_activation(problem));
  const bool adds = problem.ops == GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
  if (problem.pass == Pass::backward) {
    GPUDNN_TRY(validate_data(problem.x, problem.dy, "dyDesc"));
    GPUDNN_TRY(validate_data(problem.x, problem.dx, "dxDesc"));
    GPUDNN_TRY(require_no_overlap(problem.dx, "dxDesc"));
    if (adds) {
      GPUDNN_TRY(validate_data(problem.x, problem.dz, "dzDesc"));
      GPUDNN_TRY(require_no_overlap(problem.dz, "dzDesc"));
    }
  } else {
    GPUDNN_TRY(validate_data(problem.x, problem.y, "yDesc"));
    GPUDNN_TRY(require_no_overlap(problem.y, "yDesc"));
    if (adds) GPUDNN_TRY(validate_data(problem.x, problem.z, "zDesc"));
  }
  GPUDNN_TRY(validate_parameters(problem, problem.params, "the descriptor of scale and bias"));
  GPUDNN_TRY(validate_parameters(problem, problem.stats, "the descriptor of mean and variance"));
  GPUDNN_REQUIRE(problem.epsilon >= GPUDNN_BN_MIN_EPSILON && std::isfinite(problem.epsilon), GPUDNN_STATUS_BAD_PARAM,
                 "epsilon is %g; it must be finite and at least GPUDNN_BN_MIN_EPSILON, %g", problem.epsilon,
                 GPUDNN_BN_MIN_EPSILON);
  return GPUDNN_STATUS_SUCCESS;
}

std::string to_text(const Problem& problem) {
  std::string text = std::string("bn ") + name_of(static_cast<int>(problem.pass), kPasses) + ' ' +
                     kSets[problem.per_activation ? 1 : 0] + ' ' + tensor_text(problem.x);
  if (problem.ops != GPUDNN_BATCHNORM_OPS_BN) text += " act=" + name_of(problem.mode, kModes);
  if (problem.ops == GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION) text += " add";
  if (problem.coef != 0) text += " coef=" + number_text(problem.coef);
  if (problem.epsilon != kUsualEpsilon) text += " eps=" + number_text(problem.epsilon);
  const auto implied = implied_format(problem.x);
  const bool adds = problem.ops == GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
  if (problem.pass == Pass::backward) {
    text += layout_word("dy", problem.dy, implied) + layout_word("dx", problem.dx, implied);
    if (adds) text += layout_word("dz", problem.dz, implied);
  } else {
    text += layout_word("y", problem.y, implied);
    if (adds) text += layout_word("z", problem.z, implied);
  }
  text += layout_word("params", problem.params, GPUDNN_TENSOR_NCHW);
  text += layout_word("stats", problem.stats, GPUDNN_TENSOR_NCHW);
  if (problem.nan == GPUDNN_PROPAGATE_NAN) text += " nan";
  if (problem.pass == Pass::train && !problem.running) text += " norunning";
  if (problem.pass != Pass::infer && !problem.saved) text += " unsaved";
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "bn") return *why = "the line does not start with 'bn'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  problem.pass = static_cast<Pass>(pass);
  const int sets = take_choice(&words, kSets, why);
  if (sets < 0) return std::nullopt;
  problem.per_activation = sets == 1;
  if (!parse_tensor(&words, &problem.x) || problem.x.rank < 2) {
    return *why = "expected a tensor such as 'f16 nhwc n64c256h56w56'", std::nullopt;
  }
  problem.epsilon = kUsualEpsilon;
  if (!take_activation(&words, &problem, why) || !take_number(&words, "coef=", &problem.coef, why) ||
      !take_number(&words, "eps=", &problem.epsilon, why) || !take_layouts(&words, &problem, why)) {
    return std::nullopt;
  }
  if (words.take_word("nan")) problem.nan = GPUDNN_PROPAGATE_NAN;
  if (problem.pass == Pass::train && words.take_word("norunning")) problem.running = false;
  if (problem.pass != Pass::infer && words.take_word("unsaved")) problem.saved = false;
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::norm
