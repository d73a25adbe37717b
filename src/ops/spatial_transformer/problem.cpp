// The spatial transformer's problems: their checks and their text. The tensor written out is y, or dy.
//   stn grid_fwd f32 nchw n8c3h16w16
//   stn grid_bwd f32 nchw n8c3h16w16
//   stn fwd f16 nhwc n8c3h16w16 in=20x24 [x:LAYOUT]
//   stn bwd f32 nchw n8c3h16w16 in=20x24 [x:LAYOUT] [dx:LAYOUT]
// SPDX-License-Identifier: Apache-2.0
#include "ops/spatial_transformer/problem.hpp"

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::spatial_transformer {
namespace {

constexpr const char* kOperations[] = {"grid_fwd", "grid_bwd", "fwd", "bwd"};
constexpr std::int64_t kMaxPixels = (std::int64_t{1} << 31) - 1;

Status validate_image(const Problem& problem, const TensorGeometry& image, const char* name, const char* sample) {
  GPUDNN_TRY(require_floating(image, name));
  GPUDNN_TRY(require_rank(image, name, 4, 4));
  GPUDNN_TRY(require_same_type(problem.y, sample, image, name));
  for (int i = 0; i < 2; ++i) {
    GPUDNN_REQUIRE(image.dims[i] == problem.y.dims[i], GPUDNN_STATUS_BAD_PARAM,
                   "%s dims %s and %s dims %s must agree in n and c", name, shown_dims(image).c_str(), sample,
                   shown_dims(problem.y).c_str());
  }
  GPUDNN_REQUIRE(image.dims[2] <= kMaxPixels && image.dims[3] <= kMaxPixels, GPUDNN_STATUS_NOT_SUPPORTED,
                 "%s dims %s: at most %lld rows and columns are built", name, shown_dims(image).c_str(),
                 static_cast<long long>(kMaxPixels));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

TensorGeometry grid_geometry(const Problem& problem) {
  const std::int64_t dims[] = {problem.y.dims[0], problem.y.dims[2], problem.y.dims[3], 2};
  return packed_tensor(problem.y.type, GPUDNN_TENSOR_NCHW, 4, dims);
}

TensorGeometry theta_geometry(const Problem& problem) {
  const std::int64_t dims[] = {problem.y.dims[0], 2, 3};
  return packed_tensor(problem.y.type, GPUDNN_TENSOR_NCHW, 3, dims);
}

Status validate(const Problem& problem) {
  const bool backward = problem.operation == Operation::sample_backward;
  const char* const sample = is_grid(problem.operation) ? "stDesc" : backward ? "dyDesc" : "yDesc";
  GPUDNN_TRY(require_floating(problem.y, sample));
  GPUDNN_TRY(require_rank(problem.y, sample, 4, 4));
  GPUDNN_REQUIRE(problem.y.dims[2] == 0 || problem.y.dims[3] <= kMaxPixels / problem.y.dims[2],
                 GPUDNN_STATUS_NOT_SUPPORTED, "%s dims %s: at most %lld pixels an image are built", sample,
                 shown_dims(problem.y).c_str(), static_cast<long long>(kMaxPixels));
  if (is_grid(problem.operation)) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_TRY(validate_image(problem, problem.x, "xDesc", sample));
  if (!backward) return require_no_overlap(problem.y, sample);
  GPUDNN_TRY(validate_image(problem, problem.dx, "dxDesc", sample));
  GPUDNN_TRY(require_same_dims(problem.x, "xDesc", problem.dx, "dxDesc"));
  return require_no_overlap(problem.dx, "dxDesc");
}

std::string to_text(const Problem& problem) {
  std::string text =
      std::string("stn ") + name_of(static_cast<int>(problem.operation), kOperations) + ' ' + tensor_text(problem.y);
  if (is_grid(problem.operation)) return text;
  const auto implied = implied_format(problem.y);
  text += " in=" + extents_text(problem.x.dims + 2, 2) + layout_word("x", problem.x, implied);
  if (problem.operation == Operation::sample_backward) text += layout_word("dx", problem.dx, implied);
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "stn") return *why = "the line does not start with 'stn'", std::nullopt;
  const int operation = take_choice(&words, kOperations, why);
  if (operation < 0) return std::nullopt;
  problem.operation = static_cast<Operation>(operation);
  if (!parse_tensor(&words, &problem.y) || problem.y.rank != 4) {
    return *why = "expected a tensor of 4 dims such as 'f32 nchw n8c3h16w16'", std::nullopt;
  }
  if (!is_grid(problem.operation)) {
    const auto extents = words.take("in=");
    int count = 0;
    problem.x = problem.y;
    if (!extents || !parse_extents(*extents, problem.x.dims + 2, &count, 2) || count != 2) {
      return *why = "the image's height and width are missing: write in=20x24", std::nullopt;
    }
    const auto implied = implied_format(problem.y);
    if (!take_layout(&words, "x", implied, &problem.x, why)) return std::nullopt;
    if (problem.operation == Operation::sample_backward) {
      problem.dx = problem.x;
      if (!take_layout(&words, "dx", implied, &problem.dx, why)) return std::nullopt;
    }
  }
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::spatial_transformer
