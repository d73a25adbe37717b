// Reading the problem language.
// SPDX-License-Identifier: Apache-2.0
#include "core/problem_text.hpp"

#include <charconv>

namespace gpudnn {
namespace {

// Reads a number at the front of `text` and drops it.
bool take_number(std::string_view* text, std::int64_t* value) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc{} || *value < 0) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return true;
}

bool parse_list(std::string_view text, char separator, std::int64_t* values, int* count, int most) {
  *count = 0;
  while (*count < most && take_number(&text, &values[*count])) {
    ++*count;
    if (text.empty()) return true;
    if (text.front() != separator) return false;
    text.remove_prefix(1);
  }
  return false;
}

}  // namespace

ProblemWords::ProblemWords(std::string_view line) {
  while (true) {
    const auto start = line.find_first_not_of(" \t\r\n");
    if (start == std::string_view::npos) return;
    line.remove_prefix(start);
    const auto end = line.find_first_of(" \t\r\n");
    words_.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end);
  }
}

std::string_view ProblemWords::next() {
  if (words_.empty()) return {};
  const std::string_view word = words_.front();
  words_.erase(words_.begin());
  return word;
}

std::optional<std::string_view> ProblemWords::take(std::string_view prefix) {
  for (auto word = words_.begin(); word != words_.end(); ++word) {
    if (!word->starts_with(prefix)) continue;
    const std::string_view value = word->substr(prefix.size());
    words_.erase(word);
    return value;
  }
  return std::nullopt;
}

bool ProblemWords::take_word(std::string_view word) {
  for (auto at = words_.begin(); at != words_.end(); ++at) {
    if (*at != word) continue;
    words_.erase(at);
    return true;
  }
  return false;
}

std::string ProblemWords::rest() const {
  std::string text;
  for (const std::string_view word : words_) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

bool parse_extents(std::string_view text, std::int64_t* values, int* count, int most) {
  return parse_list(text, 'x', values, count, most);
}

bool parse_lettered(std::string_view text, std::string_view letters, std::int64_t* values) {
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (text.empty() || text.front() != letters[i]) return false;
    text.remove_prefix(1);
    if (!take_number(&text, &values[i])) return false;
  }
  return text.empty();
}

bool parse_layout(std::string_view layout, TensorGeometry* tensor) {
  if (layout == "nchw" || layout == "nhwc") {
    set_packed_strides(tensor, layout == "nchw" ? GPUDNN_TENSOR_NCHW : GPUDNN_TENSOR_NHWC);
    return true;
  }
  constexpr std::string_view kStrides = "strides=";
  if (!layout.starts_with(kStrides)) return false;
  int count = 0;
  return parse_list(layout.substr(kStrides.size()), ',', tensor->strides, &count, kMaxRank) && count == tensor->rank;
}

bool parse_tensor(std::string_view type, std::string_view layout, std::string_view dims, TensorGeometry* tensor) {
  *tensor = {};
  const auto parsed_type = parse_data_type(type);
  if (!parsed_type) return false;
  tensor->type = *parsed_type;
  if (parse_lettered(dims, "ncw", tensor->dims)) {
    tensor->rank = 3;
  } else if (parse_lettered(dims, "nchw", tensor->dims)) {
    tensor->rank = 4;
  } else if (parse_lettered(dims, "ncdhw", tensor->dims)) {
    tensor->rank = 5;
  } else {
    int rank = 0;
    std::int64_t values[kMaxRank] = {};
    if (!parse_extents(dims, values, &rank, kMaxRank)) return false;
    tensor->rank = rank;
    for (int i = 0; i < kMaxRank; ++i) tensor->dims[i] = i < rank ? values[i] : 0;
    return parse_layout(layout, tensor);
  }
  for (int i = tensor->rank; i < kMaxRank; ++i) tensor->dims[i] = 0;
  return parse_layout(layout, tensor);
}

bool parse_tensor(ProblemWords* words, TensorGeometry* tensor) {
  const std::string_view type = words->next();
  const std::string_view layout = words->next();
  const std::string_view dims = words->next();
  return parse_tensor(type, layout, dims, tensor);
}

std::string extents_text(const std::int64_t* values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += 'x';
    text += std::to_string(values[i]);
  }
  return text;
}

}  // namespace gpudnn
