// The pooling problem: its checks and its text.
//   pool fwd max f16 nhwc n64c256h56w56 r3s3 p1x1 t2x2 [out=29x29] [y:LAYOUT] [nan]
//   pool bwd avg f32 nchw n8c16h9w9 r2s2 p0x0 t2x2 [out=5x5] [y:LAYOUT] [dx:LAYOUT] [dy:LAYOUT] [nan]
// out= gives y's extents where they differ from those of the floor formula (output_extent).
// SPDX-License-Identifier: Apache-2.0
#include "ops/pooling/problem.hpp"

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::pooling {
namespace {

constexpr const char* kPasses[] = {"fwd", "bwd"};
constexpr const char* kModes[] = {"max", "avg_pad", "avg", "max_det"};

std::string_view window_letters(int spatial) { return spatial == 1 ? "s" : spatial == 2 ? "rs" : "trs"; }

Status validate_window(const Problem& problem) {
  for (int i = 0; i < problem.spatial; ++i) {
    GPUDNN_REQUIRE(problem.window[i] > 0, GPUDNN_STATUS_BAD_PARAM,
                   "poolingDesc window %d is %lld; a window has at least one element in each dimension", i,
                   static_cast<long long>(problem.window[i]));
    GPUDNN_REQUIRE(problem.stride[i] > 0, GPUDNN_STATUS_BAD_PARAM, "poolingDesc stride %d is %lld; it must be positive",
                   i, static_cast<long long>(problem.stride[i]));
    GPUDNN_REQUIRE(problem.pad[i] >= 0, GPUDNN_STATUS_BAD_PARAM,
                   "poolingDesc padding %d is %lld; it must not be negative", i,
                   static_cast<long long>(problem.pad[i]));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status validate_output(const Problem& problem) {
  GPUDNN_TRY(require_floating(problem.y, "yDesc"));
  GPUDNN_TRY(require_same_type(problem.x, "xDesc", problem.y, "yDesc"));
  GPUDNN_REQUIRE(problem.y.rank == problem.x.rank, GPUDNN_STATUS_BAD_PARAM,
                 "yDesc dims %s are %d dims and xDesc dims %s are %d; they must be as many",
                 shown_dims(problem.y).c_str(), problem.y.rank, shown_dims(problem.x).c_str(), problem.x.rank);
  for (int i = 0; i < 2; ++i) {
    GPUDNN_REQUIRE(problem.y.dims[i] == problem.x.dims[i], GPUDNN_STATUS_BAD_PARAM,
                   "yDesc dims %s and xDesc dims %s differ in the %s; pooling keeps it", shown_dims(problem.y).c_str(),
                   shown_dims(problem.x).c_str(), i == 0 ? "batch" : "channels");
  }
  return GPUDNN_STATUS_SUCCESS;
}

// The window, padding and stride words.
bool read_window(ProblemWords* words, Problem* problem, std::string* why) {
  const std::string_view window = words->next();
  if (!parse_lettered(window, window_letters(problem->spatial), problem->window)) {
    *why = "expected a window such as r3s3 (s3 in one dimension, t3r3s3 in three), found '" + std::string(window) + "'";
    return false;
  }
  struct Row {
    char letter;
    std::int64_t* values;
  } const rows[] = {{'p', problem->pad}, {'t', problem->stride}};
  for (const Row& row : rows) {
    int count = 0;
    const std::string_view word = words->next();
    if (!word.starts_with(row.letter) || !parse_extents(word.substr(1), row.values, &count, kMaxSpatial) ||
        count != problem->spatial) {
      *why = std::string("expected '") + row.letter +
             "' and one number for each spatial dimension (such as p1x1), found '" + std::string(word) + "'";
      return false;
    }
  }
  for (int i = 0; i < problem->spatial; ++i) {
    if (problem->stride[i] < 1 || problem->window[i] < 1) return *why = "windows and strides start at 1", false;
  }
  return true;
}

bool derive_tensors(ProblemWords* words, Problem* problem, std::string* why) {
  bool fits = true;
  problem->y = problem->x;
  for (int i = 0; i < problem->spatial; ++i) {
    problem->y.dims[2 + i] =
        output_extent(problem->x.dims[2 + i], problem->window[i], problem->pad[i], problem->stride[i]);
    fits = fits && problem->y.dims[2 + i] > 0;
  }
  if (const auto out = words->take("out=")) {
    int count = 0;
    if (!parse_extents(*out, problem->y.dims + 2, &count, kMaxSpatial) || count != problem->spatial) {
      *why = "'out=" + std::string(*out) + "' is not one number for each spatial dimension (such as out=7x7)";
      return false;
    }
  } else if (!fits) {
    return *why = "the window does not fit into the padded image; tell y's extents with out=", false;
  }
  const auto implied = implied_format(problem->x);
  if (!take_layout(words, "y", implied, &problem->y, why)) return false;
  if (!problem->backward) return true;
  problem->dx = problem->x;
  problem->dy = problem->y;
  return take_layout(words, "dx", implied, &problem->dx, why) && take_layout(words, "dy", implied, &problem->dy, why);
}

}  // namespace

std::int64_t output_extent(std::int64_t input, std::int64_t window, std::int64_t pad, std::int64_t stride) noexcept {
  const std::int64_t room = input + 2 * pad - window;
  return room < 0 ? 0 : room / stride + 1;
}

Status validate(const Problem& problem) {
  GPUDNN_TRY(require_enum(problem.mode, GPUDNN_POOLING_MAX, GPUDNN_POOLING_MAX_DETERMINISTIC, "poolingDesc mode",
                          "gpudnnPoolingMode_t"));
  GPUDNN_TRY(require_enum(problem.nan, GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN, "poolingDesc maxpoolingNanOpt",
                          "gpudnnNanPropagation_t"));
  GPUDNN_REQUIRE(problem.spatial >= 1, GPUDNN_STATUS_BAD_PARAM, "poolingDesc has %d spatial dimensions; set it first",
                 problem.spatial);
  GPUDNN_REQUIRE(problem.spatial <= kMaxSpatial, GPUDNN_STATUS_NOT_SUPPORTED,
                 "poolingDesc has %d spatial dimensions; 1 to %d are built", problem.spatial, kMaxSpatial);
  GPUDNN_TRY(validate_window(problem));
  GPUDNN_TRY(require_floating(problem.x, "xDesc"));
  GPUDNN_REQUIRE(problem.x.rank == problem.spatial + 2, GPUDNN_STATUS_BAD_PARAM,
                 "xDesc dims %s are %d dims; poolingDesc has %d spatial dimensions, so there must be %d",
                 shown_dims(problem.x).c_str(), problem.x.rank, problem.spatial, problem.spatial + 2);
  GPUDNN_TRY(validate_output(problem));
  if (!problem.backward) return require_no_overlap(problem.y, "yDesc");
  GPUDNN_TRY(require_floating(problem.dy, "dyDesc"));
  GPUDNN_TRY(require_same_type(problem.y, "yDesc", problem.dy, "dyDesc"));
  GPUDNN_TRY(require_same_dims(problem.y, "yDesc", problem.dy, "dyDesc"));
  GPUDNN_TRY(require_floating(problem.dx, "dxDesc"));
  GPUDNN_TRY(require_same_type(problem.x, "xDesc", problem.dx, "dxDesc"));
  GPUDNN_TRY(require_same_dims(problem.x, "xDesc", problem.dx, "dxDesc"));
  return require_no_overlap(problem.dx, "dxDesc");
}

std::string to_text(const Problem& problem) {
  std::string text = std::string("pool ") + kPasses[problem.backward] + ' ' + name_of(problem.mode, kModes) + ' ' +
                     tensor_text(problem.x) + ' ';
  const std::string_view letters = window_letters(problem.spatial);
  for (int i = 0; i < problem.spatial; ++i) {
    text += letters[static_cast<std::size_t>(i)] + std::to_string(problem.window[i]);
  }
  text += " p" + extents_text(problem.pad, problem.spatial) + " t" + extents_text(problem.stride, problem.spatial);
  bool floor_extents = true;  // and at least one output, or the line without the word is refused
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t extent =
        output_extent(problem.x.dims[2 + i], problem.window[i], problem.pad[i], problem.stride[i]);
    floor_extents = floor_extents && extent > 0 && problem.y.dims[2 + i] == extent;
  }
  if (!floor_extents) text += " out=" + extents_text(problem.y.dims + 2, problem.spatial);
  const auto implied = implied_format(problem.x);
  text += layout_word("y", problem.y, implied);
  if (problem.backward) text += layout_word("dx", problem.dx, implied) + layout_word("dy", problem.dy, implied);
  if (problem.nan == GPUDNN_PROPAGATE_NAN) text += " nan";
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "pool") return *why = "the line does not start with 'pool'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  problem.backward = pass == 1;
  const int mode = take_choice(&words, kModes, why);
  if (mode < 0) return std::nullopt;
  problem.mode = static_cast<gpudnnPoolingMode_t>(mode);
  if (!parse_tensor(&words, &problem.x) || problem.x.rank < 3 || problem.x.rank > 2 + kMaxSpatial) {
    return *why = "expected an image such as 'f16 nhwc n64c256h56w56'", std::nullopt;
  }
  problem.spatial = problem.x.rank - 2;
  if (!read_window(&words, &problem, why) || !derive_tensors(&words, &problem, why)) return std::nullopt;
  if (words.take_word("nan")) problem.nan = GPUDNN_PROPAGATE_NAN;
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::pooling
