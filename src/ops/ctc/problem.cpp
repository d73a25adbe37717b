// The CTC-loss problem: its checks and its text. The tensor written out is (steps, sequences, alphabet).
//   ctc f32 nchw n50c8w30 softmax labels=12 [nograd] [skip] [hostlabels] [g:LAYOUT]
// SPDX-License-Identifier: Apache-2.0
#include "ops/ctc/problem.hpp"

#include <algorithm>
#include <cstdint>

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::ctc {
namespace {

constexpr const char* kNormalizations[] = {"none", "softmax"};

}  // namespace

kernels::CtcShape shape_of(const Problem& problem) noexcept {
  kernels::CtcShape shape;
  shape.wide = problem.x.type == GPUDNN_DATA_DOUBLE;
  shape.softmax = problem.softmax;
  shape.has_gradients = problem.has_gradients;
  shape.steps = problem.x.dims[0];
  shape.sequences = problem.x.dims[1];
  shape.alphabet = problem.x.dims[2];
  shape.max_labels = problem.max_labels;
  shape.stored_labels = problem.stored_labels;
  shape.stores_labels = problem.host_labels;
  return shape;
}

std::size_t workspace_size(const Problem& problem) noexcept { return kernels::ctc_workspace(shape_of(problem)).bytes; }

namespace {

// The first label of the sequences that does not exist, refused by its place.
Status refuse_label(const int* labels, const int* label_lengths, std::int64_t alphabet) {
  for (std::int64_t n = 0;; ++n) {
    for (int i = 0; i < label_lengths[n]; ++i, ++labels) {
      if (*labels > 0 && *labels < alphabet) continue;
      return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM,
                           "label %d of sequence %lld is %d; it must be 1 to %lld (0 is the blank)", i,
                           static_cast<long long>(n), *labels, static_cast<long long>(alphabet - 1));
    }
  }
}

}  // namespace

Status read_host_labels(const int* labels, const int* label_lengths, const int* input_lengths, Problem* problem) {
  problem->host_labels = true;
  problem->max_labels = problem->stored_labels = 0;
  for (std::int64_t n = 0; n < problem->x.dims[1]; ++n) {
    const int length = label_lengths[n];
    GPUDNN_REQUIRE(length >= 0, GPUDNN_STATUS_BAD_PARAM, "labelLengths[%lld] is %d; it must not be negative",
                   static_cast<long long>(n), length);
    GPUDNN_REQUIRE(input_lengths[n] >= 0 && input_lengths[n] <= problem->x.dims[0], GPUDNN_STATUS_BAD_PARAM,
                   "inputLengths[%lld] is %d; it must be 0 to the %lld steps of probsDesc", static_cast<long long>(n),
                   input_lengths[n], static_cast<long long>(problem->x.dims[0]));
    problem->stored_labels += length;
    if (length > problem->max_labels) problem->max_labels = length;
  }
  if (labels == nullptr) return GPUDNN_STATUS_SUCCESS;
  // In blocks that vectors can sweep, as there may be thousands in every call; the first block with an illegal one is
  // the last to be read, for then the lengths are not to be trusted either.
  constexpr std::int64_t kBlock = 64;
  const auto most = static_cast<unsigned>(std::min<std::int64_t>(problem->x.dims[2] - 1, INT32_MAX));
  for (std::int64_t first = 0; first < problem->stored_labels; first += kBlock) {
    const std::int64_t end = std::min(first + kBlock, problem->stored_labels);
    bool illegal = false;
    for (std::int64_t i = first; i < end; ++i) illegal |= static_cast<unsigned>(labels[i]) - 1u >= most;
    if (illegal) return refuse_label(labels, label_lengths, problem->x.dims[2]);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status validate(const Problem& problem) {
  GPUDNN_TRY(require_described(problem.x, "probsDesc"));
  GPUDNN_REQUIRE(problem.x.type == GPUDNN_DATA_FLOAT || problem.x.type == GPUDNN_DATA_DOUBLE,
                 GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "probsDesc has data type %s; CTC losses are built for f32 and f64", data_type_name(problem.x.type));
  GPUDNN_TRY(require_rank(problem.x, "probsDesc", 3, 3));
  constexpr std::int64_t kMaximum = (std::int64_t{1} << 31) - 1;
  GPUDNN_REQUIRE(problem.x.dims[1] == 0 || problem.x.dims[0] <= kMaximum / (2 * problem.x.dims[1]),
                 GPUDNN_STATUS_NOT_SUPPORTED, "probsDesc dims %s: steps times sequences must stay below 2^30",
                 dims_text(problem.x).c_str());
  GPUDNN_REQUIRE(problem.max_labels < (1 << 29), GPUDNN_STATUS_NOT_SUPPORTED,
                 "label sequences of %lld labels; below 2^29 are built", static_cast<long long>(problem.max_labels));
  if (!problem.has_gradients) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_TRY(require_described(problem.gradients, "gradientsDesc"));
  GPUDNN_TRY(require_same_type(problem.x, "probsDesc", problem.gradients, "gradientsDesc"));
  GPUDNN_TRY(require_same_dims(problem.x, "probsDesc", problem.gradients, "gradientsDesc"));
  return require_no_overlap(problem.gradients, "gradientsDesc");
}

std::string to_text(const Problem& problem) {
  std::string text = "ctc " + tensor_text(problem.x) + ' ' + kNormalizations[problem.softmax] +
                     " labels=" + std::to_string(problem.max_labels);
  if (!problem.has_gradients) {
    text += " nograd";
  } else {
    text += layout_word("g", problem.gradients, implied_format(problem.x));
  }
  if (problem.skip_impossible) text += " skip";
  if (problem.host_labels) text += " hostlabels";
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "ctc") return *why = "the line does not start with 'ctc'", std::nullopt;
  if (!parse_tensor(&words, &problem.x) || problem.x.rank != 3) {
    return *why = "expected a tensor of steps, sequences and alphabet such as 'f32 nchw n50c8w30'", std::nullopt;
  }
  const int normalization = take_choice(&words, kNormalizations, why);
  if (normalization < 0) return std::nullopt;
  problem.softmax = normalization == 1;
  const auto labels = words.take("labels=");
  int count = 0;
  if (!labels || !parse_extents(*labels, &problem.max_labels, &count, 1) || count != 1) {
    return *why = "the longest label sequence is missing: write labels=12", std::nullopt;
  }
  problem.has_gradients = !words.take_word("nograd");
  problem.skip_impossible = words.take_word("skip");
  problem.host_labels = words.take_word("hostlabels");
  if (problem.host_labels) problem.stored_labels = problem.max_labels * problem.x.dims[1];
  if (problem.has_gradients) {
    problem.gradients = problem.x;
    if (!take_layout(&words, "g", implied_format(problem.x), &problem.gradients, why)) return std::nullopt;
  }
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::ctc
