// Reading and writing the text of fused operation plans.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/text.hpp"

#include "core/layout_words.hpp"

namespace gpudnn::fused_ops {
namespace {

constexpr const char* kPasses[] = {"fwd", "gate"};
constexpr const char* kModes[] = {"sigmoid", "relu", "tanh", "clipped_relu", "elu", "identity", "swish"};
constexpr const char* kVectorNames[kVectors] = {"scale", "bias", "zscale", "zbias"};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// One stage, by its first word.
bool read_stage(std::string_view text, Stages* stages, std::string* why) {
  const std::string_view word = text.substr(0, text.find(' '));
  if (word == "conv") return (stages->conv = conv::from_text(text, why)).has_value();
  if (word == "affine") return (stages->affine = affine_from_text(text, why)).has_value();
  if (word == "bn") return (stages->norm = norm::from_text(text, why)).has_value();
  if (word == "finalize") return (stages->finalize = finalize_from_text(text, why)).has_value();
  *why = "'" + std::string(word) + "' is none of conv, affine, bn, finalize";
  return false;
}

// The stages that the pattern must have.
bool is_complete(const Stages& stages, std::string* why) {
  switch (stages.ops) {
    case GPUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING:
    case GPUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE:
      if (stages.finalize) return true;
      break;
    case GPUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK:
      if (stages.affine) return true;
      break;
    case GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM:
      if (stages.norm) return true;
      break;
    default:
      if (stages.conv) return true;
  }
  *why = std::string("the stage that ") + pattern_name(stages.ops) + " is about is missing";
  return false;
}

}  // namespace

std::optional<AffineProblem> affine_from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  AffineProblem problem;
  if (words.next() != "affine") return *why = "the line does not start with 'affine'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  if (!parse_tensor(&words, &problem.y) || problem.y.rank < 2) {
    return *why = "expected a tensor such as 'f16 nhwc n2c3h8w8'", std::nullopt;
  }
  const auto implied = implied_format(problem.y);
  problem.x = problem.y;
  if (!take_layout(&words, "x", implied, &problem.x, why)) return std::nullopt;
  if (words.take_word("add")) {
    problem.z = problem.y;
    if (!take_layout(&words, "z", implied, &problem.z, why)) return std::nullopt;
  }
  for (int v = 0; v < kVectors; ++v) {
    const auto type = words.take(std::string(kVectorNames[v]) + '=');
    if (!type) continue;
    const auto parsed = parse_data_type(*type);
    if (!parsed) return *why = "'" + std::string(*type) + "' is no data type", std::nullopt;
    problem.vectors[v] = {true, *parsed, 1};
  }
  if (const auto mode = words.take("act=")) {
    int found = -1;
    for (int i = 0; i < static_cast<int>(std::size(kModes)); ++i) {
      if (*mode == kModes[i]) found = i;
    }
    if (found < 0) return *why = "'" + std::string(*mode) + "' is no activation", std::nullopt;
    problem.mode = static_cast<gpudnnActivationMode_t>(found);
  }
  problem.nan = words.take_word("nan") ? GPUDNN_PROPAGATE_NAN : GPUDNN_NOT_PROPAGATE_NAN;
  const bool writes = words.take_word("bits");
  problem.bits = pass == 1 ? Bits::read : writes ? Bits::write : Bits::none;
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

std::optional<FinalizeProblem> finalize_from_text(std::string_view line, std::string* why) {
  constexpr const char* kPhases[] = {"infer", "train"};
  ProblemWords words(line);
  FinalizeProblem problem;
  if (words.next() != "finalize") return *why = "the line does not start with 'finalize'", std::nullopt;
  const int phase = take_choice(&words, kPhases, why);
  if (phase < 0) return std::nullopt;
  problem.training = phase == 1;
  if (!parse_lettered(words.next(), "c", &problem.channels)) {
    return *why = "expected the number of channels, such as c256", std::nullopt;
  }
  for (int v = 0; v < kFinalizeVectors; ++v) {
    const bool of_training = v == kSum || v == kSquares || v == kSavedMean || v == kSavedInverse;
    if (problem.training || !of_training) problem.vectors[v] = {true, GPUDNN_DATA_FLOAT, 1};
  }
  if (const auto type = words.take("eq=")) {
    const auto parsed = parse_data_type(*type);
    if (!parsed) return *why = "'" + std::string(*type) + "' is no data type", std::nullopt;
    problem.vectors[kEqScale].type = problem.vectors[kEqBias].type = *parsed;
  }
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

std::string to_text(const Stages& stages) {
  std::string text = std::string("fused ") + pattern_name(stages.ops);
  if (stages.conv) text += " | " + conv::to_text(*stages.conv);
  if (stages.affine) text += " | " + to_text(*stages.affine);
  if (stages.norm) text += " | " + norm::to_text(*stages.norm);
  if (stages.finalize) text += " | " + to_text(*stages.finalize);
  return text;
}

std::optional<Stages> from_text(std::string_view line, std::string* why) {
  const auto bar = line.find('|');
  ProblemWords words(line.substr(0, bar));
  Stages stages;
  if (words.next() != "fused") return *why = "the line does not start with 'fused'", std::nullopt;
  const std::string_view name = words.next();
  int pattern = GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM;
  while (pattern >= 0 && name != pattern_name(static_cast<gpudnnFusedOps_t>(pattern))) --pattern;
  if (pattern < 0) return *why = "'" + std::string(name) + "' is no pattern of fused operations", std::nullopt;
  stages.ops = static_cast<gpudnnFusedOps_t>(pattern);
  if (!nothing_left(words, why)) return std::nullopt;
  for (auto at = bar; at != std::string_view::npos;) {
    const auto next = line.find('|', at + 1);
    const std::string_view stage = line.substr(at + 1, next == std::string_view::npos ? next : next - at - 1);
    if (!read_stage(trimmed(stage), &stages, why)) return std::nullopt;
    at = next;
  }
  if (!is_complete(stages, why)) return std::nullopt;
  return stages;
}

}  // namespace gpudnn::fused_ops
