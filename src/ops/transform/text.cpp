// The text of transforms and column buffers.
//   transform f32 nchw n2c3h8w8 out=f32 strides=... n2c12h4w4 before=0,0,1,1 after=0,0,0,0 fold=1,1,2,2 [unfold]
//   im2col f32 nchw n2c3h8w8 taps=3x3 p1x1 t1x1 d1x1 [flip]
// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "core/layout_words.hpp"
#include "ops/transform/problem.hpp"

namespace gpudnn::transform {
namespace {

std::string list_text(const char* word, const std::int64_t* values, int count) {
  std::string text = std::string(" ") + word + '=';
  for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(values[i]);
  return text;
}

// "0,-1,2" of exactly `count` numbers.
bool take_list(ProblemWords* words, const char* word, int count, std::int64_t* values, std::string* why) {
  const auto list = words->take(std::string(word) + '=');
  const char* at = list ? list->data() : nullptr;
  const char* const end = list ? at + list->size() : nullptr;
  for (int i = 0; at != nullptr && i < count; ++i) {
    const auto [next, error] = std::from_chars(at, end, values[i]);
    const bool last = i + 1 == count;
    if (error != std::errc{} || (last ? next != end : next == end || *next != ',')) {
      at = nullptr;
    } else {
      at = last ? next : next + 1;
    }
  }
  if (at != nullptr) return true;
  *why = std::string("expected ") + word + "= with " + std::to_string(count) + " numbers and commas between";
  return false;
}

// The word of `letter` and one extent for each spatial dimension, such as p1x1.
bool take_extents(ProblemWords* words, std::string_view prefix, int count, std::int64_t* values, std::string* why) {
  const auto text = words->take(prefix);
  int found = 0;
  if (text && parse_extents(*text, values, &found, count) && found == count) return true;
  *why = "expected " + std::string(prefix) + " and " + std::to_string(count) + " numbers with x between";
  return false;
}

}  // namespace

std::string to_text(const Problem& problem) {
  const Transform& t = problem.transform;
  return "transform " + tensor_text(problem.in) + " out=" + tensor_text(problem.out) +
         list_text("before", t.before, t.rank) + list_text("after", t.after, t.rank) +
         list_text("fold", t.fold, t.rank) + (t.unfold ? " unfold" : "");
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "transform") return *why = "the line does not start with 'transform'", std::nullopt;
  if (!parse_tensor(&words, &problem.in)) {
    return *why = "expected a tensor such as 'f32 nchw n2c3h8w8'", std::nullopt;
  }
  const auto out_type = words.take("out=");
  const std::string_view out_layout = words.next();
  if (!out_type || !parse_tensor(*out_type, out_layout, words.next(), &problem.out)) {
    return *why = "the destination is missing: write out=f32 nchw n2c3h8w8", std::nullopt;
  }
  Transform& t = problem.transform;
  t = identity(problem.in.rank);
  t.unfold = words.take_word("unfold");
  if (!take_list(&words, "before", t.rank, t.before, why) || !take_list(&words, "after", t.rank, t.after, why) ||
      !take_list(&words, "fold", t.rank, t.fold, why) || !nothing_left(words, why)) {
    return std::nullopt;
  }
  for (int i = 0; i < t.rank; ++i) {
    if (t.fold[i] < 1 || (i < 2 && t.fold[i] != 1)) {
      return *why = "fold has numbers from 1 on, and 1 for the first two dimensions", std::nullopt;
    }
  }
  return problem;
}

bool set_outputs(ColumnProblem* problem, int* where) noexcept {
  for (int i = 0; i < problem->spatial; ++i) {
    const std::int64_t room =
        problem->x.dims[2 + i] + 2 * problem->pad[i] - (problem->dilation[i] * (problem->taps[i] - 1) + 1);
    *where = i;
    if (room < 0) return false;
    problem->outputs[i] = room / problem->stride[i] + 1;
  }
  return true;
}

std::string to_text(const ColumnProblem& problem) {
  return "im2col " + tensor_text(problem.x) + " taps=" + extents_text(problem.taps, problem.spatial) + " p" +
         extents_text(problem.pad, problem.spatial) + " t" + extents_text(problem.stride, problem.spatial) + " d" +
         extents_text(problem.dilation, problem.spatial) + (problem.flip ? " flip" : "");
}

std::optional<ColumnProblem> columns_from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  ColumnProblem problem;
  if (words.next() != "im2col") return *why = "the line does not start with 'im2col'", std::nullopt;
  if (!parse_tensor(&words, &problem.x) || problem.x.rank < 3 || problem.x.rank > 5) {
    return *why = "expected an image such as 'f32 nchw n2c3h8w8'", std::nullopt;
  }
  problem.spatial = problem.x.rank - 2;
  problem.flip = words.take_word("flip");
  if (!take_extents(&words, "taps=", problem.spatial, problem.taps, why) ||
      !take_extents(&words, "p", problem.spatial, problem.pad, why) ||
      !take_extents(&words, "t", problem.spatial, problem.stride, why) ||
      !take_extents(&words, "d", problem.spatial, problem.dilation, why) || !nothing_left(words, why)) {
    return std::nullopt;
  }
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.taps[i] < 1 || problem.stride[i] < 1 || problem.dilation[i] < 1) {
      return *why = "taps, strides and dilations start at 1", std::nullopt;
    }
  }
  int where = 0;
  if (!set_outputs(&problem, &where)) return *why = "the window does not fit into the padded image", std::nullopt;
  return problem;
}

}  // namespace gpudnn::transform
